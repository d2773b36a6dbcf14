package register_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"initbox/register"
)

// TestLeaseGone pins that a registration of several calls begins again where what one of
// them has made is gone at the next, and gives up in the end.
func TestLeaseGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost int32 // how many leases are gone when the key is put
		puts int32
		err  string
	}{
		"never":       {0, 1, ""},
		"once":        {1, 2, ""},
		"three times": {3, 4, ""},
		"always":      {1000, 4, "status 404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var puts atomic.Int32
			etcd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/v3/lease/grant":
					io.WriteString(w, `{"ID": "7", "TTL": "30"}`)
				case "/v3/lease/keepalive":
					io.WriteString(w, `{"result": {"ID": "7", "TTL": "30"}}`)
				case "/v3/kv/put":
					if puts.Add(1) <= c.lost {
						http.Error(w, `{"message": "etcdserver: requested lease not found", "code": 5}`, http.StatusNotFound)
						return
					}
					io.WriteString(w, `{"header": {}}`)
				}
			}))
			t.Cleanup(etcd.Close)
			r, err := register.Open(register.Options{
				Server: register.Server{URL: etcd.URL}, Protocol: register.Protocol{Preset: "etcd"},
				Entry: register.Entry{Service: "web", ID: "web-0", Address: "127.0.0.7", Port: 1, TTL: 30 * time.Second},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Register(t.Context())
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if puts.Load() != c.puts {
				t.Errorf("%d keys put, want %d", puts.Load(), c.puts)
			}
		})
	}
}

// TestAnsweredAfter pins that the log has the end of what it said was failing, and nothing
// of a call that was answered at once.
func TestAnsweredAfter(t *testing.T) {
	t.Parallel()
	for failures, want := range []string{"", ", 2 attempts", ", 3 attempts"} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			o := newOwn(t, func(w http.ResponseWriter, r *http.Request) bool {
				if requests.Add(1) > int32(failures) {
					return false
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			var log bytes.Buffer
			o.options.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.options.Spread = time.Millisecond
			o.register()
			_, after, answered := strings.Cut(log.String(), ": answered after ")
			if answered != (want != "") || !strings.Contains(after, want) {
				t.Errorf("want %q in the log, which is\n%s", want, &log)
			}
		})
	}
}
