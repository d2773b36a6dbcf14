package values

// OnSecretMount reports whether the file or folder is a mounted Secret or lies
// in one, as far as can be seen, see [Load].
func OnSecretMount(name string) bool { return machineMounts().inSecret(name) }
