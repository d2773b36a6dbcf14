package resolver

import (
	"sync"
	"time"

	"initbox/internal/poll"
)

// A negative answer whose SOA grants fewer seconds than this has expired before it is worth remembering.
const worthRemembering = 3 // seconds

const (
	// After this time, a countdown in whole seconds is visible, regardless of the latency of the answers.
	decision = 1100 * time.Millisecond

	recheck = 5 * time.Second        // how often a cache is asked all the same: there may be several behind one address
	settle  = 5 * time.Millisecond   // from the moment a cache entry expires to the moment it is asked
	sharp   = 100 * time.Millisecond // how exactly that moment is worth knowing
	rfc8020 = 30 * time.Second       // how often NXDOMAIN for one type is verified for the others
)

// Memory is what one waiter has learnt from the negative answers that it got.
//
// A cache that says "no such name" repeats it for as long as the SOA record in its answer says, and counts that time
// down from answer to answer; an authoritative server returns the same number each time. So two answers distinguish
// them (the AA flag does not: CoreDNS sets it on cached answers too), and only an observed countdown is relied on.
//
// The number is in whole seconds, so one answer determines the end of the countdown to within a second. Each further
// query, sent at the middle of that interval, halves it. Some caches drop the entry when the number reaches 0 (CoreDNS,
// BIND), some a second later (Unbound): a query is sent at both moments.
//
// A nil Memory remembers nothing.
type Memory struct {
	mu      sync.Mutex
	entries map[question]*entry
}

type question struct {
	name  string
	qtype uint16
}

// entry is the state of one name and type.
type entry struct {
	err   *Error
	asked time.Time // when the last answer came
	since time.Time // when the first answer came
	ttl   int       // of the last answer, in seconds

	verdict        verdict
	full           time.Time // when the TTL last was seen at ttl without having dropped
	earliest, zero time.Time // bounds of the moment at which the countdown reaches 0
}

type verdict int

const (
	unknown  verdict = iota
	counting         // a cache answers: its TTL was seen to drop
	constant         // an authoritative server answers: its TTL was seen to stay
)

// learn records that the answer with a negative TTL of ttl seconds came at now.
func (m *Memory) learn(err *Error, ttl int, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	q := question{err.Name, err.Type}
	e := m.entries[q]
	if ttl < worthRemembering && (e == nil || e.verdict != counting) || e != nil && e.err.Kind != err.Kind {
		delete(m.entries, q)
		return
	}
	if e == nil {
		if m.entries == nil {
			m.entries = map[question]*entry{}
		}
		e = &entry{since: now, full: now, ttl: ttl}
		m.entries[q] = e
		e.restart(ttl, now)
	}
	e.observe(ttl, now)
	e.err, e.asked = err, now
	if e.verdict == counting {
		err.Cached = e.zero.Sub(now)
	}
}

// observe draws the conclusions from one more answer.
func (e *entry) observe(ttl int, now time.Time) {
	switch {
	case ttl < e.ttl:
		e.verdict = counting
		e.full = now
		e.narrow(ttl, now)
	case ttl > e.ttl: // the cache has asked again, and got a new TTL
		e.full = now
		e.restart(ttl, now)
	default:
		e.narrow(ttl, now)
		if now.Sub(e.full) >= decision {
			e.verdict = constant
			e.restart(ttl, now)
		}
	}
	e.ttl = ttl
}

// restart takes (ttl, now) for the first answer of a new countdown: it reaches 0
// in ttl seconds or up to one second earlier.
func (e *entry) restart(ttl int, now time.Time) {
	e.zero = now.Add(time.Duration(ttl) * time.Second)
	e.earliest = e.zero.Add(-time.Second)
}

// narrow adds what (ttl, now) says about the end of the running countdown.
func (e *entry) narrow(ttl int, now time.Time) {
	latest := now.Add(time.Duration(ttl) * time.Second)
	earliest := latest.Add(-time.Second)
	if latest.Before(e.earliest) || earliest.After(e.zero) {
		e.restart(ttl, now) // another countdown: several caches behind one address
		return
	}
	if latest.Before(e.zero) {
		e.zero = latest
	}
	if earliest.After(e.earliest) {
		e.earliest = earliest
	}
}

// due returns the moment from which it pays to ask again, or the zero time where the ordinary pace is right.
func (e *entry) due() (at time.Time) {
	switch e.verdict {
	case constant:
		return time.Time{}
	case unknown:
		// Two answers a good second apart will show. Until then a cache gains nothing from being asked, and an
		// authoritative server might: double the pauses.
		decided := e.since.Add(decision)
		if !e.asked.Before(decided) {
			return time.Time{} // still unknown, as with a server that invents numbers
		}
		at = e.asked.Add(max(e.asked.Sub(e.since), 100*time.Millisecond))
		if at.After(decided) {
			at = decided
		}
		return at
	}
	expiry := e.zero.Add(settle)
	if !e.asked.Before(expiry) {
		expiry = expiry.Add(time.Second)
	}
	if !e.asked.Before(expiry) {
		return time.Time{} // it should have expired: ask at the ordinary pace
	}
	at = e.asked.Add(recheck)
	if e.zero.Sub(e.earliest) > sharp {
		// Ask at the moment at which the answer halves the uncertainty.
		middle := e.earliest.Add(e.zero.Sub(e.earliest) / 2)
		latest := at
		if quick := e.asked.Add(1500 * time.Millisecond); middle.Sub(e.asked) < 2*recheck {
			latest = quick // the end is near: fewer seconds are left than answers needed
		}
		if over := middle.Sub(latest); over > 0 {
			middle = middle.Add(-over.Truncate(time.Second))
			if middle.After(latest) {
				middle = middle.Add(-time.Second)
			}
		}
		if middle.After(e.asked) {
			at = middle
		}
	}
	if at.After(expiry) {
		at = expiry
	}
	if soonest := e.asked.Add(sharp / 2); at.Before(soonest) {
		at = soonest
	}
	return at
}

// recall returns the answer that asking now would only repeat, or nil.
func (m *Memory) recall(name string, qtype uint16) *Error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[question{name, qtype}]
	if e == nil {
		return nil
	}
	now := time.Now()
	if !now.Before(e.due()) {
		return nil
	}
	return e.current(now)
}

// current returns the remembered answer as a cache would give it now.
func (e *entry) current(now time.Time) *Error {
	err := *e.err
	err.Cached = 0
	if e.verdict == counting {
		err.Cached = max(e.zero.Sub(now), 0)
	}
	return &err
}

// noSuchName reports whether all types of name were recently denied with NXDOMAIN.
func (m *Memory) noSuchName(name string, types []uint16) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range types {
		e := m.entries[question{name, t}]
		if e == nil || e.err.Kind != NoSuchName || time.Since(e.asked) > rfc8020 {
			return false
		}
	}
	return true
}

func (m *Memory) forget(name string, qtype uint16) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, question{name, qtype})
}

// pace marks failure with the time at which the first of its questions is worth repeating, unless the poll loop's own
// pace is right.
func (m *Memory) pace(failure *Failure) error {
	if m == nil {
		return failure
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var first time.Time
	all := true
	for _, err := range failure.Tried {
		var at time.Time
		if e := m.entries[question{err.Name, err.Type}]; e != nil {
			at = e.due()
		}
		if at.IsZero() {
			all = false
		} else if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	switch pause := max(time.Until(first), time.Millisecond); {
	case first.IsZero():
		return failure
	case all:
		return poll.After(pause, failure)
	default:
		return poll.Within(pause, failure)
	}
}
