// Package registries has the registries with which Pods register, for the tests of register.
// Eureka, Nacos, Spring Boot Admin and a small management server are HTTP handlers, written
// from their documentation. etcd and Consul are real servers, started by test/servers and
// reached through a proxy, so that [Faults] can stand before them, too. For Consul, which
// takes long to build, there also is a handler.
//
// A handler does what the server's documentation says, and where that is silent, what its
// source does; each names both.
package registries

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"net/http"
)

// A Registry keeps entries for those who send it requests. Its methods may be called
// at any time.
type Registry interface {
	http.Handler

	// Base is the path that a client's URL of the registry ends with, as in
	// http://HOST:PORT/eureka; or "".
	Base() string

	// Entries are the ids of what is registered now, sorted. What is registered twice
	// is there twice, if the registry can do that.
	Entries() []string

	// Requests is how many requests it has had so far.
	Requests() int

	// Expire ends every lease as if its time were over. What has none, stays.
	Expire()

	// Forget loses everything, as a restart without the data does.
	Forget()
}

// list is what the handlers of this package keep: entries by id, and how many
// requests there were.
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

// get returns the entry of that id, if there is one.
func (l *list[E]) get(id string) (e E, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok = l.entries[id]
	return e, ok
}

// put registers the entry, in the place of one that has its id.
func (l *list[E]) put(id string, e E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[string]E{}
	}
	l.entries[id] = e
}

// drop removes the entry with that id, and reports whether there was one.
func (l *list[E]) drop(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.entries[id]
	delete(l.entries, id)
	return ok
}

// expire removes the entries that live by heartbeats.
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
