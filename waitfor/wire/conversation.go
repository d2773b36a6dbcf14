package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
	"initbox/waitfor/target"
)

// ConversationLimit is as much as is read of a server in one attempt, whatever it announces.
const ConversationLimit = 1 << 20

// A Conversation is a connection over which a check and a server speak the server's protocol. It ends when its attempt
// does: reads and writes fail then as at a deadline.
type Conversation struct {
	Conn net.Conn // with TLS, once that is there
	Addr string
	In   *bufio.Reader
	left *io.LimitedReader // what in reads from
	Ctx  context.Context
	stop func() bool
}

// Converse begins a conversation over conn, whose address is addr. It ends with ctx.
func Converse(ctx context.Context, conn net.Conn, addr string) *Conversation {
	c := &Conversation{Conn: conn, Addr: addr, Ctx: ctx}
	c.left = &io.LimitedReader{R: &plain{Reader: conn}, N: ConversationLimit}
	c.In = bufio.NewReaderSize(c.left, lineLimit)
	c.stop = context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	return c
}

// Encrypt goes on over TLS, for one of the protocols, if any are given (ALPN). The certificate files are read anew.
func (c *Conversation) Encrypt(o tlsconfig.Options, protocols ...string) error {
	conf, err := o.Load()
	if err != nil {
		return failure.TLSFiles(err)
	}
	conf.NextProtos = protocols
	tlsconfig.EmbedRoots()
	if c.In.Buffered() > 0 { // sent by whoever is in between, to pass for what comes after (CVE-2021-23222)
		f := failure.New(failure.Unexpected, "the server sent data between agreeing to TLS and the handshake")
		f.Hint = "does something between here and the server change the traffic?"
		return f
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

// plain reads from a server without TLS, and notices one that wants it: what it is sent it takes for the beginning of a
// handshake, and refuses it with an alert.
type plain struct {
	io.Reader
	begun bool
}

func (p *plain) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if !p.begun && n >= 7 && b[0] == 21 && b[1] == 3 && b[3] == 0 && b[4] == 2 && b[5] == 2 { // RFC 8446, section 5.1 and 6
		f := failure.New(failure.TLS, "TLS: the server requires it on this port")
		f.Hint = "add #tls to the target, or use the scheme with TLS"
		return 0, f
	}
	p.begun = p.begun || n > 0
	return n, err
}

// Write sends what is given to the server. It makes conversation an io.Writer.
func (c *Conversation) Write(p []byte) (int, error) { return c.Conn.Write(p) }

// Read makes conversation an io.Reader, for a library; see read.
func (c *Conversation) Read(p []byte) (int, error) {
	n, err := c.In.Read(p)
	return n, c.Ended(err)
}

// Next returns the next n bytes, for which it makes no more room than the server may still fill.
func (c *Conversation) Next(n uint64) ([]byte, error) {
	if n > uint64(c.left.N)+uint64(c.In.Buffered()) {
		return nil, TooLong(n)
	}
	p := make([]byte, n)
	_, err := io.ReadFull(c.In, p)
	return p, c.Ended(err)
}

// lineLimit is as long as a line may be.
const lineLimit = 16 << 10

// Line returns the next line without its end, which is a line feed or a carriage return and a line feed.
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

// Ended tells the end that the server made from the one of [ConversationLimit].
func (c *Conversation) Ended(err error) error {
	if c.left.N <= 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return errEndless
	}
	return err
}

// errEndless is that of a server of which more is not read.
var errEndless = &failure.Failure{Class: failure.Unexpected, Text: "the server sends an endless answer", Hint: target.OtherPortHint}

// BoundedDial returns a dial of connections of which no more than so many bytes are read, for a client of HTTP: HTTP/2
// has frames without end that are no answer.
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

// Close ends the conversation without a word.
func (c *Conversation) Close() error {
	c.stop()
	return c.Conn.Close()
}
