package words

// NameCharacters are the characters of a domain name. Text with others may be anything, such as a connection string
// with a password.
const NameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
