package forms_test

import (
	"strings"
	"testing"

	"initbox/test/kindtest"
	"initbox/waitfor"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
)

// kinds is the table of all kinds.
var kinds = waitfor.Kinds()

// TestForms pins the URLs for targets in the forms of other programs.
func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"tcp://a:1":                               "tcp://a:1",
		"postgres://a/b":                          "postgres://a/b",
		"jdbc:postgresql://a:1,b:2/app?ssl=true":  "postgresql://a:1,b:2/app?ssl=true",
		"jdbc:postgresql:app":                     "postgresql://localhost/app",
		"JDBC:MySQL://a/app":                      "mysql://a/app",
		"jdbc:mysql:replication://a,b/app":        "mysql://a,b/app",
		"jdbc:aws-wrapper:postgresql://a/app":     "postgresql://a/app",
		"r2dbc:pool:postgresql://app@a/app":       "postgresql://app@a/app",
		"jdbc:clickhouse:https://a:8443/app":      "clickhouse://a:8443/app#tls",
		"postgresql+psycopg2://app@a/b":           "postgresql://app@a/b",
		"mysql+pymysql://app@a/b?charset=utf8":    "mysql://app@a/b?charset=utf8",
		"elasticsearch+https://a:9200":            "elasticsearch://a:9200#tls",
		"elasticsearch+https://a:9200#status=red": "elasticsearch://a:9200#tls&status=red",
		"elasticsearch+https://a:9200#tls":        "elasticsearch://a:9200#tls",
		"http+unix://%2Frun%2Fa.sock/":            "http+unix://%2Frun%2Fa.sock/",
		"nats://u:p@a:1,nats://u:p@b:2":           "nats://u:p@a:1,b:2",
		"host=a port=1 dbname=app user=me":        "postgres://me@a:1/app",
		"host=a,b port=1,2 dbname=app":            "postgres://a:1,b:2/app",
		`host=a user=me password='it\'s & more'`:  "postgres://me:it%27s%20&%20more@a/",
		"postgres:host=a sslmode=require":         "postgres://a/?sslmode=require",
		"host=/run/postgresql dbname=app":         "postgres:///app?host=%2Frun%2Fpostgresql",
		"host=fd00::1 port=5432":                  "postgres://[fd00::1]:5432/",
		"me:pw@tcp(a:3306)/app?tls=true":          "mysql://me:pw@a:3306/app?tls=true",
		"mysql2://app@a/b?encoding=utf8mb4":       "mysql://app@a/b?encoding=utf8mb4",
		"postgis://app@a/b":                       "postgres://app@a/b",
		"cockroachdb+psycopg2://app@a/b":          "postgres://app@a/b",
		"pyamqp://app@a//":                        "amqp://app@a//",
		"nats://a:1, nats://b:2":                  "nats://a:1,b:2",
	} {
		if got, err := forms.URL(text, kinds); got != want || err != nil {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"jdbc:oracle:thin:@a:1521:XE": "no such kind of JDBC URL",
		"jdbc:sqlserver://a":          "no such kind of JDBC URL",
		"host=a password='not closed": "a quote that is not closed",
		"host=a Server=b":             "KEY=VALUE",
	} {
		if got, err := forms.URL(text, kinds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestWhole pins that a whole target may be in a Secret.
func TestWhole(t *testing.T) {
	file := kindtest.File(t, "memcached://b:1\n")
	env := map[string]string{"URL": "memcached://app:pw@a:1#tls", "DSN": "host=a user=me", "LOOP": "${env:LOOP}",
		"HOST": "a", "LATE": "postgres://app@$(DB_HOST)/app"}
	for text, want := range map[string]string{
		"${env:URL}":                      "memcached://a:1",
		"${env:URL}#insecure&tls":         "memcached://a:1",
		"${file:" + file + "}":            "memcached://b:1",
		"${file:" + file + "}#tls":        "memcached://b:1",
		"${env:DSN}":                      "postgres://a/",
		"${env:LOOP}":                     "contains a ${…}, which is not replaced there",
		"${env:NONE}":                     "environment variable NONE is not set",
		"${env:URL}?ssl=true":             "may be followed only by settings after a #",
		"${env:HOST}:5432":                "may be followed only by settings after a #",
		"tcp://${env:HOST}:5432":          "for a host or a port, write $(NAME)",
		"postgres:///a?host=${env:HOST}":  "a secret in its query where it must not",
		"http://a/?host=${env:HOST}":      "http://a/?…",
		"${env:LATE}":                     "a $(NAME) that was not replaced",
		"redis://a:tcp://10.0.0.1:6379/0": "the port is in REDIS_SERVICE_PORT",
		"redis://tcp://10.0.0.1:6379":     "the port is in REDIS_SERVICE_PORT",
		"$(DATABASE_URL)":                 "a target contains $(DATABASE_URL), which Kubernetes did not replace",
		"kafka://$(BROKERS)/orders":       "a target contains $(BROKERS), which Kubernetes did not replace",
		"redis+sentinel://a/b;password=c": "has a ; in its path",
		"tcp://$(HOST):$(PORT)":           "a target contains $(HOST), $(PORT), which Kubernetes did not replace",
		"postgres://app:$(x)@a/b":         "a target contains $(x), which",
		"kafka://a:1, b:2/orders":         "kafka://a:1,b:2/orders",
		"${file:" + file + "-absent}":     "cannot read secret file",
	} {
		check, err := waitfor.Parse(text, target.Options{Getenv: func(name string) string { return env[name] }})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = check.String()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
