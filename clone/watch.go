package clone

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"initbox/internal/poll"
)

// All runs several clones, parallel of them at a time (0: as many as there are processors), and returns their results
// in the same order. The first error stops the others, also if the reason is the end of ctx; what they have published
// stays.
func All(ctx context.Context, clones []Options, parallel int) ([]Result, error) {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		once  sync.Once
		first error // those of the clones that it stops come later
	)
	results := make([]Result, len(clones))
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for i, o := range clones {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var err error
			if results[i], err = Run(ctx, o); err != nil {
				once.Do(func() { first = fmt.Errorf("%s: %w", o.Dir, err) })
				cancel(err)
			}
		})
	}
	running.Wait()
	return results, first
}

// Watch runs a clone, and repeats it after each period until ctx ends. It returns the error of the first clone, or nil.
// It calls each after the first clone and after each that changed something; if that fails, it calls it again after the
// next period. Later failures are logged, and retried after the next period.
func Watch(ctx context.Context, o Options, period time.Duration, each func(context.Context, Result) error) error {
	c, err := newCloning(o)
	if err != nil {
		return err
	}
	c.watched = true
	result, err := c.run(ctx)
	if err != nil {
		return err
	}
	c.settled = true
	notified, logged := false, ""
	warn := func(err error) { // once, and again if the text differs
		if text := err.Error(); text != logged && !poll.Ended(ctx) {
			logged = text
			c.log.Warn(fmt.Sprintf("%s; trying again in %v", text, period))
		}
	}
	for {
		if result.Changed {
			notified = false
		}
		if !notified && each != nil {
			if err = each(ctx, result); err != nil {
				warn(fmt.Errorf("%s: %w", o.Dir, err))
			}
			notified = err == nil
		}
		if poll.Sleep(ctx, period) != nil {
			return nil
		}
		next, err := c.again(ctx)
		if err != nil {
			result.Changed = false
			warn(c.explain(err))
			continue
		}
		result = next
		if notified {
			logged = ""
		}
	}
}

// againLimit is how long an attempt after the first may take: a server that sends slowly must not block a sidecar
// forever.
const againLimit = 30 * time.Minute

// again makes one attempt. If it is stopped, again waits for it only for a moment.
func (c *cloning) again(ctx context.Context) (Result, error) {
	a := &attempt{cloning: c}
	if err := poll.Try(ctx, againLimit, a.make); err != nil {
		grace, cancel := context.WithTimeout(context.Background(), graceOfStop)
		defer cancel()
		a.wait(grace)
		return Result{}, err
	}
	return a.result, nil
}
