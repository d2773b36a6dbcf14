package main

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A gate is a server that answers so many requests a second, says 503 to the others, and counts them. It holds the
// first request of each client until all have come: no machine can start so many processes at one moment, as a cluster
// does. From then on its time runs.
type gate struct {
	size, capacity int
	listener       net.Listener
	full           chan struct{} // closed when all have come

	mu         sync.Mutex
	seen       map[string]bool // by instance: whether it is registered
	start      time.Time
	second     int // which one it is
	served     int // in it
	arrived    []time.Duration
	registered int
	last       time.Duration // when the last one was registered
}

// crowded returns a gate that listens.
func (b *bench) crowded(host, size, capacity int) (*gate, error) {
	l, err := net.Listen("tcp", b.vars(loopback(serviceNet, host))["addr"])
	if err != nil {
		return nil, err
	}
	c := &gate{size: size, capacity: capacity, listener: l, full: make(chan struct{}), seen: map[string]bool{}}
	go serveHTTP(c.register)(l)
	return c, nil
}

func (c *gate) url() string { return "http://" + c.listener.Addr().String() + "/register" }

func (c *gate) register(w http.ResponseWriter, r *http.Request) {
	instance := r.PostFormValue("instance")
	c.hold(r, instance)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Since(c.start)
	c.arrived = append(c.arrived, now)
	if s := int(now / time.Second); s != c.second {
		c.second, c.served = s, 0
	}
	if c.served++; c.served > c.capacity {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !c.seen[instance] {
		c.seen[instance] = true
		c.registered++
		c.last = now
	}
}

// hold returns when all have come.
func (c *gate) hold(r *http.Request, instance string) {
	c.mu.Lock()
	if _, known := c.seen[instance]; !known {
		c.seen[instance] = false
		if len(c.seen) == c.size {
			c.start = time.Now()
			close(c.full)
		}
	}
	c.mu.Unlock()
	select {
	case <-c.full:
	case <-r.Context().Done():
	}
}

// A tally is the result of a herd.
type tally struct {
	size, capacity int
	registered     int
	last           time.Duration // from the start of all to the registration of the last one
	took           time.Duration // how long it was watched
	requests       int
	most           int   // requests in any second after the first
	each           []int // requests in each second
}

func (c *gate) tally() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := tally{size: c.size, capacity: c.capacity, registered: c.registered, last: c.last, requests: len(c.arrived)}
	t.most, t.took = mostInASecond(c.arrived), time.Since(c.start)
	for _, at := range c.arrived {
		s := int(at / time.Second)
		t.each = append(t.each, make([]int, max(0, s+1-len(t.each)))...)
		t.each[s]++
	}
	return t
}

// mostInASecond returns the largest number of times that lie within one second of
// each other, of those after the first second.
func mostInASecond(times []time.Duration) int {
	late := slices.DeleteFunc(slices.Clone(times), func(t time.Duration) bool { return t < time.Second })
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

func (t tally) all() bool { return t.registered == t.size }

// ideal is the time in which a server of the capacity can answer all.
func (t tally) ideal() time.Duration {
	return time.Duration(t.size) * time.Second / time.Duration(t.capacity)
}
