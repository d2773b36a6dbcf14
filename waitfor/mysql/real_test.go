package mysql_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// kinds is the table of all kinds.
var kinds = waitfor.Kinds()

// TestReal tries targets on a MariaDB server.
func TestReal(t *testing.T) {
	t.Parallel()
	ca, stranger := servers.NewCA(t), servers.NewCA(t)
	const password = "p%s/w@rd#:?"
	m := servers.StartMariaDB(t, servers.MariaDBOptions{CA: ca, Args: []string{"--plugin-load-add=auth_ed25519"}, SQL: []string{
		"GRANT ALL ON *.* TO boss@'%' IDENTIFIED BY '" + password + "';",
		"CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('" + password + "');",
		"CREATE USER locked@'%' IDENTIFIED BY '" + password + "' ACCOUNT LOCK;",
		"CREATE USER expired@'%' IDENTIFIED BY '" + password + "' PASSWORD EXPIRE;",
		"CREATE USER pam@'%' IDENTIFIED BY '" + password + "' REQUIRE SSL;",
		"CREATE USER nopassword@'%';",
		"CREATE TABLE app.many AS SELECT seq FROM mysql.help_topic, (SELECT 1 AS seq) AS one;",
	}})
	file := kindtest.File(t, m.Password+"\n")
	fill := strings.NewReplacer("ADDR", m.Addr, "PORT", m.Addr[strings.IndexByte(m.Addr, ':'):], "APP", "app:"+m.Password, "PW", "p%25s%2Fw%40rd%23%3A%3F",
		"ROOTS", ca.File, "STRANGER", stranger.File, "SOCKET", m.Socket, "FILE", file)
	const unexpected, login = failure.Unexpected, failure.Authentication
	for _, tt := range []struct {
		target string
		class  failure.Class
		words  string
	}{
		// Credentials.
		{target: "mysql://ADDR"},
		{target: "mariadb://ADDR/of-no-interest"},
		{target: "mysql://APP@ADDR"},
		{target: "mariadb://APP@ADDR/app"},
		{target: "mysql://boss:PW@ADDR/app"},
		{target: "mysql://nopassword@ADDR"},
		{target: "mysql://ed:PW@ADDR"},
		{target: "mysql://ed:PW@ADDR?ssl-mode=disabled"},
		{target: "mysql://app@ADDR/app#password-file=FILE"},
		{target: "mysql://app:${file:FILE}@ADDR/app"},
		{target: "mysql://ADDR/app#user=app&password-file=FILE"},
		{target: "mysql://ed:wrong@ADDR", class: login, words: "access denied for user ed (error 1045)"},
		{target: "mysql://app:wrong@ADDR/app", class: login, words: "access denied for user app (error 1045)"},
		{target: "mysql://absent:wrong@ADDR/app", class: login, words: "access denied for user absent"},
		{target: "mysql://locked:PW@ADDR", class: login, words: "the account is locked for user locked"},
		{target: "mysql://expired:PW@ADDR", class: login, words: "the password has expired for user expired"},
		{target: "mysql://boss:PW@ADDR/nodb", class: unexpected, words: `unknown database "nodb" (error 1049)`},
		{target: "mysql://APP@ADDR/nodb", class: login, words: "Access denied for user 'app'@'%' to database 'nodb'"},

		// The targets of other programs.
		{target: "APP@tcp(ADDR)/app"},
		{target: "APP@tcp(ADDR)/app?tls=skip-verify&parseTime=true&loc=Europe/Berlin"},
		{target: "boss:" + password + "@tcp(ADDR)/app?tls=false"},
		{target: "APP@unix(SOCKET)/app"},
		{target: "jdbc:mysql://ADDR/app?user=boss&password=PW&useSSL=false&serverTimezone=UTC"},
		{target: "jdbc:mysql://ADDR/app?user=boss&password=PW&sslMode=VERIFY_IDENTITY#ca-file=ROOTS"},
		{target: "jdbc:mysql:replication://127.0.0.1:1,ADDR/app?user=boss&password=PW"},
		{target: "jdbc:mariadb://boss:PW@ADDR/app?sslMode=verify-full&serverSslCert=ROOTS"},
		{target: "jdbc:mariadb://boss:PW@ADDR/app?useSsl=true&trustServerCertificate=true"},
		{target: "mysql+pymysql://boss:PW@ADDR/app?charset=utf8mb4&ssl_ca=ROOTS"},
		{target: "mysql+mysqlconnector://boss:PW@ADDR/app"},
		{target: "mysql://boss:PW@/app?unix_socket=SOCKET"},
		{target: "mysql://root@localhost?socket=SOCKET"},

		// TLS.
		{target: "mysql://ADDR#tls&ca-file=ROOTS"},
		{target: "mysql://localhostPORT/app?tls=true#ca-file=ROOTS"},
		{target: "mysql://pam:PW@ADDR"},
		{target: "mysql://pam:PW@ADDR?ssl-mode=required"},
		{target: "mysql://pam:PW@ADDR?ssl-mode=disabled", class: login, words: "access denied for user pam"},
		{target: "mysql://APP@ADDR#tls&insecure"},
		{target: "mysql://ADDR#tls", class: failure.TLS, words: "signed by an unknown authority"},
		{target: "mysql://APP@ADDR?tls=true", class: failure.TLS, words: "signed by an unknown authority"},
		{target: "mysql://APP@ADDR?ssl-mode=VERIFY_CA&ssl-ca=STRANGER", class: failure.TLS, words: "signed by an unknown authority"},
		{target: "mysql://APP@ADDR?ssl-ca=STRANGER", class: failure.TLS, words: "signed by an unknown authority"},
		{target: "mysql://APP@ADDR?ssl-ca=ROOTS#server-name=db.example", class: failure.TLS, words: "the certificate is not for db.example"},
		{target: "mysql://APP@ADDR?ssl-mode=verify_ca&ssl-ca=ROOTS#server-name=db.example"},
		{target: "mysql://APP@ADDR?ssl-ca=/absent", class: failure.Local, words: "open /absent"},

		// Queries.
		{target: "mysql://APP@ADDR/app#query=SELECT 1"},
		{target: "mysql://APP@ADDR/app#query=SELECT 'é'"},
		{target: "mysql://APP@ADDR/app#query=SELECT NOT %40%40read_only"},
		{target: "mysql://APP@ADDR/app#query=SELECT seq FROM many UNION ALL SELECT seq FROM many"},
		{target: "mysql://APP@ADDR/app#query=SELECT REPEAT('x', 100000)"},
		{target: "mysql://APP@ADDR/app#query=SHOW TABLES"},
		{target: "mysql://APP@ADDR/app#query=SELECT 0", class: unexpected, words: "the query returns 0"},
		{target: "mysql://APP@ADDR/app#query=SELECT 0.00", class: unexpected, words: "the query returns 0.00"},
		{target: "mysql://APP@ADDR/app#query=SELECT b'0'", class: unexpected, words: "the query returns "},
		{target: "mysql://APP@ADDR/app#query=SELECT NULL", class: unexpected, words: "the query returns NULL"},
		{target: "mysql://APP@ADDR/app#query=SELECT ''", class: unexpected, words: "the query returns an empty string"},
		{target: "mysql://APP@ADDR/app#query=SELECT 1 FROM many WHERE seq=2", class: unexpected, words: "the query returns no row"},
		{target: "mysql://APP@ADDR/app#query=DO 1", class: unexpected, words: "the query returns no row"},
		{target: "mysql://APP@ADDR/app#query=SELEC", class: unexpected, words: "You have an error in your SQL syntax"},
		{target: "mysql://APP@ADDR/app#query=SELECT version FROM schema_migrations", class: unexpected, words: "Table 'app.schema_migrations' doesn't exist (error 1146)"},
		{target: "mysql://APP@ADDR/app#query=SELECT REPEAT('x', 2000000)", class: unexpected, words: "announces a message"},
		{target: "mysql://nopassword@ADDR#query=SELECT * FROM app.many", class: login, words: "SELECT command denied"},
	} {
		target := fill.Replace(tt.target)
		kindtest.RequireSays(t, tt.target, kindtest.AttemptWith(t, kinds, target, "", nil), tt.class, tt.words)
	}
	kindtest.RequireSays(t, "MYSQL_PWD", kindtest.AttemptWith(t, kinds, "mysql://app@"+m.Addr+"/app", m.Password, map[string]string{"MYSQL_PWD": m.Password}), "", "")
	kindtest.RequireSays(t, "MYSQL_PWD_FILE", kindtest.AttemptWith(t, kinds, "mysql://app@"+m.Addr+"/app", m.Password, map[string]string{"MYSQL_PWD_FILE": file}), "", "")

	t.Run("states", func(t *testing.T) { testMySQLStates(t, m) })
	t.Run("polite", func(t *testing.T) { testMySQLPolite(t, m) })
	t.Run("limits", func(t *testing.T) { testMySQLLimits(t, m) })
}

