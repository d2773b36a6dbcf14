package dial

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"initbox/internal/failure"
	"initbox/internal/words"
)

// Stalling returns a function that connects as dial does, with connections that fail when the other side sends or
// accepts nothing for as long as limit, if that is not 0. The time counts from the last Read or Write, as a server has
// nothing to send before it is asked. The error is that of [Stalled].
func Stalling(dial func(context.Context, string, string) (net.Conn, error), limit time.Duration) func(context.Context, string, string) (net.Conn, error) {
	if limit <= 0 {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &stallConn{conn, limit}, nil
	}
}

// stallConn is a connection of [Stalling].
type stallConn struct {
	net.Conn
	limit time.Duration
}

func (c *stallConn) Read(p []byte) (int, error) {
	c.Conn.SetReadDeadline(time.Now().Add(c.limit))
	n, err := c.Conn.Read(p)
	return n, Stalled(err, c.limit)
}

func (c *stallConn) Write(p []byte) (int, error) {
	deadline := time.Now().Add(c.limit)
	c.Conn.SetDeadline(deadline)
	n, err := c.Conn.Write(p)
	return n, Stalled(err, c.limit)
}

// Stalled explains an error that is a missed deadline: the server has sent nothing for as long as limit. It returns
// other errors as they are.
func Stalled(err error, limit time.Duration) error {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	f := failure.New(failure.TimedOut, "stalled: the server has sent nothing for %s", words.Seconds(limit))
	f.Hint = "the server hangs, or something in between drops the packets: look at the server's log"
	f.Err = err
	return f
}
