package waitfor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Packets of the native protocol, and the revision of it that is spoken here: the last
// one before the server's greeting has more in it than its name and version.
//
// https://clickhouse.com/docs/native-protocol/client#hello
// https://clickhouse.com/docs/native-protocol/server#hello
const (
	clickhouseHello           = 0
	clickhouseExceptionPacket = 2
	clickhouseRevision        = 54057
)

// greet logs in with the native protocol: what is not answered by a greeting in turn is
// by an exception.
func (c clickhouseCheck) greet(ctx context.Context, addr string, who clickhouseLogin) error {
	conn, err := c.connect(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	poll.Doing(ctx, "logging in")
	if _, err := conn.Write(clickhouseGreeting(who)); err != nil {
		return err
	}
	secrets := append(c.url.Secrets(), who.password, base64.StdEncoding.EncodeToString([]byte(who.password)))
	return c.greeted(conn, secrets)
}

func clickhouseGreeting(who clickhouseLogin) []byte {
	p := []byte{clickhouseHello}
	text := func(s string) { p = append(binary.AppendUvarint(p, uint64(len(s))), s...) }
	text("initbox")
	p = append(p, 1, 0) // the client's version
	p = binary.AppendUvarint(p, clickhouseRevision)
	text(who.database)
	text(cmp.Or(who.user, "default"))
	text(who.password)
	return p
}

// greeted reads what the server says to the greeting.
func (c clickhouseCheck) greeted(conn *conversation, secrets []string) error {
	r := nativeReader{conversation: conn}
	switch packet := r.number(); {
	case r.err != nil:
		return r.err
	case packet == clickhouseHello:
		name := r.text()
		r.number()
		r.number()
		revision := r.number()
		if r.err == nil && (name == "" || revision == 0) {
			return c.otherProtocol()
		}
		return r.err
	case packet == clickhouseExceptionPacket:
		p := r.bytes(4)
		name, message := r.text(), r.text() // and a stack trace
		if r.err != nil {
			return r.err
		}
		words := clickhouseWords(message)
		return clickhouseFailure(int(int32(binary.LittleEndian.Uint32(p))), quote(cmp.Or(words, name), secrets...))
	case packet == 'H': // HTTP/1.1 400 Bad Request
		f := c.otherProtocol()
		f.Hint = "it may be the port for HTTP: leave out protocol=native"
		return f
	}
	return c.otherProtocol()
}

// A nativeReader reads the numbers and texts of ClickHouse's native protocol up to the
// first error.
type nativeReader struct {
	*conversation
	err error
}

func (r *nativeReader) number() (n uint64) {
	for shift := 0; r.err == nil && shift < 63; shift += 7 {
		b, err := r.in.ReadByte()
		if err != nil {
			r.err = r.wrong(err)
			return 0
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	if r.err == nil {
		r.err = failure.New(failure.Unexpected, "the answer has a number in it that does not end")
	}
	return 0
}

func (r *nativeReader) bytes(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	p, err := r.read(n)
	r.err = err
	return p
}

func (r *nativeReader) text() string { return string(r.bytes(r.number())) }
