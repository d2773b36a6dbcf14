// Package wait waits for several things at once, and logs its course: a line when the state of one changes, a summary
// now and then of what is missing, since when, and what to do about it, and the same in the error if the wait fails.
//
//	err := wait.All(ctx, wait.Options{Log: log}, checks...)
package wait

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// A Check is one thing to wait for.
type Check interface {
	// Check makes one attempt; nil means ready. All turns an error that is not a [failure.Failure] into one;
	// [poll.Permanent] marks an error that no further attempt can fix. Several attempts may run at once.
	Check(ctx context.Context) error

	// String returns the check as a person would write it, without credentials.
	String() string
}

// A Watcher is a [Check] that learns of changes, and so need not be repeated often.
type Watcher interface {
	Check
	// Watch returns a channel that gets a value after each change, until ctx ends, or nil if there is no such
	// notification. The check is repeated now and then in either case.
	Watch(ctx context.Context) <-chan struct{}
}

// Options configures [All]. The zero value waits for every check, without a limit and without a log.
type Options struct {
	Need           int                  // how many checks must be ready; all if zero
	AttemptTimeout time.Duration        // limit of one attempt; none if zero
	StableFor      time.Duration        // how long a check must be ready without interruption
	Seed           uint64               // makes the pauses of this Pod differ from those of others
	Goal           func(c Check) string // what is waited for, one adjective; ready if nil

	// Notice, if set, is called for a wait that is longer than until its first summary: with why, again when that has
	// changed by a later summary, and at the end, with whether it was successful.
	Notice func(text string, over, ready bool)

	Log *slog.Logger // nil discards
}

func (o Options) goal(c Check) string {
	if o.Goal == nil {
		return "ready"
	}
	return o.Goal(c)
}

// patience is how long an attempt that hangs delays the next one.
const patience = time.Second

// summaryPeriod is how often what is still missing is logged.
const summaryPeriod = 30 * time.Second

// All waits for the checks, all at once, until every one (or [Options.Need] of them) is ready. Otherwise it returns a
// [NotReady]: when ctx ends, and then it unwraps to the cause of ctx, or, as a [poll.Permanent] error, as soon as too
// few checks can become ready.
func All(ctx context.Context, o Options, checks ...Check) error {
	need := o.Need
	if need <= 0 || need > len(checks) {
		need = len(checks)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	report := newReport(o, need, checks)
	pace := newPace(len(checks), need)
	report.stir = pace.stir
	var beside sync.WaitGroup
	beside.Go(func() { pace.run(ctx) })
	beside.Go(func() {
		poll.Every(ctx, summaryPeriod, func() {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Second { // otherwise the final message follows at once
				report.summary()
				report.notice(o.Notice)
			}
		})
	})

	var (
		mu            sync.Mutex
		ready, failed int
		wg            sync.WaitGroup
	)
	for i, c := range checks {
		wg.Go(func() {
			p := policy(o, c, report.targets[i])
			pace.set(&p, i)
			err := poll.Until(ctx, p, pausing(c.Check))
			report.targets[i].gaveUp(err)
			pace.missing.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				ready++
				report.targets[i].finish()
				if ready == need {
					cancel(errEnough)
				}
			case poll.IsPermanent(err):
				failed++
				if len(checks)-failed < need {
					cancel(poll.Permanent(errHopeless))
				}
			}
		})
	}
	wg.Wait()
	var err error
	if ready >= need {
		report.ended()
	} else {
		err = report.notReady(context.Cause(ctx))
	}
	cancel(nil)
	beside.Wait()
	report.noticeEnd(o.Notice, err)
	return err
}

var (
	errEnough   = errors.New("enough targets are ready")
	errHopeless = errors.New("cannot become ready")
)

// refusedPause is the minimum pause after a refused login: servers log each one, and lock a user out after several.
const refusedPause = time.Second

// pausing returns check with a longer pause after a refused login.
func pausing(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := check(ctx)
		if err == nil {
			return nil
		}
		found := &classified{err, failure.Of(err)}
		if found.failure.Class == failure.Authentication {
			return poll.After(refusedPause, found)
		}
		return found
	}
}

// classified is the error of an attempt with its failure, so that it is classified once.
type classified struct {
	error
	failure *failure.Failure
}

func (e *classified) Unwrap() error { return e.error }

// failureOf returns the failure of an error that [pausing] may have classified.
func failureOf(err error) *failure.Failure {
	if e, known := errors.AsType[*classified](err); known {
		return e.failure
	}
	return failure.Of(err)
}

func policy(o Options, c Check, t *targetState) poll.Policy {
	h := fnv.New64a()
	h.Write([]byte(c.String()))
	p := poll.Policy{
		AttemptTimeout: o.AttemptTimeout,
		Patience:       patience,
		StableFor:      o.StableFor,
		Seed:           o.Seed ^ h.Sum64(),
		Notify:         t.found,
	}
	if w, ok := c.(Watcher); ok {
		p.Watch = w.Watch
	}
	return p
}