// testMySQLStates changes the state of a running server.
func testMySQLStates(t *testing.T, m *servers.MariaDB) {
	app := "mysql://app:" + m.Password + "@" + m.Addr + "/app"
	attempt := func(target string) error { return kindtest.AttemptWith(t, kinds, target, m.Password, nil) }

	m.SQL(t, "SET GLOBAL read_only=ON")
	kindtest.RequireSays(t, "read-only", attempt(app+"#query=SELECT NOT %40%40read_only"), failure.Unexpected, "the query returns 0")
	kindtest.RequireSays(t, "read-only", attempt(app), "", "")
	m.SQL(t, "SET GLOBAL read_only=OFF")
	kindtest.RequireSays(t, "writable", attempt(app+"#query=SELECT NOT %40%40read_only"), "", "")

	m.SQL(t, "SET GLOBAL require_secure_transport=ON")
	err := attempt(app + "?ssl-mode=disabled") // MySQL has its own error for this, MariaDB has not
	kindtest.RequireSays(t, "without TLS", err, failure.Authentication, "access denied for user app")
	if hint := failure.Of(err).Hint; !strings.Contains(hint, "TLS") {
		t.Errorf("hint %s", hint)
	}
	kindtest.RequireSays(t, "without TLS and user", attempt("mysql://"+m.Addr+"?ssl-mode=disabled"), "", "")
	kindtest.RequireSays(t, "with TLS", attempt(app), "", "")
	m.SQL(t, "SET GLOBAL require_secure_transport=OFF")

	m.SQL(t, "SET GLOBAL max_connections=10") // and one for an administrator
	var held []net.Conn
	for range 11 {
		c, err := net.Dial("tcp", m.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Read(make([]byte, 1)) // from then on it counts as a connection
		held = append(held, c)
	}
	kindtest.RequireSays(t, "many connections", attempt(app), failure.Unexpected, "too many connections (error 1040)")
	kindtest.RequireSays(t, "many connections", attempt("mysql://"+m.Addr), failure.Unexpected, "too many connections (error 1040)")
	for _, c := range held {
		c.Close()
	}
	for limit := time.Now().Add(30 * time.Second); attempt(app) != nil && time.Now().Before(limit); {
	}
	kindtest.RequireSays(t, "fewer connections", attempt(app), "", "")
	m.SQL(t, "SET GLOBAL max_connections=100")
}

// testMySQLPolite pins that successful attempts leave no errors in the server's counters.
func testMySQLPolite(t *testing.T, m *servers.MariaDB) {
	before := m.SQL(t, "SHOW GLOBAL STATUS LIKE 'Aborted%'")
	app := "mysql://app:" + m.Password + "@" + m.Addr + "/app"
	for range 5 {
		for _, target := range []string{app, app + "#tls&insecure", app + "#query=SELECT * FROM many", app + "#query=SELECT 0"} {
			kindtest.AttemptWith(t, kinds, target, m.Password, nil)
		}
	}
	if after := m.SQL(t, "SHOW GLOBAL STATUS LIKE 'Aborted%'"); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// testMySQLLimits pins that no query outlives its attempt for long: those of a wait would use up the server's
// connections.
func testMySQLLimits(t *testing.T, m *servers.MariaDB) {
	check, err := waitfor.Parse("mysql://app:"+m.Password+"@"+m.Addr+"/app#query=SELECT SLEEP(300)", target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := check.Check(ctx); err == nil {
		t.Error("a query of five minutes ended at once")
	}
	left := ""
	for limit := time.Now().Add(servers.Patience); left != "0" && time.Now().Before(limit); {
		left = m.SQL(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(300)'")
	}
	if left != "0" {
		t.Errorf("%s queries are still running", left)
	}
}

// TestRealCourse waits for a server that is starting, and for the table that a migration creates.
func TestRealCourse(t *testing.T) {
	t.Parallel()
	m := servers.NewMariaDB(t, servers.MariaDBOptions{})
	var logs servers.Output
	o := target.Options{Getenv: func(string) string { return m.Password }, Log: slog.New(slog.NewTextHandler(&logs, nil))}
	check, err := waitfor.Parse("mysql://app:${env:PW}@"+m.Addr+"/app#query=SELECT version >= 3 FROM schema_migrations", o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- waitfor.All(ctx, o, check) }()
	until := func(text string) {
		t.Helper()
		for !strings.Contains(logs.String(), text) {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("the log has no %q:\n%s", text, &logs)
			}
		}
	}
	until("connection refused")
	m.Start(t)
	until("Table 'app.schema_migrations' doesn't exist")
	m.SQL(t, "CREATE TABLE app.schema_migrations (version INT)")
	until("the query returns no row")
	m.SQL(t, "INSERT INTO app.schema_migrations VALUES (2)")
	until("the query returns 0")
	m.SQL(t, "UPDATE app.schema_migrations SET version = 3")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Contains(logs.String(), m.Password) {
		t.Error("the log has the password")
	}
}

// TestHostIsNotBlocked makes many attempts at a server that blocks a host after ten connections that ended between the
// greeting and the login. MariaDB does not count those of 127.0.0.1, so these come from 127.0.0.2.
func TestHostIsNotBlocked(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	m := servers.StartMariaDB(t, servers.MariaDBOptions{CA: ca, Args: []string{"--max-connect-errors=10"},
		SQL: []string{"CREATE USER tls@'%' IDENTIFIED BY 'pw' REQUIRE SSL;"}})
	addr := from2(t, m.Addr)
	attempt := func(target string) error {
		return kindtest.AttemptWith(t, kinds, strings.ReplaceAll(target, "ADDR", addr), "", nil)
	}

	for range 40 {
		for _, target := range []string{
			"mysql://ADDR", "mysql://app:wrong@ADDR/app", "mysql://tls:pw@ADDR?ssl-mode=disabled",
			"mysql://app:" + m.Password + "@ADDR/app", "mysql://ADDR#tls&insecure", "mysql://ADDR#tls",
		} {
			if err := attempt(target); failure.Of(err).Class == failure.Reset {
				t.Fatalf("%s: %v", target, err)
			}
		}
	}
	kindtest.RequireSays(t, "after 240 attempts", attempt("mysql://ADDR"), "", "")

	for range 12 { // makes sure that the server does block a host
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Read(make([]byte, 1))
			c.Close()
		}
	}
	err := attempt("mysql://ADDR")
	for limit := time.Now().Add(3 * time.Second); err == nil && time.Now().Before(limit); {
		err = attempt("mysql://ADDR")
	}
	if err == nil {
		t.Skip("this server does not block 127.0.0.2, because it cannot look up the address's name")
	}
	kindtest.RequireSays(t, "blocked", err, failure.Unexpected, "this host is blocked because of many connection errors")
	kindtest.RequireSays(t, "blocked", attempt("mysql://app:"+m.Password+"@ADDR/app"), failure.Unexpected, "this host is blocked")
	m.SQL(t, "FLUSH HOSTS")
	kindtest.RequireSays(t, "unblocked", attempt("mysql://ADDR"), "", "")
}

// from2 returns the address of a proxy that connects to addr from 127.0.0.2.
func from2(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := dialer.Dial("tcp", addr)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				defer server.Close()
				defer client.Close()
				go func() { io.Copy(client, server); client.Close() }()
				if _, err := io.Copy(server, client); errors.Is(err, net.ErrClosed) {
					return
				}
			}()
		}
	}()
	return l.Addr().String()
}
