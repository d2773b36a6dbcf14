package postgres

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
	"initbox/internal/words"
	"initbox/test/servers"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

// TestUsage pins the mistakes in a target that are reported before any attempt.
func TestUsage(t *testing.T) {
	for text, want := range map[string]string{
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
		_, err := kinds.Parse(text, target.Options{})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestShown pins how the log shows a target.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
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
		check, err := kinds.Parse(text, target.Options{})
		if err != nil || check.String() != want {
			t.Errorf("%s: %v, %v, want %s", text, check, err, want)
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

// TestService pins what a service file sets: the target wins over it, and it wins over the environment.
func TestService(t *testing.T) {
	file := filepath.Join(t.TempDir(), "services")
	text := "# [no]\n[a]\n host = h1,h2 \n port=5433\nuser=ann\nsslmode=disable\npassword=x=y\n[b]\nhostaddr=fd00::1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PGSERVICEFILE": file, "PGUSER": "eve", "PGPASSWORD": "env", "PGDATABASE": "db", "PGSSLMODE": "verify-full"}
	for given, want := range map[string]string{
		"service=a":                          "h1:5433,h2:5433 ann@db disable x=y",
		"service=b":                          "[fd00::1]:5432 eve@db verify-full env",
		"postgres://bob:pw@h3/app?service=a": "h3:5433 bob@app disable pw",
		"postgres:///app?service=b&sslmode=allow": "[fd00::1]:5432 eve@app allow env",
	} {
		parsed, err := kinds.Parse(given, target.Options{Getenv: func(name string) string { return env[name] }})
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		o, err := parsed.(check).options()
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		password, _ := o.password(o.servers[0].addr, o.servers[0].host)
		if got := strings.Join(words.Each(o.servers, func(s server) string { return s.addr }), ",") + " " + o.user + "@" + o.database + " " + string(o.mode) + " " + password; got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// servePostgres answers a startup with the first of the given texts, and each message after it with the next.
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

func says(kind byte, body string) string { return string(message(kind, []byte(body))) }

// asks returns an authentication message of the server.
func asks(kind uint32, body string) string {
	return says('R', string(binary.BigEndian.AppendUint32(nil, kind))+body)
}

// TestHostile tries servers that break the protocol, or request what no server may have. They follow the protocol's
// specification.
func TestHostile(t *testing.T) {
	ready := asks(0, "") + says('Z', "I")
	one := says('D', "\x00\x01\x00\x00\x00\x011") + says('C', "SELECT 1\x00") + says('Z', "I")
	scram := asks(10, "SCRAM-SHA-256\x00\x00")
	for name, test := range map[string]struct {
		answers []string
		want    string
	}{
		"ready":                        {[]string{ready, one}, ""},
		"a pooler without a server":    {[]string{ready, says('E', "SFATAL\x00C08P01\x00Mquery_wait_timeout\x00\x00")}, "unexpected answer: query_wait_timeout"},
		"ready, unknown messages":      {[]string{asks(0, "") + says('x', "?") + says('Z', "I"), one}, ""},
		"a pooler":                     {[]string{says('E', "SERROR\x00C08P01\x00Mserver login failed hUnter2\x00\x00")}, "unexpected answer: server login failed […]"},
		"an error without a text":      {[]string{says('E', "\x00")}, "unexpected answer: the server reported an error without a reason"},
		"an error in another language": {[]string{says('E', "SFATAL\x00C28P01\x00MPasswort-Authentifizierung für Benutzer »app« fehlgeschlagen\x00\x00")}, "authentication: Passwort-Authentifizierung für Benutzer »app« fehlgeschlagen"},
		"GSS":                          {[]string{asks(7, "")}, "authentication: the server requires an unsupported login method (gss)"},
		"Kerberos":                     {[]string{asks(2, "")}, "authentication: the server requires an unsupported login method (an obsolete one)"},
		"the password, then nothing":   {[]string{asks(3, ""), ""}, ""},
		"the password again and again": {[]string{asks(3, ""), asks(3, "")}, "unexpected answer: the answer is not PostgreSQL"},
		"invalid SCRAM":                {[]string{scram, asks(11, "hello")}, "unexpected answer: the server's message is not SCRAM"},
		"SCRAM without an end":         {[]string{scram, asks(0, "")}, "unexpected answer: the answer is not PostgreSQL"},
		"another SASL":                 {[]string{asks(10, "OAUTHBEARER\x00\x00")}, "authentication: the server does not offer a login by SCRAM-SHA-256"},
		"a short message":              {[]string{"R\x00\x00\x00\x06\x00\x00"}, "unexpected answer: the answer is not PostgreSQL"},
		"a length of zero":             {[]string{"R\x00\x00\x00\x00"}, "unexpected answer: the answer is not PostgreSQL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serve := servePostgres(test.answers...)
			if name == "the password, then nothing" {
				serve = func(c net.Conn) { servePostgres(test.answers[0], ready, one)(c) }
			}
			check, err := kinds.Parse("postgres://app:hUnter2@"+servers.Serve(t, serve)+"/app?sslmode=disable", target.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
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

// Fuzz reads any answers of a server, to a login and to a query.
func Fuzz(f *testing.F) {
	key := says('K', "\x00\x00\x12\x34abcd")
	status := says('S', "in_hot_standby\x00off\x00") + says('S', "default_transaction_read_only\x00off\x00")
	f.Add(asks(0, "") + status + key + says('Z', "I") + says('T', "\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00") +
		says('D', "\x00\x01\x00\x00\x00\x011") + says('C', "SELECT 1\x00") + says('Z', "I"))
	f.Add(asks(5, "salt") + asks(0, "") + key + says('Z', "I") + says('D', "\x00\x01\xff\xff\xff\xff") + says('Z', "I"))
	f.Add(asks(10, "SCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00") + asks(11, "r=x,s=AAAA,i=4096") + asks(12, "v=AAAA"))
	f.Add(says('E', "SFATAL\x00VFATAL\x00C57P03\x00Mthe database system is starting up\x00Fpostmaster.c\x00L2372\x00RProcessStartupPacket\x00\x00"))
	f.Add("N" + says('N', "SNOTICE\x00\x00") + says('v', "\x00\x03\x00\x00\x00\x00\x00\x00"))
	parsed, err := kinds.Parse("postgres://app:hUnter2@mydb/app?target_session_attrs=primary#query=select 1", target.Options{})
	if err != nil {
		f.Fatal(err)
	}
	c := parsed.(check)
	o, err := c.options()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, said string) {
		conn := wire.Converse(t.Context(), &script{Reader: strings.NewReader(said)}, "mydb:5432")
		defer conn.Close()
		p := &session{Conversation: conn, target: c.Target, options: o, host: "mydb"}
		if err = p.login(); err == nil {
			if err = p.checkSessionAttrs(); err == nil {
				err = p.judge(c.query)
			}
		}
		if err != nil && strings.Contains(failure.Of(err).Error(), "hUnter2") && !strings.Contains(said, "hUnter2") {
			t.Errorf("%q: %v", said, err)
		}
	})
}

// script is a connection on which all answers have already arrived.
type script struct {
	io.Reader
	net.Conn
}

func (r *script) Read(p []byte) (int, error)  { return r.Reader.Read(p) }
func (r *script) Write(p []byte) (int, error) { return len(p), nil }
func (r *script) Close() error                { return nil }

func (r *script) SetDeadline(time.Time) error      { return nil }
func (r *script) SetWriteDeadline(time.Time) error { return nil }
