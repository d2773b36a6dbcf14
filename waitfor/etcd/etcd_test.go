package etcd

import (
	"encoding/json"
	"testing"

	"initbox/test/kindtest"
	"initbox/waitfor/target"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

func Fuzz(f *testing.F) {
	c := kindtest.Fuzzed[check](f, kinds, "etcd://h")
	for _, body := range []string{`{"health":"true"}`, `{"health":"true","reason":""}`, `{"health":"false"}`, `{"health":"false","reason":"RAFT NO LEADER"}`,
		`{"health":"false","reason":"ALARM NOSPACE"}`, `{"error":"etcdserver: user name is empty","message":"etcdserver: user name is empty","code":3}`, `{"health":{"a":"hUnter2"}}`, `{"health":"","reason":" "}`} {
		f.Add(uint16(200), []byte(body))
		f.Add(uint16(503), []byte(body))
	}
	f.Fuzz(func(t *testing.T, status uint16, body []byte) {
		a := kindtest.Answer(status, body)
		err := c.healthy(a)
		if err == nil && !json.Valid(body) {
			t.Errorf("%q is healthy", body)
		}
		kindtest.RequireQuiet(t, err)
		kindtest.RequireQuiet(t, c.refused(a))
	})
}
