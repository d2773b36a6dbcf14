// Package waitfor blocks until the things a Pod depends on are ready: names,
// ports, TLS and HTTP servers, gRPC services, sockets, files and Kubernetes
// objects.
//
// [Parse] turns a target such as "tcp://mydb:5432" into a [Check]; [All] waits
// for any number of them. What kinds of target there are, and what each takes,
// is one table: [Kinds].
package waitfor

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/resolver"
)

// A Check is one thing to wait for.
type Check interface {
	// Check makes one attempt; nil means ready. An error is a [failure.Failure], or
	// made one by [All]; [poll.Permanent] marks one that no other attempt can
	// mend. Several attempts may run at once.
	Check(ctx context.Context) error

	// String is the target as a person would write it, without credentials.
	String() string
}

// A Watcher is a [Check] that is told when another attempt may find something
// new, and need not be asked often.
type Watcher interface {
	Check
	// Watch returns a channel that gets a value after each change, until ctx
	// ends, or nil if that cannot be had. It is an aid: the check is repeated
	// now and then all the same.
	Watch(ctx context.Context) <-chan struct{}
}

// Options configures [Parse] and [All]. The zero value waits for every target,
// without an end and without a word.
type Options struct {
	Settings Settings                 // of every target that knows them, unless it says otherwise
	Gone     bool                     // wait until targets do not answer any more
	Resolver *resolver.Resolver       // of the targets' host names; that of the system if nil
	Getenv   func(name string) string // for ${env:NAME} in targets; no variables if nil

	Need           int           // so many targets ready are enough; all if zero
	AttemptTimeout time.Duration // limit of one attempt; none if zero
	StableFor      time.Duration // how long a target must be ready without interruption
	Seed           uint64        // tells this Pod's pauses from those of others
	Log            *slog.Logger  // discards if nil
}

// patience is how long an attempt that hangs holds up the next one.
const patience = time.Second

// summaryPeriod is how often what is still missing is logged.
const summaryPeriod = 30 * time.Second

// All waits, at once, until every check (or [Options.Need] of them) is ready.
// Else it returns a [NotReady]: when ctx ends, whose cause it unwraps to, or as
// soon as too few can become ready, which is [poll.Permanent].
func All(ctx context.Context, o Options, checks ...Check) error {
	need := o.Need
	if need <= 0 || need > len(checks) {
		need = len(checks)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	report := newReport(o, need, checks)
	together := newShared(o)
	for _, c := range checks {
		if j, ok := c.(joiner); ok {
			j.join(together)
		}
	}
	together.start(ctx)
	go poll.Every(ctx, summaryPeriod, func() {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Second { // else the last word is near
			report.summary()
		}
	})

	var (
		mu            sync.Mutex
		ready, failed int
		wg            sync.WaitGroup
	)
	for i, c := range checks {
		wg.Go(func() {
			err := poll.Until(ctx, policy(o, c, report.targets[i]), patiently(c.Check))
			report.targets[i].gaveUp(err)
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
	if ready >= need {
		return nil
	}
	return report.notReady(context.Cause(ctx))
}

var (
	errEnough   = errors.New("enough targets are ready")
	errHopeless = errors.New("cannot become ready")
)

// refusedPause is what lies between two logins at least, once one was refused: servers
// log each, and lock a user out after some.
const refusedPause = time.Second

// patiently returns check with the pause that its errors ask for.
func patiently(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := check(ctx)
		if err != nil && failure.Of(err).Class == failure.Authentication {
			return poll.After(refusedPause, err)
		}
		return err
	}
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
