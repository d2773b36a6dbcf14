package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
	"initbox/waitfor/target"
)

// ConversationLimit is how many bytes of a server are read in one attempt at most, whatever it announces.
const ConversationLimit = 1 << 20

// A Conversation is a connection with a server, in the server's protocol. When its attempt ends, reads and writes fail
// as at a deadline.
type Conversation struct {
	Conn net.Conn // with TLS after Encrypt
	Addr string
	In   *bufio.Reader
	left *io.LimitedReader // the source of In
	Ctx  context.Context
	stop func() bool
}

// Converse returns a conversation over conn, whose address is addr. It ends with ctx.
func Converse(ctx context.Context, conn net.Conn, addr string) *Conversation {
	c := &Conversation{Conn: conn, Addr: addr, Ctx: ctx}
	c.left = &io.LimitedReader{R: &plain{Reader: conn}, N: ConversationLimit}
	c.In = bufio.NewReaderSize(c.left, lineLimit)
	c.stop = context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	return c
}

// Encrypt continues over TLS, for one of the ALPN protocols if any are given. It reads the certificate files again.
func (c *Conversation) Encrypt(o tlsconfig.Options, protocols ...string) error {
	conf, err := o.Load()
	if err != nil {
		return failure.TLSFiles(err)
	}
	conf.NextProtos = protocols
	tlsconfig.EmbedRoots()
	if c.In.Buffered() > 0 { // injected on the way, to pass as part of the encrypted answer (CVE-2021-23222)
		return failure.New(failure.Unexpected, "the server sent data between agreeing to TLS and the handshake").
			WithHint("does something between here and the server change the traffic?")
	}
	if conf.ServerName == "" {
		conf.ServerName = "localhost" // over a socket
		if host, _, err := net.SplitHostPort(c.Addr); err == nil {
			conf.ServerName = host
		}
	}
	poll.Doing(c.Ctx, "TLS handshake")
	conn := tls.Client(c.Conn, conf)
	if err := conn.HandshakeContext(c.Ctx); err != nil {
		return err
	}
	c.Conn, c.left.R = conn, conn
	return nil
}

// plain reads from a server without TLS, and detects one that requires TLS: such a server reads the request as a
// handshake and answers with an alert.
type plain struct {
	io.Reader
	begun bool
}

func (p *plain) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if !p.begun && n >= 7 && b[0] == 21 && b[1] == 3 && b[3] == 0 && b[4] == 2 && b[5] == 2 { // RFC 8446, section 5.1 and 6
		return 0, failure.New(failure.TLS, "TLS: the server requires it on this port").WithHint("add #tls to the target, or use the scheme with TLS")
	}
	p.begun = p.begun || n > 0
	return n, err
}

// Write sends p to the server, as an [io.Writer].
func (c *Conversation) Write(p []byte) (int, error) { return c.Conn.Write(p) }

// Read reads from the server, as an [io.Reader] for libraries.
func (c *Conversation) Read(p []byte) (int, error) {
	n, err := c.In.Read(p)
	return n, c.Ended(err)
}

// Next returns the next n bytes. It allocates no more than the server may still send.
func (c *Conversation) Next(n uint64) ([]byte, error) {
	if n > uint64(c.left.N)+uint64(c.In.Buffered()) {
		return nil, TooLong(n)
	}
	p := make([]byte, n)
	_, err := io.ReadFull(c.In, p)
	return p, c.Ended(err)
}

// Long returns a text after its length, of four bytes, as many protocols encode it.
func Long(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }

// lineLimit is the maximum length of a line.
const lineLimit = 16 << 10

// Line returns the next line without its end, LF or CRLF.
func (c *Conversation) Line() (string, error) {
	line, err := c.In.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", TooLong(lineLimit)
	}
	if err != nil {
		return "", c.Ended(err)
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return string(line), nil
}

// Ended returns err, or the failure of an endless answer if err is due to [ConversationLimit].
func (c *Conversation) Ended(err error) error {
	if c.left.N <= 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return errEndless
	}
	return err
}

// errEndless is the failure of a server that has sent more than the limit.
var errEndless = &failure.Failure{Class: failure.Unexpected, Text: "the server sends an endless answer", Hint: target.OtherPortHint}

// BoundedDial returns a dial function for HTTP clients whose connections fail after limit bytes read: HTTP/2 allows an
// endless sequence of frames that are not part of an answer.
func BoundedDial(limit int64, dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &boundedConn{conn, limit}, nil
	}
}

type boundedConn struct {
	net.Conn
	left int64
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errEndless
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// Close closes the connection without a farewell.
func (c *Conversation) Close() error {
	c.stop()
	return c.Conn.Close()
}
