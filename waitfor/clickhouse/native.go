package clickhouse

import (
	"cmp"
	"context"
	"encoding/binary"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/wire"
)

// Packets of the native protocol, and the revision that is used here: the last one in which the server's greeting
// contains only its name and version.
//
// https://clickhouse.com/docs/native-protocol/client#hello
// https://clickhouse.com/docs/native-protocol/server#hello
const (
	helloPacket     = 0
	exceptionPacket = 2
	revision        = 54057
)

// greet logs in with the native protocol. The server answers with a greeting or an exception.
func (c check) greet(ctx context.Context, addr string, who login) error {
	conn, err := wire.Connect(ctx, c.Server.Server, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	poll.Doing(ctx, "logging in")
	if _, err := conn.Write(greeting(who)); err != nil {
		return err
	}
	secrets := append(c.URL.Secrets(), who.password)
	return c.greeted(conn, secrets)
}

func greeting(who login) []byte {
	p := []byte{helloPacket}
	text := func(s string) { p = append(binary.AppendUvarint(p, uint64(len(s))), s...) }
	text("initbox")
	p = append(p, 1, 0) // the client's version
	p = binary.AppendUvarint(p, revision)
	text(who.database)
	text(cmp.Or(who.user, "default"))
	text(who.password)
	return p
}

// greeted reads the server's answer to the greeting.
func (c check) greeted(conn *wire.Conversation, secrets []string) error {
	r := reader{Conversation: conn}
	switch packet := r.number(); {
	case r.err != nil:
		return r.err
	case packet == helloPacket:
		name := r.text()
		r.number()
		r.number()
		revision := r.number()
		if r.err == nil && (name == "" || revision == 0) {
			return c.Kind.OtherProtocol()
		}
		return r.err
	case packet == exceptionPacket:
		p := r.bytes(4)
		name, message := r.text(), r.text() // and a stack trace
		if r.err != nil {
			return r.err
		}
		words := reason(message)
		return failed(int(int32(binary.LittleEndian.Uint32(p))), secret.Quote(cmp.Or(words, name), secrets...))
	case packet == 'H': // HTTP/1.1 400 Bad Request
		return c.Kind.OtherProtocol().WithHint("it may be the port for HTTP: remove protocol=native")
	}
	return c.Kind.OtherProtocol()
}

// A reader reads the numbers and texts of ClickHouse's native protocol, until the first error.
type reader struct {
	*wire.Conversation
	err error
}

func (r *reader) number() (n uint64) {
	for shift := 0; r.err == nil && shift < 63; shift += 7 {
		b, err := r.In.ReadByte()
		if err != nil {
			r.err = r.Ended(err)
			return 0
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	if r.err == nil {
		r.err = failure.New(failure.Unexpected, "the answer contains a number that is too long")
	}
	return 0
}

func (r *reader) bytes(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	p, err := r.Next(n)
	r.err = err
	return p
}

func (r *reader) text() string { return string(r.bytes(r.number())) }
