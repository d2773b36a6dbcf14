package kube

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"initbox/test/leak"
)

// TestStatusRepeatsToken pins that the token is not in the error of a server or proxy that repeats it, neither in its
// answer nor in the event of a watch.
func TestStatusRepeatsToken(t *testing.T) {
	t.Parallel()
	token := leak.Secrets[0]
	for _, form := range leak.Forms(token) {
		status := map[string]any{"kind": "Status", "code": 401, "reason": "Unauthorized" + form.Text, "message": "invalid bearer token: " + form.Text}
		for _, watch := range []bool{false, true} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if watch {
					json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": status})
					return
				}
				w.WriteHeader(http.StatusUnauthorized)
				json.NewEncoder(w).Encode(status)
			}))
			u, _ := url.Parse(server.URL)
			c := New(&Config{Server: u, NoProxy: true, Authorize: func(h http.Header) error { return bearer(h, token) }}, Options{})
			q := Query{Resource: Resource{Version: "v1", Name: "pods", Kind: "Pod", Namespaced: true}, Namespace: "default"}
			err := c.converse(t.Context(), q.request("watch", q.values()), 0, func(body io.Reader) error {
				return readEvents(body, (&track{query: q}).take)
			})
			var failed *StatusError
			if !errors.As(err, &failed) {
				t.Fatalf("%v, want a *StatusError", err)
			}
			if part := form.In(failed.Error() + " " + failed.Reason); part != "" {
				t.Errorf("%s: %q has %q", form.Name, failed, part)
			}
			hangUp(c)
			server.Close()
		}
	}
}
