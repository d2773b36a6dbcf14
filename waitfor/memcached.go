package waitfor

import (
	"context"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

var memcachedKind = Kind{
	Schemes:  []string{"memcached"},
	Usage:    "memcached://HOST[:PORT][,HOST…]",
	Ready:    "tells its version; of several, each does",
	Settings: encryptionSettings,
	Protocol: "memcached",
	Hosts:    true,
	parse:    parseMemcached,
}

// memcachedCheck asks for the version, which is answered without a login.
//
// https://github.com/memcached/memcached/blob/master/doc/protocol.txt
type memcachedCheck struct{ server }

func parseMemcached(t *target) (Check, error) {
	if err := t.only(""); err != nil {
		return nil, err
	}
	s, err := newServer(t, "11211")
	return memcachedCheck{s}, err
}

func (c memcachedCheck) Check(ctx context.Context) error {
	return c.every(ctx, c.ask) // a key is on one of them, so none can be spared
}

func (c memcachedCheck) ask(ctx context.Context, addr string) error {
	err := c.talk(ctx, addr, c.text)
	if err == nil || poll.Ended(ctx) || failure.Of(err).Class != failure.Reset {
		return err
	}
	if c.talk(ctx, addr, c.binary) == nil { // one with SASL (-S), or for its own protocol alone (-B binary), hangs up on text
		return nil
	}
	return err
}

func (c memcachedCheck) talk(ctx context.Context, addr string, version func(*conversation) error) error {
	conn, err := c.connect(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	poll.Doing(ctx, "asking for the version")
	return version(conn)
}

func (c memcachedCheck) text(conn *conversation) error {
	// As long as a header of the binary protocol: a server that speaks no other waits for one, and then sees that it is none.
	if _, err := conn.Write([]byte("version\r\nversion\r\nquit\r\n")); err != nil {
		return err
	}
	line, err := conn.line()
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(line, "VERSION "):
		return nil
	case line == "CLIENT_ERROR unauthenticated": // whatever it is asked (-Y): it is there, and has nothing to get ready
		return nil
	case strings.HasPrefix(line, "SERVER_ERROR "), strings.HasPrefix(line, "CLIENT_ERROR "), line == "ERROR", strings.HasPrefix(line, "ERROR "):
		f := failure.New(failure.Unexpected, "memcached says %s", quote(line))
		if strings.HasSuffix(line, "Too many open connections") {
			f.Hint = "too many clients are connected: look for one that leaks connections, or raise -c"
		}
		return f
	}
	return c.otherProtocol()
}

// binary asks in the binary protocol, whose version needs no login either.
//
// https://github.com/memcached/memcached/wiki/BinaryProtocolRevamped
func (c memcachedCheck) binary(conn *conversation) error {
	const request, response, version, headerLength = 0x80, 0x81, 0x0b, 24
	header := [headerLength]byte{request, version}
	if _, err := conn.Write(header[:]); err != nil {
		return err
	}
	answer, err := conn.read(headerLength)
	if err != nil {
		return err
	}
	if answer[0] != response || answer[1] != version || answer[6] != 0 || answer[7] != 0 { // the last two are the status
		return c.otherProtocol()
	}
	return nil
}
