package forms_test

import (
	"testing"

	"initbox/waitfor/forms"
)

// TestConnectionStrings pins the URLs for libpq's KEY=VALUE form, and what is not in this form.
func TestConnectionStrings(t *testing.T) {
	for text, want := range map[string]string{
		"host=mydb":                                 "postgres://mydb/",
		" host = mydb  port= 5433 ":                 "postgres://mydb:5433/",
		"postgres:host=mydb dbname=app":             "postgres://mydb/app",
		"host=a,b port=1,2 user=app":                "postgres://app@a:1,b:2/",
		"host=a,b,c port=1":                         "postgres://a:1,b:1,c:1/",
		"hostaddr=fd00::1 port=5433":                "postgres://[fd00::1]:5433/",
		"host=mydb hostaddr=10.0.0.1":               "postgres://mydb/?hostaddr=10.0.0.1",
		"host=/run/pg port=5433 dbname=app":         "postgres:///app?host=%2Frun%2Fpg&port=5433",
		"host=a,/run/pg":                            "postgres:///?host=a%2C%2Frun%2Fpg",
		`host=mydb user=app password='it\'s #1 \\'`: `postgres://app:it%27s%20%231%20%5C@mydb/`,
		"host=mydb password=a#b#query=select 1":     "postgres://:a%23b@mydb/#query=select 1",
		"host=mydb password=a#tls&query=x":          "postgres://:a@mydb/#tls&query=x",
		"host=mydb sslmode=require":                 "postgres://mydb/?sslmode=require",
		"service=mine":                              "postgres:///?service=mine",
		"postgres:?service=mine#tls":                "postgres:///?service=mine#tls",

		"postgres://app:x@%2Frun%2Fpg:5433/app?a=b#tls": "postgres://app:x@/app?host=%2Frun%2Fpg&port=5433&a=b#tls",
		"postgresql+psycopg2://%2frun%2fpg/app":         "postgresql:///app?host=%2frun%2fpg",
		"postgres://mydb/app?a=%2F":                     "postgres://mydb/app?a=%2F",
		"http://%2Frun/":                                "http://%2Frun/",
	} {
		if got, err := forms.URL(text, kinds); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}
