package wire

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// DefaultHold is how long a connection must last. A proxy whose server is down accepts it and closes it at once.
const DefaultHold = 20 * time.Millisecond

// Hold returns nil once conn has stayed open for the duration, or the server has sent something.
func Hold(ctx context.Context, conn net.Conn, hold time.Duration) error {
	if hold == 0 {
		return nil
	}
	poll.Doing(ctx, "holding the connection")
	conn.SetReadDeadline(time.Now().Add(hold)) // before AfterFunc, which may set another one at once
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := conn.Read(make([]byte, 1))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	}
	if f := failure.Of(err); f.Class == failure.TLS {
		return f
	}
	f := failure.New(failure.Reset, "accepted, then closed at once")
	f.Hint = failure.AcceptHint
	f.Err = err
	return f
}
