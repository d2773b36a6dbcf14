package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"initbox/internal/secret"
	"initbox/internal/tlsconfig"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// options are the parameters from the target, settings, service file and environment, in libpq's order of precedence,
// as they are at this attempt. The names are libpq's:
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
type options struct {
	*target.Target
	service map[string]string // the parameters of the service, if there is one

	servers     []server
	user        string
	database    string
	options     string
	application string
	session     string // target_session_attrs
	binding     string // channel_binding
	auth        string // require_auth
	mode        tlsMode
	tls         tlsconfig.Options
}

// server is the address of one server, and its name in the target.
type server struct{ addr, host string }

// tlsMode is a value of sslmode, or "direct".
type tlsMode string

// try is how one connection uses TLS.
type try string

const (
	tryPlain      try = "plain"
	tryPlainFirst try = "plain first"
	tryOffered    try = "TLS if offered"
	tryTLS        try = "TLS"
	tryDirect     try = "TLS from the first byte"
)

// tries returns how to start. A Unix socket has no TLS.
func (m tlsMode) tries(addr string) try {
	switch {
	case m == "disable", strings.HasPrefix(addr, "/"):
		return tryPlain
	case m == "allow":
		return tryPlainFirst
	case m == "prefer":
		return tryOffered
	case m == "direct":
		return tryDirect
	}
	return tryTLS
}

func (c check) options() (*options, error) {
	o := &options{Target: c.Target, tls: c.TLS}
	user, _, err := wire.Login(c.Server, "", "")
	if err != nil {
		return nil, err
	}
	if err := o.readService(); err != nil {
		return nil, err
	}
	named := ""
	for _, p := range []struct {
		to       *string
		variable string
		names    []string // the first is libpq's
	}{
		{&o.user, "PGUSER", []string{"user"}},
		{&o.database, "PGDATABASE", []string{"dbname", "database"}},
		{&o.options, "PGOPTIONS", []string{"options"}},
		{&o.application, "PGAPPNAME", []string{"application_name", "ApplicationName"}},
		{&o.session, "PGTARGETSESSIONATTRS", []string{"target_session_attrs", "targetServerType"}},
		{&o.binding, "PGCHANNELBINDING", []string{"channel_binding", "channelBinding"}},
		{&o.auth, "PGREQUIREAUTH", []string{"require_auth", "requireAuth"}},
		{&named, "", []string{"sslnegotiation"}},
	} {
		if *p.to, err = o.value(p.variable, p.names...); err != nil {
			return nil, err
		}
	}
	database, err := c.URL.Value(strings.TrimPrefix(c.URL.Path, "/"))
	if err != nil {
		return nil, err
	}
	o.user, o.database = cmp.Or(user, o.user), cmp.Or(database, o.database)
	o.application, o.binding = cmp.Or(o.application, "initbox"), cmp.Or(o.binding, "prefer")
	if !slices.Contains([]string{"disable", "prefer", "require"}, o.binding) {
		return nil, errors.New("channel_binding: want disable, prefer or require")
	}
	if o.session, err = sessionAttrs(o.session); err != nil {
		return nil, err
	}
	if err := o.readTLS(named); err != nil {
		return nil, err
	}
	return o, o.readServers()
}

// value returns the first of the named parameters that the target has, else the service's, else the variable's value,
// else "".
func (o *options) value(variable string, names ...string) (string, error) {
	if value := o.URL.Param(names...); value != "" {
		return o.URL.Value(value)
	}
	if value := o.service[names[0]]; value != "" {
		return value, nil
	}
	return o.Getenv.Variable(variable)
}

// sessionAttrs returns libpq's value of target_session_attrs. It also accepts JDBC's targetServerType. Several servers
// are tried at the same time, and the first that is ready is enough: there is no wait for one that is only preferred.
func sessionAttrs(value string) (string, error) {
	switch strings.ToLower(value) {
	case "", "any", "prefer-standby", "preferprimary", "prefersecondary", "preferslave":
		return "any", nil
	case "read-write", "read-only", "primary", "standby":
		return strings.ToLower(value), nil
	case "master":
		return "primary", nil
	case "secondary", "slave":
		return "standby", nil
	}
	return "", errors.New("target_session_attrs: want any, read-write, read-only, primary, standby or prefer-standby")
}

// allows reports whether require_auth permits the method. It lists the permitted methods, or, with !, the forbidden
// ones.
func (o *options) allows(method string) bool {
	if o.auth == "" {
		return true
	}
	listed, negative := false, false
	for name := range strings.SplitSeq(o.auth, ",") {
		name, not := strings.CutPrefix(strings.TrimSpace(name), "!")
		negative = negative || not
		listed = listed || name == method
	}
	return listed != negative
}

