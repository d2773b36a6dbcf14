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

// options are what target, settings, service file and environment say, as they
// are now; in this order, as libpq has it. The names are libpq's:
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

// server is one of the servers.
type server struct{ addr, host string }

// tlsMode is sslmode, or one beyond it.
type tlsMode string

// try is how one connection speaks.
type try string

const (
	tryPlain      try = "plain"
	tryPlainFirst try = "plain first"
	tryOffered    try = "TLS if offered"
	tryTLS        try = "TLS"
	tryDirect     try = "TLS from the first byte"
)

// tries says how to begin. Over a socket, there is no TLS.
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

// value is that of the first of the parameters that the target has, or the service's, or
// that of the variable, or "".
func (o *options) value(variable string, names ...string) (string, error) {
	if value := o.URL.Param(names...); value != "" {
		return o.URL.Value(value)
	}
	if value := o.service[names[0]]; value != "" {
		return value, nil
	}
	return o.Getenv.Variable(variable)
}

// sessionAttrs also knows the words of JDBC's targetServerType. Several servers are asked
// at once, and the first that is ready will do: one that is only preferred is not waited for.
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

// allows reports whether require_auth has the method: a list, of those that may be, or,
// with !, of those that may not be.
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

// readTLS reads sslmode and what belongs to it. A CA file is reason enough to verify who
// signed the certificate, whatever the mode; one that the target itself has is for
// verify-full, if no mode is given. Without one, verify-ca is verify-full: a
// certificate for another name is easily had of those CAs that everybody trusts.
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
		return errors.New("sslrootcert=system needs sslmode=verify-full: anybody can have a certificate that the system's roots vouch for")
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

// sslMode is what target, settings, service and environment say, in libpq's words: JDBC has
// ssl=true and a factory.
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
	case ssl != "": // as others have it
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

// readServers reads who there is: in the place of the URL's host, in its query, where a
// host may be the folder of a socket, or in the service. Lists of hosts, of their
// addresses and of their ports belong together; one port is for all.
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
		port := cmp.Or(ports[min(i, len(ports)-1)], "5432")
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

func (o *options) addrs() []string {
	var addrs []string
	for _, s := range o.servers {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// host is what the server at addr is called.
func (o *options) host(addr string) string {
	for _, s := range o.servers {
		if s.addr == addr {
			return s.host
		}
	}
	return ""
}

// password is that of the user at a server: the target's, the settings', the service's,
// the environment's, or that in a password file; "" if there is none.
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
	if file == "" && o.Getenv != nil {
		file = o.Getenv("PGPASSFILE")
	}
	meant := file != ""
	if !meant && o.Getenv != nil && o.Getenv("HOME") != "" {
		file = path.Join(o.Getenv("HOME"), ".pgpass")
	}
	if file == "" {
		return "", nil
	}
	text, err := secret.Read(file)
	if err != nil && meant {
		return "", err
	}
	port := strings.TrimPrefix(path.Ext(addr), ".") // of a socket's file
	if !strings.HasPrefix(addr, "/") {
		_, port, _ = net.SplitHostPort(addr)
	} else if host == "/var/run/postgresql" || host == "/tmp" {
		host = "localhost" // where libpq looks if it is not told
	}
	return passwordOf(text, host, port, cmp.Or(o.database, o.user), o.user), nil
}
