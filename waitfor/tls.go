package waitfor

import (
	"context"
	"crypto/tls"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
)

var tlsKind = Kind{
	Schemes:  []string{"tls"},
	Usage:    "tls://HOST:PORT",
	Ready:    "completes a TLS handshake with a certificate that verifies",
	Settings: tlsSettings,
	parse:    parseTLS,
}

type tlsCheck struct {
	*target
	*dial.Dialer
	addr string
}

func parseTLS(t *target) (Check, error) {
	if err := t.only(""); err != nil {
		return nil, err
	}
	addr, err := t.addr()
	return tlsCheck{t, dial.New(t.resolver), addr}, err
}

func (c tlsCheck) Check(ctx context.Context) error {
	conf, err := c.settings.tls().Load()
	if err != nil {
		return failure.TLSFiles(err)
	}
	tlsconfig.EmbedRoots()
	if conf.ServerName == "" {
		conf.ServerName = c.url.Hostname()
	}
	conn, err := c.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	hold := defaultHold
	if len(conf.Certificates) == 0 {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			hold = refusalHold
			return new(tls.Certificate), nil // none
		}
	}
	poll.Doing(ctx, "TLS handshake")
	client := tls.Client(conn, conf)
	if err := client.HandshakeContext(ctx); err != nil {
		return err
	}
	// In TLS 1.3 the handshake is over for the client before the server has
	// judged the client's certificate (RFC 8446, section 4.4.2.4).
	return held(ctx, client, hold)
}

// refusalHold is how long a server that asked for a client certificate, and got
// none, is given to refuse that, however busy it is.
const refusalHold = 500 * time.Millisecond
