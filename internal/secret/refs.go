package secret

import (
	"errors"
	"fmt"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/lazy"
	"initbox/internal/words"
)

// Refs are the references ${file:/PATH}, ${env:NAME} and ${env:NAME:-DEFAULT} of a text.
type Refs struct {
	refs   []ref // by the number in the placeholder
	getenv func(string) string
}

// A ref is one reference: a file, or a variable.
type ref struct {
	file      string
	env       string
	otherwise string // without the variable, if plain
	plain     bool   // has a default
	shown     bool   // in a host or a port
}

// The placeholder of a secret has to survive url.Parse unchanged anywhere.
const placeholder = "initbox-secret-"

// Extract replaces the references in text by placeholders. A variable without a default must be set, itself or its
// NAME_FILE, since nothing can set it later. Errors call the text what, such as "a target", and do not quote it.
func Extract(text, what string, getenv func(string) string) (string, Refs, error) {
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	r, number := Refs{getenv: getenv}, ""
	several := strings.Count(text, "${") > 1
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), r, nil
		}
		if several {
			number = fmt.Sprintf(" (reference %d)", len(r.refs)+1)
		}
		inside, rest, closed := strings.Cut(after, "}")
		if strings.Contains(inside, "${") {
			return "", r, errors.New(what + " has a ${…} inside another one, where it is not replaced" + number)
		}
		one, ok := parseRef(inside)
		if !closed || !ok {
			return "", r, errors.New(what + " has a ${…} that is neither ${file:/PATH} nor ${env:NAME}" + number + "; write %24%7B for a literal ${")
		}
		if one.env != "" && !one.plain && getenv(one.env) == "" && getenv(one.env+fileSuffix) == "" {
			return "", r, unsetError(one.env, what, number)
		}
		fmt.Fprintf(&b, "%s%d-", placeholder, len(r.refs))
		r.refs = append(r.refs, one)
		text = rest
	}
}

// fileSuffix ends the name of a variable that names the file with the value of another variable, as in the images of
// databases: PGPASSWORD_FILE.
const fileSuffix = "_FILE"

// parseRef parses what is between ${ and }.
func parseRef(text string) (r ref, ok bool) {
	kind, name, _ := strings.Cut(text, ":")
	switch kind {
	case "file":
		r.file = name
	case "env":
		r.env, r.otherwise, r.plain = strings.Cut(name, ":-")
	}
	return r, r.file+r.env != ""
}

// Resolve returns the value of a text that is one reference, such as ${env:DATABASE_URL}, without the blanks around it;
// whole reports whether the text is one. It returns any other text unchanged.
func Resolve(text, what string, getenv func(string) string) (value string, whole bool, err error) {
	if !strings.HasPrefix(text, "${") || strings.IndexByte(text, '}') != len(text)-1 {
		return text, false, nil
	}
	text, refs, err := Extract(text, what, getenv)
	if err != nil {
		return "", true, err
	}
	value, err = refs.Value(text)
	value = strings.TrimSpace(value)
	switch {
	case err != nil:
		return "", true, err
	case strings.Contains(value, "${"): // a nested reference is not followed
		return "", true, errors.New("the value that " + what + " refers to contains a ${…}, which is not replaced there")
	case variable().MatchString(value): // it may be part of a password, and is not shown
		return "", true, failure.WithHint(errors.New("the value that "+what+" refers to has a $(NAME) that was not replaced"),
			"the kubelet replaces it in env if the variable NAME is defined before it; write %24( for a literal $( in a URL")
	}
	return value, true, nil
}

// nameCharacters may be in the name of a Pod's environment variable. A text with other
// characters may be part of a password.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

