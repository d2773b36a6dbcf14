package mysql

import (
	"errors"
	"strings"

	"initbox/internal/tlsconfig"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// tlsMode says whether TLS starts after the greeting.
type tlsMode int

const (
	tlsPlain     tlsMode = iota
	tlsPreferred         // if the server supports it; the certificate is not verified
	tlsRequired
)

var errTLS = errors.New("ssl-mode: want disabled, preferred, required, verify-ca or verify-identity; tls: want true, false, skip-verify or preferred (a configuration that a Go program registers under another name is unknown here)")

// tlsOf reads the TLS settings of the target, in the parameters of any client:
//
//	ssl-mode, ssl-ca, ssl-cert, ssl-key               mysql, MySQL Shell (https://dev.mysql.com/doc/refman/en/connection-options.html)
//	sslMode, useSSL, requireSSL, verifyServerCertificate,
//	trustServerCertificate, serverSslCert             Connector/J of MySQL and of MariaDB
//	ssl_ca, ssl_cert, ssl_key, ssl_verify_cert,
//	ssl_verify_identity, ssl_disabled                 PyMySQL, mysqlclient, MySQL Connector/Python
//	tls                                               Go's driver
//
// Without any, it does what the mysql client does: TLS if the server supports it, without verifying the certificate.
// With a CA, the certificate is verified.
func tlsOf(t *target.Target, s wire.Server) (tlsMode, tlsconfig.Options, error) {
	if err := s.Certificates([]string{"ssl-ca", "ssl_ca", "sslca", "serverSslCert"}, []string{"ssl-cert", "ssl_cert", "sslcert"}, []string{"ssl-key", "ssl_key", "sslkey"}); err != nil {
		return 0, s.TLS, err
	}
	o := s.TLS
	mode, err := t.URL.Value(modeOf(t))
	if err != nil {
		return 0, o, err
	}
	switch {
	case s.Encrypted: // by the setting tls, which verifies by default
		return tlsRequired, o, nil
	case mode == "" && o.CAFile != "":
		return tlsRequired, o, nil
	case mode == "" && (o.CertFile != "" || o.ServerName != ""):
		mode = "required"
	}
	switch strings.ReplaceAll(strings.ToLower(mode), "_", "-") {
	case "disabled", "disable", "false":
		return tlsPlain, o, nil
	case "", "preferred", "prefer":
		o.Insecure = true
		return tlsPreferred, o, nil
	case "trust", "skip-verify":
		o.Insecure = true
		return tlsRequired, o, nil
	case "required", "require":
		o.Insecure = o.Insecure || o.CAFile == ""
		o.AnyName = o.CAFile != ""
		return tlsRequired, o, nil
	case "verify-ca":
		o.AnyName = o.CAFile != "" // any server can get a certificate from a public CA
		return tlsRequired, o, nil
	case "verify-identity", "verify-full", "true":
		return tlsRequired, o, nil
	}
	return 0, o, errTLS
}

// modeOf returns the mode that the parameters ask for, as a value of ssl-mode or tls, or "".
func modeOf(t *target.Target) string {
	on := func(names ...string) bool { return forms.Yes(t.URL.Param(names...)) }
	off := func(names ...string) bool { return forms.No(t.URL.Param(names...)) }
	if mode := t.URL.Param("ssl-mode", "ssl_mode", "sslMode"); mode != "" {
		return mode
	}
	if mode := t.URL.Param("tls"); mode != "" {
		return mode
	}
	switch {
	case off("useSSL", "ssl") || on("ssl_disabled"):
		return "disabled"
	case on("ssl_verify_identity", "ssl_check_hostname"):
		return "verify-identity"
	case on("ssl_verify_cert", "verifyServerCertificate"):
		return "verify-ca"
	case on("trustServerCertificate"), off("ssl_verify_cert", "verifyServerCertificate"):
		return "trust"
	case on("requireSSL"):
		return "required"
	case on("useSSL") && on("disableSslHostnameVerification"):
		return "verify-ca"
	case on("useSSL", "ssl") && t.Scheme == "mariadb", t.URL.Param("serverSslCert") != "":
		return "verify-identity" // as in MariaDB's Connector/J
	case on("useSSL", "ssl"):
		return "required"
	}
	return ""
}
