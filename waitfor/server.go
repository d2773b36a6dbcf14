package waitfor

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/tlsconfig"
	"initbox/internal/words"
)

// A server is what those kinds of target have in common that speak to one, or to
// one of several, in a protocol of its own.
type server struct {
	*target
	dialer *dial.Dialer
	addrs  []string // "host:port", or the absolute path of a Unix socket; in the target's order

	tls       tlsconfig.Options
	encrypted bool // speaks TLS from the first byte
}

// serverSettings are those of every kind of server that may want TLS and a login.
var serverSettings = slices.Concat(loginSettings, encryptionSettings)

// loginSettings are those of every kind of server that may want a login.
var loginSettings = []Setting{
	{Name: "user", Value: "NAME", Usage: "user to log in as, with --password-file"},
	{Name: "password-file", Value: "FILE", Usage: "file with the user's password"},
}

// encryptionSettings are those of every kind of server that speaks its protocol with TLS
// or without.
var encryptionSettings = append([]Setting{{Name: "tls", Usage: "speak TLS"}}, tlsSettings...)

// server reads the hosts of the target, any of which may leave out its port.
func (t *target) server(port string) (server, error) {
	s := server{target: t, dialer: dial.New(t.resolver), tls: t.settings.tls(), encrypted: t.settings.on("tls")}
	for _, host := range t.hosts {
		addr, err := hostPort(host, port)
		if err != nil {
			return s, err
		}
		s.addrs = append(s.addrs, addr)
	}
	if len(s.addrs) == 0 {
		return s, fmt.Errorf("host missing, want %s", t.kind.Usage)
	}
	return s, nil
}

// certificates takes the files that the target's query names, as the clients of such a
// server call them, where the settings name none.
func (s *server) certificates(ca, cert, key []string) error {
	for _, p := range []struct {
		to    *string
		names []string
	}{{&s.tls.CAFile, ca}, {&s.tls.CertFile, cert}, {&s.tls.KeyFile, key}} {
		file, err := s.url.Value(s.param(p.names...))
		if err != nil {
			return err
		}
		*p.to = cmp.Or(*p.to, strings.TrimPrefix(file, "file:"))
	}
	if s.tls.KeyFile != "" && s.tls.CertFile == "" {
		return fmt.Errorf("%s needs %s", key[0], cert[0])
	}
	return nil
}

// plaintext reports whether TLS is not spoken, whatever the server says.
func (s server) plaintext() bool { return !s.encrypted }

