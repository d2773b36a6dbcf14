package waitfor

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/servers"
)

// TestPostgresUsage pins what is a mistake of the target's, and said before anything is tried.
func TestPostgresUsage(t *testing.T) {
	for target, want := range map[string]string{
		"postgres:///app":                                       "host missing",
		"postgres://":                                           "host missing",
		"postgres:app":                                          "host missing",
		"user=app dbname=app":                                   "host missing",
		"postgres://mydb:0/app":                                 "port must be",
		"host=mydb port=x":                                      "port must be",
		"postgres:///app?host=mydb:99999":                       "port must be",
		"postgres://mydb,/app":                                  "a host is missing",
		"postgres://mydb?sslmode=full":                          "sslmode: want disable",
		"postgres://mydb?sslrootcert=system":                    "",
		"postgres://mydb?sslrootcert=system&sslmode=require":    "needs sslmode=verify-full",
		"postgres://mydb?sslnegotiation=direct":                 "needs sslmode=require",
		"postgres://mydb?sslnegotiation=direct&sslmode=require": "",
		"postgres://app@mydb?target_session_attrs=x":            "target_session_attrs: want any",
		"postgres://mydb?target_session_attrs=primary":          "need a user",
		"postgres://mydb#query=select 1":                        "need a user",
		"postgres://mydb#user=app&query=select 1":               "",
		"postgres://app@mydb?channel_binding=x":                 "channel_binding: want",
		"postgres://mydb?service=x":                             "", // the file may be mounted late
		"host=mydb password='x":                                 "a quote that is not closed",
		"host=mydb user":                                        "KEY=VALUE",
	} {
		_, err := Parse(target, Options{})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", target, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", target, err, want)
		}
	}
}

// TestPostgresShown pins what the log calls a target.
func TestPostgresShown(t *testing.T) {
	for target, want := range map[string]string{
		"postgres://app:x@mydb/app?sslmode=disable":    "postgres://mydb/app?…",
		"postgresql://h1:1,h2/app":                     "postgresql://h1:1,h2/app",
		"host=h1,h2 port=1,2 dbname=app password=x":    "postgres://h1:1,h2:2/app",
		"host=fd00::1 port=5433":                       "postgres://[fd00::1]:5433/",
		"host=/run/pg dbname=app password=x":           "postgres:///app?host=/run/pg",
		"postgres://app:x@%2Frun%2Fpg:5433/app?a=b":    "postgres:///app?host=/run/pg",
		"postgres:///app?host=h1&port=5433&password=x": "postgres:///app?host=h1",
		"service=mine": "postgres:///?service=mine",
		"postgresql+asyncpg://app:x@mydb/app?ssl=true": "postgresql://mydb/app?…",
		"jdbc:postgresql://mydb/app?user=a&password=x": "postgresql://mydb/app?…",
	} {
		check, err := Parse(target, Options{})
		if err != nil || check.String() != want {
			t.Errorf("%s: %v, %v, want %s", target, check, err, want)
		}
	}
}

// TestPasswordFile pins the rules of libpq's password file.
func TestPasswordFile(t *testing.T) {
	const file = "# host:5432:db:app:comment\n\nshort:1\nhost:5432:db:app:first\r\nhost:5432:db:*:second\n" +
		"*:5433:*:*:with\\:colon:and rest\nfd00\\:\\:1:5432:db:app:six\nesc\\\\aped:*:*:*:back\\\\slash\n*:*:*:star\\*:literal\n"
	for want, key := range map[string][]string{
		"first":      {"host", "5432", "db", "app"},
		"second":     {"host", "5432", "db", "other"},
		"with:colon": {"any", "5433", "any", "any"},
		"six":        {"fd00::1", "5432", "db", "app"},
		`back\slash`: {`esc\aped`, "1", "db", "app"},
		"literal":    {"x", "1", "db", "star*"},
		"":           {"host", "5432", "other", "app"},
	} {
		if got := passwordOf(file, key...); got != want {
			t.Errorf("%v: %q, want %q", key, got, want)
		}
	}
}

