package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/words"
)

// dialFunc connects to HOST:PORT.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer returns a function that connects according to the options. Its connections fail when the other side is silent
// for too long.
func (o Options) dialer() dialFunc {
	d := dial.New(o.Resolver)
	if o.Stall <= 0 {
		return d.DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &stallConn{conn, o.Stall}, nil
	}
}

// stallConn is a connection that fails when the other side sends or accepts nothing for as long as limit. The time
// counts from the last Read or Write, as a server has nothing to send before it is asked.
type stallConn struct {
	net.Conn
	limit time.Duration
}

func (c *stallConn) Read(p []byte) (int, error) {
	c.Conn.SetReadDeadline(time.Now().Add(c.limit))
	n, err := c.Conn.Read(p)
	return n, c.name(err)
}

func (c *stallConn) Write(p []byte) (int, error) {
	deadline := time.Now().Add(c.limit)
	c.Conn.SetDeadline(deadline)
	n, err := c.Conn.Write(p)
	return n, c.name(err)
}

// name explains an error that is a missed deadline.
func (c *stallConn) name(err error) error {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	f := failure.New(failure.TimedOut, "stalled: the server has sent nothing for %s", words.Seconds(c.limit))
	f.Hint = "the server hangs, or something in between drops the packets: look at the server's log"
	f.Err = err
	return f
}
