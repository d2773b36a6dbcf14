package failure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"initbox/internal/words"
)

// TLSFiles returns the failure to read the files of TLS settings. It can heal, since they are mounted from Secrets.
func TLSFiles(err error) *Failure {
	return &Failure{Class: Local, Text: err.Error(), Err: err, Hint: Beside(err) + "is the Secret or ConfigMap mounted, and may this user read it?"}
}

// certificateProblem names what is wrong with the server's certificate, or returns nil for any other error.
func certificateProblem(err error) *Failure {
	var (
		verify  *tls.CertificateVerificationError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &host):
		return New(TLS, "TLS: the certificate is not for %s but for %s", host.Host, words.List(certificateNames(host.Certificate))).
			WithHint("use a name from the certificate, or give the expected one with --server-name")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		if now := time.Now(); now.Before(invalid.Cert.NotBefore) {
			return New(TLS, "TLS: the certificate is not valid before %s", invalid.Cert.NotBefore.Format(time.RFC3339))
		}
		return New(TLS, "TLS: the certificate expired on %s", invalid.Cert.NotAfter.Format(time.RFC3339)).
			WithHint("renew the certificate; if it looks valid, compare the clocks")
	case errors.As(err, &unknown):
		f := New(TLS, "TLS: the certificate is signed by an unknown authority")
		if unknown.Cert != nil {
			f.Text += " (" + unknown.Cert.Issuer.String() + ")"
		}
		f.Hint = "give the authority's certificate with --ca-file"
		return f
	case errors.As(err, &verify):
		return New(TLS, "TLS: %v", verify.Err)
	}
	return nil
}

func certificateNames(c *x509.Certificate) []string {
	if c == nil {
		return nil
	}
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = append(names, "no name")
	}
	return names
}