// TestPostgresService pins what a service file gives, and that the target and only then
// the environment comes before and after it.
func TestPostgresService(t *testing.T) {
	file := filepath.Join(t.TempDir(), "services")
	text := "# [no]\n[a]\n host = h1,h2 \n port=5433\nuser=ann\nsslmode=disable\npassword=x=y\n[b]\nhostaddr=fd00::1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PGSERVICEFILE": file, "PGUSER": "eve", "PGPASSWORD": "env", "PGDATABASE": "db", "PGSSLMODE": "verify-full"}
	for target, want := range map[string]string{
		"service=a":                          "h1:5433,h2:5433 ann@db disable x=y",
		"service=b":                          "[fd00::1]:5432 eve@db verify-full env",
		"postgres://bob:pw@h3/app?service=a": "h3:5433 bob@app disable pw",
		"postgres:///app?service=b&sslmode=allow": "[fd00::1]:5432 eve@app allow env",
	} {
		check, err := Parse(target, Options{Getenv: func(name string) string { return env[name] }})
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		o, err := check.(postgresCheck).options()
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		password, _ := o.password(o.servers[0].addr, o.servers[0].host)
		if got := strings.Join(o.addrs(), ",") + " " + o.user + "@" + o.database + " " + string(o.mode) + " " + password; got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

// servePostgres answers a startup by what is given, and each message after it by the next.
func servePostgres(answers ...string) func(net.Conn) {
	return func(c net.Conn) {
		b := make([]byte, 1<<12)
		for _, answer := range answers {
			if _, err := c.Read(b); err != nil {
				return
			}
			io.WriteString(c, answer)
		}
		io.Copy(io.Discard, c)
	}
}

func postgresSays(kind byte, body string) string { return string(postgresMessage(kind, []byte(body))) }

// postgresAsks is the server's message of a kind of login.
func postgresAsks(kind uint32, body string) string {
	return postgresSays('R', string(binary.BigEndian.AppendUint32(nil, kind))+body)
}

// TestPostgresHostile tries servers that are none, or that want what no server may have.
// They are written from the protocol's specification.
func TestPostgresHostile(t *testing.T) {
	ready := postgresAsks(0, "") + postgresSays('Z', "I")
	one := postgresSays('D', "\x00\x01\x00\x00\x00\x011") + postgresSays('C', "SELECT 1\x00") + postgresSays('Z', "I")
	scram := postgresAsks(10, "SCRAM-SHA-256\x00\x00")
	for name, test := range map[string]struct {
		answers []string
		want    string
	}{
		"ready":                        {[]string{ready, one}, ""},
		"a pooler without a server":    {[]string{ready, postgresSays('E', "SFATAL\x00C08P01\x00Mquery_wait_timeout\x00\x00")}, "unexpected answer: query_wait_timeout"},
		"ready, unknown messages":      {[]string{postgresAsks(0, "") + postgresSays('x', "?") + postgresSays('Z', "I"), one}, ""},
		"a pooler":                     {[]string{postgresSays('E', "SERROR\x00C08P01\x00Mserver login failed hUnter2\x00\x00")}, "unexpected answer: server login failed …"},
		"an error without a word":      {[]string{postgresSays('E', "\x00")}, "unexpected answer: the server says that it has failed, and not why"},
		"an error in another language": {[]string{postgresSays('E', "SFATAL\x00C28P01\x00MPasswort-Authentifizierung für Benutzer »app« fehlgeschlagen\x00\x00")}, "authentication: Passwort-Authentifizierung für Benutzer »app« fehlgeschlagen"},
		"GSS":                          {[]string{postgresAsks(7, "")}, "authentication: the server wants a login that is not known here (gss)"},
		"Kerberos":                     {[]string{postgresAsks(2, "")}, "authentication: the server wants a login that is not known here (an old one)"},
		"the password, then nothing":   {[]string{postgresAsks(3, ""), ""}, ""},
		"the password again and again": {[]string{postgresAsks(3, ""), postgresAsks(3, "")}, "unexpected answer: the answer is not PostgreSQL"},
		"SCRAM that is none":           {[]string{scram, postgresAsks(11, "hello")}, "unexpected answer: the server's part of the login is not SCRAM"},
		"SCRAM without an end":         {[]string{scram, postgresAsks(0, "")}, "unexpected answer: the answer is not PostgreSQL"},
		"another SASL":                 {[]string{postgresAsks(10, "OAUTHBEARER\x00\x00")}, "authentication: the server offers no login by SCRAM-SHA-256"},
		"a short message":              {[]string{"R\x00\x00\x00\x06\x00\x00"}, "unexpected answer: the answer is not PostgreSQL"},
		"a length of nothing":          {[]string{"R\x00\x00\x00\x00"}, "unexpected answer: the answer is not PostgreSQL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serve := servePostgres(test.answers...)
			if name == "the password, then nothing" {
				serve = func(c net.Conn) { servePostgres(test.answers[0], ready, one)(c) }
			}
			check, err := Parse("postgres://app:hUnter2@"+servers.Serve(t, serve)+"/app?sslmode=disable", Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), postgresWithin)
			defer cancel()
			got := ""
			if err := check.Check(ctx); err != nil {
				f := failure.Of(err)
				got = string(f.Class) + ": " + f.Error()
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// FuzzPostgres reads what a server may say, in a login and to a query.
func FuzzPostgres(f *testing.F) {
	key := postgresSays('K', "\x00\x00\x12\x34abcd")
	status := postgresSays('S', "in_hot_standby\x00off\x00") + postgresSays('S', "default_transaction_read_only\x00off\x00")
	f.Add(postgresAsks(0, "") + status + key + postgresSays('Z', "I") + postgresSays('T', "\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00") +
		postgresSays('D', "\x00\x01\x00\x00\x00\x011") + postgresSays('C', "SELECT 1\x00") + postgresSays('Z', "I"))
	f.Add(postgresAsks(5, "salt") + postgresAsks(0, "") + key + postgresSays('Z', "I") + postgresSays('D', "\x00\x01\xff\xff\xff\xff") + postgresSays('Z', "I"))
	f.Add(postgresAsks(10, "SCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00") + postgresAsks(11, "r=x,s=AAAA,i=4096") + postgresAsks(12, "v=AAAA"))
	f.Add(postgresSays('E', "SFATAL\x00VFATAL\x00C57P03\x00Mthe database system is starting up\x00Fpostmaster.c\x00L2372\x00RProcessStartupPacket\x00\x00"))
	f.Add("N" + postgresSays('N', "SNOTICE\x00\x00") + postgresSays('v', "\x00\x03\x00\x00\x00\x00\x00\x00"))
	check, err := Parse("postgres://app:hUnter2@mydb/app?target_session_attrs=primary#query=select 1", Options{})
	if err != nil {
		f.Fatal(err)
	}
	c := check.(postgresCheck)
	o, err := c.options()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, said string) {
		conn := converse(t.Context(), &postgresScript{Reader: strings.NewReader(said)}, "mydb:5432")
		defer conn.Close()
		p := &postgresConn{conversation: conn, kind: c.target, options: o, host: "mydb"}
		if err = p.login(); err == nil {
			if err = p.session(); err == nil {
				err = p.judge(c.query)
			}
		}
		if err != nil && strings.Contains(failure.Of(err).Error(), "hUnter2") && !strings.Contains(said, "hUnter2") {
			t.Errorf("%q: %v", said, err)
		}
	})
}

// postgresScript is a connection to somebody who has said all already.
type postgresScript struct {
	io.Reader
	net.Conn
}

func (r *postgresScript) Read(p []byte) (int, error)  { return r.Reader.Read(p) }
func (r *postgresScript) Write(p []byte) (int, error) { return len(p), nil }
func (r *postgresScript) Close() error                { return nil }

func (r *postgresScript) SetDeadline(time.Time) error      { return nil }
func (r *postgresScript) SetWriteDeadline(time.Time) error { return nil }
