package forms

import (
	"strings"
	"testing"
)

// TestGoDSN pins the data source names of Go's MySQL driver.
func TestGoDSN(t *testing.T) {
	for text, want := range map[string]string{
		"app:pw@tcp(db:3306)/app":                              "mysql://app:pw@db:3306/app",
		"app:p@w/r?d#(x)@tcp(db:3306)/app":                     "mysql://app:p%40w%2Fr%3Fd%23%28x%29@db:3306/app",
		"app@tcp(db)/":                                         "mysql://app@db/",
		"tcp([fd00::10]:3306)/app?tls=true":                    "mysql://[fd00::10]:3306/app?tls=true",
		"app:pw@tcp6([::1])/app":                               "mysql://app:pw@[::1]/app",
		"mysql://app:pw@tcp(db:3306)/app?multiStatements=true": "mysql://app:pw@db:3306/app?multiStatements=true",
		"app:pw@tcp(db)/app?loc=Europe/Berlin":                 "mysql://app:pw@db/app?loc=Europe/Berlin",
		"app:pw@tcp(db)/a%20b":                                 "mysql://app:pw@db/a%20b",
		"app:pw@tcp(db)/app#ca-file=/certs/ca.pem&tls":         "mysql://app:pw@db/app#ca-file=/certs/ca.pem&tls",
		"app:pw@unix(/run/mysqld/mysqld.sock)/app?tls=false":   "mysql://app:pw@localhost/app?socket=%2Frun%2Fmysqld%2Fmysqld.sock&tls=false",
		"app:pw@tcp()/app":                                     "mysql://app:pw@localhost/app",
		"app:pw@cloudsql(project:zone:db)/app":                 "",
		"app:pw@db/app":                                        "",
		"http://app:pw@(db)/app":                               "",
		"(tcp)/":                                               "",
		")/":                                                   "",
		"":                                                     "",
	} {
		got, ok := goDSN(text)
		// url.URL may or may not encode parentheses.
		if strings.ReplaceAll(strings.ReplaceAll(got, "%28", "("), "%29", ")") != strings.ReplaceAll(strings.ReplaceAll(want, "%28", "("), "%29", ")") || ok != (want != "") {
			t.Errorf("%s: %q, %t, want %q", text, got, ok, want)
		}
	}
}

// TestKafkaList pins the forms that a list of bootstrap servers may have.
func TestKafkaList(t *testing.T) {
	for text, want := range map[string]string{
		"kafka://b1,b2/t":              "",
		"kafka://app:PLAINTEXT://x@b1": "",
		"b1:9092,b2:9092":              "",
		"ssl://b1:8883":                "",
		"kafka://PLAINTEXT://b1:9092,PLAINTEXT://b2:9092":                 "kafka://b1:9092,b2:9092",
		"kafka://SSL://b1:9093,SSL://b2:9093/t?a=b#topic=u":               "kafka://b1:9093,b2:9093/t?a=b#tls&topic=u",
		"kafka://app:x@SASL_SSL://b1:9093,SASL_SSL://b2:9093":             "kafka://app:x@b1:9093,b2:9093#tls",
		"kafka://SASL_SSL://b1#tls":                                       "kafka://b1#tls",
		"sasl_ssl://b1:9093,b2:9093":                                      "kafka://b1:9093,b2:9093#tls",
		"SASL_PLAINTEXT://b1":                                             "kafka://b1",
		"kafka+ssl://b1.example:9096,kafka+ssl://b2.example:9096#topic=t": "kafka://b1.example:9096,b2.example:9096#tls&topic=t",
	} {
		got, ok := kafkaList(text)
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t, want %q", text, got, ok, want)
		}
	}
}
