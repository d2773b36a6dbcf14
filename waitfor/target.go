package waitfor

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
	"initbox/internal/suggest"
)

// target is what the targets of all kinds have in common.
type target struct {
	kind           *Kind
	scheme         string
	url            *secret.URL
	hosts          []string // as in the URL, with their ports; of a kind with Hosts
	socket         string   // of the scheme that the kind has for that
	settings       Settings
	tlsOwn         string // the first of tlsSettings that the target itself has; "" if none
	gone           bool   // ready means: not there any more
	attemptTimeout time.Duration
	resolver       *resolver.Resolver
	getenv         func(string) string // may be nil
}

// Parsed returns t. A [Check] that embeds a target has it: what it was parsed from.
func (t *target) Parsed() *target { return t }

// Parse turns a target into the check of its kind. Its errors never quote the
// target, which may hold a password.
func (l kindList) Parse(text string, o Options) (Check, error) {
	t, err := l.target(text, o)
	if err != nil {
		return nil, err
	}
	for _, s := range tlsSettings {
		if t.settings.on(s.Name) {
			t.tlsOwn = cmp.Or(t.tlsOwn, s.Name)
		}
	}
	t.settings.take(t.kind, o.Settings)
	t.gone = o.Gone || t.settings.on("gone")
	if err := t.consistent(); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	check, err := t.kind.parse(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	if p, ok := check.(interface{ Plaintext() bool }); ok && t.tlsOwn != "" && p.Plaintext() {
		return nil, fmt.Errorf("%s: %s has no effect without TLS: add #tls, or write the scheme with TLS", t, t.tlsOwn)
	}
	return check, nil
}

// target reads a target in the order in which its parts may hold each other: what it
// refers to, the form of another program that this may be, the URL, its settings.
func (l kindList) target(text string, o Options) (*target, error) {
	t := &target{attemptTimeout: o.AttemptTimeout, resolver: cmp.Or(o.Resolver, new(resolver.Resolver)), getenv: o.Getenv}
	referring := strings.HasPrefix(text, "${")
	text, err := whole(text, o.Getenv)
	if err != nil {
		return nil, err
	}
	if err := kubeletProblem(text); err != nil {
		return nil, err
	}
	text, secrets, err := secret.Extract(text, "a target", o.Getenv)
	if err != nil {
		return nil, err
	}
	text, err = asURL(text, l)
	if err != nil {
		return nil, err
	}
	if err := l.parseKind(t, text); err != nil {
		if referring && secrets.In(text) {
			err = errors.New("a target that begins with ${…} is that and nothing else but settings after a #, or has its kind before it, as in postgres://${…}")
		}
		return nil, err
	}
	if err := t.parseURL(text, secrets); err != nil {
		return nil, err
	}
	t.settings, err = parseSettings(t.fragment(), t.kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return t, nil
}

// fragment returns what stands after #, as it was written. EscapedFragment would
// decode it where it has characters that a URL should have encoded, such as {,
// and so lose what tells an & in a value from one between settings.
func (t *target) fragment() string { return cmp.Or(t.url.RawFragment, t.url.EscapedFragment()) }

// parseKind sets the kind and the scheme of t by the beginning of its URL.
func (l kindList) parseKind(t *target, text string) error {
	scheme, rest, ok := strings.Cut(text, ":")
	t.scheme = strings.ToLower(scheme)
	t.kind = l.Of(t.scheme)
	switch {
	case t.kind != nil:
		return nil
	case ok && strings.HasPrefix(rest, "//") && strings.Trim(scheme, domainCharacters+"+") == "": // else it may be anything
		if meant := suggest.Closest(scheme, l.Schemes()); meant != "" {
			return fmt.Errorf("no such kind of target: %s://; did you mean %s://?", scheme, meant)
		}
		return fmt.Errorf("no such kind of target: %s://; the kinds are %s", scheme, l.first())
	}
	if kind, _, named := strings.Cut(text, "/"); named {
		if _, known := kube.Lookup(kind); known {
			return fmt.Errorf("a target starts with its kind: write k8s:%s/NAME for a Kubernetes object", kind)
		}
	}
	return errors.New("a target starts with its kind: write tcp://HOST:PORT for a port; the kinds are " + l.first())
}

// parseURL does not pass on the errors of package url, which quote what may be
// a password.
func (t *target) parseURL(text string, secrets secret.Refs) (err error) {
	if t.kind.Socket == t.scheme {
		if text, err = t.cutSocket(text); err != nil {
			return err
		}
	}
	if t.kind.Hosts {
		text, t.hosts = cutHosts(text)
	}
	u, err := url.Parse(text)
	if err != nil {
		if problem := secret.AddressProblem(text); problem != nil {
			return fmt.Errorf("a target of kind %s://: %w", t.scheme, problem)
		}
		return fmt.Errorf("a target of kind %s:// is not a URL: percent-encode what is special in it (%%40 for @, %%2F for /, %%23 for #)", t.scheme)
	}
	t.url = &secret.URL{URL: u, Refs: secrets}
	// A password with an unencoded / or # or ? in it ends the host early.
	after := t.url.EscapedPath() + t.url.RawQuery
	if !t.kind.Filters { // as in [?(@.name=="app")]
		after += t.fragment()
	}
	if !t.kind.Name { // which is checked and hidden as a name
		after += t.url.Opaque
	}
	if strings.Contains(after, "@") {
		return fmt.Errorf("a target of kind %s:// has an @ after its host: write %%40 for it, and percent-encode / ? # in a password", t.scheme)
	}
	if t.kind.Hosts && strings.Contains(t.url.EscapedPath(), ";") { // as of SQL Server's JDBC URLs: …/app;user=app;password=…
		return fmt.Errorf("a target of kind %s:// has a ; in its path: parameters stand after a ?, several hosts are joined by commas; write %%3B for one in a name", t.scheme)
	}
	for _, host := range t.hosts {
		if strings.Trim(host, domainCharacters+":[]%") != "" { // as of jdbc:mysql://(host=mydb,password=…)/
			return fmt.Errorf("a target of kind %s:// has a host with a character in it that none has: write USER:PASSWORD@HOST:PORT, percent-encoded", t.scheme)
		}
		if port := host[strings.LastIndexByte(host, ':')+1:]; port != host && host[0] != '[' && strings.Trim(port, "0123456789") != "" && strings.Count(host, ":") == 1 {
			return fmt.Errorf("a target of kind %s://: %w", t.scheme, secret.ErrPort) // which may be a part of a password
		}
	}
	if t.url.In(t.url.Host) || t.url.In(strings.Join(t.hosts, ",")) || t.url.In(t.url.EscapedFragment()) {
		return fmt.Errorf("a target of kind %s:// has a secret where none can be: only user, password, path and query may refer to one; as a host, write $(NAME), which the kubelet replaces", t.scheme)
	}
	if t.kind.Hosts && t.url.In(t.param("host")+t.param("hostaddr")+t.param("port")+t.param("socket", "unix_socket", "localSocket")) {
		return fmt.Errorf("a target of kind %s:// has a secret in its query where none can be: write $(NAME) for a host, a port or a socket, which the kubelet replaces", t.scheme)
	}
	return nil
}

// cutSocket takes the percent-encoded path of a socket from the place of the
// host, where package url would not have it.
func (t *target) cutSocket(text string) (string, error) {
	rest := strings.TrimPrefix(text[len(t.scheme):], "://")
	user, end := authority(rest)
	path, err := url.PathUnescape(rest[user:end])
	if err != nil || !strings.HasPrefix(path, "/") {
		return "", errors.New("the socket of a target of kind " + t.scheme + ":// is a percent-encoded absolute path, as in " + t.scheme + "://%2Frun%2Fapi.sock/healthz")
	}
	t.socket = path
	return t.scheme + "://" + rest[:user] + "localhost" + rest[end:], nil
}

// String is the target without user information, query and fragment: any of
// them may hold a secret.
func (t *target) String() string {
	if t.kind.show != nil {
		return t.kind.show(t)
	}
	return t.plain()
}

// plain is the target as a URL without user information, query and fragment.
func (t *target) plain() string {
	host := t.url.Host
	if len(t.hosts) > 0 {
		host = strings.Join(t.hosts, ",")
	}
	if t.socket != "" {
		host = url.PathEscape(t.socket)
	}
	s := t.scheme + "://" + host + t.url.Hide(t.shownPath())
	if t.url.Opaque != "" {
		s = t.scheme + ":…"
	}
	if t.url.RawQuery != "" {
		s += "?…"
	}
	return s
}

// shownPath is the path up to where some have parameters in it, as in
// jdbc:sqlserver://host/app;user=app;password=…
func (t *target) shownPath() string {
	path := t.url.Path
	if i := strings.IndexAny(path, ";&"); i >= 0 && !t.kind.File {
		path = path[:i] + "…"
	}
	return path
}

// hostPort returns the target's host and port and requires both.
func (t *target) hostPort() (host, port string, err error) {
	host, port = t.url.Hostname(), t.url.Port()
	problem := secret.HostProblem(t.url.URL)
	switch {
	case host == "":
		return "", "", fmt.Errorf("host missing, want %s", t.kind.Usage)
	case problem != nil:
		return "", "", problem
	case port == "":
		return "", "", fmt.Errorf("port missing, want %s", t.kind.Usage)
	}
	return host, port, nil
}

// addr joins host and port as net.Dial wants them.
func (t *target) addr() (string, error) {
	host, port, err := t.hostPort()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

// only refuses the parts of a URL that the kind has no use for. It does not
// quote them: they may be the end of a password.
func (t *target) only(parts string) error {
	for _, part := range []struct {
		name    string
		present bool
	}{
		{"user", t.url.User != nil},
		{"path", strings.Trim(t.url.Path, "/") != ""},
		{"query", t.url.RawQuery != "" || t.url.ForceQuery},
	} {
		if part.present && !strings.Contains(parts, part.name) {
			return fmt.Errorf("has a %s, which %s:// has no use for, want %s", part.name, t.scheme, t.kind.Usage)
		}
	}
	return nil
}

// path returns the path of a target that has nothing else.
func (t *target) path() (string, error) {
	switch {
	case t.url.Host != "":
		return "", errors.New("path must be absolute: write three slashes, as in " + t.kind.Usage)
	case t.url.Opaque != "" || t.url.Path == "":
		return "", errors.New("path missing or not absolute, want " + t.kind.Usage)
	}
	return t.url.Path, t.only("path")
}

// param returns the first of the parameters in the target's query that is given,
// whatever the case of its name. It may have a secret in it: see [secret.URL.Expand].
func (t *target) param(names ...string) string {
	query := t.url.Query()
	for _, name := range names {
		for given, values := range query {
			if strings.EqualFold(given, name) {
				return values[len(values)-1]
			}
		}
	}
	return ""
}

// otherProtocol is the failure of a server that says what servers of the kind do not.
func (t *target) otherProtocol() *failure.Failure {
	f := failure.New(failure.Unexpected, "the answer is not %s", t.kind.Protocol)
	f.Hint = otherPortHint
	return f
}

// otherPortHint is what to do about a server that says what nobody asked it for.
const otherPortHint = "is it the right port, with TLS or without as the server wants it?"

// errNotThere is the cause of a [Missing] failure of the target itself.
var errNotThere = errors.New("not there")

// consistent refuses a setting without the one that it needs.
func (t *target) consistent() error {
	for _, s := range t.kind.Settings {
		if s.Needs != "" && t.settings.on(s.Name) && !t.settings.on(s.Needs) {
			return fmt.Errorf("%s needs %s", s.Name, s.Needs)
		}
	}
	return nil
}
