// Package socket waits for connections alone: tcp://HOST:PORT, tls://HOST:PORT and unix:///PATH.
//
// A TCP connection is ready when it is not closed for the time in the setting hold, by default 20 ms: a proxy whose
// server is down accepts connections and closes them at once. A TLS handshake must verify the server's certificate; the
// settings are the usual ones of TLS. A Unix socket is ready when it accepts a connection.
package socket

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"initbox/internal/dial"
	"initbox/internal/words"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// TCP is the kind of targets with the schemes tcp, tcp4 and tcp6.
var TCP = target.Kind{
	Schemes: []string{"tcp", "tcp4", "tcp6"},
	Usage:   "tcp://HOST:PORT",
	Ready:   "connects, and is not closed or reset within 20 ms",
	Settings: []target.Setting{
		{Name: "hold", Value: "DURATION", Usage: "how long a connection must stay open to count (default 20ms)"},
	},
	Without: "user path query",
	Parse:   parseTCP,
}

type tcpCheck struct {
	*target.Target
	*dial.Dialer
	addr string
	hold time.Duration
}

func parseTCP(t *target.Target) (target.Check, error) {
	addr, err := target.Addr(t)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(t.URL.Hostname()); err == nil && t.Scheme != "tcp" && ip.Unmap().Is4() != (t.Scheme == "tcp4") {
		return nil, fmt.Errorf("%s:// cannot connect to this address: write tcp://, which connects to either family", t.Scheme)
	}
	hold, err := t.Settings.Duration("hold", wire.DefaultHold)
	if err == nil && t.AttemptTimeout > 0 && hold >= t.AttemptTimeout {
		err = fmt.Errorf("hold: an attempt takes at most %s (attempt-timeout), so no connection can be held for %s", words.Seconds(t.AttemptTimeout), words.Seconds(hold))
	}
	return tcpCheck{t, dial.New(t.Resolver), addr, hold}, err
}

func (c tcpCheck) Check(ctx context.Context) error {
	conn, err := c.DialContext(ctx, c.Scheme, c.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	return wire.Hold(ctx, conn, c.hold)
}
