package resolver

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"initbox/internal/poll"
)

// cache is a caching name server in front of one that knows the name from a certain moment on.
type cache struct {
	ttl     int
	appears time.Time
	left    func(c *cache, now time.Time) (ttl int, fresh bool)

	stored  time.Time
	queries int
	fetched int
}

// ask returns the negative answer's TTL, or found.
func (c *cache) ask() (ttl int, found bool) {
	now := time.Now()
	c.queries++
	if !c.stored.IsZero() {
		if ttl, fresh := c.left(c, now); fresh {
			return ttl, false
		}
	}
	c.fetched++
	if !now.Before(c.appears) {
		return 0, true
	}
	c.stored = now
	ttl, _ = c.left(c, now)
	return ttl, false
}

// How three caches count: what they say is left, and until when they keep it.
var (
	// CoreDNS: the age in whole seconds is taken off; gone when 0 is left.
	coreDNS = func(c *cache, now time.Time) (int, bool) {
		left := c.ttl - int(now.Sub(c.stored)/time.Second)
		return left, left > 0
	}
	// BIND: the end is a whole second of the clock; gone when it is reached.
	bind = func(c *cache, now time.Time) (int, bool) {
		left := int(c.stored.Unix()) + c.ttl - int(now.Unix())
		return left, left > 0
	}
	// Unbound: the same, gone when it is passed.
	unbound = func(c *cache, now time.Time) (int, bool) {
		left := int(c.stored.Unix()) + c.ttl - int(now.Unix())
		return left, left >= 0
	}
)

// wait asks as a waiter does, until the name is found.
func wait(m *Memory, ask func() (ttl int, found bool)) {
	poll.Until(context.Background(), poll.Policy{}, func(context.Context) error {
		denied := m.recall("mydb.", 1)
		if denied == nil {
			ttl, found := ask()
			if found {
				return nil
			}
			denied = &Error{Kind: NoSuchName, Name: "mydb.", Type: 1}
			m.learn(denied, ttl, time.Now())
		}
		return m.pace(&Failure{Tried: []*Error{denied}})
	})
}

// Whatever the cache, the name is found within 150 ms after its negative entry has expired, with at most a fifth of the
// questions that a loop asks which looks for two types once a second.
func TestMemoryOfCaches(t *testing.T) {
	for name, left := range map[string]func(*cache, time.Time) (int, bool){"CoreDNS": coreDNS, "BIND": bind, "Unbound": unbound} {
		for _, ttl := range []int{5, 30} {
			t.Run(name, func(t *testing.T) {
				for phase := time.Duration(0); phase < time.Second; phase += 37 * time.Millisecond {
					synctest.Test(t, func(t *testing.T) {
						time.Sleep(phase)
						start := time.Now()
						c := &cache{ttl: ttl, left: left, appears: start.Add(time.Duration(ttl) * time.Second * 8 / 10)}
						wait(new(Memory), c.ask)
						var expired time.Time // of the entry that hid the name
						for expired = c.stored; ; expired = expired.Add(time.Millisecond) {
							if _, fresh := left(c, expired); !fresh {
								break
							}
						}
						if late := time.Since(expired); late > 150*time.Millisecond {
							t.Errorf("TTL %d, phase %v: found %v after the entry expired", ttl, phase, late)
						}
						if limit := 2 * ttl / 5; ttl >= 30 && c.queries > limit+2 {
							t.Errorf("TTL %d, phase %v: %d questions, want about %d", ttl, phase, c.queries, limit)
						}
					})
				}
			})
		}
	}
}

// An authoritative server with an SOA of an hour is asked at the ordinary pace.
func TestMemoryOfAuthority(t *testing.T) {
	constant := func(c *cache, now time.Time) (int, bool) { return c.ttl, now.Before(c.appears) }
	for appears := 50 * time.Millisecond; appears < 10*time.Second; appears += 173 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c := &cache{ttl: 3600, left: constant, appears: start.Add(appears)}
			wait(new(Memory), c.ask)
			late := time.Since(c.appears)
			limit := appears*6/100 + 80*time.Millisecond
			if appears < 1100*time.Millisecond {
				limit = max(appears, limit) // not yet known not to be a cache
			}
			if late > limit {
				t.Errorf("appears after %v, found %v later", appears, late)
			}
		})
	}
}

// Two caches behind one address, each with a countdown of its own, never make a
// waiter sleep for more than five seconds.
func TestMemoryOfTwoCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		a := &cache{ttl: 30, left: coreDNS, appears: start.Add(40 * time.Second)}
		b := &cache{ttl: 30, left: coreDNS, appears: start.Add(40 * time.Second)}
		b.stored = start.Add(-11 * time.Second)
		n, last := 0, start
		wait(new(Memory), func() (int, bool) {
			n++
			if pause := time.Since(last); pause > recheck {
				t.Fatalf("slept %v", pause)
			}
			last = time.Now()
			return []*cache{a, b}[n%2].ask()
		})
		if took := time.Since(start); took > 71*time.Second {
			t.Errorf("found after %v", took)
		}
	})
}

