package httpclient

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"initbox/test/servers"
)

// pipes is a network of one server, in memory: time stands still in a test of
// synctest while something waits for a real one.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.closed); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inMemory serves handler until the test ends, and returns how to reach it.
func inMemory(t *testing.T, handler http.HandlerFunc) Options {
	t.Helper()
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: handler}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(p) })
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
	return Options{Dial: p.dial, NoProxy: true}
}

// busy is a server of so many requests a second; the others get 503. It keeps the times at which all came.
type busy struct {
	capacity int
	after    func(b *busy, now time.Duration) string // the Retry-After of a 503; nil for none
	start    time.Time

	mu      sync.Mutex
	second  int // which one it is
	served  int // in it
	booked  time.Duration
	arrived []time.Duration
	last    time.Duration // when the last one was served
}

func (b *busy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Since(b.start)
	b.arrived = append(b.arrived, now)
	if s := int(now / time.Second); s != b.second {
		b.second, b.served = s, 0
	}
	if b.served++; b.served <= b.capacity {
		b.last = now
		return
	}
	if b.after != nil {
		w.Header().Set("Retry-After", b.after(b, now))
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// book gives each request a second of its own to come back in.
func (b *busy) book(now time.Duration) string {
	b.booked = max(b.booked, now+time.Second) + time.Second/time.Duration(b.capacity)
	return strconv.Itoa(int(math.Ceil((b.booked - now).Seconds())))
}

// most returns the largest number of requests in any second after the first.
func (b *busy) most() int {
	late := slices.DeleteFunc(slices.Clone(b.arrived), func(t time.Duration) bool { return t < time.Second })
	slices.Sort(late)
	most, first := 0, 0
	for i, t := range late {
		for t-late[first] >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// TestHerd pins what [pace] promises of thousands of Pods that start at one moment.
// Time is virtual, so that the figures do not depend on the machine.
func TestHerd(t *testing.T) {
	t.Parallel()
	everySecond := func(*busy, time.Duration) string { return "1" }
	for name, tt := range map[string]struct {
		pods, capacity int
		after          func(*busy, time.Duration) string
		most           float64 // requests in a second, in units of the capacity
		last           time.Duration
	}{
		// What the project promises: 2 × the capacity, 1.5 × the least time possible.
		"5000":                 {5000, 200, nil, 2, 37500 * time.Millisecond},
		"20":                   {20, 200, nil, 0, 0},
		"500":                  {500, 200, nil, 2, 37500 * time.Millisecond},
		"four times as many":   {2000, 20, nil, 13, 150 * time.Second},
		"2000, Retry-After: 1": {2000, 80, everySecond, 2, 37500 * time.Millisecond},
		// Each is told when its turn comes, and comes a little later, so that some are turned away once more.
		"2000, Retry-After honest": {2000, 80, (*busy).book, 2, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.pods > 500 {
				servers.Slow(t)
			}
			if raceDetector && tt.pods == 5000 { // it takes ten times the memory, and longer
				tt.pods, tt.capacity = 2000, 80
			}
			synctest.Test(t, func(t *testing.T) {
				b := &busy{capacity: tt.capacity, after: tt.after, start: time.Now()}
				options := inMemory(t, b.ServeHTTP)
				var pods sync.WaitGroup
				for seed := range uint64(tt.pods) {
					pods.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
						defer cancel()
						r := &Retry{Options: options, AttemptTimeout: 10 * time.Second, Seed: seed}
						if _, err := r.Do(ctx, "POST", "http://server/register", nil, fmt.Appendf(nil, "instance=%d", seed)); err != nil {
							t.Errorf("Pod %d is not registered: %v", seed, err)
						}
					})
				}
				pods.Wait()
				b.mu.Lock()
				defer b.mu.Unlock()
				t.Logf("the last of %d after %v, at most %d requests in a second, %.2f for each", tt.pods, b.last, b.most(), float64(len(b.arrived))/float64(tt.pods))
				if most := int(tt.most * float64(tt.capacity)); b.most() > most {
					t.Errorf("%d requests in a second, want %d at most", b.most(), most)
				}
				if b.last > tt.last {
					t.Errorf("the last waited for %v, want %v at most", b.last, tt.last)
				}
			})
		})
	}
}
