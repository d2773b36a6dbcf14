// Package tlsconfig builds the TLS configuration of every client in initbox from the settings that users give.
package tlsconfig

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"initbox/internal/certs"
	"initbox/internal/readfile"
)

// Options are the TLS settings that a user can give. The zero value verifies the server against the system's roots or,
// where there are none, as in an image FROM scratch, against those of Mozilla, which are embedded.
type Options struct {
	CAFile     string `json:"caFile,omitempty"`   // certificates trusted besides the roots: PEM, or a store that [certs.Parse] reads
	CertFile   string `json:"certFile,omitempty"` // PEM client certificate chain; its key is in KeyFile, or in the same file
	KeyFile    string `json:"keyFile,omitempty"`
	ServerName string `json:"serverName,omitempty"` // verified in place of the host's name
	Insecure   bool   `json:"insecure,omitempty"`   // do not verify the server; a client certificate is sent all the same

	// OnlyCA trusts CAFile alone, without the roots. AnyName verifies the signature of the certificate, and not its
	// name. Since anyone can get a certificate that the roots vouch for, it trusts CAFile alone, too.
	OnlyCA  bool `json:"-"`
	AnyName bool `json:"-"`

	// CAPassword is the password of CAFile, if that is a store; "" means changeit.
	CAPassword string `json:"-"`

	// The same as PEM texts, instead of files. CA is trusted alone, without the roots: it is the authority of a
	// cluster, and no other one issues certificates for its server.
	CA   string `json:"-"`
	Cert string `json:"-"`
	Key  string `json:"-"`
}

// Usage is what the settings mean, by the names that they have as flags and in targets.
var Usage = map[string]string{
	"ca-file":     "PEM certificates to trust besides the usual roots",
	"cert-file":   "PEM client certificate",
	"key-file":    "PEM key of the client certificate, if not in the same file",
	"server-name": "name that the certificate must have, if not the host's",
	"insecure":    "do not verify the certificate",
}

// Load reads the files, which may have changed since the last time, and
// returns the configuration. Call [EmbedRoots] before connecting with it.
func (o Options) Load() (*tls.Config, error) {
	c := &tls.Config{ServerName: o.ServerName, InsecureSkipVerify: o.Insecure}
	if o.CAFile != "" {
		data, err := readfile.All(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CA file: %w", err)
		}
		if c.RootCAs, err = o.roots(); err != nil {
			return nil, err
		}
		if !c.RootCAs.AppendCertsFromPEM(data) { // a store, or DER
			found, err := certs.Parse(data, o.CAFile, cmp.Or(o.CAPassword, certs.DefaultPassword))
			if err != nil {
				return nil, fmt.Errorf("CA file %w", err)
			}
			for _, e := range found.Entries {
				c.RootCAs.AddCert(e.Cert)
			}
		}
	}
	if o.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(o.CA)) {
			return nil, errors.New("CA: no PEM certificate in it")
		}
	}
	if o.Cert != "" || o.CertFile != "" {
		pair, err := o.pair()
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if o.AnyName && !o.Insecure {
		c.InsecureSkipVerify = true // crypto/tls verifies both or nothing
		c.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s.PeerCertificates, c.RootCAs) }
	}
	return c, nil
}

// verifyChain verifies certs as crypto/tls does, except for the name.
func verifyChain(certs []*x509.Certificate, roots *x509.CertPool) error {
	if len(certs) == 0 {
		return errors.New("the server presented no certificate")
	}
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, cert := range certs[1:] {
		o.Intermediates.AddCert(cert)
	}
	if _, err := certs[0].Verify(o); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: certs, Err: err}
	}
	return nil
}

// pair returns the client certificate with its key.
func (o Options) pair() (tls.Certificate, error) {
	cert, key := []byte(o.Cert), []byte(o.Key)
	if o.CertFile != "" {
		var err, keyErr error
		cert, err = readfile.All(o.CertFile)
		key, keyErr = readfile.All(cmp.Or(o.KeyFile, o.CertFile))
		if err := cmp.Or(err, keyErr); err != nil {
			return tls.Certificate{}, err
		}
	}
	return tls.X509KeyPair(cert, key)
}

// EmbedRoots makes the embedded roots the last resort. It is called before the first connection that needs them, since
// parsing them takes longer than the rest of the program's start.
var EmbedRoots = sync.OnceFunc(func() { x509.SetFallbackRoots(embedded()) })

// Roots returns the embedded roots, and the date of Mozilla's list, or "" if the build does not say it. Browsers trust
// some of them for older certificates only: a list of certificates cannot say so.
func Roots() (list []*x509.Certificate, date string) {
	for root := range bundle.Roots() {
		if cert, err := x509.ParseCertificate(root.Certificate); err == nil { // the bundle is tested to parse
			list = append(list, cert)
		}
	}
	return list, rootsDate()
}

// rootsDate returns the date of the module, which is made whenever the list changes.
func rootsDate() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path != "golang.org/x/crypto/x509roots/fallback" {
			continue
		}
		if parts := strings.Split(m.Version, "-"); len(parts) == 3 && len(parts[1]) >= 8 { // v0.0.0-TIME-COMMIT
			day := parts[1][:8]
			return day[:4] + "-" + day[4:6] + "-" + day[6:]
		}
	}
	return ""
}

func embedded() *x509.CertPool {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			continue // the bundle is tested to parse
		}
		if root.Constraint == nil {
			pool.AddCert(cert)
		} else {
			pool.AddCertWithConstraint(cert, root.Constraint)
		}
	}
	return pool
}

// roots returns the roots to which a CA file adds, as a copy.
func (o Options) roots() (*x509.CertPool, error) {
	if o.OnlyCA || o.AnyName {
		return x509.NewCertPool(), nil
	}
	EmbedRoots()
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("system roots: %w", err)
	}
	return pool, nil
}
