package generate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"initbox/internal/failure"
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
		return Hash{}, errors.New("password-file is missing: name the file with the password")
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
		switch {
		case l.password == "":
			return nil, fmt.Errorf("%s: a password in it is empty", h.file)
		case len(l.password) > maxPassword:
			return nil, fmt.Errorf("%s: a password in it has %d bytes, and bcrypt takes %d at most", h.file, len(l.password), maxPassword)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no user in it", h.file)
	}
	return all, nil
}

// stale returns the lines of the file that is there, and the logins whose hash is not among them. A bcrypt hash alone
// is the only line, without a user.
func (h Hash) stale(old Files) (lines []string, stale []login, err error) {
	logins, err := h.logins()
	lines = strings.FieldsFunc(string(old[""]), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, l := range logins {
		i := h.line(lines, l.user)
		if i < 0 || bcrypt.CompareHashAndPassword([]byte(strings.TrimPrefix(lines[i], h.prefix(l.user))), []byte(l.password)) != nil {
			stale = append(stale, l)
		}
	}
	return lines, stale, err
}

// prefix returns what stands in front of the hash of a user.
func (h Hash) prefix(user string) string {
	if h.htpasswd {
		return user + ":"
	}
	return ""
}

// line returns the index of the line with the hash of a user, or -1.
func (h Hash) line(lines []string, user string) int {
	return slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, h.prefix(user)) })
}

func (h Hash) check(old Files) (verdict, error) {
	_, stale, err := h.stale(old)
	v, _ := absent(old)
	if v.Reason == "" && len(stale) > 0 {
		v.Reason = "it has no hash of a password in " + failure.Printable(h.file)
	}
	if v.Reason != "" && !v.Missing && err == nil {
		if err := h.ours(old[""]); err != nil {
			return verdict{}, failure.WithHint(err, "is OUT the right file? remove it, if nothing needs what is in it")
		}
	}
	return v, err
}

// ours returns why a file cannot be one that is made here, and so has to stay, or nil.
func (h Hash) ours(content []byte) error {
	if _, err := bcrypt.Cost(content); err != nil && !h.htpasswd {
		return errors.New("it is not a bcrypt hash, so it is not replaced")
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if h.htpasswd && line != "" && line[0] != '#' && strings.IndexByte(line, ':') < 1 {
			return errors.New("it has lines that are not USER:HASH, so it is not replaced")
		}
	}
	return nil
}

func (h Hash) make(old Files) (Files, error) {
	lines, stale, err := h.stale(old)
	if err != nil {
		return nil, err
	}
	for _, l := range stale {
		hash, err := bcrypt.GenerateFromPassword([]byte(l.password), h.cost)
		if err != nil {
			return nil, fmt.Errorf("hash the password in %s: %w", h.file, err)
		}
		if !h.htpasswd {
			return Files{"": hash}, nil
		}
		// Apache's own name of the algorithm, which all others know too.
		line := h.prefix(l.user) + "$2y$" + strings.TrimPrefix(string(hash), "$2a$")
		if i := h.line(lines, l.user); i >= 0 {
			lines[i] = line
		} else {
			lines = append(lines, line)
		}
	}
	return Files{"": []byte(strings.Join(lines, "\n") + "\n")}, nil
}
