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

// Faults stands before a [Registry] and does what networks and servers do. A fault is
// for the requests to come, in the order of their arrival, and of those only for the
// ones that Only takes; without faults, everything goes through. Requests counts what
// has reached the registry, Seen has all.
type Faults struct {
	Registry

	// Only takes the requests that a fault is for; nil takes all.
	Only func(*http.Request) bool

	// Allow takes the requests that are who they have to be; the others are answered
	// with 401. Nil takes all.
	Allow func(*http.Request) bool

	mu      sync.Mutex
	lost    int // requests whose answer is to be lost
	refused []refusal
	hung    chan struct{} // closed when hanging ends; nil if it does not hang
	seen    []string
}

type refusal struct {
	status     int
	retryAfter int // seconds; none if negative
}

// LoseAnswers makes the registry handle the next n requests, and closes the connection
// in the place of the answer. On a connection that was used before, Go's own client then
// sends a GET, and what has an Idempotency-Key, again by itself.
func (f *Faults) LoseAnswers(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost += n
}

// Busy answers the next n requests with 503.
func (f *Faults) Busy(n int) { f.Refuse(n, http.StatusServiceUnavailable, -1) }

// Refuse answers the next n requests with that status, and with a Retry-After of so many
// seconds unless they are negative. The registry does not see them.
func (f *Faults) Refuse(n, status, retryAfter int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, slices.Repeat([]refusal{{status, retryAfter}}, n)...)
}

// Hang holds the requests to come without an answer, and returns what lets them through
// and ends the hanging. A request whose client goes away meanwhile never reaches the
// registry.
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

// Seen are all requests so far in the order of their arrival, as "PUT /path?query".
func (f *Faults) Seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

func (f *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Until the body is read, the server does not notice that the client goes away.
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

// next returns which fault is this request's, if any.
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
