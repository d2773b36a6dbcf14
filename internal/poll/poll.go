// Package poll retries an attempt until it succeeds.
//
// [Until] is the loop behind every wait, [Pause] its back-off, and this package has the timers; only single HTTP
// requests are repeated elsewhere, in internal/httpclient. The error of an attempt says how to continue: [Permanent]
// ends the wait, [After] and [Within] set the next attempt's time. An attempt notes what it does with [Doing], for the
// message if it hangs. [Notice] tells a caller further up of the attempts. [Race] runs alternatives, such as
// addresses of a host, in one attempt.
package poll

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"initbox/internal/words"
)

// The back-off: the pause between attempts, see [Pause], grows with the time waited, so that it adds about 5 % to any
// wait, and Pods that wait for hours still ask once a second at most.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
	fraction = 0.05 // of the time waited so far
	jitter   = 0.2  // either way, so that Pods that started together do not ask in step
)

// A shorter interruption than this may go unseen while [Policy.StableFor] runs.
const maxStablePause = 200 * time.Millisecond

// minWake is the least time between two attempts that changes cause: a file that is written
// to all the time must not keep a processor busy.
const minWake = 20 * time.Millisecond

// maxAttempts is how many attempts of one [Until] may run at once.
const maxAttempts = 2

// Policy says how [Until] tries. The zero value tries until its context ends, and lets an attempt hang until then.
type Policy struct {
	AttemptTimeout time.Duration // limit of one attempt; none if zero

	// Patience is how long an attempt that hangs holds up the next one; zero means forever. The hanging attempt
	// continues beside the next, since a slow answer counts too: the first one finds a server that needs three seconds
	// to answer, the next one a server that came up after packets were dropped. There are never more than two.
	Patience time.Duration

	// StableFor is how long attempts must succeed without interruption. A slow
	// success is no interruption; a timeout is.
	StableFor time.Duration

	Seed uint64 // of the jitter

	// MinPause, if set, returns the shortest pause after a failure, if that is longer than that of the back-off.
	MinPause func() time.Duration

	// Align, if set, returns the pause to make instead of the one that the back-off and its jitter gave.
	Align func(time.Duration) time.Duration

	// Watch, if set, is called after the first failure. A value in the channel
	// it returns, if any, means that something changed, and starts an attempt.
	Watch func(context.Context) <-chan struct{}

	// Wake, if set, has a value when a change is likely: it starts an attempt, unless the last one ended with [After].
	Wake <-chan struct{}

	// Notify, if set, is called for every attempt that counts, in order.
	Notify func(Event)
}

// Event is what one attempt found.
type Event struct {
	Attempt int   // counted from 1
	Err     error // nil: ready, though perhaps not yet for long enough
}

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks err as one that no other attempt can heal: [Until] stops.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent reports whether err was marked by [Permanent].
func IsPermanent(err error) bool { return errors.As(err, new(permanentError)) }

type laterError struct {
	error
	pause  time.Duration
	atMost bool
}

func (e laterError) Unwrap() error { return e.error }

// After marks err with the pause before the next attempt, which replaces the policy's: an
// earlier one would find nothing new.
func After(pause time.Duration, err error) error { return laterError{err, pause, false} }

// Within marks err with the longest pause before the next attempt, which is made earlier
// if the policy's own pause is shorter.
func Within(pause time.Duration, err error) error { return laterError{err, pause, true} }

// Error is returned by [Until] when its context ends first.
type Error struct {
	Attempts int
	Waited   time.Duration
	Cause    error // why the context ended
	Last     error // why the target was not ready; nil if nothing ever failed
}

func (e *Error) Error() string {
	return fmt.Sprintf("%v after %v and %s: %v", e.Cause, e.Waited.Round(time.Millisecond), words.Plural(e.Attempts, "attempt"), e.Last)
}

// Unwrap returns only the cause: Last may itself be a deadline, that of one
// attempt, and must not pass for the end of the wait.
func (e *Error) Unwrap() error { return e.Cause }

// Hung is the error of an attempt that has not answered.
type Hung struct {
	For   time.Duration // how long, so far
	Doing string        // what it was last [Doing]; may be empty
}

func (e *Hung) Error() string {
	if e.Doing == "" {
		return fmt.Sprintf("no answer within %v", e.For)
	}
	return fmt.Sprintf("%s: no answer within %v", e.Doing, e.For)
}

