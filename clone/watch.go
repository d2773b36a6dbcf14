package clone

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"initbox/internal/poll"
)

// All runs several clones, parallel of them at once (0: as many as there are
// processors), and returns their results in the order given. The first error ends
// the others; what they have published stays.
func All(ctx context.Context, clones []Options, parallel int) ([]Result, error) {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]Result, len(clones))
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for i, o := range clones {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var err error
			if results[i], err = Run(ctx, o); err != nil {
				cancel(&firstError{fmt.Errorf("%s: %w", o.Dir, err)})
			}
		})
	}
	running.Wait()
	if first, ok := context.Cause(ctx).(*firstError); ok {
		return results, first.error
	}
	return results, nil
}

// firstError tells an error that has ended the other clones from the end that was
// given to all.
type firstError struct{ error }

// Watch runs a clone, and again after each period, until ctx ends; its error is that
// of the first, or nil. each is called after the first and after each that changed
// something; an error of it has it called again after the next period. What fails
// after the first is logged, and tried again after the next period.
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
	told, said := false, ""
	warn := func(err error) { // once, and again when it is another
		if text := err.Error(); text != said && !poll.Ended(ctx) {
			said = text
			c.log.Warn(fmt.Sprintf("%s; again in %v, and so on", text, period))
		}
	}
	for {
		if result.Changed {
			told = false
		}
		if !told && each != nil {
			if err = each(ctx, result); err != nil {
				warn(fmt.Errorf("%s: %w", o.Dir, err))
			}
			told = err == nil
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
		if told {
			said = ""
		}
	}
}

// againLimit is how long an attempt after the first may take: a server that dribbles
// must not keep a sidecar from the next one for ever.
const againLimit = 30 * time.Minute

// again makes one attempt, and does not wait for it after ctx's end, but for a moment.
func (c *cloning) again(ctx context.Context) (Result, error) {
	a := &attempt{cloning: c}
	if err := poll.Try(ctx, againLimit, a.make); err != nil {
		a.wait(ctx)
		return Result{}, err
	}
	return a.result, nil
}
