package waitfor

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"initbox/internal/dial"
	"initbox/internal/words"
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
	if ip, err := netip.ParseAddr(t.url.Hostname()); err == nil && t.scheme != "tcp" && ip.Unmap().Is4() != (t.scheme == "tcp4") {
		return nil, fmt.Errorf("the address is not one that %s:// can connect to: write tcp://, which connects to either family", t.scheme)
	}
	hold, err := t.settings.duration("hold", defaultHold)
	if err == nil && t.attemptTimeout > 0 && hold >= t.attemptTimeout {
		err = fmt.Errorf("hold: an attempt takes at most %s (attempt-timeout), so no connection can be held for %s", words.Seconds(t.attemptTimeout), words.Seconds(hold))
	}
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
