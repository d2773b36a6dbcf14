package registries

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
)

// Faults is a proxy in front of a [Registry] that injects the faults of networks and servers. A fault applies to the
// next requests, in the order of their arrival, if Only selects them; all others pass. Requests counts the requests
// that have reached the registry, Seen lists all.
type Faults struct {
	Registry

	// Only selects the requests for faults; nil selects all.
	Only func(*http.Request) bool

	// Allow selects the requests with valid credentials; the others are answered with 401. Nil selects all.
	Allow func(*http.Request) bool

	mu      sync.Mutex
	lost    int // number of answers still to lose
	refused []refusal
	hung    chan struct{} // closed when hanging ends; nil if requests do not hang
	seen    []string
}

type refusal struct {
	status     int
	retryAfter int // seconds; no header if negative
}

// LoseAnswers lets the registry handle the next n requests, and closes the connection instead of answering. If the
// connection was used before, Go's client then repeats a GET, or a request with an Idempotency-Key, by itself.
func (f *Faults) LoseAnswers(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost += n
}

// Busy answers the next n requests with 503.
func (f *Faults) Busy(n int) { f.Refuse(n, http.StatusServiceUnavailable, -1) }

// Refuse answers the next n requests with the status, and with a Retry-After of the given seconds unless they are
// negative. The registry does not see them.
func (f *Faults) Refuse(n, status, retryAfter int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, slices.Repeat([]refusal{{status, retryAfter}}, n)...)
}

// Hang holds new requests without an answer, and returns a function that passes them on and ends the hanging. A request
// whose client disconnects meanwhile never reaches the registry.
func (f *Faults) Hang() (resume func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hung := make(chan struct{})
	f.hung = hung
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.hung == hung {
			f.hung = nil
		}
		close(hung)
	})
}

// Seen returns all requests so far in the order of their arrival, as "PUT /path?query".
func (f *Faults) Seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

func (f *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The server only notices that the client disconnects after it has read the body.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	lost, refused, hung := f.next(r)
	switch {
	case hung != nil:
		select {
		case <-hung:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	case refused != nil:
		if refused.retryAfter >= 0 {
			w.Header().Set("Retry-After", strconv.Itoa(refused.retryAfter))
		}
		http.Error(w, http.StatusText(refused.status), refused.status)
		return
	}
	if f.Allow != nil && !f.Allow(r) {
		http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
		return
	}
	if lost {
		f.Registry.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // closes the connection
	}
	f.Registry.ServeHTTP(w, r)
}

// next returns the fault for this request, if any.
func (f *Faults) next(r *http.Request) (lost bool, refused *refusal, hung chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, r.Method+" "+r.URL.RequestURI())
	if f.Only != nil && !f.Only(r) {
		return false, nil, nil
	}
	switch {
	case f.hung != nil:
		return false, nil, f.hung
	case len(f.refused) > 0:
		first := f.refused[0]
		f.refused = f.refused[1:]
		return false, &first, nil
	case f.lost > 0:
		f.lost--
		return true, nil, nil
	}
	return false, nil, nil
}