// Until calls try, at once and then again after each failure, until it
// succeeds (nil), fails for good ([Permanent]), or ctx ends ([Error]).
func Until(ctx context.Context, p Policy, try func(context.Context) error) error {
	u := &until{
		Policy:  p,
		try:     try,
		start:   time.Now(),
		results: make(chan *attempt),
		rand:    rand.New(rand.NewPCG(p.Seed, 0)),
	}
	u.notice, _ = ctx.Value(noticeKey{}).(func(error))
	attempts, stop := context.WithCancel(Notice(ctx, nil))
	defer stop()

	next := time.NewTimer(0)
	defer next.Stop()
	var wake <-chan struct{}
	watched := false
	changed := func() {
		next.Reset(max(0, minWake-time.Since(u.woken)))
		u.waking = true
	}
	for {
		select {
		case <-next.C:
			if u.waking {
				u.waking, u.woken = false, time.Now()
			}
			u.noticeHang()
			u.makeRoom()
			if u.alive < maxAttempts {
				u.launch(attempts)
			} else {
				u.waiting = true // for one that takes its time to stop
			}
			if p.Patience > 0 {
				next.Reset(p.Patience)
			}

		case <-wake:
			changed()

		case <-p.Wake:
			if !u.held {
				changed()
			}

		case a := <-u.results:
			u.alive--
			if u.waiting {
				u.waiting = false
				next.Reset(0)
			}
			if a.dropped {
				continue
			}
			if a.err != nil && Ended(ctx) {
				return u.gaveUp(ctx) // cut short: its error does not count
			}
			newest := u.finish(a)
			if a.err != nil && u.lastSeen > a.number {
				continue // a later attempt has already found something newer
			}
			if done := u.take(a.number, a.err); done || IsPermanent(a.err) {
				return a.err
			}
			if a.err != nil && !watched && p.Watch != nil {
				watched = true
				if wake = p.Watch(attempts); wake != nil {
					next.Reset(0) // for what happened between the attempt and the watch
					continue
				}
			}
			if (newest || a.err == nil) && !u.waking {
				next.Reset(u.pause(a.err))
			}

		case <-ctx.Done():
			return u.gaveUp(ctx)
		}
	}
}

type noticeKey struct{}

// Notice returns a context in which f is called with the error of each attempt of [Until], nil after a success, but not
// with those of an Until within an attempt.
func Notice(ctx context.Context, f func(error)) context.Context {
	return context.WithValue(ctx, noticeKey{}, f)
}

// Noticed calls the function of [Notice], if there is one, for a loop elsewhere.
func Noticed(ctx context.Context, err error) {
	if f, _ := ctx.Value(noticeKey{}).(func(error)); f != nil {
		f(err)
	}
}

// until is the state of one call of [Until].
type until struct {
	Policy
	notice  func(error) // see Notice; nil for none
	try     func(context.Context) error
	start   time.Time
	results chan *attempt
	rand    *rand.Rand

	alive    int        // attempts whose try has not returned
	waiting  bool       // for one of them to return, to start the next
	waking   bool       // the next attempt is caused by a change
	woken    time.Time  // when the last such attempt started
	held     bool       // the last one ended with After
	started  int        // attempts so far
	running  []*attempt // the oldest first, at most two
	lastSeen int        // the newest attempt whose finding counted
	found    time.Time  // when the last finding came
	last     error      // its failure, or the last one before it
	ready    time.Time  // since when every finding was a success; zero if the last was not
}

// attempt is one call of try.
type attempt struct {
	number int
	start  time.Time
	progress
	cancel context.CancelFunc

	// Set when try has returned.
	err     error
	dropped bool // it was cancelled to make room, and found nothing
}

// makeRoom cancels the newest of two attempts, which the next one repeats, while the oldest may yet be answered.
func (u *until) makeRoom() {
	if len(u.running) == maxAttempts {
		u.running[maxAttempts-1].cancel()
		u.running = u.running[:maxAttempts-1]
	}
}

func (u *until) launch(ctx context.Context) {
	u.started++
	u.alive++
	a := &attempt{number: u.started, start: time.Now()}
	u.running = append(u.running, a)

	actx := a.begin(ctx, u.AttemptTimeout)
	go func() {
		err := u.try(actx)
		if err != nil && Ended(actx) && cutOff(err) { // without a timeout, it does not count
			err = a.hung(u.AttemptTimeout)
		}
		a.err, a.dropped = err, err != nil && actx.Err() == context.Canceled
		select {
		case u.results <- a:
		case <-ctx.Done():
		}
	}()
}

// begin returns the context of the attempt, which may take limit if that is not zero, and sets what cancels it.
func (a *attempt) begin(ctx context.Context, limit time.Duration) context.Context {
	ctx = context.WithValue(ctx, progressKey{}, &a.progress)
	if limit > 0 {
		ctx, a.cancel = context.WithTimeout(ctx, limit)
	} else {
		ctx, a.cancel = context.WithCancel(ctx)
	}
	return ctx
}

