package waitfor

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"initbox/internal/failure"
)

// fuzzed returns the check of a target, which is never made.
func fuzzed[T Check](f *testing.F, target string) T {
	f.Helper()
	check, err := Parse(target, Options{})
	if err != nil {
		f.Fatal(err)
	}
	return check.(T)
}

// fuzzedAnswer is what a server says; a secret is in it.
func fuzzedAnswer(status uint16, body []byte) *httpAnswer {
	return &httpAnswer{status: int(status), header: http.Header{}, body: body, secrets: []string{"hUnter2"}}
}

// requireQuiet requires that a failure is one of ours, without a secret.
func requireQuiet(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if f := failure.Of(err); f.Text == "" || strings.Contains(f.Error(), "hUnter2") || strings.ContainsAny(f.Error(), "\n\x1b") {
		t.Errorf("%q", f.Error())
	}
}

func FuzzEtcd(f *testing.F) {
	c := fuzzed[etcdCheck](f, "etcd://h")
	for _, body := range []string{`{"health":"true"}`, `{"health":"true","reason":""}`, `{"health":"false"}`, `{"health":"false","reason":"RAFT NO LEADER"}`,
		`{"health":"false","reason":"ALARM NOSPACE"}`, `{"error":"etcdserver: user name is empty","message":"etcdserver: user name is empty","code":3}`, `{"health":{"a":"hUnter2"}}`, `{"health":"","reason":" "}`} {
		f.Add(uint16(200), []byte(body))
		f.Add(uint16(503), []byte(body))
	}
	f.Fuzz(func(t *testing.T, status uint16, body []byte) {
		a := fuzzedAnswer(status, body)
		err := c.healthy(a)
		if err == nil && !json.Valid(body) {
			t.Errorf("%q is healthy", body)
		}
		requireQuiet(t, err)
		requireQuiet(t, c.refused(a))
	})
}

func FuzzElasticsearch(f *testing.F) {
	c := fuzzed[elasticsearchCheck](f, "elasticsearch://h#index=a")
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
		err := c.judge(fuzzedAnswer(status, body))
		if err == nil && !strings.Contains(strings.ToLower(string(body)), "e") { // yellow, green
			t.Errorf("%q is ready", body)
		}
		requireQuiet(t, err)
	})
}

func FuzzInfluxDB(f *testing.F) {
	c := fuzzed[influxdbCheck](f, "influxdb://h/a#bucket=a")
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
		a := fuzzedAnswer(status, body)
		requireQuiet(t, c.healthy(a))
		requireQuiet(t, c.hasDatabase(a, "a"))
		requireQuiet(t, c.hasBucket(a, "a"))
	})
}

func FuzzClickHouse(f *testing.F) {
	c := fuzzed[clickhouseCheck](f, "clickhouse://h")
	for _, body := range []string{
		"Code: 516. DB::Exception: app: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED) (version 24.8.4.13 (official build))\n",
		"Code: 81, e.displayText() = DB::Exception: Database hUnter2 doesn't exist (version 20.3.8.53)\n",
		"Code: ", "Code: 99999999999999999999. x", "Code: 1", `{"error":"x"}`, "",
	} {
		f.Add(uint16(403), []byte(body))
		f.Add(uint16(200), []byte(body))
	}
	f.Fuzz(func(t *testing.T, status uint16, body []byte) {
		err := c.refused(fuzzedAnswer(status, body))
		if err == nil {
			t.Errorf("%q is not refused", body)
		}
		requireQuiet(t, err)
	})
}

func FuzzTemporal(f *testing.F) {
	c := fuzzed[temporalCheck](f, "temporal://h#namespace=shop&task-queue=orders")
	f.Add("0", "", grpcFrame(protoText(nil, 1, string(protoNumber(protoText(nil, 1, "shop"), 2, 1)))))
	f.Add("0", "", grpcFrame(protoText(nil, 1, string(protoNumber(nil, 2, 9)))))
	f.Add("0", "", grpcFrame(nil))
	f.Add("0", "", []byte("\x00\x00\x00\x00\x02\x08\x01"))
	f.Add("5", "Namespace hUnter2 is not found.", []byte(nil))
	f.Add("7", "Request unauthorized.", []byte(nil))
	f.Fuzz(func(t *testing.T, status, words string, frame []byte) {
		a := grpcAnswer{status, words, frame}
		for _, message := range []func(grpcAnswer) error{c.polled, c.registered, grpcAnswer.serving} {
			err := c.judge(a, nil, []string{"hUnter2"}, message)
			if err == nil && (status != "0" || len(frame) < 7) {
				t.Errorf("%q, %x is ready", status, frame)
			}
			requireQuiet(t, err)
		}
	})
}
