package secret

import (
	"errors"
	"fmt"
	"strings"
)

// Refs are the references ${file:…} and ${env:…} of a text.
type Refs struct {
	refs   []string // "file:/path" or "env:NAME", by the number in the placeholder
	getenv func(string) string
}

// The placeholder of a secret has to survive url.Parse unchanged anywhere.
const placeholder = "initbox-secret-"

// Extract replaces the references in text by placeholders. A variable must be set, since nothing can set it later.
// Errors call the text what, such as "a target", and do not quote it.
func Extract(text, what string, getenv func(string) string) (string, Refs, error) {
	r := Refs{getenv: getenv}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), r, nil
		}
		ref, rest, closed := strings.Cut(after, "}")
		kind, name, _ := strings.Cut(ref, ":")
		if !closed || name == "" || kind != "file" && kind != "env" {
			return "", r, errors.New(what + " has a ${…} that is neither ${file:/PATH} nor ${env:NAME}; write %24%7B for a literal ${")
		}
		if kind == "env" && (getenv == nil || getenv(name) == "") {
			return "", r, unsetError(name, what)
		}
		fmt.Fprintf(&b, "%s%d-", placeholder, len(r.refs))
		r.refs = append(r.refs, ref)
		text = rest
	}
}

// nameCharacters may be in the name of a Pod's environment variable. A text with other
// characters may be part of a password.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

func unsetError(name, what string) error {
	if strings.Trim(name, nameCharacters) != "" {
		return errors.New(what + " refers by ${env:NAME} to an environment variable that is not set")
	}
	return fmt.Errorf("environment variable %s is not set, but %s refers to it as ${env:%s}", name, what, name)
}

// In reports whether part has a reference in it.
func (r Refs) In(part string) bool { return len(r.refs) > 0 && strings.Contains(part, placeholder) }

// Hide replaces placeholders for display.
func (r Refs) Hide(part string) string {
	hidden, _ := r.replace(part, func(string) (string, error) { return "…", nil })
	return hidden
}

// Value returns part with the current values in place of its placeholders.
func (r Refs) Value(part string) (string, error) {
	return r.replace(part, r.value)
}

// value returns the current value of ref.
func (r Refs) value(ref string) (string, error) {
	kind, name, _ := strings.Cut(ref, ":")
	if kind == "file" {
		return Read(name)
	}
	return r.getenv(name), nil
}

func (r Refs) replace(part string, value func(ref string) (string, error)) (string, error) {
	for i, ref := range r.refs {
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
