package httpclient

import (
	"cmp"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/netrc"
	"initbox/internal/secret"
)

// Credentials are the headers and credentials of a request. Header and HeaderFiles are
// combined; TokenFile, or User with PasswordFile, sets Authorization.
type Credentials struct {
	Header       http.Header `json:"header,omitempty"`       // not secret
	HeaderFiles  []string    `json:"headerFiles,omitempty"`  // files with headers, one per line
	HeaderRefs   []string    `json:"headerRefs,omitempty"`   // headers that refer to secrets, as in "X-Api-Key: ${file:/secrets/key}"
	User         string      `json:"user,omitempty"`         // for basic authentication, with PasswordFile
	PasswordFile string      `json:"passwordFile,omitempty"` // file with the password; "" for none
	TokenFile    string      `json:"tokenFile,omitempty"`    // file with a bearer token; "" for none
	Netrc        string      `json:"netrc,omitempty"`        // file with logins by host, for a request without any other; "" for none

	Getenv func(string) string `json:"-"` // for ${env:NAME} in HeaderRefs
}

// Apply sets the headers of req, replacing those of the same name. It reads the files again, since secrets rotate, and
// returns the values that came from files: they must be hidden where an answer is quoted, which may quote the request.
// An error is a [failure.Failure] without secrets.
func (c Credentials) Apply(req *http.Request) (secrets []string, err error) {
	header := http.Header{}
	for _, name := range c.HeaderFiles {
		if err := addHeaderFile(header, name); err != nil {
			return nil, err
		}
	}
	for _, line := range c.HeaderRefs {
		values, err := c.addHeaderRef(header, line)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, values...)
	}
	for _, values := range header {
		for _, value := range values {
			secrets = append(secrets, partsOf(value)...)
		}
	}
	for name, values := range c.Header {
		header[name] = slices.Concat(values, header[name])
	}
	more, err := c.authorize(header)
	if err == nil && c.Netrc != "" && header.Get("Authorization") == "" {
		more, err = c.authorizeByHost(header, req.URL)
	}
	if err != nil {
		return nil, err
	}
	if host := header.Get("Host"); host != "" { // net/http does not treat it as a header
		req.Host = host
		header.Del("Host")
	}
	maps.Copy(req.Header, header)
	return append(secrets, more...), nil
}

// partsOf returns what is secret in a header's value: the whole, and each part that an answer may quote alone, such as
// the token of "Bearer …", the password of "Basic …" or the values of a Cookie.
func partsOf(value string) []string {
	parts := []string{value}
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t,;=", r) }) {
		if len(word) >= secret.Likely && word != value {
			parts = append(parts, word)
		}
	}
	if encoded, isBasic := strings.CutPrefix(value, "Basic "); isBasic {
		if text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded)); err == nil {
			_, password, _ := strings.Cut(string(text), ":")
			parts = append(parts, password)
		}
	}
	return parts
}

// addHeaderFile adds the headers in a file, one per line.
func addHeaderFile(h http.Header, name string) error {
	lines, err := secret.Read(name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := AddHeader(h, strings.TrimRight(line, "\r\n")); err != nil {
			return &failure.Failure{Class: failure.Local, Text: "header file " + name + ": " + err.Error()}
		}
	}
	return nil
}

// addHeaderRef adds a header that refers to secrets, with their present values, and returns these.
func (c Credentials) addHeaderRef(h http.Header, line string) (secrets []string, err error) {
	name, _, _ := strings.Cut(line, ":")
	text, refs, err := secret.Extract(line, "header "+name, c.Getenv)
	if err != nil {
		return nil, err
	}
	if text, err = refs.Value(text); err != nil {
		return nil, err
	}
	if AddHeader(h, text) != nil {
		return nil, &failure.Failure{Class: failure.Local, Text: "header " + name + ": its value has a line break or a control character in it", Hint: "is it the right file?"}
	}
	for word := range strings.FieldsSeq(text) {
		if !strings.Contains(line, word) {
			secrets = append(secrets, word)
		}
	}
	return secrets, nil
}

// authorize sets the header Authorization, and returns its secrets.
func (c Credentials) authorize(h http.Header) (secrets []string, err error) {
	if c.PasswordFile != "" {
		password, err := secret.Read(c.PasswordFile)
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(password, "\r\n\x00") {
			return nil, oneLine(c.PasswordFile)
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(c.User + ":" + password))
		h.Set("Authorization", "Basic "+encoded)
		secrets = append(secrets, password, encoded)
	}
	if c.TokenFile != "" {
		token, err := secret.Read(c.TokenFile)
		if err != nil {
			return nil, err
		}
		if token == "" {
			return nil, &failure.Failure{Class: failure.Missing, Text: "the token file " + c.TokenFile + " is empty", Hint: "is the Secret filled in?"}
		}
		if strings.ContainsAny(token, "\r\n\x00") {
			return nil, oneLine(c.TokenFile)
		}
		h.Set("Authorization", "Bearer "+token)
		secrets = append(secrets, token)
	}
	return secrets, nil
}

// authorizeByHost sets the header Authorization to the login that the netrc file has for the host, and for the user in
// the URL if there is one, unless the URL has a password too. It returns the secrets.
func (c Credentials) authorizeByHost(h http.Header, u *url.URL) (secrets []string, err error) {
	if _, given := u.User.Password(); given {
		return nil, nil
	}
	text, err := secret.Read(c.Netrc)
	if err != nil {
		return nil, err
	}
	l := netrc.Find(text, u.Hostname(), cmp.Or(c.User, u.User.Username()))
	if l == nil {
		return nil, nil
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(l.User + ":" + l.Password))
	h.Set("Authorization", "Basic "+encoded)
	return []string{l.Password, encoded}, nil
}

// oneLine is the failure of a password or a token with several lines, which probably is another file.
func oneLine(file string) error {
	return &failure.Failure{Class: failure.Local, Text: "the password or token in " + file + " has a line break in it", Hint: "is it the right file? a line break at its end is ignored"}
}

// AddHeader adds a line such as "Accept: text/plain". Its errors do not quote the line.
func AddHeader(h http.Header, line string) error {
	name, value, ok := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	// RFC 9110, sections 5.1 and 5.5.
	nameFits := name != "" && strings.Trim(name, tokenCharacters) == ""
	valueFits := !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
	if !ok || !nameFits || !valueFits {
		return errors.New("want NAME: VALUE")
	}
	h.Add(name, value)
	return nil
}

const tokenCharacters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// SecretHeader reports whether a header's value is likely to be a secret.
func SecretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "auth-key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
