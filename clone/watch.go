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

// Watcher keeps a clone up to date.
type Watcher struct{ cloning *cloning }

// NewWatcher returns a watcher. Nothing happens before the first [Watcher.Look].
func NewWatcher(o Options) (*Watcher, error) {
	c, err := newCloning(o)
	if err != nil {
		return nil, err
	}
	c.watched = true
	return &Watcher{c}, nil
}

// Look makes Dir the tree of the revision, unless it is that already. The first successful call is like [Run]; later
// ones make one attempt each.
func (w *Watcher) Look(ctx context.Context) (Result, error) {
	c := w.cloning
	if c.settled {
		return c.again(ctx)
	}
	result, err := c.run(ctx)
	c.settled = err == nil
	return result, err
}

// Received returns how many bytes have been received so far, also by attempts that have failed. The current one counts
// when its tree is finished.
func (w *Watcher) Received() int64 { return w.cloning.received.Load() }

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
		return Result{}, c.explain(err)
	}
	return a.result, nil
}
