package socket

import (
	"context"
	"crypto/tls"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/setting"
	"initbox/internal/tlsconfig"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// TLS is the kind of targets with the scheme tls.
var TLS = target.Kind{
	Schemes:  []string{"tls"},
	Usage:    "tls://HOST:PORT",
	Ready:    "completes a TLS handshake with a certificate that verifies",
	Settings: setting.TLS,
	Without:  "user path query",
	Parse:    parseTLS,
}

type tlsCheck struct {
	*target.Target
	*dial.Dialer
	addr string
}

func parseTLS(t *target.Target) (target.Check, error) {
	addr, err := target.Addr(t)
	return tlsCheck{t, dial.New(t.Resolver), addr}, err
}

func (c tlsCheck) Check(ctx context.Context) error {
	conf, err := c.Settings.TLS().Load()
	if err != nil {
		return failure.TLSFiles(err)
	}
	tlsconfig.EmbedRoots()
	if conf.ServerName == "" {
		conf.ServerName = c.URL.Hostname()
	}
	conn, err := c.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	hold := wire.DefaultHold
	if len(conf.Certificates) == 0 {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			hold = refusalHold
			return new(tls.Certificate), nil // no certificate
		}
	}
	poll.Doing(ctx, "TLS handshake")
	client := tls.Client(conn, conf)
	if err := client.HandshakeContext(ctx); err != nil {
		return err
	}
	// In TLS 1.3 the handshake is complete for the client before the server has verified the client's certificate (RFC
	// 8446, section 4.4.2.4).
	return wire.Hold(ctx, client, hold)
}

// refusalHold is how long even a busy server may take to refuse a client without the certificate that it asked for.
const refusalHold = 500 * time.Millisecond
