package waitfor

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"initbox/internal/readfile"
)

// secrets are what a target's ${file:…} and ${env:…} refer to.
type secrets struct {
	refs   []string // "file:/path" or "env:NAME", by the number in the placeholder
	getenv func(string) string
}

// The placeholder of a secret has to survive url.Parse unchanged anywhere.
const placeholder = "initbox-secret-"

// extract replaces the references in text by placeholders.
func (s *secrets) extract(text string, getenv func(string) string) (string, error) {
	s.getenv = getenv
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		ref, rest, closed := strings.Cut(after, "}")
		kind, name, _ := strings.Cut(ref, ":")
		if !closed || name == "" || kind != "file" && kind != "env" {
			return "", errors.New("a target has a ${…} that is neither ${file:/PATH} nor ${env:NAME}; write %24%7B for a literal ${")
		}
		if kind == "env" && (getenv == nil || getenv(name) == "") {
			return "", unsetError(name)
		}
		fmt.Fprintf(&b, "%s%d-", placeholder, len(s.refs))
		s.refs = append(s.refs, ref)
		text = rest
	}
}

func unsetError(name string) error {
	if strings.Trim(name, domainCharacters) != "" {
		return errors.New("a target refers by ${env:NAME} to an environment variable that is not set")
	}
	return fmt.Errorf("environment variable %s is not set, but a target refers to it as ${env:%s}", name, name)
}

func (s secrets) in(part string) bool { return len(s.refs) > 0 && strings.Contains(part, placeholder) }

// hide replaces placeholders for display.
func (s secrets) hide(part string) string {
	r, _ := s.replace(part, func(string) (string, error) { return "…", nil })
	return r
}

// expand replaces placeholders by what they refer to now.
func (s secrets) expand(part string, escape func(string) string) (string, error) {
	return s.replace(part, func(ref string) (string, error) {
		kind, name, _ := strings.Cut(ref, ":")
		if kind == "file" {
			value, err := readSecret(name)
			return escape(value), err
		}
		return escape(s.getenv(name)), nil
	})
}

func (s secrets) replace(part string, value func(ref string) (string, error)) (string, error) {
	for i, ref := range s.refs {
		p := fmt.Sprintf("%s%d-", placeholder, i)
		if !strings.Contains(part, p) {
			continue
		}
		v, err := value(ref)
		if err != nil {
			return "", err
		}
		part = strings.ReplaceAll(part, p, v)
	}
	return part, nil
}

// readSecret returns the content of a file without the line break that editors
// put at its end.
func readSecret(name string) (string, error) {
	data, err := readfile.All(name)
	if err != nil {
		f := &Failure{Class: Missing, Text: "cannot read secret file " + name, Err: err, Hint: "is the Secret mounted, and may this user read it?"}
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			f.Text += ": " + pathErr.Err.Error()
		}
		return "", f
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// expanded returns the target's URL with its secrets as they are now.
func (t *target) expanded() (*url.URL, error) {
	u := *t.url
	u.Fragment, u.RawFragment = "", ""
	if len(t.secrets.refs) == 0 {
		return &u, nil
	}
	literal := func(s string) string { return s }
	if u.User != nil {
		name, err := t.secrets.expand(u.User.Username(), literal)
		if err != nil {
			return nil, err
		}
		password, set := u.User.Password()
		if password, err = t.secrets.expand(password, literal); err != nil {
			return nil, err
		}
		u.User = url.User(name)
		if set {
			u.User = url.UserPassword(name, password)
		}
	}
	path, err := t.secrets.expand(u.Path, literal)
	if err != nil {
		return nil, err
	}
	if path != u.Path {
		u.Path, u.RawPath = path, ""
	}
	u.RawQuery, err = t.secrets.expand(u.RawQuery, url.QueryEscape)
	return &u, err
}
