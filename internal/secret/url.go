package secret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// URL is a URL that may refer to secrets, in the user information, the path and
// the query: ${file:/PATH} and ${env:NAME}. Its parts have placeholders for them.
type URL struct {
	*url.URL
	Refs
}

// ParseURL parses the URL of an HTTP server. A variable that it refers to must be set.
// Errors do not quote the URL, which may have a password.
func ParseURL(text string, getenv func(string) string) (*URL, error) {
	text, refs, err := Extract(text, "the URL", getenv)
	if err != nil {
		return nil, err
	}
	if err := unexpanded(text); err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil && !strings.Contains(text, "://") {
		return nil, errNoURL
	}
	if err != nil {
		if problem := AddressProblem(text); problem != nil {
			return nil, fmt.Errorf("the URL: %w", problem)
		}
		return nil, errors.New("not a valid URL: percent-encode special characters (%40 for @, %2F for /, %23 for #)")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errNoURL
	case strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@"): // a password with an unencoded / or # or ? in it ends the host early
		return nil, errors.New("the URL has an @ after its host: write %40 for it, and percent-encode / ? # in a password")
	case refs.In(u.Host) || refs.In(u.EscapedFragment()):
		return nil, errors.New("the URL refers to a secret outside user, password, path and query")
	case u.Fragment != "":
		return nil, errors.New("the URL has a # in it, and what comes after that is never sent: write %23 for it")
	}
	if problem := HostProblem(u); problem != nil {
		return nil, fmt.Errorf("the URL: %w", problem)
	}
	return &URL{u, refs}, nil
}

var errNoURL = errors.New("want a URL such as http://HOST:PORT/PATH")

// unexpanded returns an error if host or port is still a reference to a variable: the
// kubelet leaves $(NAME) as it is when the container has no variable NAME.
func unexpanded(text string) error {
	_, host, _ := strings.Cut(text, "://")
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	_, name, found := strings.Cut(host, "$(")
	name, _, closed := strings.Cut(name, ")")
	switch {
	case !found || strings.Contains(text, "@"):
		return nil
	case !closed || name == "" || strings.Trim(name, nameCharacters) != "":
		return errors.New("the URL has $(…) as its host or port, which was not replaced")
	}
	return fmt.Errorf("the URL contains $(%s), which Kubernetes did not replace: the container has no such variable; the variables of a Service are set only if it existed before the Pod, in the same namespace", name)
}

// String returns the URL without user information, query and references, any of which may be secret.
func (u *URL) String() string {
	s := u.Scheme + "://" + u.Host + u.Hide(u.Path)
	if u.RawQuery != "" {
		s += "?…"
	}
	return s
}

// Secrets returns what must be hidden in a server's answer: the values that the URL refers
// to, where they can be read now, and a password in it, also as basic authentication sends it.
func (u *URL) Secrets() []string {
	var values []string
	for _, ref := range u.refs {
		if value, err := u.value(ref); err == nil && value != "" {
			values = append(values, value)
		}
	}
	x, err := u.Expand()
	if err != nil {
		return values
	}
	if password, _ := x.User.Password(); password != "" {
		values = append(values, password, base64.StdEncoding.EncodeToString([]byte(x.User.Username()+":"+password)))
	}
	return values
}

// Expand returns the URL with its secrets as they are now, without the fragment, which is not for the server.
func (u *URL) Expand() (*url.URL, error) {
	x := *u.URL
	x.Fragment, x.RawFragment = "", ""
	if x.User != nil {
		name, err := u.Value(x.User.Username())
		if err != nil {
			return nil, err
		}
		password, set := x.User.Password()
		if password, err = u.Value(password); err != nil {
			return nil, err
		}
		x.User = url.User(name)
		if set {
			x.User = url.UserPassword(name, password)
		}
	}
	path, err := u.Value(x.Path)
	if err != nil {
		return nil, err
	}
	if path != x.Path {
		x.Path, x.RawPath = path, ""
	}
	x.RawQuery, err = u.replace(x.RawQuery, func(ref string) (string, error) {
		value, err := u.value(ref)
		return url.QueryEscape(value), err
	})
	return &x, err
}

// What can be wrong with host and port.
var (
	ErrPort     = errors.New("port must be a number from 1 to 65535")
	ErrBrackets = errors.New("an IPv6 address stands in brackets, as in [fd00::10]:5432")
)

// HostProblem returns what is wrong with host or port of u, or nil. Both may be absent.
func HostProblem(u *url.URL) error {
	port := u.Port()
	n, _ := strconv.Atoi(port)
	switch {
	case strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "["):
		return ErrBrackets // else fd00::10 has port 10
	case port != "" && (n < 1 || n > 65535):
		return ErrPort
	}
	return nil
}

// AddressProblem returns what is wrong with host or port of a text that is not a URL, or nil if the mistake is
// elsewhere. With an @ in the text, what looks like a port may be the beginning of a password.
func AddressProblem(text string) error {
	_, addr, _ := strings.Cut(text, "://")
	if end := strings.IndexAny(addr, "/?#"); end >= 0 {
		addr = addr[:end]
	}
	colon := strings.LastIndexByte(addr, ':')
	switch {
	case strings.Contains(text, "@"), colon < 0:
		return nil
	case strings.Contains(addr[:colon], ":") && !strings.Contains(addr, "["):
		return ErrBrackets
	case strings.Contains(addr, "[") && !strings.Contains(addr[:colon], "]"), strings.Trim(addr[colon+1:], "0123456789") == "":
		return nil
	}
	return ErrPort
}
