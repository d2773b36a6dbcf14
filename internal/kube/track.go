package kube

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"initbox/internal/poll"
)

// A track is one list and the watches that continue from it, for a follower's whole query or for one of its names.
type track struct {
	follower *Follower
	client   *Client
	query    Query
	seed     uint64
	rand     *rand.Rand
	wake     chan struct{} // has a value when a sibling is no longer forbidden

	// Of the one goroutine that runs the track.
	version string        // from which a watch continues; empty: list first
	listed  error         // why there was no list when it was last forbidden
	listAt  time.Time     // when to try the list that was forbidden
	watchAt time.Time     // when to try the watch that was forbidden
	took    time.Duration // how long the last list or get took
	heard   time.Time     // when the last list or event came
	fresh   bool          // there was no watch since the last list

	// Guarded by follower.mu.
	err     error // why objects may be out of date; nil: they are not
	objects map[string]entry
	size    int
}

// entry is an object that is kept.
type entry struct {
	Object
	size int // as JSON
}

func newTrack(f *Follower, q Query) *track {
	h := fnv.New64a()
	for _, s := range append([]string{q.Resource.String(), q.Namespace, q.LabelSelector, q.FieldSelector}, q.Names...) {
		io.WriteString(h, s+"\x00")
	}
	seed := f.client.seed ^ h.Sum64() // or all watches of a Pod would end at once
	return &track{
		follower: f,
		client:   f.client,
		query:    q,
		seed:     seed,
		rand:     rand.New(rand.NewPCG(seed, 1)),
		wake:     make(chan struct{}, 1),
		err:      errUnasked,
	}
}

// Errors with which one try of a track ends, and that no caller sees.
var (
	errEnded = errors.New("the watch has ended")
	errAgain = errors.New("seen, to be listed again")
)

// until tries for as long as ctx lives: a track never ends in success.
func (t *track) until(ctx context.Context, try func(context.Context) error) {
	poll.Until(ctx, poll.Policy{Seed: t.seed}, try)
}

// run follows one name until ctx ends.
func (t *track) run(ctx context.Context) {
	t.until(ctx, func(ctx context.Context) error {
		if err := t.look(ctx); err != nil {
			err = t.fail(err)
			if isForbidden(err) {
				t.rest(ctx)
			}
			return err
		}
		return t.follow(ctx)
	})
}

// look lists the objects, unless a watch can continue from what is known. Where listing is forbidden for one object, it
// gets that object instead.
func (t *track) look(ctx context.Context) error {
	if t.version != "" {
		return nil
	}
	began := time.Now()
	defer func() { t.took = time.Since(began) }()
	if !began.Before(t.listAt) {
		err := t.list(ctx)
		if !isForbidden(err) || !t.gettable() {
			return err
		}
		t.listed, t.listAt = err, began.Add(t.client.times.upgrade)
	}
	err := t.get(ctx)
	if isForbidden(err) {
		t.listAt = time.Time{}
		return t.listed // the message names list, the verb that a watch needs too
	}
	return err
}

// gettable reports whether the track's objects are one that can be asked for by its name.
func (t *track) gettable() bool {
	q := t.query
	return len(q.Names) == 1 && q.LabelSelector == "" && q.FieldSelector == "" && t.follower.namespaced()
}

func (t *track) list(ctx context.Context) error {
	found, size := map[string]entry{}, 0
	take := func(o Object, n int) {
		found[t.key(o)] = entry{o, n}
		size += n
	}
	v := t.query.Visitor
	if v != nil {
		v.Begin()
		take = func(o Object, _ int) { v.Put(o) }
	}
	version, err := t.client.list(ctx, t.query, take)
	if err != nil {
		return err
	}
	if version == "" {
		return &answerError{errors.New("a list without a resourceVersion")}
	}
	t.version, t.heard, t.fresh = version, time.Now(), true
	if v != nil {
		v.End()
	}
	t.adopt(found, size)
	return nil
}

