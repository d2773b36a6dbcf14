// Package mysql waits for MySQL and MariaDB: for a login, a database and the answer of a query. It
// has the part of the protocol that this takes.
package mysql

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/tlsconfig"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is that of targets with the schemes mysql and mariadb.
var Kind = target.Kind{
	Schemes:  []string{"mysql", "mariadb"},
	Usage:    "mysql://[USER@]HOST[:PORT][,HOST…][/DATABASE]",
	Ready:    "answers; with a user, accepts the login and answers a query; of several hosts, one is enough",
	Settings: slices.Concat(wire.ServerSettings, []target.Setting{wire.QuerySetting}),
	Protocol: "MySQL",
	Hosts:    true,
	Parse:    parse,
}

// check logs in and runs a query, as nobody is let in without either. Without a
// user it does as mysqladmin ping: a server that refuses a login is there.
type check struct {
	wire.Server
	mode     tlsMode
	noKey    bool // does not encrypt a password with a key that the server sends
	database string
	query    string
}

func parse(t *target.Target) (target.Check, error) {
	c := check{query: t.Settings.Get("query"), database: cmp.Or(strings.Trim(t.URL.Path, "/"), t.URL.Param("database"))}
	s, err := wire.NewServer(t, "3306")
	if socket := t.URL.Param("socket", "unix_socket", "localSocket"); socket != "" {
		if socket, err = t.URL.Value(socket); err == nil && !strings.HasPrefix(socket, "/") {
			err = errors.New("the path of the socket must be absolute")
		}
		s.Addrs = []string{socket}
	}
	if err != nil {
		return nil, err
	}
	c.Server = s
	if c.query != "" && t.URL.User.Username() == "" && t.URL.Param("user") == "" && !t.Settings.On("user") {
		return nil, errors.New("query needs a user: mysql://USER@HOST, or the setting user")
	}
	c.noKey = strings.EqualFold(t.URL.Param("allowPublicKeyRetrieval"), "false")
	c.mode, c.TLS, err = tlsOf(t, s)
	c.Encrypted = false // only after the greeting
	return c, err
}

func (c check) Plaintext() bool { return c.mode == tlsPlain }

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	user, password, err := wire.Login(c.Server, "", "MYSQL_PWD")
	if err != nil {
		return err
	}
	database, err := c.URL.Value(c.database)
	if err != nil {
		return err
	}
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	m := &session{Conversation: conn, kind: c.Target, user: user, password: password, database: database,
		local: strings.HasPrefix(addr, "/"), noKey: c.noKey, secrets: c.URL.Secrets()}
	m.secrets = append(m.secrets, password)
	if user == "" {
		return m.ping(c.mode, c.TLS)
	}
	if password == "" {
		m.secrets = append(m.secrets, user) // which may be a token
	}
	if err := m.login(c.mode, c.TLS); err != nil {
		return err
	}
	defer m.quit()
	answer, err := m.ask(c.query)
	if err != nil {
		return err
	}
	return answer.Judge()
}

// nobody is the user who is not let in. It is in the server's log.
const nobody = "initbox"

// ping is ready when the server answers a login, whatever it says. It does not hang
// up before: that would count as an error of this host, and after max_connect_errors of
// them the server blocks it.
func (m *session) ping(mode tlsMode, tls tlsconfig.Options) error {
	m.user, m.password, m.database = nobody, "", ""
	switch err := m.login(mode, tls); {
	case err == nil:
		m.quit()
		return nil
	case m.number == 0 || slices.Contains(unavailable, m.number):
		return err
	}
	return nil
}

// unavailable are the errors of a server that is not there for anybody, or not
// for this host.
var unavailable = []uint16{1040, 1041, 1042, 1043, 1053, 1077, 1079, 1129, 1130, 1203, 1226, 3168}

// failure makes a failure of an error of the server's. The number decides what it is:
// the text may be in any language.
//
// https://mariadb.com/kb/en/mariadb-error-code-reference/
// https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html
func (m *session) failure(number uint16, message string) error {
	says := wire.Quote(message, m.secrets...)
	f := failure.New(failure.Unexpected, "the server says: %s", says)
	f.Note, f.Hint = "error "+strconv.Itoa(int(number)), "look at the server's log"
	switch number {
	case 1045, 1698:
		f.Class, f.Text = failure.Authentication, "access denied"+m.forUser()
		f.Hint = "are user and password right? the server may also still be initialising: it makes its users last"
		if m.password == "" {
			f.Hint = "the target has no password: give one with ${file:…} or ${env:…} in the target, --password-file or MYSQL_PWD; without a user, the target is asked whether it is ready, without a login"
		}
		if !m.encrypted {
			f.Hint += "; and MariaDB says the same where it wants TLS (REQUIRE SSL, require_secure_transport)"
		}
	case 1044, 1142, 1143, 1227, 1370:
		f.Class = failure.Authentication
		f.Hint = "GRANT the user the privileges that it needs"
	case 1049:
		f.Text = "unknown database " + `"` + wire.Quote(m.database, m.secrets...) + `"`
		f.Hint = "create it; the server may also still be initialising"
	case 1040, 1203, 1226:
		f.Text = "too many connections"
		f.Hint = "who holds them? see SHOW PROCESSLIST; or raise max_connections, or the user's limit"
	case 1053, 1077, 1079, 3168:
		f.Text, f.Hint = "the server is shutting down", "somebody stops or restarts it: look at its log"
	case 1129:
		f.Text = "this host is blocked because of many connection errors"
		f.Hint = "something here connects and hangs up: a probe of the port? mysqladmin flush-hosts on the server ends the blocking"
	case 1130:
		f.Class, f.Text = failure.Authentication, "the server lets nobody in from this host"
		f.Hint = "is there a user for it? 'app'@'%' may come from everywhere"
	case 1047:
		f.Hint = "a node of a Galera cluster answers that until it is synced: see SHOW STATUS LIKE 'wsrep%'"
	case 1146, 1051, 1054:
		f.Hint = "has the migration run?"
	case 1046:
		f.Hint = "name the database: mysql://HOST/DATABASE"
	case 1064, 1305:
		f.Hint = "is the query right?"
	case 1205, 1969, 3024:
		f.Hint = "the query waits for a lock, or takes longer than an attempt may: see SHOW PROCESSLIST, --attempt-timeout"
	case 1820, 1862:
		f.Class, f.Text = failure.Authentication, "the password has expired"+m.forUser()
		f.Hint = "ALTER USER … PASSWORD EXPIRE NEVER, or give the user a new password"
	case 3118, 4151:
		f.Class, f.Text = failure.Authentication, "the account is locked"+m.forUser()
		f.Hint = "ALTER USER … ACCOUNT UNLOCK"
	case 3159:
		f.Hint = "the server wants TLS (require_secure_transport): #tls, or ?ssl-mode=required"
	case 1251, 1524:
		f.Class, f.Hint = failure.Authentication, "the user has a plugin that this server has not: ALTER USER … IDENTIFIED VIA mysql_native_password"
	}
	return f
}

// forUser names the user, unless its name may be the secret.
func (m *session) forUser() string {
	if m.user == "" || slices.Contains(m.secrets, m.user) {
		return ""
	}
	return " for user " + wire.Quote(m.user, m.secrets...)
}
