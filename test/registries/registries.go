// Package registries has registries for the tests of register. Eureka, Nacos, Spring Boot Admin and a small management
// server are HTTP handlers that follow their documentation. etcd and Consul are real servers, started by test/servers
// and reached through a proxy, so that [Faults] can be put in front of them, too. Consul takes long to build, so there
// is also a handler for it.
//
// A handler follows the server's documentation, and where that is silent, its source; each names both.
package registries

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"net/http"
)

// A Registry keeps the entries that clients register. Its methods may be called at any time.
type Registry interface {
	http.Handler

	// Base is the path that a client's URL of the registry ends with, as in http://HOST:PORT/eureka; or "".
	Base() string

	// Entries returns the IDs of all entries, sorted. They include duplicates, if the registry allows them.
	Entries() []string

	// Requests returns the number of requests so far.
	Requests() int

	// Expire ends every lease as if its time were over. Entries without a lease remain.
	Expire()

	// Forget removes everything, like a restart without the data.
	Forget()
}

// list is the data of this package's handlers: entries by ID, and the number of requests.
type list[E any] struct {
	mu       sync.Mutex
	entries  map[string]E
	requests atomic.Int64
}

func (l *list[E]) Requests() int { return int(l.requests.Load()) }

func (l *list[E]) Entries() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]string, 0, len(l.entries))
	for id := range l.entries {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (l *list[E]) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.entries)
}

// get returns the entry with the ID, if there is one.
func (l *list[E]) get(id string) (e E, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok = l.entries[id]
	return e, ok
}

// put registers the entry, and replaces one with the same ID.
func (l *list[E]) put(id string, e E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[string]E{}
	}
	l.entries[id] = e
}

// drop removes the entry with the ID, and reports whether there was one.
func (l *list[E]) drop(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.entries[id]
	delete(l.entries, id)
	return ok
}

// expire removes the entries that need heartbeats.
func (l *list[E]) expire(leased func(E) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.entries {
		if leased(e) {
			delete(l.entries, id)
		}
	}
}

// Await waits until is returns true, and fails the test if it does not within a minute.
func Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	giveUp := time.Now().Add(60 * time.Second)
	for !is() {
		if time.Now().After(giveUp) {
			t.Fatalf("timed out waiting for: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
