package forms_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"initbox/test/kindtest"
	"initbox/waitfor"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// requireURLs requires that each text becomes its URL, or is refused with an error that contains the text after "error:
// ", and nothing of the password.
func requireURLs(t *testing.T, list map[string]string) {
	t.Helper()
	for text, want := range list {
		got, err := forms.URL(text, kinds)
		problem, refused := strings.CutPrefix(want, "error: ")
		switch {
		case refused && (err == nil || !strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "hUnter2")):
			t.Errorf("%s: %s, %v, want the error %q", text, got, err, problem)
		case !refused && (err != nil || got != want):
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestNpgsql pins .NET's connection strings for PostgreSQL.
func TestNpgsql(t *testing.T) {
	requireURLs(t, map[string]string{
		"Host=mydb;Port=5432;Database=app;Username=app;Password=p;SSL Mode=VerifyFull;Root Certificate=/x": "postgres://app:p@mydb:5432/app?sslmode=verify-full&sslrootcert=%2Fx",
		"host=mydb;username=app;password=p":                                            "postgres://app:p@mydb/",
		" HOST = mydb ; USER NAME = app ; ":                                            "postgres://app@mydb/",
		"password=p;username=app;host=mydb":                                            "postgres://app:p@mydb/",
		"Server=mydb;Port=5432;User Id=app;Password=p;Database=app":                    "postgres://app:p@mydb:5432/app",
		"Server=mydb;User Id=app;PSW=p;DB=app":                                         "postgres://app:p@mydb/app",
		"postgres:Server=mydb;User Id=app;Password=p":                                  "postgres://app:p@mydb/",
		"PostgreSQL:Server=mydb;UserId=app;Pwd=p":                                      "postgres://app:p@mydb/",
		"postgres:host=mydb;uid=app":                                                   "postgres://app@mydb/",
		"Host=a,b:5433,[fd00::1]:5434,fd00::2;Port=6432;Username=app":                  "postgres://app@a:6432,b:5433,[fd00::1]:5434,[fd00::2]:6432/",
		"Host=a, b;Username=app;Target Session Attributes=prefer-primary":              "postgres://app@a,b/?target_session_attrs=any",
		"Host=a,b;Username=app;TargetSessionAttributes=read-write":                     "postgres://app@a,b/?target_session_attrs=read-write",
		"Host=/run/postgresql;Username=app;Database=app":                               "postgres://app@/app?host=%2Frun%2Fpostgresql",
		"Host=/run/postgresql;Port=5433;Username=app":                                  "postgres://app@/?host=%2Frun%2Fpostgresql&port=5433",
		`Host=mydb;Username=app;Password="a;b""c'd=e #f"`:                              "postgres://app:a;b%22c%27d=e%20%23f@mydb/",
		`Host=mydb;Username=app;Password='a;b"c''d' ; Database='my db'`:                "postgres://app:a;b%22c%27d@mydb/?dbname=my+db",
		"Host=mydb;Username=app;Password=p=q@/?#:%&+,é":                                "postgres://app:p=q%40%2F%3F%23%3A%25&+,%C3%A9@mydb/",
		"Host=mydb;Username=app;Password=a#tls;Database=app#query=SELECT 1":            "postgres://app:a%23tls@mydb/app#query=SELECT 1",
		"Host=mydb;Username=app;#tls&ca-file=/x":                                       "postgres://app@mydb/#tls&ca-file=/x",
		"Host=mydb;Username=app;SSL Mode=Require;Trust Server Certificate=true":        "postgres://app@mydb/?sslmode=require",
		"Host=mydb;Username=app;SslMode=VerifyCA;SSL Certificate=/c;SSL Key=/k":        "postgres://app@mydb/?sslcert=%2Fc&sslkey=%2Fk&sslmode=verify-ca",
		"Host=mydb;Username=app;Require Auth=ScramSHA256,None;Channel Binding=Require": "postgres://app@mydb/?channel_binding=require&require_auth=scram-sha-256%2Cnone",
		"Host=mydb;Username=app;Passfile=/p;Options=-c x=1;Application Name=web":       "postgres://app@mydb/?application_name=web&options=-c+x%3D1&passfile=%2Fp",

		"Host=mydb;Username=app;Password='hUnter2":                "error: a quote that is not closed",
		"Host=mydb;Username=app;Password='hUnter2'x;Database=a":   "error: something after it",
		"Host=mydb;Username=app;hUnter2;Database=a":               "error: separated by semicolons",
		"Host=mydb;Port=hUnter2;Username=app":                     "error: a port that is not a number",
		"Host=app:hUnter2;Username=app":                           "error: a port that is not a number",
		"Host=app@hUnter2;Username=app":                           "error: an invalid host",
		"Host=a,,b;Username=app;Password=hUnter2":                 "error: a comma too many",
		"postgres:Username=app;Password=hUnter2":                  "error: no host",
		"Username=app;Password=hUnter2":                           "error: no host",
		"Host=mydb;User ID=app;Password=hUnter2":                  "error: write postgres: or mysql: before it",
		"host=rabbit;username=app;password=hUnter2;virtualHost=/": "error: write a URL",
		"Host=ch;Port=8443;Username=app;Password=hUnter2":         "error: write a URL",
	})
}

// TestMySqlConnector pins .NET's connection strings for MySQL and other servers.
func TestMySqlConnector(t *testing.T) {
	requireURLs(t, map[string]string{
		"Server=mydb;Port=3306;Uid=app;Pwd=p;Database=app;SslMode=VerifyCA;SslCa=/x": "mysql://app:p@mydb:3306/app?ssl-ca=%2Fx&ssl-mode=verify-ca",
		"server=mydb;user=app;password=p;database=app":                               "mysql://app:p@mydb/app",
		"Server=mydb;Uid=app;Pwd=p":                                                  "mysql://app:p@mydb/",
		"Server=mydb;User ID=app;Password=p;SSL Mode=None":                           "mysql://app:p@mydb/?ssl-mode=disabled",
		"Server=mydb;User ID=app;Password=p;CA Certificate File=/x":                  "mysql://app:p@mydb/?ssl-ca=%2Fx",
		"Server=mydb;User ID=app;Ssl-Cert=/c;Ssl-Key=/k;SslMode=VerifyFull":          "mysql://app@mydb/?ssl-cert=%2Fc&ssl-key=%2Fk&ssl-mode=verify-full",
		"mysql:Data Source=mydb;User ID=app;Initial Catalog=app":                     "mysql://app@mydb/app",
		"MySQL:Host=mydb;Username=app":                                               "mysql://app@mydb/",
		"mariadb:Server=mydb;User ID=app":                                            "mysql://app@mydb/",
		"Server=a, b:3307;User ID=app;Port=3306":                                     "mysql://app@a:3306,b:3307/",
		"Server=/run/mysqld.sock;Uid=app;Protocol=Unix;Database=app":                 "mysql://app@localhost/app?socket=%2Frun%2Fmysqld.sock",
		`Server=mydb;Uid=app;Pwd="a;b";AllowPublicKeyRetrieval=True`:                 "mysql://app:a;b@mydb/?allowPublicKeyRetrieval=True",
		"Server=mydb;Uid=app;Database=a/b@c;Pwd=p#query=SELECT 1":                    "mysql://app:p@mydb/?database=a%2Fb%40c#query=SELECT 1",

		"Server=mydb;Database=app;User Id=app;Password=hUnter2;": "error: write postgres: or mysql: before it",
		"Server=mydb": "error: write postgres: or mysql: before it",
		"Data Source=mydb;Initial Catalog=app;User ID=app;Password=hUnter2":                "error: SQL Server",
		"Server=mydb;Database=app;Trusted_Connection=True":                                 "error: SQL Server",
		"Server=mydb;Database=app;User Id=app;Password=hUnter2;TrustServerCertificate=yes": "error: SQL Server",
		"Server=tcp:mydb,1433;Uid=sa;Pwd=hUnter2":                                          "error: SQL Server",
		"Server=mydb,1433;Uid=sa;Pwd=hUnter2":                                              "error: SQL Server",
		"Driver={PostgreSQL};Server=mydb;Uid=app;Pwd=hUnter2;":                             "error: ODBC",
	})
}

// TestPDO pins PHP's data source names.
func TestPDO(t *testing.T) {
	requireURLs(t, map[string]string{
		"pgsql:host=mydb;port=5432;dbname=app;user=app;password=p":        "postgres://app:p@mydb:5432/app",
		"pgsql:host=mydb port=5432 dbname=app":                            "postgres://mydb:5432/app",
		"pgsql:host=mydb;sslmode=verify-full;sslrootcert=/x#tls":          "postgres://mydb/?sslmode=verify-full&sslrootcert=%2Fx#tls",
		`pgsql:host=mydb;user=app;password='it\'s #1@/'`:                  "postgres://app:it%27s%20%231%40%2F@mydb/",
		"pgsql:host=mydb;password=a#tls;user=app#query=SELECT 1;":         "postgres://app:a%23tls@mydb/#query=SELECT 1;",
		"mysql:host=mydb;dbname=app":                                      "mysql://mydb/app",
		"mysql:host=mydb;port=3307;dbname=app;charset=utf8mb4":            "mysql://mydb:3307/app",
		"mysql:unix_socket=/run/mysqld.sock;dbname=app":                   "mysql://localhost/app?socket=%2Frun%2Fmysqld.sock",
		`mysql:host=mydb; user=app; password="a;;b'@/?#=c`:                "mysql://app:%22a;b%27%40%2F%3F%23=c@mydb/",
		"mysql:host=mydb;password=p;;;user=app;;":                         "mysql://app;:p;@mydb/",
		"mysql:host=mydb;dbname=app;user=app;password=p#query=SELECT%201": "mysql://app:p@mydb/app#query=SELECT%201",

		"pgsql:host=mydb;password='hUnter2": "error: a quote that is not closed",
		"pgsql:hUnter2":                     "error: KEY=VALUE",
		"mysql:dbname=app;password=hUnter2": "error: no host",
		"mysql:host=app:hUnter2":            "error: a port that is not a number",
		"mysql:host=mydb user=hUnter2":      "error: an invalid host",
	})
}

// TestLibpq pins which connection strings count as libpq's.
func TestLibpq(t *testing.T) {
	requireURLs(t, map[string]string{
		"sslrootcert=/x host=mydb":       "postgres://mydb/?sslrootcert=%2Fx",
		"connect_timeout=3 hostaddr=::1": "postgres://[::1]/?connect_timeout=3",
		"application_name=a service=b":   "postgres:///?application_name=a&service=b",
		"dbname=app user=app":            "postgres://app@/app", // PGSERVICE may name the host
		"host=mydb password=a;b":         "postgres://:a;b@mydb/",
		"host=mydb password=a;host=b":    "postgres://:a;host=b@mydb/",
		"host=mydb dbname=a,b":           "postgres://mydb/?dbname=a%2Cb",
		"options=a":                      "options=a",
		"application_name=a":             "application_name=a",
		"name=a host=b":                  "name=a host=b",
	})
}

// TestStackExchangeRedis pins .NET's lists of Redis servers.
func TestStackExchangeRedis(t *testing.T) {
	requireURLs(t, map[string]string{
		"redis-0:6379,redis-1:6379,password=p,ssl=True,abortConnect=False,user=u,defaultDatabase=3,serviceName=mymaster": "rediss+sentinel://u:p@redis-0:6379,redis-1:6379/mymaster/3",
		"cache,password=p=#@/:?;%\"' ":                     "redis://:p=%23%40%2F%3A%3F;%25%22%27@cache/",
		"cache , [fd00::1]:6380 , ::1 , connectRetry = 3,": "redis://cache,[fd00::1]:6380,[::1]/",
		"cache,ssl=true,sslHost=a.b,$INFO=":                "rediss://cache:6380/#server-name=a.b",
		"cache:1,ssl=true,sslHost=a.b#role=master":         "rediss://cache:1/#server-name=a.b&role=master",
		"cache:1,ssl=true,sslHost=a.b#server-name=c":       "rediss://cache:1/#server-name=c",
		"a:26379,serviceName=mymaster#key=a":               "redis+sentinel://a:26379/mymaster#key=a",
		"cache,defaultDatabase=1,user=u":                   "redis://u@cache/1",

		"cache,password=a,hUnter2,ssl=true":  "error: no comma in its password",
		"cache,password=a,serviceName=b/c":   "error: the name of the master",
		"cache,defaultDatabase=hUnter2":      "error: a number as its defaultDatabase",
		"b1:9092,b2:9092":                    "b1:9092,b2:9092",
		"cache:6379":                         "cache:6379",
		"app:hUnter2,password=p":             "app:hUnter2,password=p",
		"cache,pasword=hUnter2,ssl=true":     "cache,pasword=hUnter2,ssl=true",
		"password=hUnter2,cache:6379,ssl=no": "postgres://:hUnter2,cache%3A6379,ssl=no@/",
	})
}

// TestURLLists pins lists of URLs, of Celery and others.
func TestURLLists(t *testing.T) {
	requireURLs(t, map[string]string{
		"sentinel://:pw@a:26379;sentinel://:pw@b:26379#sentinel=m": "redis+sentinel://:pw@a:26379,b:26379/#sentinel=m",
		"sentinel://:pw@a:26379/1;sentinel://b/1?x=y#sentinel=m":   "redis+sentinel://:pw@a:26379,b/?db=1&x=y#sentinel=m",
		"sentinel://a/0": "redis+sentinel://a/?db=0",
		"amqp://u:p@a:5672//;amqp://u:p@b:5672//":                     "amqp://u:p@a:5672,b:5672//",
		"pyamqp://u:p;q@a/v; pyamqp://u:p@b/v#tls":                    "amqp://u:p;q@a,b/v#tls",
		"redis://:p@a/0;redis://:p@b:1/0":                             "redis://:p@a,b:1/0",
		"nats://u:p@a:1/,nats://u:p@b:2":                              "nats://u:p@a:1,b:2",
		"amqp://u:hUnter2/73@a//;amqp://b//":                          "amqp://u:hUnter2/73@a//,b//",  // has an @ after its host
		"amqp://u:p@a//;amqp://u:7319/4028@b//":                       "amqp://u:p@a,u:7319/4028@b//", // too
		"redis://a;amqp://b":                                          "redis://a;amqp://b",           // refused for its host
		"postgresql+psycopg2://u:p@a/x,postgresql+psycopg2://u:p@b/x": "postgresql://u:p@a,b/x",
	})
}

// TestConnectionStringTargets pins the targets for these forms, also as the content of a variable.
func TestConnectionStringTargets(t *testing.T) {
	for text, want := range map[string]string{
		"Host=/run/postgresql;Username=app;Password=hUnter2;Database=app":   "postgres:///app?host=/run/postgresql",
		"Host=a,b;Port=5432;Username=app;Password=hUnter2;SslMode=VerifyCA": "postgres://a:5432,b:5432/?…",
		"Host=mydb;Username=app;Database=a@b;c,Password":                    "separated by semicolons",
		"Host=mydb;Username=app;Database=a@b,Password=hUnter2":              "postgres://mydb/?…",
		"Server=mydb;Uid=app;Pwd=hUnter2;Database=app;SslMode=VerifyFull":   "mysql://mydb/app?…",
		"Server=mydb;Uid=app;Pwd=://hUnter2;Database=app":                   "mysql://mydb/app",
		"mysql:unix_socket=/run/mysqld.sock;password=hUnter2":               "mysql://localhost/?…",
		"redis-0,redis-1,password=hUnter2,serviceName=mymaster":             "redis+sentinel://redis-0,redis-1/mymaster",
		"sentinel://:hUnter2@a;sentinel://:hUnter2@b#sentinel=m":            "redis+sentinel://a,b/",
		"sentinel://:hUnter2@a;sentinel://:hUnter2@b/0":                     "or the setting sentinel",
		"amqp://u:hUnter2@a//;amqp://u:hUnter2@b//":                         "amqp://a,b//",
		"amqp://u:hUnter2@a//;amqp://u:7319/hUnter2@b//":                    "an @ after its host",
		"redis://:hUnter2@a;amqp://b":                                       "a host with an invalid character",
		"Host=${env:TEXT};Username=app":                                     "a secret where it must not",
		"Host=mydb;Username=app;Password=${env:TEXT}":                       "postgres://mydb/",
		"mysql:host=mydb;dbname=${env:TEXT}":                                "mysql://mydb/…",
	} {
		targets := map[string]string{text: "hUnter2"}
		if !strings.Contains(text, "${") {
			targets["${env:TEXT}"] = text
			if !strings.Contains(text, "sentinel") {
				targets["${env:TEXT}#tls&insecure"] = text
			}
		}
		for given, value := range targets {
			requireTarget(t, given, value, want)
		}
	}
}

// requireTarget requires that the target, where every variable has the value, is shown with want, or refused with it,
// and without the password.
func requireTarget(t *testing.T, text, value, want string) {
	t.Helper()
	check, err := waitfor.Parse(text, target.Options{Getenv: func(string) string { return value }})
	got := fmt.Sprint(check)
	if err != nil {
		got = err.Error()
	}
	if !strings.Contains(got, want) || strings.Contains(got, "hUnter2") {
		t.Errorf("%s of %s: %q, want %q", text, value, got, want)
	}
}

// TestKindOfConnectionString pins that the kind may precede a reference to a connection string.
func TestKindOfConnectionString(t *testing.T) {
	for _, test := range []struct{ target, text, want string }{
		{"${env:TEXT}", "Server=mydb;User Id=app;Password=hUnter2", "write postgres: or mysql: before it"},
		{"mysql:${env:TEXT}", "Server=mydb;User Id=app;Password=hUnter2", "mysql://mydb/"},
		{"postgres:${env:TEXT}#query=SELECT 1", "Server=mydb;User Id=app;Password=hUnter2", "postgres://mydb/"},
		{"pgsql:${env:TEXT}", "host=mydb;user=app;password=hUnter2", "postgres://mydb/"},
		{"postgres:${env:TEXT}#tls", "host=mydb user=app password=hUnter2", "postgres://mydb/"},
		{"mysql:${env:TEXT}", "mysql:host=mydb;password=hUnter2", "mysql://mydb/"},
		{"postgres:${env:TEXT}", "postgres://app:hUnter2@mydb/app", "postgres://mydb/app"},
		{"mysql:${env:TEXT}", "app:hUnter2@tcp(mydb)/app", "mysql://mydb/app"},
		{"mysql:${env:TEXT}", "hUnter2", "host missing"},
		{"mysql:${env:TEXT}x", "hUnter2", "host missing"},
		{"redis:${env:TEXT}", "hUnter2", "host missing"},
	} {
		requireTarget(t, test.target, test.text, test.want)
	}
}

// TestConnectionStringPasswords pins that a password with any characters arrives unchanged.
func TestConnectionStringPasswords(t *testing.T) {
	libpq := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	for _, secret := range kindtest.Secrets {
		password := secret.Text
		if strings.Contains(password, "${") {
			continue // a reference
		}
		forms := []string{
			"host=mydb user=app password='" + libpq.Replace(password) + "'",
			"Host=mydb;Username=app;Password='" + strings.ReplaceAll(password, "'", "''") + "'",
			`Server=mydb;Uid=app;Pwd="` + strings.ReplaceAll(password, `"`, `""`) + `";Database=app`,
			"mysql:host=mydb;user=app;password=" + strings.ReplaceAll(password, ";", ";;") + ";dbname=app",
			"mydb,user=app,password=" + password + ",ssl=false",
		}
		if !strings.Contains(password, ";") {
			forms = append(forms,
				"Host=mydb;Username=app;Password="+password+";Database=app",
				"pgsql:host=mydb;user=app;password='"+libpq.Replace(password)+"'")
		}
		for _, form := range forms {
			given, err := kinds.Target(form, target.Options{})
			if err != nil {
				t.Errorf("%q: %v", form, err)
				continue
			}
			s := wire.Server{Target: given}
			if user, got, err := wire.Login(s, "", ""); user != "app" || got != password || err != nil {
				t.Errorf("%q: user %q, password %q, %v", form, user, got, err)
			}
		}
	}
}

// FuzzConnectionString requires for any text a URL of one of the servers, or an error without any of the text.
func FuzzConnectionString(f *testing.F) {
	for _, text := range []string{
		"host=mydb user=app password='it\\'s' dbname=app#query=SELECT 1", "service=app",
		"Host=a,b:5433;Port=5432;Database=app;Username=app;Password=\"a;\"\"b\";SSL Mode=VerifyFull;Root Certificate=/x",
		"Host=/run/postgresql;Username=app", "postgres:Server=mydb;User Id=app;Password=p#tls",
		"Server=mydb;Port=3306;Uid=app;Pwd='it''s';Database=app;SslMode=VerifyCA;SslCa=/x", "Data Source=mydb;Initial Catalog=app",
		"Driver={x};Server=mydb;Uid=app;Pwd=p", "redis-0:6379,redis-1,password=p,ssl=True,defaultDatabase=3,serviceName=m#key=a",
		"pgsql:host=mydb;port=5432;dbname=app", "mysql:unix_socket=/run/mysqld.sock;dbname=app;password=a;;b", "password=p,a:1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok, err := forms.ConnectionString(text, kinds)
		switch {
		case err != nil:
			// Messages contain these words, which a text may also contain.
			for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ;,=:'\"#", r) }) {
				if len(part) > 12 && strings.Contains(err.Error(), part) && !strings.Contains("TrustServerCertificate MySqlConnector StackExchange semicolons defaultDatabase clickhouse configuration percent-encode", part) {
					t.Errorf("%q: %v", text, err)
				}
			}
		case ok:
			scheme, _, _ := strings.Cut(got, "://")
			if k := waitfor.KindOf(scheme); k == nil || !k.Hosts {
				t.Fatalf("%q: %q", text, got)
			}
			first, _ := forms.CutHosts(got)
			first, _, _ = strings.Cut(first, "#")
			if u, err := url.Parse(first); err == nil && strings.ContainsAny(u.Path, " =,;@") {
				t.Errorf("%q: %q shows %q", text, got, u.Path)
			}
		}
		kinds.Target(text, target.Options{})
	})
}
