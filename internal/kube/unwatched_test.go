package kube

import (
	"net/http"
	"testing"
	"time"
)

// TestUnwatched pins that where lists are answered and watches are not, as by a proxy that does not let them through,
// or keeps what they tell, the lists tell: the objects are known all the time, and a change soon.
func TestUnwatched(t *testing.T) {
	for name, test := range map[string]struct {
		watching http.HandlerFunc
		known    bool          // the objects stay known
		within   time.Duration // a change is known
		lists    int           // in 600 s, at most
	}{
		"refused": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }, true, 2 * time.Second, 700},
		"unanswered": {func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}, true, 13 * time.Second, 70},
		"swallowed": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}, false, 30 * time.Second, 40},
		"broken": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, true, 10 * time.Second, 130},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake, c *Client) {
				f.do(func() { f.watching = test.watching })
				f.put("a", "Pending")
				follower := follow(t, c, "a")
				for range 20 {
					time.Sleep(29 * time.Second)
					if got := phase(follower, "a"); test.known && got != "Pending" {
						t.Fatalf("%s, want it known", got)
					}
				}
				f.put("a", "Running")
				time.Sleep(test.within)
				wantPhase(t, follower, "a", "Running")
				if n := f.count("list"); n > test.lists {
					t.Errorf("%d lists in 600 s, want at most %d", n, test.lists)
				}
			})
		})
	}
}