// hostPort joins one of several hosts, "host", "host:port", "[::1]" or "[::1]:port",
// with its port as net.Dial wants them.
func hostPort(host, port string) (string, error) {
	u := &url.URL{Host: host}
	if problem := secret.HostProblem(u); problem != nil && strings.Count(host, ":") > 1 {
		return "", problem
	}
	if p := u.Port(); p != "" {
		port = p
	}
	switch n, err := strconv.ParseUint(port, 10, 16); {
	case u.Hostname() == "":
		return "", errors.New("a host is missing between two commas, or before a port")
	case strings.Contains(u.Hostname(), "/"):
		return "", errors.New("a host has no / in it")
	case err != nil, n == 0, strings.Contains(u.Hostname(), ":") && host[0] != '[':
		return "", secret.ErrPort
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// told joins host and port of a server as another server tells them.
func told(host, port string) (string, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" || host != quote(host) || strings.Contains(host, "/") { // which would be a socket of this host
		return "", errors.New("not an address")
	}
	return net.JoinHostPort(host, port), nil
}

// any is ready as soon as one of the server's addresses is, by what ask says. Else its
// error is the one that says most.
func (s server) any(ctx context.Context, ask func(ctx context.Context, addr string) error) error {
	if len(s.addrs) == 1 {
		return ask(ctx, s.addrs[0])
	}
	winner, outcomes := poll.Race(ctx, len(s.addrs), hostDelay, false, func(ctx context.Context, i int) (struct{}, error) {
		err := ask(ctx, s.addrs[i])
		if err != nil && telling(err) == 0 {
			poll.Meanwhile(ctx, failure.At(s.addrs[i], err)) // which may hang while others have spoken
		}
		return struct{}{}, err
	})
	if winner >= 0 {
		return nil
	}
	return mostTelling(s.addrs, outcomes)
}

// every is ready when each of the server's addresses is; the server is gone when none is
// left.
func (s server) every(ctx context.Context, ask func(ctx context.Context, addr string) error) error {
	if s.gone {
		return s.any(ctx, ask)
	}
	for _, addr := range s.addrs {
		if err := ask(ctx, addr); err != nil && len(s.addrs) > 1 {
			return failure.At(addr, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// hostDelay is the pause before the next of several hosts is tried as well.
const hostDelay = 250 * time.Millisecond

// mostTelling picks the error of several servers that says most: what one said
// itself, rather than that another is not there or hangs.
func mostTelling(addrs []string, outcomes []poll.Outcome[struct{}]) error {
	worst, at := error(nil), ""
	hangs := false
	for i, o := range outcomes {
		switch {
		case !o.Finished:
			hangs = true
		case worst == nil || telling(o.Err) < telling(worst):
			worst, at = o.Err, addrs[i]
		}
	}
	if hangs && (worst == nil || telling(worst) > 0) {
		return context.DeadlineExceeded
	}
	return failure.At(at, worst)
}

// telling is 0 for what a server said itself, and more for what says less. That one
// server is known not to be there proves nothing of the others, so it says least.
func telling(err error) int {
	var lookup *resolver.Failure
	switch f := failure.Of(err); {
	case f.Elsewhere, f.Class == failure.Unexpected, f.Class == failure.Authentication:
		return 0
	case f.Class == failure.Refused, f.Err == errNotThere, errors.As(err, &lookup) && lookup.Gone():
		return 2
	}
	return 1
}

// connect begins a conversation with the server at addr, over TLS if that is asked for.
func (s server) connect(ctx context.Context, addr string) (*conversation, error) {
	var conn net.Conn
	var err error
	if strings.HasPrefix(addr, "/") {
		conn, err = dialUnix(ctx, addr)
	} else {
		conn, err = s.dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	c := converse(ctx, conn, addr)
	if s.encrypted {
		if err := c.encrypt(s.tls); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// login returns the user and the password as they are now: those in the target,
// else those of its settings, else those of the environment's variables. Both may
// be empty.
func (s server) login(userVariable, passwordVariable string) (user, password string, err error) {
	u, err := s.url.Expand()
	if err != nil {
		return "", "", err
	}
	query := u.Query()
	user = cmp.Or(u.User.Username(), query.Get("user"), s.settings.get("user"))
	password, set := u.User.Password()
	if !set && query.Has("password") { // as JDBC and libpq have it
		password, set = query.Get("password"), true
	}
	if user == "" {
		if user, err = s.variable(userVariable); err != nil {
			return "", "", err
		}
	}
	switch {
	case set:
	case s.settings.on("password-file"):
		password, err = secret.Read(s.settings.get("password-file"))
	default:
		password, err = s.variable(passwordVariable)
	}
	return user, password, err
}

// variable returns the value of an environment variable, or the content of the file
// that the variable NAME_FILE names, or "".
func (t *target) variable(name string) (string, error) {
	if name == "" || t.getenv == nil {
		return "", nil
	}
	if value := t.getenv(name); value != "" {
		return value, nil
	}
	if file := t.getenv(name + "_FILE"); file != "" {
		return secret.Read(file)
	}
	return "", nil
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

// yes and no read the ways in which the URLs of drivers say that.
func yes(s string) bool { return isOneOf(s, "1", "true", "yes", "on") }
func no(s string) bool  { return isOneOf(s, "0", "false", "no", "off") }

func isOneOf(s string, words ...string) bool {
	for _, word := range words {
		if strings.EqualFold(s, word) {
			return true
		}
	}
	return false
}

// quotedLength is as much as is told of what a server says.
const quotedLength = 300

// quote makes what a server says fit for a message: on one line, not too long, and
// without any of the secrets, which servers are known to repeat.
func quote(text string, secrets ...string) string {
	text = text[:min(len(text), 20*quotedLength)]
	for _, s := range secrets {
		quoted := strconv.Quote(s) // as servers written in Go, and those that speak JSON, have it
		for _, sent := range []string{base64.StdEncoding.EncodeToString([]byte(s)), url.QueryEscape(s), url.PathEscape(s), quoted[1 : len(quoted)-1], s} {
			text = hide(text, sent)
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > quotedLength {
		text = strings.ToValidUTF8(text[:quotedLength], "") + "…"
	}
	return failure.Printable(text)
}

// wordless is what is told of a server that says no, and not why.
const wordless = "the server says that it has failed, and not why"

// hide replaces a secret in text, and the beginning of a long one: servers cut off what
// they repeat, Redis after 128 bytes.
func hide(text, s string) string {
	const enough = 16 // bytes, which are in no text by chance
	if len(s) <= 2 {  // is in other words by chance, and no secret either
		return text
	}
	text = strings.ReplaceAll(text, s, "…")
	for len(s) > enough {
		i := strings.Index(text, s[:enough])
		if i < 0 {
			break
		}
		n := enough
		for n < len(s) && i+n < len(text) && text[i+n] == s[n] {
			n++
		}
		text = text[:i] + "…" + text[i+n:]
	}
	return text
}

// otherProtocol is the failure of a server that says what servers of the kind do not.
func (t *target) otherProtocol() *failure.Failure {
	f := failure.New(failure.Unexpected, "the answer is not %s", t.kind.Protocol)
	f.Hint = otherPortHint
	return f
}

// otherPortHint is what to do about a server that says what nobody asked it for.
const otherPortHint = "is it the right port, with TLS or without as the server wants it?"

// tooLong is the failure of a server that announces so many bytes.
func tooLong(n uint64) error {
	f := failure.New(failure.Unexpected, "the server announces a message that is too long for an answer to what it was asked")
	f.Note, f.Hint = words.Plural(int(min(n, 1<<53)), "byte"), otherPortHint
	return f
}
