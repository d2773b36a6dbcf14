package influxdb

import (
	"testing"

	"initbox/test/kindtest"
	"initbox/waitfor/target"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

func Fuzz(f *testing.F) {
	c := kindtest.Fuzzed[check](f, kinds, "influxdb://h/a#bucket=a")
	for _, body := range []string{
		`{"name":"influxdb","message":"ready for queries and writes","status":"pass","checks":[],"version":"v2.7.6","commit":"407fa622e9"}`,
		`{"name":"influxdb","message":"hUnter2","status":"fail"}`, "OK", `{"error":"authorization failed"}`,
		`{"results":[{"statement_id":0,"series":[{"name":"databases","columns":["name"],"values":[["_internal"],["a"]]}]}]}`,
		`{"results":[]}`, `{"buckets":[{"name":"a"}]}`, `{"code":"not found","message":"bucket not found"}`,
	} {
		f.Add(uint16(200), []byte(body))
		f.Add(uint16(404), []byte(body))
	}
	f.Fuzz(func(t *testing.T, status uint16, body []byte) {
		a := kindtest.Answer(status, body)
		kindtest.RequireQuiet(t, c.healthy(a))
		kindtest.RequireQuiet(t, c.hasDatabase(a, "a"))
		kindtest.RequireQuiet(t, c.hasBucket(a, "a"))
	})
}
