package target

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/setting"
	"initbox/internal/suggest"
	"initbox/internal/words"
	"initbox/waitfor/forms"
)

// Target has what targets of all kinds have in common.
type Target struct {
	Kind           *Kind
	Scheme         string
	URL            URL
	Hosts          []string // of a kind with Hosts: as in the URL, with their ports
	Socket         string   // with the scheme Kind.Socket: the path
	Settings       Settings
	TLSOwn         string // the first of setting.TLS in the target itself; may be empty
	Gone           bool   // ready means that it no longer answers
	AttemptTimeout time.Duration
	Resolver       *resolver.Resolver
	Getenv         Env
}

// A URL is the URL of a target, which may refer to secrets.
type URL struct{ *secret.URL }

// Of returns the target that c was parsed from, or nil if c was not parsed.
func Of(c Check) *Target {
	if p, ok := c.(interface{ Parsed() *Target }); ok {
		return p.Parsed()
	}
	return nil
}

// Parsed returns t, for a [Check] that embeds the target that it was parsed from.
func (t *Target) Parsed() *Target { return t }

// Parse turns a target into the check of its kind. Its errors never quote the target, which may contain a password.
func (l Kinds) Parse(text string, o Options) (Check, error) {
	t, err := l.Target(text, o)
	if err != nil {
		return nil, err
	}
	for _, s := range setting.TLS {
		if t.Settings.On(s.Name) {
			t.TLSOwn = cmp.Or(t.TLSOwn, s.Name)
		}
	}
	t.Settings.Take(t.Kind.all(), o.Settings)
	t.Gone = o.Gone || t.Settings.On("gone")
	if err := t.Settings.Consistent(t.Kind.Settings); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	if err := t.only(); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	check, err := t.Kind.Parse(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	if p, ok := check.(interface{ Plaintext() bool }); ok && t.TLSOwn != "" && p.Plaintext() {
		return nil, fmt.Errorf("%s: %s has no effect without TLS: add #tls, or use the scheme with TLS", t, t.TLSOwn)
	}
	if t.Gone {
		return Gone(check), nil
	}
	return check, nil
}

// Target reads a target from the outside in: it resolves references, turns the form of another program into a URL, and
// then reads the URL and its settings.
func (l Kinds) Target(text string, o Options) (*Target, error) {
	t := &Target{AttemptTimeout: o.AttemptTimeout, Resolver: cmp.Or(o.Resolver, new(resolver.Resolver)), Getenv: o.Getenv}
	if err := secret.Unreplaced("a target", text); err != nil {
		return nil, err
	}
	referring := strings.HasPrefix(text, "${")
	text, err := forms.Resolve(text, o.Getenv)
	if err != nil {
		return nil, err
	}
	if err := forms.KubeletProblem(text); err != nil {
		return nil, err
	}
	text, secrets, err := secret.Extract(text, "a target", o.Getenv)
	if err != nil {
		return nil, err
	}
	text, err = forms.URL(text, l)
	if err != nil {
		return nil, err
	}
	if err := l.parseKind(t, text); err != nil {
		if referring && secrets.In(text) {
			err = errors.New("a target that begins with ${…} may be followed only by settings after a #; otherwise write its kind first, as in postgres://${…}")
		}
		return nil, err
	}
	if err := t.parseURL(text, secrets); err != nil {
		return nil, err
	}
	t.Settings, err = t.Kind.all().Parse(t.fragment())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return t, nil
}

// fragment returns the text after #, as it was written. EscapedFragment would decode it if it contained characters that
// should be encoded, such as {, and then an & in a value would separate settings.
func (t *Target) fragment() string { return cmp.Or(t.URL.RawFragment, t.URL.EscapedFragment()) }

// parseKind sets the kind and the scheme of t from the beginning of its URL.
func (l Kinds) parseKind(t *Target, text string) error {
	scheme, rest, ok := strings.Cut(text, ":")
	t.Scheme = strings.ToLower(scheme)
	t.Kind = l.Of(t.Scheme)
	switch {
	case t.Kind != nil:
		return nil
	case ok && strings.HasPrefix(rest, "//") && strings.Trim(scheme, words.NameCharacters+"+") == "": // otherwise it may be anything
		if meant := suggest.Closest(scheme, l.Schemes()); meant != "" {
			return fmt.Errorf("no such kind of target: %s://; did you mean %s://?", scheme, meant)
		}
		return fmt.Errorf("no such kind of target: %s://; the kinds are %s", scheme, l.firstSchemes())
	}
	if kind, _, named := strings.Cut(text, "/"); named {
		if _, known := kube.Lookup(kind); known {
			return fmt.Errorf("a target starts with its kind: write k8s:%s/NAME for a Kubernetes object", kind)
		}
	}
	return errors.New("a target starts with its kind: write tcp://HOST:PORT for a port; the kinds are " + l.firstSchemes())
}

// parseURL sets the URL, the hosts and the socket of t. It hides the errors of package url, which quote what may be a
// password.
func (t *Target) parseURL(text string, secrets secret.Refs) (err error) {
	if t.Kind.Socket == t.Scheme {
		if text, err = t.cutSocket(text); err != nil {
			return err
		}
	}
	if text, err = secrets.Address(text); err != nil {
		return fmt.Errorf("a target of kind %s:// %w", t.Scheme, err)
	}
	if t.Kind.Hosts {
		text, t.Hosts = forms.CutHosts(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		if problem := secret.AddressProblem(text); problem != nil {
			return fmt.Errorf("a target of kind %s://: %w", t.Scheme, problem)
		}
		return fmt.Errorf("a target of kind %s:// is not a URL: percent-encode its special characters (%%40 for @, %%2F for /, %%23 for #)", t.Scheme)
	}
	t.URL = URL{&secret.URL{URL: u, Refs: secrets}}
	// An unencoded /, # or ? in a password ends the host early.
	after := t.URL.EscapedPath() + t.URL.RawQuery
	if !t.Kind.Filters { // as in [?(@.name=="app")]
		after += t.fragment()
	}
	if !t.Kind.Name { // a name has its own checks
		after += t.URL.Opaque
	}
	if strings.Contains(after, "@") {
		return fmt.Errorf("a target of kind %s:// has an @ after its host: write %%40 for it, and percent-encode / ? # in a password", t.Scheme)
	}
	if t.Kind.Hosts && strings.Contains(t.URL.EscapedPath(), ";") { // as in SQL Server's JDBC URLs: …/app;user=app;password=…
		return fmt.Errorf("a target of kind %s:// has a ; in its path: parameters follow a ?, several hosts are joined by commas; write %%3B for a ; in a name", t.Scheme)
	}
	for _, host := range t.Hosts {
		if strings.Trim(host, words.NameCharacters+":[]%") != "" { // as in jdbc:mysql://(host=mydb,password=…)/
			return fmt.Errorf("a target of kind %s:// has a host with an invalid character: write USER:PASSWORD@HOST:PORT, percent-encoded", t.Scheme)
		}
		if port := host[strings.LastIndexByte(host, ':')+1:]; port != host && host[0] != '[' && strings.Trim(port, "0123456789") != "" && strings.Count(host, ":") == 1 {
			return fmt.Errorf("a target of kind %s://: %w", t.Scheme, secret.ErrPort) // the port may be part of a password
		}
	}
	if t.URL.In(t.URL.Host) || t.URL.In(strings.Join(t.Hosts, ",")) || t.URL.In(t.URL.EscapedFragment()) {
		return fmt.Errorf("a target of kind %s:// %w", t.Scheme, secret.ErrWhere)
	}
	if t.Kind.Hosts && t.URL.In(t.URL.Param("host")+t.URL.Param("hostaddr")+t.URL.Param("port")+t.URL.Param("socket", "unix_socket", "localSocket")) {
		return fmt.Errorf("a target of kind %s:// refers to a secret in its query where it must not: for a host, a port or a socket, write $(NAME), which the kubelet replaces", t.Scheme)
	}
	return nil
}

// cutSocket replaces the percent-encoded path of a socket, which package url refuses as a host, by localhost.
func (t *Target) cutSocket(text string) (string, error) {
	rest := strings.TrimPrefix(text[len(t.Scheme):], "://")
	user, end := secret.Authority(rest)
	path, err := url.PathUnescape(rest[user:end])
	if err != nil || !strings.HasPrefix(path, "/") {
		return "", errors.New("the socket of a target of kind " + t.Scheme + ":// must be a percent-encoded absolute path, as in " + t.Scheme + "://%2Frun%2Fapi.sock/healthz")
	}
	t.Socket = path
	return t.Scheme + "://" + rest[:user] + "localhost" + rest[end:], nil
}

// String returns the target without user information, query and fragment, any of which may contain a secret.
func (t *Target) String() string {
	if t.Kind.Show != nil {
		return failure.Printable(t.Kind.Show(t))
	}
	return failure.Printable(Plain(t)) // its path may have a decoded line break
}

// Plain returns the target as a URL without user information, query and fragment.
func Plain(t *Target) string {
	host := t.URL.Host
	if len(t.Hosts) > 0 {
		host = strings.Join(t.Hosts, ",")
	}
	if t.Socket != "" {
		host = url.PathEscape(t.Socket)
	}
	s := t.Scheme + "://" + host + t.URL.Hide(t.shownPath())
	if t.URL.Opaque != "" {
		s = t.Scheme + ":…"
	}
	if t.URL.RawQuery != "" {
		s += "?…"
	}
	return s
}

// shownPath returns the path without parameters in it, as in jdbc:sqlserver://host/app;user=app;password=…
func (t *Target) shownPath() string {
	path := t.URL.Path
	if i := strings.IndexAny(path, ";&"); i >= 0 && !t.Kind.File {
		path = path[:i] + "…"
	}
	return path
}

// HostPort returns the target's host and port, both of which are required.
func HostPort(t *Target) (host, port string, err error) {
	host, port = t.URL.Hostname(), t.URL.Port()
	problem := secret.HostProblem(t.URL.URL.URL)
	switch {
	case host == "":
		return "", "", fmt.Errorf("host missing, want %s", t.Kind.Usage)
	case problem != nil:
		return "", "", problem
	case port == "":
		return "", "", fmt.Errorf("port missing, want %s", t.Kind.Usage)
	}
	return host, port, nil
}

// Addr returns host and port, both of which are required, joined for net.Dial.
func Addr(t *Target) (string, error) {
	host, port, err := HostPort(t)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

// only refuses what the kind is Without. It does not quote it: it may be the end of a password.
func (t *Target) only() error {
	for _, part := range []struct {
		name    string
		present bool
	}{
		{"user", t.URL.User != nil},
		{"path", strings.Trim(t.URL.Path, "/") != ""},
		{"query", t.URL.RawQuery != "" || t.URL.ForceQuery},
	} {
		if part.present && strings.Contains(t.Kind.Without, part.name) {
			return fmt.Errorf("has a %s, which %s:// does not take, want %s", part.name, t.Scheme, t.Kind.Usage)
		}
	}
	return nil
}

// Path returns the path of a target that consists of a path alone.
func Path(t *Target) (string, error) {
	switch {
	case t.URL.Host != "":
		return "", errors.New("path must be absolute: write three slashes, as in " + t.Kind.Usage)
	case t.URL.Opaque != "" || t.URL.Path == "":
		return "", errors.New("path missing or not absolute, want " + t.Kind.Usage)
	}
	return t.URL.Path, nil
}

// Param returns the value of the first of the query parameters that is present, or "". The case of names does not
// matter. The value may contain a reference to a secret: see [secret.URL.Expand].
func (u URL) Param(names ...string) string {
	query := u.Query()
	for _, name := range names {
		for given, values := range query {
			if strings.EqualFold(given, name) {
				return values[len(values)-1]
			}
		}
	}
	return ""
}

// OtherProtocol returns the failure for an answer in another protocol than the kind's.
func (k *Kind) OtherProtocol() *failure.Failure {
	return failure.New(failure.Unexpected, "the answer is not %s", k.Protocol).WithHint(OtherPortHint)
}

// OtherPortHint is the hint for an answer that does not fit the request.
const OtherPortHint = "is it the right port, and does the server expect TLS on it?"

// ErrNotThere is the cause of a [failure.Missing] failure of the target itself.
var ErrNotThere = errors.New("not there")
