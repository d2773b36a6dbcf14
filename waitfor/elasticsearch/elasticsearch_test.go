package elasticsearch

import (
	"strings"
	"testing"

	"initbox/test/kindtest"
	"initbox/waitfor/target"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

func Fuzz(f *testing.F) {
	c := kindtest.Fuzzed[check](f, kinds, "elasticsearch://h#index=a")
	for _, body := range []string{
		`{"cluster_name":"docker-cluster","status":"yellow","timed_out":false,"number_of_nodes":1,"number_of_data_nodes":1,"active_primary_shards":1,"active_shards":1,"relocating_shards":0,"initializing_shards":0,"unassigned_shards":1}`,
		`{"status":"red","timed_out":true}`, `{"status":"GREEN"}`,
		`{"error":{"root_cause":[{"type":"master_not_discovered_exception","reason":null}],"type":"master_not_discovered_exception","reason":null},"status":503}`,
		`{"error":"hUnter2","status":401}`, `{"status":"yellow","unassigned_shards":"x"}`,
	} {
		f.Add(uint16(200), []byte(body))
		f.Add(uint16(503), []byte(body))
	}
	f.Fuzz(func(t *testing.T, status uint16, body []byte) {
		err := c.judge(kindtest.Answer(status, body))
		if err == nil && !strings.Contains(strings.ToLower(string(body)), "e") { // yellow, green
			t.Errorf("%q is ready", body)
		}
		kindtest.RequireQuiet(t, err)
	})
}