func (t *track) get(ctx context.Context) error {
	o, err := t.client.Get(ctx, t.query.Resource, t.query.Namespace, t.query.Names[0])
	var status *StatusError
	missing := errors.As(err, &status) && status.missing
	if v := t.query.Visitor; v != nil && (err == nil || missing) {
		v.Begin()
		if err == nil {
			v.Put(o)
		}
		v.End()
		t.adopt(nil, 0)
		return nil
	}
	switch {
	case err == nil:
		t.adopt(map[string]entry{t.key(o): {o, 0}}, 0)
	case missing:
		t.adopt(map[string]entry{}, 0)
	default:
		return err
	}
	return nil
}

// follow watches from the version that look has found. If watching is forbidden, it waits for the next check instead.
// It always returns an error, which says after which pause to continue.
func (t *track) follow(ctx context.Context) error {
	began := time.Now()
	if t.version == "" || began.Before(t.watchAt) {
		t.version = ""
		return poll.After(t.pause(), errAgain)
	}
	opened, fresh := false, t.fresh
	t.fresh = false
	err := t.watch(ctx, func() {
		opened = true
		t.succeed()
	})
	lasted := time.Since(began) >= t.client.times.short
	var status *StatusError
	hung := errors.As(err, new(*poll.Hung))
	broken := hung || errors.As(err, &status) && status.Code >= 500
	switch {
	case err == nil && lasted:
		return poll.After(0, errEnded) // as the server was asked to, or for a restart of it
	case err == nil:
		t.doubt()
		return errEnded
	case isForbidden(err) && !opened:
		t.version, t.watchAt = "", time.Now().Add(t.client.times.upgrade)
		return poll.After(t.pause(), err)
	case hasCode(err, http.StatusGone):
		t.version = "" // the server does not remember it; what is known stays known
		if lasted {
			return poll.After(0, err)
		}
		return err
	case broken && !opened && fresh: // the server lists, but a proxy before it does not pass watches on
		t.version = ""
		return poll.After(t.pause(), err)
	case broken && !opened, hung, hasCode(err, http.StatusTooManyRequests) && !opened:
		// Overloaded, or starting: a list would be more work than the watch.
		t.doubt()
	case errors.As(err, &status), errors.As(err, new(*answerError)):
		t.version = ""
	case opened:
		if !lasted {
			t.doubt()
		}
		return err // a broken connection does not make the objects unknown if another can be opened at once
	}
	return t.fail(err)
}

// doubt makes the next look list again if the watches have been silent for a while: a proxy
// may hold their events back, or not let them through.
func (t *track) doubt() {
	if time.Since(t.heard) >= t.client.times.upgrade {
		t.version = ""
	}
}

// watch follows changes until the server, or the silence, ends it.
func (t *track) watch(ctx context.Context, opened func()) error {
	times := t.client.times
	lasts := times.watch + time.Duration(t.rand.Int64N(int64(times.spread)+1)).Truncate(time.Second)
	v := t.query.values()
	v.Set("watch", "1")
	v.Set("resourceVersion", t.version)
	v.Set("allowWatchBookmarks", "true")
	v.Set("timeoutSeconds", strconv.Itoa(int(lasts/time.Second)))
	return t.client.converse(ctx, t.query.request("watch", v), lasts+times.overrun, func(body io.Reader) error {
		opened()
		return readEvents(body, t.take)
	})
}

// take takes in one event of a watch.
func (t *track) take(e event) error {
	if e.Type == "ERROR" {
		s := t.query.request("watch", nil).tried()
		s.read(e.Object)
		return &s
	}
	m, err := peek(e.Object)
	if err != nil {
		return err
	}
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
		if err := t.change(e, m); err != nil {
			return err
		}
	case "BOOKMARK":
	default:
		return &answerError{errors.New("not an event of a watch")}
	}
	if m.Metadata.ResourceVersion != "" {
		t.version = m.Metadata.ResourceVersion
	}
	t.heard = time.Now()
	return nil
}

