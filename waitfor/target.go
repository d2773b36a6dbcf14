package waitfor

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"initbox/internal/kube"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// Kind is one kind of target.
type Kind struct {
	Schemes  []string
	Usage    string // how a target of the kind is written
	Ready    string // what ready means
	Settings []Setting
	Protocol string // what the servers of the kind speak, for messages; "" where that is not to be told
	Hosts    bool   // its URL may name several hosts, joined by commas

	parse func(t *target) (Check, error)
}

// kinds lists every kind of target. A new one is a line here and a file of its
// own.
var kinds = []*Kind{
	&dnsKind,
	&tcpKind,
	&tlsKind,
	&httpKind,
	&grpcKind,
	&unixKind,
	&fileKind,
	&k8sKind,
	&postgresKind,
	&mysqlKind,
	&memcachedKind,
	&zookeeperKind,
	&redisKind,
	&natsKind,
	&amqpKind,
	&kafkaKind,
	&mongoKind,
	&cassandraKind,
	&etcdKind,
	&elasticsearchKind,
	&clickhouseKind,
	&influxdbKind,
	&temporalKind,
}

// Kinds returns every kind of target, in the order of the documentation.
func Kinds() []*Kind { return kinds }

// Schemes returns the schemes that [Parse] accepts, sorted.
func Schemes() []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Schemes...)
	}
	return slices.Sorted(slices.Values(all))
}

// target is what all kinds of targets have in common.
type target struct {
	kind     *Kind
	scheme   string
	url      *secret.URL
	hosts    []string // as in the URL, with their ports; of a kind with Hosts
	socket   string   // of http+unix
	settings Settings
	tlsOwn   string // the first of tlsSettings that the target itself has; "" if none
	gone     bool   // ready means: not there any more
	resolver *resolver.Resolver
	getenv   func(string) string // may be nil
}

// Parse turns a target such as "tcp://mydb:5432" or
// "http://api/health#status=200&json=.status==UP" into a [Check]. Its errors
// never quote the target, which may hold a password.
//
// A target may refer to a secret, in the user information, the path or the
// query: ${file:/path}, which is read again at each attempt, and ${env:NAME},
// which must be set, for nothing can set it later.
func Parse(text string, o Options) (Check, error) {
	t, err := parseTarget(text, o)
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
	if err := t.consistent(o.AttemptTimeout); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	check, err := t.kind.parse(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	if p, ok := check.(interface{ plaintext() bool }); ok && t.tlsOwn != "" && p.plaintext() {
		return nil, fmt.Errorf("%s: %s has no effect without TLS: add #tls, or write the scheme with TLS", t, t.tlsOwn)
	}
	if t.gone {
		return gone{check}, nil
	}
	return check, nil
}

func parseTarget(text string, o Options) (*target, error) {
	t := &target{resolver: cmp.Or(o.Resolver, new(resolver.Resolver)), getenv: o.Getenv}
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
	text, err = asURL(text)
	if err != nil {
		return nil, err
	}
	if err := t.parseKind(text); err != nil {
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

func (t *target) parseKind(text string) error {
	scheme, rest, ok := strings.Cut(text, ":")
	t.scheme = strings.ToLower(scheme)
	t.kind = KindOf(t.scheme)
	switch {
	case t.kind != nil:
		return nil
	case ok && strings.HasPrefix(rest, "//") && strings.Trim(scheme, domainCharacters+"+") == "": // else it may be anything
		if meant := suggest.Closest(scheme, Schemes()); meant != "" {
			return fmt.Errorf("no such kind of target: %s://; did you mean %s://?", scheme, meant)
		}
		return fmt.Errorf("no such kind of target: %s://; the kinds are %s", scheme, firstSchemes())
	}
	if kind, _, named := strings.Cut(text, "/"); named {
		if _, known := kube.Lookup(kind); known {
			return fmt.Errorf("a target starts with its kind: write k8s:%s/NAME for a Kubernetes object", kind)
		}
	}
	return errors.New("a target starts with its kind: write tcp://HOST:PORT for a port; the kinds are " + firstSchemes())
}

// firstSchemes lists the kinds by the first of their schemes.
func firstSchemes() string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Schemes[0])
	}
	return strings.Join(names, ", ")
}

// parseURL does not pass on the errors of package url, which quote what may be
// a password.
func (t *target) parseURL(text string, secrets secret.Refs) (err error) {
	if t.scheme == "http+unix" {
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
	if t.scheme != "k8s" { // which has no host, and whose settings may have a filter: [?(@.name=="app")]
		after += t.fragment()
	}
	if t.scheme != "dns" { // whose name is opaque, and is checked and hidden as a name
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
		return "", errors.New("the socket of a target of kind http+unix:// is a percent-encoded absolute path, as in http+unix://%2Frun%2Fapi.sock/healthz")
	}
	t.socket = path
	return t.scheme + "://" + rest[:user] + "localhost" + rest[end:], nil
}

// KindOf returns the kind of target with the scheme, or nil.
func KindOf(scheme string) *Kind {
	for _, k := range kinds {
		if slices.Contains(k.Schemes, scheme) {
			return k
		}
	}
	return nil
}

// String is the target without user information, query and fragment: any of
// them may hold a secret.
func (t *target) String() string {
	if t.scheme == "k8s" {
		return t.k8sString()
	}
	host := t.url.Host
	if len(t.hosts) > 0 {
		host = strings.Join(t.hosts, ",")
	}
	if t.socket != "" {
		host = url.PathEscape(t.socket)
	}
	s := t.scheme + "://" + host + t.url.Hide(t.shownPath())
	name, err := url.PathUnescape(t.url.Opaque)
	switch {
	case t.scheme == "dns" && t.url.Opaque != "" && err == nil && harmless(name):
		s = t.url.Hide(name)
	case t.url.Opaque != "":
		s = t.scheme + ":…"
	case t.scheme == "dns" && host == "" && t.url.Path == "":
		s = `""` // the name, which is empty
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
	if i := strings.IndexAny(path, ";&"); i >= 0 && t.scheme != "file" && t.scheme != "unix" {
		path = path[:i] + "…"
	}
	return path
}

// domainCharacters are those of a domain name. What has others may be anything,
// such as a connection string with a password.
const domainCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// harmless reports whether name looks like a domain name or an address, and so
// may be shown.
func harmless(name string) bool {
	addr, err := netip.ParseAddr(name)
	return strings.Trim(name, domainCharacters) == "" || err == nil && addr.Zone() == ""
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
	if ip, err := netip.ParseAddr(host); err == nil && (t.scheme == "tcp4" || t.scheme == "tcp6") {
		if ip.Unmap().Is4() != (t.scheme == "tcp4") {
			return "", fmt.Errorf("the address is not one that %s:// can connect to: write tcp://, which connects to either family", t.scheme)
		}
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

// consistent refuses settings that cannot be meant together, whatever the kind.
func (t *target) consistent(attemptTimeout time.Duration) error {
	for _, s := range t.kind.Settings {
		if s.Needs != "" && t.settings.on(s.Name) && !t.settings.on(s.Needs) {
			return fmt.Errorf("%s needs %s", s.Name, s.Needs)
		}
	}
	if t.kind.setting("hold") == nil {
		return nil
	}
	hold, err := t.settings.duration("hold", defaultHold)
	if err == nil && attemptTimeout > 0 && hold >= attemptTimeout {
		return fmt.Errorf("hold: an attempt takes at most %s (attempt-timeout), so no connection can be held for %s", words.Seconds(attemptTimeout), words.Seconds(hold))
	}
	return err
}
