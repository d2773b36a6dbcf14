package waitfor

import (
	"errors"
	"strings"

	"initbox/internal/tlsconfig"
)

// mysqlTLSOf says whether TLS is spoken after the greeting.
type mysqlTLS int

const (
	mysqlPlain     mysqlTLS = iota
	mysqlPreferred          // if the server does, whoever it is
	mysqlRequired
)

var errMySQLTLS = errors.New("want disabled, preferred, required, verify-ca or verify-identity for ssl-mode; true, false, skip-verify or preferred for tls, for what a Go program calls otherwise is not known here")

// mysqlTLSOf reads what the target says of TLS, in the parameters of any client:
//
//	ssl-mode, ssl-ca, ssl-cert, ssl-key               mysql, MySQL Shell (https://dev.mysql.com/doc/refman/en/connection-options.html)
//	sslMode, useSSL, requireSSL, verifyServerCertificate,
//	trustServerCertificate, serverSslCert             Connector/J of MySQL and of MariaDB
//	ssl_ca, ssl_cert, ssl_key, ssl_verify_cert,
//	ssl_verify_identity, ssl_disabled                 PyMySQL, mysqlclient, MySQL Connector/Python
//	tls                                               Go's driver
//
// Without any, it does as mysql: TLS if the server has it, whoever it is. A CA is
// reason enough to verify.
func mysqlTLSOf(t *target, s server) (mysqlTLS, tlsconfig.Options, error) {
	if err := s.certificates([]string{"ssl-ca", "ssl_ca", "sslca", "serverSslCert"}, []string{"ssl-cert", "ssl_cert", "sslcert"}, []string{"ssl-key", "ssl_key", "sslkey"}); err != nil {
		return 0, s.tls, err
	}
	o := s.tls
	mode, err := t.url.Value(mysqlModeOf(t))
	if err != nil {
		return 0, o, err
	}
	switch {
	case s.encrypted: // the setting, which verifies unless it is told not to
		return mysqlRequired, o, nil
	case mode == "" && o.CAFile != "":
		return mysqlRequired, o, nil
	case mode == "" && (o.CertFile != "" || o.ServerName != ""):
		mode = "required"
	}
	switch strings.ReplaceAll(strings.ToLower(mode), "_", "-") {
	case "disabled", "disable", "false":
		return mysqlPlain, o, nil
	case "", "preferred", "prefer":
		o.Insecure = true
		return mysqlPreferred, o, nil
	case "trust", "skip-verify":
		o.Insecure = true
		return mysqlRequired, o, nil
	case "required", "require":
		o.Insecure = o.Insecure || o.CAFile == ""
		o.AnyName = o.CAFile != ""
		return mysqlRequired, o, nil
	case "verify-ca":
		o.AnyName = o.CAFile != "" // else anybody could show a certificate that some root vouches for
		return mysqlRequired, o, nil
	case "verify-identity", "verify-full", "true":
		return mysqlRequired, o, nil
	}
	return 0, o, errMySQLTLS
}

// mysqlModeOf is what the parameters ask for, as a value of ssl-mode or of tls; "" if
// that is nothing.
func mysqlModeOf(t *target) string {
	on := func(names ...string) bool { return yes(t.param(names...)) }
	off := func(names ...string) bool { return no(t.param(names...)) }
	if mode := t.param("ssl-mode", "ssl_mode", "sslMode"); mode != "" {
		return mode
	}
	if mode := t.param("tls"); mode != "" {
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
	case on("useSSL", "ssl") && t.scheme == "mariadb", t.param("serverSslCert") != "":
		return "verify-identity" // of MariaDB's
	case on("useSSL", "ssl"):
		return "required"
	}
	return ""
}