// change makes one object what the event says it is.
func (t *track) change(e event, m meta) error {
	if !t.wants(m.Metadata.Name) {
		return nil
	}
	o, err := t.query.decode(e.Object)
	if err != nil {
		return err
	}
	if v := t.query.Visitor; v != nil && e.Type == "DELETED" {
		v.Delete(o)
		return nil
	} else if v != nil {
		v.Put(o)
		return nil
	}
	f, key := t.follower, t.key(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	t.size -= t.objects[key].size
	if e.Type == "DELETED" {
		delete(t.objects, key)
	} else {
		if t.size += len(e.Object); t.size > t.client.room {
			return errTooMuch
		}
		t.objects[key] = entry{o, len(e.Object)}
	}
	f.changed(key)
	return nil
}

// wants reports whether an object with the name is one of the query's.
func (t *track) wants(name string) bool {
	if len(t.query.Names) == 0 {
		return true
	}
	_, found := slices.BinarySearch(t.query.Names, name)
	return found
}

// key returns the key under which the follower keeps an object.
func (t *track) key(o Object) string {
	if t.follower.namespaced() {
		return o.Name()
	}
	return o.Namespace() + "/" + o.Name()
}

// adopt replaces all known objects by found.
func (t *track) adopt(found map[string]entry, size int) {
	f := t.follower
	f.mu.Lock()
	old := t.objects
	t.objects, t.size = found, size
	for key, e := range found {
		if old[key].meta("resourceVersion") != e.meta("resourceVersion") {
			f.changed(key)
		}
	}
	for key := range old {
		if _, ok := found[key]; !ok {
			f.changed(key)
		}
	}
	f.mu.Unlock()
	t.succeed()
}

// succeed notes that the objects are known again.
func (t *track) succeed() {
	f := t.follower
	f.mu.Lock()
	defer f.mu.Unlock()
	was := t.err
	if t.err = nil; was != nil {
		f.changed("")
	}
	if isForbidden(was) {
		for _, sibling := range f.each {
			notify(sibling.wake)
		}
	}
}

// fail records why the objects are not known, and returns err with the pause before the next attempt.
func (t *track) fail(err error) error {
	f := t.follower
	f.mu.Lock()
	was := t.err
	if t.err = err; was == nil || was.Error() != err.Error() {
		f.changed("")
	}
	f.mu.Unlock()
	var status *StatusError
	if errors.As(err, &status) && status.RetryAfter > 0 {
		return poll.After(min(status.RetryAfter, longestPause), err)
	}
	return err
}

// longestPause is the longest Retry-After of a server that is obeyed.
const longestPause = 10 * time.Second

// looksPerSecond is how many of a follower's names are requested in a second, where there is no watch for them.
const looksPerSecond = 20

// pause returns the time until the next check where there is no watch: a second, or longer if there are many names or
// large lists, as those of a visitor are.
func (t *track) pause() time.Duration {
	names := time.Duration(t.siblings()) * time.Second / looksPerSecond
	pause := min(max(t.client.times.poll, names, 20*t.took), rarely)
	if t.query.Visitor != nil {
		pause = rarely
	}
	return time.Duration(float64(pause) * (0.9 + 0.2*t.rand.Float64()))
}

// rarely is the longest time between two checks where there is no watch.
const rarely = 30 * time.Second

// rest delays the next request of a forbidden track until its turn, of which there are about ten in a second, or until
// one of its siblings is permitted: the Role that grants one probably grants the other.
func (t *track) rest(ctx context.Context) {
	turn := min(time.Duration(t.siblings())*time.Second/10, 20*time.Second)
	if turn <= time.Second {
		return // poll's own pace is as slow
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(2*t.rand.Float64()*float64(turn)))
	defer cancel()
	select {
	case <-t.wake:
	case <-ctx.Done():
	}
}

// siblings returns how many names the follower follows one by one, if it does.
func (t *track) siblings() int {
	t.follower.mu.Lock()
	defer t.follower.mu.Unlock()
	return len(t.follower.each)
}

func isForbidden(err error) bool { return hasCode(err, http.StatusForbidden) }
