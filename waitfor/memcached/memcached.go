// Package memcached waits for memcached: memcached://HOST[:PORT][,HOST…], in the text protocol or the binary one.
//
// A server is ready when it reports its version, for which it needs no login. Each of several hosts must be ready,
// since each has its share of the keys. The settings are those of TLS.
package memcached

import (
	"context"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the scheme memcached.
var Kind = target.Kind{
	Schemes:  []string{"memcached"},
	Usage:    "memcached://HOST[:PORT][,HOST…]",
	Ready:    "reports its version; of several hosts, each must",
	Settings: wire.EncryptionSettings,
	Protocol: "memcached",
	Hosts:    true,
	Port:     "11211",
	Without:  "user path query",
	Parse:    wire.Parse(func(s wire.Server) target.Check { return check{s} }),
}

// check asks for the version, which is answered without a login.
//
// https://github.com/memcached/memcached/blob/master/doc/protocol.txt
type check struct{ wire.Server }

func (c check) Check(ctx context.Context) error {
	return wire.Every(ctx, c.Server, c.ask) // each key is on one of them, so all are needed
}

func (c check) ask(ctx context.Context, addr string) error {
	err := c.talk(ctx, addr, c.text)
	if err == nil || poll.Ended(ctx) || failure.Of(err).Class != failure.Reset {
		return err
	}
	if c.talk(ctx, addr, c.binary) == nil { // a server with SASL (-S), or with the binary protocol only (-B binary), closes the connection on text
		return nil
	}
	return err
}

func (c check) talk(ctx context.Context, addr string, version func(*wire.Conversation) error) error {
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	poll.Doing(ctx, "asking for the version")
	return version(conn)
}

func (c check) text(conn *wire.Conversation) error {
	// As long as a header of the binary protocol: a server with that protocol only reads a complete header before it
	// rejects it.
	if _, err := conn.Write([]byte("version\r\nversion\r\nquit\r\n")); err != nil {
		return err
	}
	line, err := conn.Line()
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(line, "VERSION "):
		return nil
	case line == "CLIENT_ERROR unauthenticated": // the answer to every command (-Y): the server is running, and has nothing to load
		return nil
	case strings.HasPrefix(line, "SERVER_ERROR "), strings.HasPrefix(line, "CLIENT_ERROR "), line == "ERROR", strings.HasPrefix(line, "ERROR "):
		f := failure.New(failure.Unexpected, "memcached reports %s", secret.Quote(line))
		if strings.HasSuffix(line, "Too many open connections") {
			f.Hint = "too many clients are connected: look for one that leaks connections, or raise -c"
		}
		return f
	}
	return c.Kind.OtherProtocol()
}

// binary asks for the version in the binary protocol, where it needs no login either.
//
// https://github.com/memcached/memcached/wiki/BinaryProtocolRevamped
func (c check) binary(conn *wire.Conversation) error {
	const request, response, version, headerLength = 0x80, 0x81, 0x0b, 24
	header := [headerLength]byte{request, version}
	if _, err := conn.Write(header[:]); err != nil {
		return err
	}
	answer, err := conn.Next(headerLength)
	if err != nil {
		return err
	}
	if answer[0] != response || answer[1] != version || answer[6] != 0 || answer[7] != 0 { // the last two are the status
		return c.Kind.OtherProtocol()
	}
	return nil
}
