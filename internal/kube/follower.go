package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"initbox/internal/poll"
)

// A Follower keeps up with the objects of a query: one list, then one watch from there on.
//
// Where a Role grants only some objects by name (resourceNames), there is a list and a watch for each of them; where it
// grants no watch, they are polled. What is forbidden is tried again, since a RoleBinding may be created later.
type Follower struct {
	client *Client
	query  Query

	synced chan struct{} // closed once there was a result for everything
	once   sync.Once

	mu    sync.Mutex
	whole *track
	each  map[string]*track // by name, while the whole is forbidden; else nil
	waits map[string][]chan struct{}
}

// errUnasked is the error before the first answer.
var errUnasked = errors.New("the API server has not answered yet")

// Follow returns a follower of the query's objects. It knows nothing before [Follower.Run].
func (c *Client) Follow(q Query) *Follower {
	q.Names = slices.Compact(slices.Sorted(slices.Values(q.Names)))
	f := &Follower{client: c, query: q, synced: make(chan struct{}), waits: map[string][]chan struct{}{}}
	f.whole = newTrack(f, q)
	return f
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	var singles sync.WaitGroup
	defer singles.Wait()
	together := context.CancelFunc(func() {}) // ends the tracks of the single names
	defer func() { together() }()

	f.whole.until(ctx, func(attempt context.Context) error {
		err := f.whole.look(attempt)
		switch {
		case err == nil:
			together()
			f.join()
			return f.whole.follow(attempt)
		case isForbidden(err) && len(f.query.Names) > 1:
			if tracks := f.split(err); tracks != nil {
				var apart context.Context
				apart, together = context.WithCancel(ctx)
				for _, t := range tracks {
					singles.Go(func() { t.run(apart) })
				}
			}
			return poll.After(f.client.times.upgrade, err)
		}
		return f.whole.fail(err)
	})
	<-ctx.Done() // a permanent error remains
}

// split starts a track for each name, unless that was done before.
func (f *Follower) split(forbidden error) (started []*track) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole.err = forbidden
	if f.each != nil {
		return nil
	}
	f.each = map[string]*track{}
	for _, name := range f.query.Names {
		q := f.query
		q.Names = []string{name}
		f.each[name] = newTrack(f, q)
		started = append(started, f.each[name])
	}
	return started
}

// join ends what split began: all names are followed at once.
func (f *Follower) join() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.each != nil {
		f.each = nil
		f.changed("")
	}
}

// Object returns the object with the name, which is NAMESPACE/NAME in a query of
// all namespaces. Without an error, nil means that it does not exist. The error says why that
// is unknown: the server has not answered yet, no longer answers, or refuses.
func (f *Follower) Object(name string) (Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.whole
	if f.each != nil {
		t = f.each[name]
	}
	if t == nil || !t.wants(name) && f.namespaced() {
		return nil, fmt.Errorf("%s is not followed", name) // the caller's mistake
	}
	if t.err != nil {
		return nil, t.err
	}
	return t.objects[name].Object, nil
}

// Objects returns all objects of the query, sorted by name. The error is that of [Follower.Object].
func (f *Follower) Objects() ([]Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tracks := []*track{f.whole}
	if f.each != nil {
		tracks = tracks[:0]
		for _, name := range f.query.Names {
			tracks = append(tracks, f.each[name])
		}
	}
	var all []Object
	for _, t := range tracks {
		if t.err != nil {
			return nil, t.err
		}
		for _, name := range slices.Sorted(maps.Keys(t.objects)) {
			all = append(all, t.objects[name].Object)
		}
	}
	return all, nil
}

// Changes returns a channel that has a value after each change of the object with the name, or of any if name is empty,
// and of the error; until ctx ends. Changes in quick succession may be one value.
func (f *Follower) Changes(ctx context.Context, name string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{}, 1)
	f.waits[name] = append(f.waits[name], c)
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.waits[name] = slices.DeleteFunc(f.waits[name], func(w chan struct{}) bool { return w == c })
	})
	return c
}

// Synced waits for the first answer about every object, or the first failure to get one. Its error is that of ctx.
func (f *Follower) Synced(ctx context.Context) error {
	select {
	case <-f.synced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// changed notifies those that wait for a change of the object with the key, or of any if key is empty. f.mu is held.
func (f *Follower) changed(key string) {
	f.settle()
	for name, waits := range f.waits {
		if key == "" || name == "" || name == key {
			for _, w := range waits {
				notify(w)
			}
		}
	}
}

// settle closes synced once there is a result for everything. f.mu is held.
func (f *Follower) settle() {
	done := f.whole.err != errUnasked
	for _, t := range f.each {
		done = done && t.err != errUnasked
	}
	if done {
		f.once.Do(func() { close(f.synced) })
	}
}

// namespaced reports whether an object is known by its name alone.
func (f *Follower) namespaced() bool { return f.query.Namespace != "" || !f.query.Resource.Namespaced }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has a value already
	}
}
