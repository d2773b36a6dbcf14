package generate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"initbox/internal/secret"
)

// Hash makes the bcrypt hash of a password in a file, alone or in the lines of a file for HTTP servers. It follows the
// file: another password there makes another hash, while the hash of the same one stays as it is.
type Hash struct {
	file     string
	htpasswd bool
	user     string
	cost     int
}

// maxPassword is how many bytes of a password bcrypt uses.
const maxPassword = 72

func newHash(file string, cost int) (Hash, error) {
	switch {
	case file == "":
		return Hash{}, errors.New("password-file: which file has the password?")
	case cost < bcrypt.MinCost || cost > 20: // which takes a minute
		return Hash{}, fmt.Errorf("cost: want %d to 20", bcrypt.MinCost)
	}
	return Hash{file: file, cost: cost}, nil
}

// NewBcrypt returns a maker of the hash of the password in a file. The cost is the logarithm of how long it takes.
func NewBcrypt(file string, cost int) (Hash, error) { return newHash(file, cost) }

// NewHtpasswd returns a maker of a file for nginx, Apache and others, with the line of a user whose password is in a
// file. Without a user, each line of the file is USER:PASSWORD. Lines of other users stay.
func NewHtpasswd(user, file string, cost int) (Hash, error) {
	if strings.ContainsAny(user, ":\r\n") {
		return Hash{}, errors.New("user: it cannot contain a colon or a line break")
	}
	h, err := newHash(file, cost)
	h.htpasswd, h.user = true, user
	return h, err
}

func (h Hash) String() string {
	if h.htpasswd {
		return "htpasswd file"
	}
	return "bcrypt hash"
}

func (h Hash) layout() layout { return oneFile }

// login is a user and a password.
type login struct{ user, password string }

func (h Hash) logins() (all []login, err error) {
	text, err := secret.Read(h.file)
	if err != nil {
		return nil, err
	}
	if !h.htpasswd || h.user != "" {
		all = []login{{h.user, text}}
	} else {
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\r\n"); line == "" || line[0] == '#' {
				continue
			}
			user, password, found := strings.Cut(line, ":")
			if !found || user == "" {
				return nil, fmt.Errorf("%s: want lines USER:PASSWORD, or the user with --user", h.file)
			}
			all = append(all, login{user, password})
		}
	}
	for _, l := range all {
		if l.password == "" {
			return nil, fmt.Errorf("%s: a password in it is empty", h.file)
		}
		if len(l.password) > maxPassword {
			return nil, fmt.Errorf("%s: a password in it has %d bytes, and bcrypt takes %d at most", h.file, len(l.password), maxPassword)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no user in it", h.file)
	}
	return all, nil
}

// hashes returns the hash of each user in the lines of an htpasswd file. A bcrypt hash alone is that of "".
func (h Hash) hashes(old Files) map[string]string {
	if !h.htpasswd {
		return map[string]string{"": string(old[""])}
	}
	found := map[string]string{}
	for line := range bytes.Lines(old[""]) {
		user, hash, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), ":")
		found[user] = hash
	}
	return found
}

func (h Hash) check(old Files) (verdict, error) {
	logins, err := h.logins()
	if v, _ := absent(old); err != nil || v.Reason != "" {
		return v, err
	}
	found := h.hashes(old)
	for _, l := range logins {
		if !isHash(found[l.user], l.password) {
			return verdict{Reason: "it has no hash of a password in " + h.file}, nil
		}
	}
	return verdict{}, nil
}

func isHash(hash, password string) bool {
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}

func (h Hash) make(old Files) (Files, error) {
	logins, err := h.logins()
	if err != nil {
		return nil, err
	}
	var lines []string
	if h.htpasswd {
		lines = strings.FieldsFunc(string(old[""]), func(r rune) bool { return r == '\n' || r == '\r' })
	}
	found := h.hashes(old)
	for _, l := range logins {
		if isHash(found[l.user], l.password) {
			continue
		}
		hash, err := bcrypt.GenerateFromPassword([]byte(l.password), h.cost)
		if err != nil {
			return nil, fmt.Errorf("hash the password in %s: %w", h.file, err)
		}
		if !h.htpasswd {
			return Files{"": hash}, nil
		}
		// Apache's own name of the algorithm, which all others know too.
		line := l.user + ":$2y$" + strings.TrimPrefix(string(hash), "$2a$")
		i := len(lines)
		for n, old := range lines {
			if strings.HasPrefix(old, l.user+":") {
				i = n
			}
		}
		if i == len(lines) {
			lines = append(lines, "")
		}
		lines[i] = line
	}
	return Files{"": []byte(strings.Join(lines, "\n") + "\n")}, nil
}