// Whatever a server says of the time, the wait goes on at no less than the ordinary pace, or every five seconds.
func TestMemoryOfOddServers(t *testing.T) {
	for name, ttl := range map[string]func(n int, age time.Duration) int{
		"rising":   func(n int, _ time.Duration) int { return 30 + n },
		"falling":  func(n int, _ time.Duration) int { return max(1<<31-n, 0) },
		"huge":     func(int, time.Duration) int { return 1<<32 - 1 },
		"random":   func(n int, _ time.Duration) int { return n * 7919 % 61 },
		"counting": func(_ int, age time.Duration) int { return 1<<31 - int(age/time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, n := time.Now(), 0
				last := start
				wait(new(Memory), func() (int, bool) {
					n++
					if pause := time.Since(last); pause > recheck+time.Millisecond {
						t.Errorf("slept %v before question %d", pause, n)
					}
					last = time.Now()
					return ttl(n, time.Since(start)), time.Since(start) > 10*time.Minute
				})
			})
		})
	}
}

// TestMemoryLearns pins which negative answers are worth remembering, and what they say
// of the time for which a cache will repeat them.
func TestMemoryLearns(t *testing.T) {
	type answer struct {
		after time.Duration
		kind  Kind
		ttl   int
	}
	const s = time.Second
	for name, c := range map[string]struct {
		answers  []answer
		forgets  bool
		cached   time.Duration // of the last answer; 0 unless a cache was seen to count
		constant bool          // an authoritative server was recognised
	}{
		"long enough":            {answers: []answer{{0, NoSuchName, 3}}},
		"too short":              {answers: []answer{{0, NoSuchName, 2}}, forgets: true},
		"the end of a countdown": {answers: []answer{{0, NoSuchName, 5}, {s, NoSuchName, 4}, {3 * s, NoSuchName, 2}}, cached: 2 * s},
		"short, no countdown":    {answers: []answer{{0, NoSuchName, 5}, {3 * s, NoSuchName, 2}}, forgets: true},
		"of another kind":        {answers: []answer{{0, NoSuchName, 30}, {s, NoData, 30}}, forgets: true},
		"of another kind, twice": {answers: []answer{{0, NoSuchName, 30}, {s, NoData, 30}, {2 * s, NoData, 30}}},
		"too soon to tell":       {answers: []answer{{0, NoSuchName, 30}, {decision - 1, NoSuchName, 30}}},
		"an authority":           {answers: []answer{{0, NoSuchName, 30}, {decision, NoSuchName, 30}}, constant: true},
		"another, older cache":   {answers: []answer{{0, NoSuchName, 30}, {s, NoSuchName, 29}, {2 * s, NoSuchName, 10}}, cached: 10 * s},
		"another, younger cache": {answers: []answer{{0, NoSuchName, 30}, {s, NoSuchName, 29}, {10 * s, NoSuchName, 28}}, cached: 28 * s},
	} {
		t.Run(name, func(t *testing.T) {
			m, start := new(Memory), time.Now()
			var last *Error
			for _, a := range c.answers {
				last = &Error{Kind: a.kind, Name: "mydb.", Type: 1}
				m.learn(last, a.ttl, start.Add(a.after))
			}
			e := m.entries[question{"mydb.", 1}]
			if forgotten := e == nil; forgotten != c.forgets {
				t.Fatalf("forgotten: %v, want %v", forgotten, c.forgets)
			}
			if last.Cached != c.cached {
				t.Errorf("cached for %v, want %v", last.Cached, c.cached)
			}
			if e != nil && (e.verdict == constant) != c.constant {
				t.Errorf("verdict %d", e.verdict)
			}
		})
	}
}

// TestMemoryOfBoth pins that the ordinary pace holds where one of two answers came from
// an authoritative server, unless the cache that gave the other forgets sooner.
func TestMemoryOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		learn := func(qtype uint16, ttl int) *Error {
			e := &Error{Kind: NoSuchName, Name: "mydb.", Type: qtype}
			m.learn(e, ttl, time.Now())
			return e
		}
		authority, cache := learn(1, 30), learn(28, 30)
		time.Sleep(2 * time.Second)
		learn(1, 30)
		learn(28, 28)
		at := m.entries[question{"mydb.", 28}].due()
		if at.IsZero() {
			t.Fatal("the cache is asked at the ordinary pace")
		}
		failure := &Failure{Tried: []*Error{authority, cache}}
		if got, want := m.pace(failure), poll.Within(time.Until(at), failure); !reflect.DeepEqual(got, want) {
			t.Errorf("%#v, want %#v", got, want)
		}
		failure = &Failure{Tried: []*Error{cache}}
		if got, want := m.pace(failure), poll.After(time.Until(at), failure); !reflect.DeepEqual(got, want) {
			t.Errorf("%#v, want %#v", got, want)
		}
	})
}