// finish takes a off the running attempts and reports whether it was the newest.
func (u *until) finish(a *attempt) (newest bool) {
	a.cancel()
	u.running = slices.DeleteFunc(u.running, func(r *attempt) bool { return r == a })
	return a.number == u.started
}

// noticeHang counts an attempt that outlasts the policy's patience as a failure: what does
// not answer now is not ready now.
func (u *until) noticeHang() {
	if len(u.running) == 0 || u.Patience == 0 {
		return
	}
	a := u.running[len(u.running)-1]
	switch {
	case time.Since(a.start) < u.Patience: // woken, not out of patience
		return
	case u.found.After(a.start): // an older attempt was answered meanwhile
		return
	case !u.ready.IsZero(): // slow is no interruption
		return
	}
	oldest := u.running[0]
	err := oldest.hung(time.Since(oldest.start).Truncate(u.Patience))
	if found := a.found.Load(); found != nil { // which is newer
		err = *found
	}
	u.take(a.number, err)
}

// take counts a finding and reports whether the wait is over.
func (u *until) take(number int, err error) (done bool) {
	u.lastSeen, u.found = max(u.lastSeen, number), time.Now()
	if u.Notify != nil {
		u.Notify(Event{Attempt: number, Err: err})
	}
	if u.notice != nil {
		u.notice(err)
	}
	if err != nil {
		u.last, u.ready = err, time.Time{}
		return false
	}
	if u.ready.IsZero() {
		u.ready = time.Now()
	}
	return time.Since(u.ready) >= u.StableFor
}

// pause returns the time until the next attempt after one that ended with err.
func (u *until) pause(err error) time.Duration {
	u.held = false
	if err == nil {
		return min(max(u.StableFor/10, minPause), maxStablePause, u.StableFor-time.Since(u.ready))
	}
	pause := growing(time.Since(u.start))
	if u.MinPause != nil {
		pause = max(pause, u.MinPause())
	}
	if pause = jittered(pause, u.rand); u.Align != nil {
		pause = u.Align(pause)
	}
	var later laterError
	if errors.As(err, &later) && (!later.atMost || later.pause < pause) {
		u.held = !later.atMost
		return later.pause
	}
	return pause
}

// Sleep waits for d, or returns why ctx has ended before.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pause returns the time from a failed attempt to the next one, after a wait of that length, with jitter from r.
func Pause(waited time.Duration, r *rand.Rand) time.Duration { return jittered(growing(waited), r) }

// growing returns the pause after a wait of that length.
func growing(waited time.Duration) time.Duration {
	return min(max(time.Duration(fraction*float64(waited)), minPause), maxPause)
}

func jittered(pause time.Duration, r *rand.Rand) time.Duration {
	return time.Duration(float64(pause) * (1 - jitter + 2*jitter*r.Float64()))
}

func (u *until) gaveUp(ctx context.Context) error {
	last := u.last
	if last == nil && len(u.running) > 0 {
		last = u.running[0].hung(time.Since(u.running[0].start).Round(time.Millisecond))
	}
	return &Error{Attempts: u.started, Waited: time.Since(u.start), Cause: context.Cause(ctx), Last: last}
}

// hung returns the error of an attempt that has not ended within d: what it has found so far, or a [Hung].
func (a *attempt) hung(d time.Duration) error {
	if found := a.found.Load(); found != nil {
		return *found
	}
	h := &Hung{For: d}
	if doing := a.doing.Load(); doing != nil {
		h.Doing = *doing
	}
	return h
}

// Ended reports whether ctx is over, waiting for the moment at which it says so
// itself: package net fails at the deadline, a little before the context does.
func Ended(ctx context.Context) bool {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// cutOff reports whether err is of the kind that the end of an attempt causes itself: a timeout, a cancellation, or a
// read from a connection that was closed on this side. What a server did is not one of these, and counts even if it
// comes late.
func cutOff(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &t) && t.Timeout()
}

// Try makes one attempt as [Until] does, for a loop elsewhere. It may take limit, unless
// that is zero. The error of an attempt that limit or the end of ctx cut off is a [Hung].
func Try(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	a := &attempt{start: time.Now()}
	actx := a.begin(ctx, limit)
	defer a.cancel()
	err := try(actx)
	switch {
	case err == nil || !Ended(actx) || !cutOff(err):
		return err
	case Ended(ctx):
		return a.hung(time.Since(a.start).Round(time.Millisecond))
	}
	return a.hung(limit)
}

// Every calls f once per period until ctx ends.
func Every(ctx context.Context, period time.Duration, f func()) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}
