package waitfor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/dial"
	"initbox/internal/failure"
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

// newServer reads the hosts of the target, any of which may leave out its port.
func newServer(t *target, port string) (server, error) {
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

// Plaintext reports whether TLS is not spoken, whatever the server says.
func (s server) Plaintext() bool { return !s.encrypted }

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

// wordless is what is told of a server that says no, and not why.
const wordless = "the server says that it has failed, and not why"

// tooLong is the failure of a server that announces so many bytes.
func tooLong(n uint64) error {
	f := failure.New(failure.Unexpected, "the server announces a message that is too long for an answer to what it was asked")
	f.Note, f.Hint = words.Plural(int(min(n, 1<<53)), "byte"), otherPortHint
	return f
}
