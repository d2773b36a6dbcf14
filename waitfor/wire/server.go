// Package wire has what the checks of several protocols share: the addresses, credentials and TLS settings of a
// [Server], the [Conversation] with one of its addresses, which bounds what is read, and the [QueryAnswer].
//
//	s, err := wire.NewServer(t)
//	err = wire.Any(ctx, s, func(ctx context.Context, addr string) error {
//		c, err := wire.Connect(ctx, s, addr)
//		if err != nil {
//			return err
//		}
//		defer c.Close()
//		…
//	})
package wire

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
	"initbox/internal/setting"
	"initbox/internal/tlsconfig"
	"initbox/internal/words"
	"initbox/waitfor/target"
)

// A Server is the common part of targets that name one server, or several, with its own protocol.
type Server struct {
	*target.Target
	Dialer *dial.Dialer
	Addrs  []string // "host:port", or the absolute path of a Unix socket; in the target's order

	TLS       tlsconfig.Options
	Encrypted bool // speaks TLS from the first byte
}

// ServerSettings are the settings of every kind of server that may require TLS and a login.
var ServerSettings = slices.Concat(LoginSettings, EncryptionSettings)

// LoginSettings are the settings of every kind of server that may require a login.
var LoginSettings = []target.Setting{
	{Name: "user", Value: "NAME", Usage: "user to log in as, with --password-file"},
	{Name: "password-file", Value: "FILE", Usage: "file with the user's password"},
}

// EncryptionSettings are the settings of every kind of server whose protocol runs with TLS or without.
var EncryptionSettings = append([]target.Setting{{Name: "tls", Usage: "speak TLS"}}, setting.TLS...)

// Parse returns the [target.Kind.Parse] of a kind whose check has nothing to parse but the server.
func Parse(check func(Server) target.Check) func(*target.Target) (target.Check, error) {
	return func(t *target.Target) (target.Check, error) {
		s, err := NewServer(t)
		return check(s), err
	}
}

// NewServer returns the server of a target.
func NewServer(t *target.Target) (Server, error) {
	s, port := Unaddressed(t), t.Kind.Port
	if s.Encrypted {
		port = cmp.Or(t.Kind.TLSPort, port)
	}
	err := s.AddHosts(port)
	return s, err
}

// Unaddressed returns the server of a target without its addresses.
func Unaddressed(t *target.Target) Server {
	encrypted := t.Settings.On("tls") || t.Scheme == t.Kind.Secure
	return Server{Target: t, Dialer: dial.New(t.Resolver), TLS: t.Settings.TLS(), Encrypted: encrypted}
}

// AddHosts adds the addresses of the target's hosts. The port is that of hosts without one.
func (s *Server) AddHosts(port string) error {
	for _, host := range s.Hosts {
		addr, err := JoinHostPort(host, port)
		if err != nil {
			return err
		}
		s.Addrs = append(s.Addrs, addr)
	}
	if len(s.Addrs) == 0 {
		return fmt.Errorf("host missing, want %s", s.Kind.Usage)
	}
	return nil
}

// Certificates sets the certificate files, unless the settings name them, from query parameters with the names that the
// server's usual clients use.
func (s *Server) Certificates(ca, cert, key []string) error {
	if err := s.refuseKeyStores(cert); err != nil {
		return err
	}
	for _, p := range []struct {
		to    *string
		names []string
	}{{&s.TLS.CAFile, ca}, {&s.TLS.CertFile, cert}, {&s.TLS.KeyFile, key}} {
		file, err := s.URL.Value(s.URL.Param(p.names...))
		if err != nil {
			return err
		}
		*p.to = cmp.Or(*p.to, strings.TrimPrefix(file, "file:"))
	}
	if s.TLS.KeyFile != "" && s.TLS.CertFile == "" {
		return fmt.Errorf("%s needs %s", key[0], cert[0])
	}
	return s.trustStore()
}

// trustStores are the query parameters with which Java's clients name their trust stores, and those with the
// passwords: those of Kafka, of MySQL's JDBC driver, and of MariaDB's. The parameters with the types are not needed.
var trustStores = [][2]string{
	{"ssl.truststore.location", "ssl.truststore.password"},
	{"trustCertificateKeyStoreUrl", "trustCertificateKeyStorePassword"},
	{"trustStore", "trustStorePassword"},
}

// trustStore sets the trust store, unless there is a CA file. Java trusts nothing else then.
func (s *Server) trustStore() error {
	for _, names := range trustStores {
		file, err := s.URL.Value(s.URL.Param(names[0]))
		if err != nil {
			return err
		}
		if file == "" || s.TLS.CAFile != "" {
			continue
		}
		if s.TLS.CAPassword, err = s.URL.Value(s.URL.Param(names[1])); err != nil {
			return err
		}
		file = strings.TrimPrefix(strings.TrimPrefix(file, "file:"), "//") // file:///tls/trust.jks
		s.TLS.CAFile, s.TLS.OnlyCA = file, true
	}
	return nil
}

// keyStores are the query parameters with which Java's clients name their key stores.
var keyStores = []string{"ssl.keystore.location", "clientCertificateKeyStoreUrl", "keyStore"}

// refuseKeyStores refuses a key store that no setting replaces: without it, the certificate would be another than the
// application's.
func (s *Server) refuseKeyStores(known []string) error {
	for _, name := range keyStores {
		if s.URL.Param(name) == "" || s.Settings.On("cert-file") || slices.Contains(known, name) {
			continue
		}
		return failure.WithHint(fmt.Errorf("%s is a Java key store, which is not supported: add #cert-file=FILE with its certificate and key as PEM", name),
			"openssl pkcs12 -nodes -in FILE prints both as PEM")
	}
	return nil
}

// Plaintext reports whether the target rules out TLS.
func (s Server) Plaintext() bool { return !s.Encrypted }

// JoinHostPort returns a host, which is "host", "host:port", "[::1]" or "[::1]:port", joined with its port, or else
// with port, for net.Dial.
func JoinHostPort(host, port string) (string, error) {
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
		return "", errors.New("a host must not contain a /")
	case err != nil, n == 0, strings.Contains(u.Hostname(), ":") && host[0] != '[':
		return "", secret.ErrPort
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// ToldAddr joins host and port of a server that another server has named.
func ToldAddr(host, port string) (string, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" || host != secret.Quote(host) || strings.Contains(host, "/") { // a / would mean a socket here
		return "", errors.New("not an address")
	}
	return net.JoinHostPort(host, port), nil
}

// Connect returns a conversation with the server at addr, over TLS if the target asks for it.
func Connect(ctx context.Context, s Server, addr string) (*Conversation, error) {
	var conn net.Conn
	var err error
	if strings.HasPrefix(addr, "/") {
		conn, err = DialUnix(ctx, addr)
	} else {
		conn, err = s.Dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	c := Converse(ctx, conn, addr)
	if s.Encrypted {
		if err := c.Encrypt(s.TLS); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Wordless is the message for a server that reports an error without a reason.
const Wordless = "the server reported an error without a reason"

// TooLong returns the failure of a server that announces a message of n bytes.
func TooLong(n uint64) error {
	f := failure.New(failure.Unexpected, "the server announces a message that is too long for an answer")
	f.Note, f.Hint = words.Plural(int(min(n, 1<<53)), "byte"), target.OtherPortHint
	return f
}
