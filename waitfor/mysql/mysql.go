// Package mysql waits for MySQL and MariaDB: mysql://[USER@]HOST[:PORT][,HOST…][/DATABASE], or the data source name of
// a driver. The TLS parameters of the usual clients have their meaning.
//
// Without a user, a server is ready when it answers a login at all, as for mysqladmin ping. With one, it must accept
// the login, have the database, and answer a query: that of the setting query, whose first column must be true, or
// SELECT 1.
//
// It implements the part of the protocol that this needs: handshake.go has the login, auth.go its plugins, conn.go
// packets and queries.
package mysql

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
	"initbox/internal/tlsconfig"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the schemes mysql and mariadb.
var Kind = target.Kind{
	Schemes:  []string{"mysql", "mariadb"},
	Usage:    "mysql://[USER@]HOST[:PORT][,HOST…][/DATABASE]",
	Ready:    "answers; with a user, accepts the login and answers a query; of several hosts, one is enough",
	Settings: slices.Concat(wire.ServerSettings, []target.Setting{wire.QuerySetting}),
	Protocol: "MySQL",
	Hosts:    true,
	Port:     "3306",
	Parse:    parse,
}

// check logs in and runs a query. Without a user it does what mysqladmin ping does: a server that rejects a login is
// ready.
type check struct {
	wire.Server
	mode     tlsMode
	noKey    bool // never encrypt a password with a key that the server sends
	database string
	query    string
}

