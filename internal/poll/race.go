package poll

import (
	"context"
	"time"
)

// Outcome is the result of one runner of a [Race].
type Outcome[T any] struct {
	Value    T
	Err      error
	Finished bool // false: never started, or still running when the race ended
}

// Race runs try(0) to try(n-1). Each starts when the one before it fails, or has not ended after the head start. It
// returns the index of the winner, -1 if there is none, and the outcome of each.
//
// The first success wins; with inOrder, only once every runner before it has
// failed, or when ctx ends. The losers' contexts are cancelled when Race returns.
func Race[T any](ctx context.Context, n int, headStart time.Duration, inOrder bool, try func(ctx context.Context, i int) (T, error)) (winner int, outcomes []Outcome[T]) {
	switch n {
	case 0:
		return -1, nil
	case 1: // no race, and so no goroutine: most hosts have one address
		v, err := try(ctx, 0)
		outcomes = []Outcome[T]{{v, err, true}}
		return leader(outcomes, inOrder), outcomes
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes = make([]Outcome[T], n)
	finished := make(chan int, n)
	values := make([]Outcome[T], n) // written by the runners, read after finished says so

	whole := progressOf(ctx)
	parts := make([]*progress, n) // those that run
	defer end(parts)
	started, running := 0, 0
	start := func() {
		i := started
		started++
		running++
		ctx, part := whole.part(ctx)
		parts[i] = part
		go func() {
			v, err := try(ctx, i)
			values[i] = Outcome[T]{v, err, true}
			finished <- i
		}()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if started < n {
				start()
				timer.Reset(headStart)
			}
		case i := <-finished:
			running--
			outcomes[i], parts[i] = values[i], nil
			whole.resume(parts)
			if w := leader(outcomes, inOrder); w >= 0 {
				return w, outcomes
			}
			switch {
			case started < n && i == started-1:
				timer.Reset(0)
			case started == n && running == 0:
				return -1, outcomes
			}
		case <-ctx.Done():
			for { // what ended in the same moment counts, and may be a connection to close
				select {
				case i := <-finished:
					outcomes[i] = values[i]
					continue
				default:
				}
				return leader(outcomes, false), outcomes
			}
		}
	}
}

// leader returns the first that succeeded, or -1 if none has, or if inOrder one before it still may.
func leader[T any](outcomes []Outcome[T], inOrder bool) int {
	for i, o := range outcomes {
		if o.Finished && o.Err == nil {
			return i
		}
		if inOrder && !o.Finished {
			return -1
		}
	}
	return -1
}
