package postgres

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/servers"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// within limits an attempt, even on a busy machine.
const within = 30 * time.Second

// try makes one attempt, and returns what the log would say: "ready", or class, text and note.
func tryPostgres(t *testing.T, text string, env map[string]string) string {
	t.Helper()
	check, err := kinds.Parse(text, target.Options{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		return "usage: " + err.Error()
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err = check.Check(ctx)
	if err == nil {
		return "ready"
	}
	f := failure.Of(err)
	if f.Hint == "" {
		t.Errorf("%s: %v: no hint", text, f)
	}
	return string(f.Class) + ": " + f.Error()
}

// awaitPostgres makes attempts until one has the wanted result.
func awaitPostgres(t *testing.T, target, want string) {
	t.Helper()
	last := ""
	for giveUp := time.Now().Add(servers.Patience); time.Now().Before(giveUp); time.Sleep(10 * time.Millisecond) {
		if last = tryPostgres(t, target, nil); strings.Contains(last, want) {
			return
		}
	}
	t.Fatalf("%s: %s, want %s", target, last, want)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t, servers.PostgresOptions{
		HBA:      []string{"host all clear all password", "host all hashed all md5", "host all trusted all trust", "host all rejected all reject", "local all sock trust"},
		Settings: []string{"max_connections=12", "superuser_reserved_connections=0"},
	})
	for _, statement := range []string{
		"CREATE USER clear PASSWORD 'c lear'", "CREATE USER trusted", "CREATE USER sock", "CREATE USER full CONNECTION LIMIT 0 PASSWORD 'x'",
		"SET password_encryption=md5; CREATE USER hashed PASSWORD 'äh/@:'",
	} {
		p.SQL(t, statement)
	}
	host, port, _ := net.SplitHostPort(p.Addr)
	passfile := filepath.Join(t.TempDir(), "pgpass")
	services := filepath.Join(t.TempDir(), "services")
	if err := errors.Join(
		os.WriteFile(passfile, []byte("# comment\nother:*:*:*:no\n*:"+port+":app:app:"+p.Password+"\n"), 0o644),
		os.WriteFile(services, []byte("[other]\nhost=other\n\n[mine]\nhost="+host+"\nport="+port+"\ndbname=app\nuser=app\npassword="+p.Password+"\n"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	app := "postgres://app:" + p.Password + "@" + p.Addr + "/app"
	secret := []string{"PGPASSWORD", p.Password}
	for _, test := range []struct {
		target string
		env    []string
		want   string
	}{
		// Credentials.
		{"postgres://" + p.Addr, nil, "ready"},
		{"postgres://" + p.Addr + "/absent", nil, "ready"},
		{app, nil, "ready"},
		{"postgresql://app@" + p.Addr + "/app", secret, "ready"},
		{"postgres://" + p.Addr + "/app", append(secret, "PGUSER", "app"), "ready"},
		{"postgres://" + p.Addr, append(secret, "PGUSER", "app", "PGDATABASE", "app"), "ready"},
		{"postgres://app@" + p.Addr + "/app", []string{"PGPASSFILE", passfile}, "ready"},
		{"postgres://app@" + p.Addr + "/app?passfile=" + passfile, nil, "ready"},
		{"postgres://app@" + p.Addr + "/postgres", []string{"PGPASSFILE", passfile}, "authentication: the server requires a password, and the target has no password"},
		{"postgres://app@" + p.Addr + "/app", []string{"PGPASSFILE", passfile + ".absent"}, "missing: cannot read secret file " + passfile + ".absent: no such file or directory"},
		{"postgres://app@" + p.Addr + "/app", nil, "authentication: the server requires a password, and the target has no password"},
		{"postgres://app:wrong@" + p.Addr + "/app", nil, `authentication: password authentication failed for user "app"`},
		{"postgres://absent:wrong@" + p.Addr + "/app", nil, `authentication: no pg_hba.conf entry for host "127.0.0.1", user "absent", database "app", no encryption`},
		{"postgres://rejected:wrong@" + p.Addr + "/app", nil, `authentication: pg_hba.conf rejects connection for host "127.0.0.1", user "rejected", database "app", no encryption`},
		{"postgres://app:" + p.Password + "@" + p.Addr + "/absent", nil, `unexpected answer: database "absent" does not exist`},
		{"postgres://clear:c%20lear@" + p.Addr + "/app", nil, "ready"},
		{"postgres://clear:c%20lear@" + p.Addr + "/app?require_auth=scram-sha-256,md5", nil, "authentication: the server requires a login method that the target does not allow (password)"},
		{"postgres://clear:c%20lear@" + p.Addr + "/app?require_auth=!password", nil, "authentication: the server requires a login method that the target does not allow (password)"},
		{app + "?require_auth=!password,!none", nil, "ready"},
		{app + "?channel_binding=require", nil, "authentication: the target requires a login that is bound to the TLS channel, which is not possible here"},
		{"postgres://clear:wrong@" + p.Addr + "/app", nil, `authentication: password authentication failed for user "clear"`},
		{"postgres://hashed:%C3%A4h%2F%40%3A@" + p.Addr + "/app", nil, "ready"},
		{"postgres://hashed:wrong@" + p.Addr + "/app", nil, `authentication: password authentication failed for user "hashed"`},
		{"postgres://trusted@" + p.Addr + "/app", nil, "ready"},
		{"postgres://trusted@" + p.Addr + "/app?require_auth=scram-sha-256", nil, "authentication: the server requires a login method that the target does not allow (none)"},

		// Other forms of targets.
		{"host=" + host + " port=" + port + " user=app dbname=app password='" + p.Password + "'", nil, "ready"},
		{"host=" + host + ",127.0.0.1 port=1," + port + " user=app dbname=app password='" + p.Password + "'#query=SELECT true", nil, "ready"},
		{"host=db.invalid hostaddr=127.0.0.1 port=" + port + " user=app dbname=app", secret, "ready"},
		{"jdbc:postgresql://" + p.Addr + "/app?user=app&password=" + p.Password, nil, "ready"},
		{"postgresql+psycopg2://app:" + p.Password + "@/app?host=127.0.0.1:1&host=" + p.Addr, nil, "ready"},
		{"service=mine", []string{"PGSERVICEFILE", services}, "ready"},
		{"postgres:///?service=mine", []string{"PGSERVICEFILE", services}, "ready"},
		{"postgres:?service=mine#query=select 0", []string{"PGSERVICEFILE", services}, "unexpected answer: the query returns 0 (select 0)"},
		{"postgres://" + p.Addr, []string{"PGSERVICEFILE", services, "PGSERVICE", "mine"}, "ready"},
		{"service=absent", []string{"PGSERVICEFILE", services}, "missing: there is no such PostgreSQL service in " + services},
		{"service=mine", []string{"PGSERVICEFILE", services + ".absent"}, "missing: cannot read secret file " + services + ".absent: no such file or directory"},
		{"postgres:///app?host=" + p.Socket + "&port=" + port + "&user=sock", nil, "ready"},
		{"postgres://sock@" + url.QueryEscape(p.Socket) + ":" + port + "/app#query=select 1", nil, "ready"},
		{"host=" + p.Socket + " port=" + port + " user=app dbname=app", secret, "ready"},
		{"host=" + p.Socket + " port=1", nil, "missing: no such socket"},
		{"${env:DATABASE_URL}#query=select 1", []string{"DATABASE_URL", app}, "ready"},
		{"${env:DATABASE_URL}#query=select 1", []string{"DATABASE_URL", "host=" + host + " port=" + port + " user=app dbname=app password=" + p.Password}, "ready"},
		{app + "#user=other", nil, "ready"},
		{"postgres://" + p.Addr + "/app#user=app&password-file=" + passfile, nil, `authentication: password authentication failed for user "app"`},

		// Queries.
		{app + "#query=select true", nil, "ready"},
		{app + "#query=select false", nil, "unexpected answer: the query returns f (select false)"},
		{app + "#query=select 0.0", nil, "unexpected answer: the query returns 0.0 (select 0.0)"},
		{app + "#query=select 42, 0", nil, "ready"},
		{app + "#query=select ''", nil, "unexpected answer: the query returns an empty string (select '')"},
		{app + "#query=select null", nil, "unexpected answer: the query returns NULL (select null)"},
		{app + "#query=select 1 where false", nil, "unexpected answer: the query returns no row (select 1 where false)"},
		{app + "#query=select", nil, "unexpected answer: the query returns NULL (select)"},
		{app + "#query=select 'v1.2'; select 0", nil, "ready"},
		{app + "#query=select g from generate_series(1, 1000000) g", nil, "ready"},
		{app + "#query=select count(*) from absent", nil, `unexpected answer: relation "absent" does not exist`},
		{app + "#query=selec 1", nil, `unexpected answer: syntax error at or near "selec"`},
		{app + "#query=copy (select 1) to stdout", nil, "unexpected answer: the query is a COPY, which has no rows"},
		{app + "#query=select count(*) from pg_authid", nil, "authentication: permission denied for table pg_authid"},
		{app + "#query=select '" + p.Password + "'::int", nil, `unexpected answer: invalid input syntax for type integer: "[…]"`},
		{app + "#query=select current_setting('application_name') = 'initbox' and current_setting('work_mem') = '123kB'", []string{"PGOPTIONS", "-c work_mem=123kB"}, "ready"},
		{app + "?options=-c%20default_transaction_read_only%3Don&target_session_attrs=read-write", nil, "unexpected answer: the server is read-only"},
		{app + "?options=-c%20default_transaction_read_only%3Don&target_session_attrs=read-only", nil, "ready"},
		{app + "?target_session_attrs=standby", nil, "unexpected answer: the server is a primary"},
		{app + "?targetServerType=primary", nil, "ready"},
		{app + "?targetServerType=secondary", nil, "unexpected answer: the server is a primary"},
		{app, []string{"PGTARGETSESSIONATTRS", "read-write"}, "ready"},

		// TLS, which the server does not offer.
		{app + "?sslmode=require", nil, "TLS: TLS: the server does not offer it"},
		{app + "#tls", nil, "TLS: TLS: the server does not offer it"},
		{app + "#insecure", nil, "TLS: TLS: the server does not offer it"},
		{app, []string{"PGSSLMODE", "verify-full"}, "TLS: TLS: the server does not offer it"},
		{app + "?sslmode=allow", nil, "ready"},
		{app + "?sslmode=prefer#tls", nil, "TLS: TLS: the server does not offer it"},
		{"postgres://full:x@" + p.Addr + "/app", nil, "authentication: no pg_hba.conf entry"},
	} {
		env := map[string]string{}
		for i := 0; i+1 < len(test.env); i += 2 {
			env[test.env[i]] = test.env[i+1]
		}
		got := tryPostgres(t, test.target, env)
		if got != test.want && !(strings.HasSuffix(test.want, "entry") && strings.HasPrefix(got, test.want)) {
			t.Errorf("%s: %s, want %s", test.target, got, test.want)
		}
		if strings.Contains(got, p.Password) {
			t.Errorf("%s: the password is shown", test.target)
		}
	}
	testPostgresCancel(t, p)
	p.SQL(t, "CREATE DATABASE copy TEMPLATE app") // fails if a session is left in it
	testPostgresFull(t, p)
}

// testPostgresFull uses up all connections.
func testPostgresFull(t *testing.T, p *servers.Postgres) {
	t.Helper()
	text := "postgres://app:" + p.Password + "@" + p.Addr + "/app"
	p.SQL(t, "ALTER USER app CONNECTION LIMIT 0")
	if got := tryPostgres(t, text, nil); got != `unexpected answer: too many connections for role "app"` {
		t.Error(got)
	}
	p.SQL(t, "ALTER USER app CONNECTION LIMIT -1")
	parsed, err := kinds.Parse(text, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, full := parsed.(check), false
	o, err := c.options()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // the server has 12
		conn, err := wire.Connect(t.Context(), c.Server, p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		held := &session{Conversation: conn, target: c.Target, options: o}
		if err := held.login(); err != nil {
			full = true
			break
		}
	}
	if !full {
		t.Fatal("the server has no limit of connections")
	}
	for _, target := range []string{text, "postgres://" + p.Addr} {
		if got := tryPostgres(t, target, nil); got != "unexpected answer: sorry, too many clients already" {
			t.Errorf("%s: %s", target, got)
		}
	}
}

// testPostgresCancel pins that a query ends with its attempt.
func testPostgresCancel(t *testing.T, p *servers.Postgres) {
	t.Helper()
	running := func() bool {
		return p.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1234)' AND pid <> pg_backend_pid()") != "0"
	}
	check, err := kinds.Parse("postgres://app:"+p.Password+"@"+p.Addr+"/app#query=select pg_sleep(1234)", target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- check.Check(ctx) }()
	await := func(what bool) {
		t.Helper()
		for giveUp := time.Now().Add(servers.Patience); running() != what; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(giveUp) {
				t.Fatalf("the query is running: %v", !what)
			}
		}
	}
	await(true)
	cancel()
	if err := <-ended; err == nil {
		t.Error("ready")
	}
	await(false)
}

// TestRecovers tries a server that is starting up, a standby, and several servers.
func TestRecovers(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t, servers.PostgresOptions{Settings: []string{"wal_level=replica"}})
	app := func(addr string) string { return "postgres://app:" + p.Password + "@" + addr + "/app" }
	standby := p.Standby(t)
	cold := p.Standby(t, "hot_standby=off")
	awaitPostgres(t, app(standby.Addr), "ready")
	awaitPostgres(t, "postgres://"+cold.Addr, "the database system is not accepting connections")
	both := standby.Addr + "," + p.Addr
	for target, want := range map[string]string{
		app(cold.Addr): "unexpected answer: the database system is not accepting connections (Hot standby mode is disabled.)",
		app(standby.Addr) + "?target_session_attrs=primary":         "unexpected answer: the server is a standby",
		app(standby.Addr) + "?target_session_attrs=read-write":      "unexpected answer: the server is read-only",
		app(standby.Addr) + "?target_session_attrs=read-only":       "ready",
		app(standby.Addr) + "?target_session_attrs=standby":         "ready",
		app(standby.Addr) + "#query=select pg_is_in_recovery()":     "ready",
		app(standby.Addr) + "#query=create table t()":               "unexpected answer: cannot execute CREATE TABLE in a read-only transaction",
		app(both) + "?target_session_attrs=primary":                 "ready",
		app(both) + "?target_session_attrs=standby":                 "ready",
		app(both) + "?target_session_attrs=prefer-standby":          "ready",
		app(cold.Addr+","+p.Addr) + "?target_session_attrs=standby": "unexpected answer: the database system is not accepting connections (Hot standby mode is disabled.)",
	} {
		if got := tryPostgres(t, target, nil); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}

	p.Stop()
	if got := tryPostgres(t, app(p.Addr), nil); got != "refused: connection refused" {
		t.Error(got)
	}
	p.StartRecovering(t)
	for _, target := range []string{"postgres://" + p.Addr, app(p.Addr)} {
		awaitPostgres(t, target, "unexpected answer: the database system is starting up")
	}
	if err := os.WriteFile(p.GoOn(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	awaitPostgres(t, app(p.Addr)+"?target_session_attrs=read-write#query=select 1", "ready")
}

// TestTLS pins the handshake of each sslmode.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := servers.NewCA(t), servers.NewCA(t)
	p := servers.StartPostgres(t, servers.PostgresOptions{CA: ca, HBA: []string{
		"hostssl all certified all cert", "hostnossl all plain all trust", "hostssl all encrypted all trust"}})
	for _, name := range []string{"certified", "plain", "encrypted"} {
		p.SQL(t, "CREATE USER "+name)
	}
	_, port, _ := net.SplitHostPort(p.Addr)
	client, other := ca.Client(t, "certified"), ca.Client(t, "other")
	login := "app:" + p.Password + "@"
	at := func(login, host, rest string) string {
		return "postgres://" + login + host + ":" + port + "/app" + rest
	}
	wrongName := "TLS: TLS: the certificate is not for 127.0.0.1 but " + "for localhost"
	unknown := "TLS: TLS: the certificate is signed by an unknown authority (CN=initbox test CA)"
	for _, test := range []struct{ target, env, want string }{
		{at(login, "localhost", "?sslmode=verify-full&sslrootcert="+ca.File), "", "ready"},
		{at(login, "127.0.0.1", "?sslmode=verify-full&sslrootcert="+ca.File), "", wrongName},
		{at(login, "localhost", "?sslmode=verify-full&sslrootcert="+stranger.File), "", unknown},
		{at(login, "localhost", "?sslmode=verify-full&sslrootcert=system"), "", unknown},
		{at(login, "localhost", "?sslmode=verify-full"), "", unknown},
		{at(login, "localhost", "?ssl=true"), "", unknown},
		{at(login, "localhost", "?sslmode=verify-full&sslrootcert=/absent"), "", "local: CA file: open /absent: no such file or directory"},
		{at(login, "127.0.0.1", "?sslmode=verify-ca&sslrootcert="+ca.File), "", "ready"},
		{at(login, "127.0.0.1", "?sslmode=verify-ca&sslrootcert="+stranger.File), "", unknown},
		{at(login, "127.0.0.1", "?sslmode=require"), "", "ready"},
		{at(login, "127.0.0.1", "?sslmode=require&sslrootcert="+ca.File), "", "ready"},
		{at(login, "127.0.0.1", "?sslmode=require&sslrootcert="+stranger.File), "", unknown},
		{at(login, "127.0.0.1", "?sslmode=require&channel_binding=require"), "", "ready"},
		{at(login, "127.0.0.1", "?sslmode=require&channel_binding=disable"), "", "ready"},
		{at(login, "127.0.0.1", "?sslmode=prefer#query=select ssl from pg_stat_ssl where pid = pg_backend_pid()"), "", "ready"},
		{at(login, "127.0.0.1", "?sslmode=allow#query=select not ssl from pg_stat_ssl where pid = pg_backend_pid()"), "", "ready"},
		{at(login, "127.0.0.1", "?sslmode=prefer&sslrootcert="+stranger.File+"#query=select not ssl from pg_stat_ssl where pid = pg_backend_pid()"), "", "ready"},
		{at("plain@", "127.0.0.1", ""), "", "ready"},
		{at("plain@", "127.0.0.1", "?sslmode=require"), "", `authentication: no pg_hba.conf entry for host "127.0.0.1", user "plain", database "app", SSL encryption`},
		{at("encrypted@", "127.0.0.1", "?sslmode=allow"), "", "ready"},
		{at("encrypted@", "127.0.0.1", "?sslmode=disable"), "", `authentication: no pg_hba.conf entry for host "127.0.0.1", user "encrypted", database "app", no encryption`},
		{at(login, "localhost", "#tls&ca-file="+ca.File), "", "ready"},
		{at(login, "localhost", "#ca-file="+ca.File), "", "ready"},
		{at(login, "127.0.0.1", "#ca-file="+ca.File), "", wrongName},
		{at(login, "localhost", "#ca-file="+stranger.File), "", unknown},
		{at(login, "127.0.0.1", "#tls&server-name=localhost&ca-file="+ca.File), "", "ready"},
		{at(login, "127.0.0.1", "#tls&ca-file="+ca.File), "", wrongName},
		{at(login, "127.0.0.1", "#tls&insecure"), "", "ready"},
		{"host=localhost hostaddr=127.0.0.1 port=" + port + " sslmode=verify-full sslrootcert=" + ca.File, "", "ready"},
		{at(login, "127.0.0.1", ""), "verify-full", unknown + " or " + wrongName},
		{at("certified@", "localhost", "?sslcert="+client.CertFile+"&sslkey="+client.KeyFile), "", "ready"},
		{at("certified@", "localhost", "#cert-file="+client.CertFile+"&key-file="+client.KeyFile), "", "ready"},
		{at("certified@", "localhost", "?sslmode=require&sslcert="+other.CertFile+"&sslkey="+other.KeyFile), "", `authentication: certificate authentication failed for user "certified"`},
		{at("certified@", "localhost", "?sslmode=require"), "", "authentication: connection requires a valid client certificate"},
	} {
		env := map[string]string{"PGSSLMODE": test.env}
		if got := tryPostgres(t, test.target, env); got != test.want && !(strings.Contains(test.want, " or ") && strings.Contains(test.want, got)) {
			t.Errorf("%s: %s, want %s", test.target, got, test.want)
		}
	}
}