func parse(t *target.Target) (target.Check, error) {
	c := check{query: t.Settings.Get("query"), database: cmp.Or(strings.Trim(t.URL.Path, "/"), t.URL.Param("database"))}
	s, err := wire.NewServer(t)
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
	c.Encrypted = false // TLS starts after the greeting
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
	m := &session{Conversation: conn, target: c.Target, user: user, password: password, database: database,
		local: strings.HasPrefix(addr, "/"), noKey: c.noKey, secrets: c.URL.Secrets()}
	m.secrets = append(m.secrets, password)
	if user == "" {
		return m.ping(c.mode, c.TLS)
	}
	if password == "" {
		m.secrets = append(m.secrets, user) // it may be a token
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

// noUser is the name in the login of a target without a user. The server's log shows it.
const noUser = "initbox"

// ping is ready when the server accepts or rejects a login. It does not hang up before: that would count as an error of
// this host, and after max_connect_errors of them the server blocks it.
func (m *session) ping(mode tlsMode, tls tlsconfig.Options) error {
	m.user, m.password, m.database = noUser, "", ""
	switch err := m.login(mode, tls); {
	case err == nil:
		m.quit()
		return nil
	case m.number == 0 || slices.Contains(unavailable, m.number):
		return err
	}
	return nil
}

// unavailable are the errors of a server that rejects every login, or every login from this host. [session.failure]
// names them, except 1041 (no memory), 1042 (the host has no name) and 1043 (the handshake failed).
var unavailable = []uint16{1040, 1041, 1042, 1043, 1053, 1077, 1079, 1129, 1130, 1203, 1226, 3168}

// failure converts an error of the server. Only its number decides: the text may be in any language.
//
// https://mariadb.com/kb/en/mariadb-error-code-reference/
// https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html
func (m *session) failure(number uint16, message string) error {
	says := secret.Quote(message, m.secrets...)
	f := failure.New(failure.Unexpected, "the server reports: %s", says)
	f.Note, f.Hint = "error "+strconv.Itoa(int(number)), "look at the server's log"
	switch number {
	case 1045, 1698: // ER_ACCESS_DENIED_ERROR, ER_ACCESS_DENIED_NO_PASSWORD_ERROR
		f.Class, f.Text = failure.Authentication, "access denied"+m.forUser()
		f.Hint = "are user and password right? the server may also still be initialising: it creates its users last"
		if m.password == "" {
			f.Hint = "the target has no password: set one with ${file:…} or ${env:…} in the target, --password-file or MYSQL_PWD; for a target without a user, readiness is checked without a login"
		}
		if !m.encrypted {
			f.Hint += "; MariaDB also reports this when the user needs TLS (REQUIRE SSL, require_secure_transport)"
		}
	case 1044, 1142, 1143, 1227, 1370: // access denied to a database, table, column, operation, routine
		f.Class = failure.Authentication
		f.Hint = "GRANT the user the privileges that it needs"
	case 1049: // ER_BAD_DB_ERROR
		f.Text = "unknown database " + `"` + secret.Quote(m.database, m.secrets...) + `"`
		f.Hint = "create it; the server may also still be initialising"
	case 1040, 1203, 1226: // ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS, ER_USER_LIMIT_REACHED
		f.Text = "too many connections"
		f.Hint = "which clients hold them? see SHOW PROCESSLIST; or raise max_connections, or the user's limit"
	case 1053, 1077, 1079, 3168: // ER_SERVER_SHUTDOWN, ER_NORMAL_SHUTDOWN, ER_SHUTDOWN_COMPLETE, ER_SERVER_ISNT_AVAILABLE
		f.Text, f.Hint = "the server is shutting down", "it is being stopped or restarted: look at its log"
	case 1129: // ER_HOST_IS_BLOCKED
		f.Text = "this host is blocked because of many connection errors"
		f.Hint = "a client on this host connects and hangs up: a probe of the port? mysqladmin flush-hosts unblocks the host"
	case 1130: // ER_HOST_NOT_PRIVILEGED
		f.Class, f.Text = failure.Authentication, "the server rejects connections from this host"
		f.Hint = "is there a user for it? 'app'@'%' may connect from any host"
	case 1047: // ER_UNKNOWN_COM_ERROR
		f.Hint = "a node of a Galera cluster reports this until it is synced: see SHOW STATUS LIKE 'wsrep%'"
	case 1146, 1051, 1054: // ER_NO_SUCH_TABLE, ER_BAD_TABLE_ERROR, ER_BAD_FIELD_ERROR
		f.Hint = "has the migration run?"
	case 1046: // ER_NO_DB_ERROR
		f.Hint = "name the database: mysql://HOST/DATABASE"
	case 1064, 1305: // ER_PARSE_ERROR, ER_SP_DOES_NOT_EXIST
		f.Hint = "is the query right?"
	case 1205, 1969, 3024: // ER_LOCK_WAIT_TIMEOUT, ER_STATEMENT_TIMEOUT, ER_QUERY_TIMEOUT
		f.Hint = "the query waits for a lock, or takes longer than an attempt may: see SHOW PROCESSLIST, --attempt-timeout"
	case 1820, 1862: // ER_MUST_CHANGE_PASSWORD, ER_MUST_CHANGE_PASSWORD_LOGIN
		f.Class, f.Text = failure.Authentication, "the password has expired"+m.forUser()
		f.Hint = "ALTER USER … PASSWORD EXPIRE NEVER, or give the user a new password"
	case 3118, 4151: // ER_ACCOUNT_HAS_BEEN_LOCKED of MySQL, of MariaDB
		f.Class, f.Text = failure.Authentication, "the account is locked"+m.forUser()
		f.Hint = "ALTER USER … ACCOUNT UNLOCK"
	case 3159: // ER_SECURE_TRANSPORT_REQUIRED
		f.Hint = "the server requires TLS (require_secure_transport): add #tls, or ?ssl-mode=required"
	case 1251, 1524: // ER_NOT_SUPPORTED_AUTH_MODE, ER_PLUGIN_IS_NOT_LOADED
		f.Class, f.Hint = failure.Authentication, "the user's authentication plugin is not installed in this server: ALTER USER … IDENTIFIED VIA mysql_native_password"
	}
	return f
}

// forUser names the user, unless the name may be a secret.
func (m *session) forUser() string {
	if m.user == "" || slices.Contains(m.secrets, m.user) {
		return ""
	}
	return " for user " + secret.Quote(m.user, m.secrets...)
}