func unsetError(name, what, number string) error {
	if strings.Trim(name, nameCharacters) != "" {
		return errors.New(what + " refers by ${env:NAME} to an environment variable that is not set, or is empty" + number)
	}
	return failure.WithHint(fmt.Errorf("environment variable %s is not set, or is empty, but %s refers to it as ${env:%s}%s", name, what, name, number),
		fmt.Sprintf("set it in the container's env, or set %s%s to the name of a file, or write a default: ${env:%[1]s:-DEFAULT}", name, fileSuffix))
}

// variable finds a $(NAME) of the kubelet.
var variable = lazy.Regexp(`\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)`)

// Unreplaced returns an error that names what and each $(NAME) in text, or nil if there is none. The kubelet leaves
// $(NAME) in args as it is if the container has no variable NAME.
func Unreplaced(what, text string) error {
	found := variable().FindAllString(text, -1)
	if found == nil {
		return nil
	}
	no := "variable"
	if len(found) > 1 {
		no += "s"
	}
	return failure.WithHint(fmt.Errorf("%s contains %s, which Kubernetes did not replace: the container has no such %s", what, words.List(found), no),
		"set it in the container's env; the variables of a Service are set only if it existed before the Pod, in the same namespace; write %24( for a literal $( in a URL")
}

// In reports whether part has a reference in it.
func (r Refs) In(part string) bool { return len(r.refs) > 0 && strings.Contains(part, placeholder) }

// Only reports whether part consists of references alone.
func (r Refs) Only(part string) bool {
	rest, _ := r.replace(part, func(*ref) (string, error) { return "", nil })
	return part != "" && rest == ""
}

// Hide replaces placeholders for display.
func (r Refs) Hide(part string) string {
	hidden, _ := r.replace(part, func(*ref) (string, error) { return "…", nil })
	return hidden
}

// Value returns part with the current values in place of its placeholders.
func (r Refs) Value(part string) (string, error) {
	return r.replace(part, r.value)
}

// value returns the current value of one.
func (r Refs) value(one *ref) (string, error) {
	if one.file != "" {
		return Read(one.file)
	}
	if value := r.getenv(one.env); value != "" {
		return value, nil
	}
	if file := r.getenv(one.env + fileSuffix); file != "" {
		return Read(file)
	}
	return one.otherwise, nil
}

// Address returns the text of a URL with the values of the references in its host and port. Only a reference with a
// default may be there: it is no secret, and is shown. Errors do not quote the value.
func (r Refs) Address(text string) (string, error) {
	scheme, after, ok := strings.Cut(text, "://")
	if !ok {
		return text, nil
	}
	begin, end := Authority(after)
	host, err := r.replace(after[begin:end], func(one *ref) (string, error) {
		if !one.plain {
			return "", ErrWhere
		}
		one.shown = true
		value, err := r.value(one)
		if err == nil && strings.Trim(value, nameCharacters+":[],") != "" {
			return "", failure.WithHint(errors.New("has a ${env:NAME:-DEFAULT} as its host or port whose value is neither"),
				"Kubernetes sets a variable such as REDIS_PORT to the URL of the Service redis; the port is in REDIS_SERVICE_PORT")
		}
		return value, err
	})
	return scheme + "://" + after[:begin] + host + after[end:], err
}

// ErrWhere is the error for a reference to a secret in a host, a port or a fragment.
var ErrWhere = errors.New("refers to a secret where it must not: only user, password, path and query may refer to one; for a host or a port, write $(NAME), which the kubelet replaces, or ${env:NAME:-DEFAULT}")

// replace replaces the placeholders in part by their values. In those nothing is replaced: a value could have the text
// of a placeholder, too.
func (r Refs) replace(part string, value func(*ref) (string, error)) (string, error) {
	var pairs []string
	for i := range r.refs {
		p := fmt.Sprintf("%s%d-", placeholder, i)
		if !strings.Contains(part, p) {
			continue
		}
		v, err := value(&r.refs[i])
		if err != nil {
			return "", err
		}
		pairs = append(pairs, p, v)
	}
	return strings.NewReplacer(pairs...).Replace(part), nil
}
