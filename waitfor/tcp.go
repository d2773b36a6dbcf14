package waitfor

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

var tcpKind = Kind{
	Schemes: []string{"tcp", "tcp4", "tcp6"},
	Usage:   "tcp://HOST:PORT",
	Ready:   "connects, and is not closed or reset within 20 ms",
	Settings: []Setting{
		{Name: "hold", Value: "DURATION", Usage: "how long a connection must stay open to count (default 20ms)"},
	},
	parse: parseTCP,
}

// defaultHold is how long a connection has to last. A proxy whose server is not
// there accepts it and closes it at once.
const defaultHold = 20 * time.Millisecond

type tcpCheck struct {
	*target
	*dial.Dialer
	addr string
	hold time.Duration
}

func parseTCP(t *target) (Check, error) {
	if err := t.only(""); err != nil {
		return nil, err
	}
	addr, err := t.addr()
	if err != nil {
		return nil, err
	}
	hold, err := t.settings.duration("hold", defaultHold)
	return tcpCheck{t, dial.New(t.resolver), addr, hold}, err
}

func (c tcpCheck) Check(ctx context.Context) error {
	conn, err := c.DialContext(ctx, c.scheme, c.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	return held(ctx, conn, c.hold)
}

// held returns nil once conn has stayed open for so long, or the server has
// spoken.
func held(ctx context.Context, conn net.Conn, hold time.Duration) error {
	if hold == 0 {
		return nil
	}
	poll.Doing(ctx, "holding the connection")
	conn.SetReadDeadline(time.Now().Add(hold)) // first, so as not to undo what the next line may do at once
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
