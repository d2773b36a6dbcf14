package secret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// URL is a URL that may refer to secrets, in the user information, the path and
// the query: ${file:/PATH} and ${env:NAME}. Its parts have placeholders for them.
type URL struct {
	*url.URL
	Refs
	Whole bool // it was itself the value of a reference, and its path may be secret, too
}

// ParseURL parses the URL of an HTTP server, or a reference to one, such as ${env:URL}. A variable that it refers to
// must be set. Errors do not quote the URL, which may have a password.
func ParseURL(text string, getenv func(string) string) (*URL, error) {
	const what = "the URL"
	if err := Unreplaced(what, text); err != nil {
		return nil, err
	}
	text, whole, err := Resolve(text, what, getenv)
	if err != nil {
		return nil, err
	}
	text, refs, err := Extract(text, what, getenv)
	if err != nil {
		return nil, err
	}
	if text, err = refs.Address(text); err != nil {
		return nil, fmt.Errorf("%s %w", what, err)
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
	case strings.Contains(u.Host, "$("):
		return nil, errors.New("the URL has $(…) as its host or port, which was not replaced")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errNoURL
	case strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@"): // a password with an unencoded / or # or ? in it ends the host early
		return nil, errors.New("the URL has an @ after its host: write %40 for it, and percent-encode / ? # in a password")
	case refs.In(u.Host) || refs.In(u.EscapedFragment()):
		return nil, fmt.Errorf("%s %w", what, ErrWhere)
	case u.Fragment != "":
		return nil, errors.New("the URL has a # in it, and what comes after that is never sent: write %23 for it")
	}
	if problem := HostProblem(u); problem != nil {
		return nil, fmt.Errorf("the URL: %w", problem)
	}
	return &URL{u, refs, whole}, nil
}

var errNoURL = errors.New("want a URL such as http://HOST:PORT/PATH")

// String returns the URL without user information, query and references, any of which may be secret.
func (u *URL) String() string {
	path := u.Hide(u.Path)
	if u.Whole && path != "" {
		path = "/…"
	}
	s := u.Scheme + "://" + u.Host + path
	if u.RawQuery != "" {
		s += "?…"
	}
	return s
}

// PasswordShown reports whether the URL has a password that everyone who sees the command line can read, or a part of
// it.
func (u *URL) PasswordShown() bool {
	password, set := u.User.Password()
	return set && !u.Whole && !u.Only(password)
}

// Secrets returns what must be hidden in a server's answer: the values that the URL refers
// to, where they can be read now, and a password in it, also as basic authentication sends it.
func (u *URL) Secrets() []string {
	var values []string
	for i := range u.refs {
		if value, err := u.value(&u.refs[i]); err == nil && value != "" && !u.refs[i].shown {
			values = append(values, value)
		}
	}
	x, err := u.Expand()
	if err != nil {
		return values
	}
	if u.Whole {
		for _, value := range append(slices.Concat(slices.Collect(maps.Values(x.Query()))...), x.Path) {
			if len(value) >= Likely {
				values = append(values, value)
			}
		}
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
	path, err := u.replace(x.EscapedPath(), func(ref *ref) (string, error) { // what is encoded stays encoded
		value, err := u.value(ref)
		return (&url.URL{Path: value}).EscapedPath(), err
	})
	if err != nil {
		return nil, err
	}
	if x.Path, err = url.PathUnescape(path); err != nil {
		return nil, err
	}
	x.RawPath = path
	x.RawQuery, err = u.replace(x.RawQuery, func(ref *ref) (string, error) {
		value, err := u.value(ref)
		return url.QueryEscape(value), err
	})
	return &x, err
}

// Authority returns where the hosts begin and end in the part of a URL after "://".
func Authority(after string) (begin, end int) {
	if end = strings.IndexAny(after, "/?#"); end < 0 {
		end = len(after)
	}
	return strings.LastIndexByte(after[:end], '@') + 1, end
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
	_, end := Authority(addr)
	addr = addr[:end]
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
