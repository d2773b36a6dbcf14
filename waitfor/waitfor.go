// Package waitfor blocks until the things a Pod depends on are ready: names, ports, TLS and HTTP servers, gRPC
// services, databases, brokers, sockets, files and Kubernetes objects.
//
// [Parse] turns a target such as "tcp://mydb:5432" into a [Check]; [All] waits for any number of them. The kinds of
// target and their settings are in one table: [Kinds].
package waitfor

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/waitfor/target"
)

// patience is how long an attempt that hangs delays the next one.
const patience = time.Second

// summaryPeriod is how often what is still missing is logged.
const summaryPeriod = 30 * time.Second

// All waits for the checks, all at once, until every one (or [Options.Need] of them) is ready. Otherwise it returns a
// [NotReady]: when ctx ends, and then it unwraps to the cause of ctx, or, as a [poll.Permanent] error, as soon as too
// few checks can become ready.
func All(ctx context.Context, o target.Options, checks ...target.Check) error {
	need := o.Need
	if need <= 0 || need > len(checks) {
		need = len(checks)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	report := newReport(o, need, checks)
	together := target.NewShared(o)
	for _, c := range checks {
		if j, ok := c.(target.Sharer); ok {
			j.Share(together)
		}
	}
	together.Start(ctx)
	go poll.Every(ctx, summaryPeriod, func() {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Second { // otherwise the final message follows at once
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
			err := poll.Until(ctx, policy(o, c, report.targets[i]), pausing(c.Check))
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

// refusedPause is the minimum pause after a refused login: servers log each one, and lock a user out after several.
const refusedPause = time.Second

// pausing returns check with a longer pause after a refused login.
func pausing(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := check(ctx)
		if err != nil && failure.Of(err).Class == failure.Authentication {
			return poll.After(refusedPause, err)
		}
		return err
	}
}

func policy(o target.Options, c target.Check, t *targetState) poll.Policy {
	h := fnv.New64a()
	h.Write([]byte(c.String()))
	p := poll.Policy{
		AttemptTimeout: o.AttemptTimeout,
		Patience:       patience,
		StableFor:      o.StableFor,
		Seed:           o.Seed ^ h.Sum64(),
		Notify:         t.found,
	}
	if w, ok := c.(target.Watcher); ok {
		p.Watch = w.Watch
	}
	return p
}