// readTLS reads sslmode and the parameters of certificates. With a CA file, the certificate's signature is verified in
// every mode; a CA file from the target's own settings means verify-full if there is no mode. Without a CA file,
// verify-ca means verify-full: any CA among the public roots issues certificates for other names.
func (o *options) readTLS(negotiation string) error {
	var rootCert, cert, key string
	for _, p := range []struct {
		to             *string
		variable, name string
	}{
		{&rootCert, "PGSSLROOTCERT", "sslrootcert"}, {&cert, "PGSSLCERT", "sslcert"}, {&key, "PGSSLKEY", "sslkey"},
	} {
		var err error
		if *p.to, err = o.value(p.variable, p.name); err != nil {
			return err
		}
	}
	mode, err := o.sslMode(rootCert)
	switch {
	case err != nil:
		return err
	case rootCert == "system" && mode != "verify-full":
		return errors.New("sslrootcert=system needs sslmode=verify-full: any server can get a certificate from one of the system's roots")
	case rootCert != "" && rootCert != "system" && o.tls.CAFile == "":
		o.tls.CAFile, o.tls.OnlyCA = rootCert, true
	}
	if cert != "" && o.tls.CertFile == "" {
		o.tls.CertFile, o.tls.KeyFile = cert, key
	}
	switch mode {
	case "no-verify": // of node-postgres
		mode, o.tls.Insecure = "require", true
	case "disable", "verify-full":
	case "allow", "prefer", "require":
		o.tls.Insecure = o.tls.Insecure || o.tls.CAFile == ""
		o.tls.AnyName = true
	case "verify-ca":
		o.tls.AnyName = o.tls.CAFile != ""
	default:
		return errors.New("sslmode: want disable, allow, prefer, require, verify-ca or verify-full")
	}
	o.mode = tlsMode(mode)
	if negotiation == "direct" {
		if o.mode = "direct"; !slices.Contains([]string{"require", "verify-ca", "verify-full"}, mode) {
			return errors.New("sslnegotiation=direct needs sslmode=require, verify-ca or verify-full")
		}
	}
	return nil
}

// sslMode returns libpq's value of sslmode from target, settings, service and environment. It converts JDBC's ssl=true
// and sslfactory.
func (o *options) sslMode(rootCert string) (string, error) {
	mode, err := o.value("", "sslmode")
	ssl := o.URL.Param("ssl")
	switch {
	case o.Settings.On("tls") && (mode == "allow" || mode == "prefer"):
		mode = "verify-full"
	case o.Settings.On("tls") && mode == "disable":
		err = errors.New("sslmode=disable and the setting tls contradict each other")
	case mode != "" || err != nil:
	case strings.HasSuffix(o.URL.Param("sslfactory"), ".NonValidatingFactory"):
		mode = "require"
	case forms.Yes(ssl):
		mode = "verify-full"
	case forms.No(ssl):
		mode = "disable"
	case ssl != "": // a mode, in other clients
		mode = ssl
	case o.Settings.On("tls"), o.TLSOwn != "" && o.tls.CAFile != "":
		mode = "verify-full"
	case o.TLSOwn != "":
		mode = "require"
	default:
		mode, err = o.Getenv.Variable("PGSSLMODE")
	}
	if mode == "" && rootCert == "system" {
		mode = "verify-full"
	}
	return cmp.Or(strings.ToLower(mode), "prefer"), err
}

// readServers reads the servers' addresses: from the URL's host, else from its query, where a host may be the directory
// of a socket, else from the service. Lists of hosts, of their addresses and of their ports belong together; a single
// port counts for all hosts.
func (o *options) readServers() error {
	hosts := o.Hosts
	if len(hosts) == 0 {
		for name, values := range o.URL.Query() {
			if strings.EqualFold(name, "host") {
				hosts = strings.Split(strings.Join(values, ","), ",")
			}
		}
	}
	if len(hosts) == 0 && o.service["host"]+o.service["hostaddr"] != "" {
		hosts = strings.Split(cmp.Or(o.service["host"], o.service["hostaddr"]), ",")
	}
	if len(hosts) == 0 {
		return fmt.Errorf("host missing, want %s", o.Kind.Usage)
	}
	list := func(name string) ([]string, error) {
		value, err := o.value("", name)
		return strings.Split(value, ","), err
	}
	ports, err := list("port")
	if err != nil {
		return err
	}
	addresses, err := list("hostaddr")
	if err != nil {
		return err
	}
	for i, host := range hosts {
		port := cmp.Or(ports[min(i, len(ports)-1)], o.Kind.Port)
		if strings.HasPrefix(host, "/") {
			o.servers = append(o.servers, server{path.Join(host, ".s.PGSQL."+port), host})
			continue
		}
		if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") && len(o.Hosts) == 0 {
			host = "[" + host + "]"
		}
		addr, err := wire.JoinHostPort(host, port)
		if err != nil {
			return err
		}
		name, port, _ := net.SplitHostPort(addr)
		if i < len(addresses) && addresses[i] != "" {
			addr = net.JoinHostPort(strings.Trim(addresses[i], "[]"), port)
		}
		o.servers = append(o.servers, server{addr, name})
	}
	return nil
}

// host returns the target's name for the server at addr.
func (o *options) host(addr string) string {
	for _, s := range o.servers {
		if s.addr == addr {
			return s.host
		}
	}
	return ""
}

// password returns the user's password at a server: from the target, the settings, the service, the environment, or a
// password file; "" if it is not set anywhere.
func (o *options) password(addr, host string) (string, error) {
	_, password, err := wire.Login(wire.Server{Target: o.Target}, "", "")
	if password != "" || err != nil {
		return password, err
	}
	if password = o.service["password"]; password != "" {
		return password, nil
	}
	if password, err = o.Getenv.Variable("PGPASSWORD"); password != "" || err != nil {
		return password, err
	}
	file, err := o.value("", "passfile")
	if err != nil {
		return "", err
	}
	file = cmp.Or(file, o.Getenv.Get("PGPASSFILE"))
	meant := file != ""
	if home := o.Getenv.Get("HOME"); !meant && home != "" {
		file = path.Join(home, ".pgpass")
	}
	if file == "" {
		return "", nil
	}
	text, err := secret.Read(file)
	if err != nil && meant {
		return "", err
	}
	port := strings.TrimPrefix(path.Ext(addr), ".") // from a socket's file
	if !strings.HasPrefix(addr, "/") {
		_, port, _ = net.SplitHostPort(addr)
	} else if host == "/var/run/postgresql" || host == "/tmp" {
		host = "localhost" // libpq's default directories
	}
	return passwordOf(text, host, port, cmp.Or(o.database, o.user), o.user), nil
}
