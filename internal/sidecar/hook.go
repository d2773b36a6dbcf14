package sidecar

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Hook notifies others of a change. It counts its runs, for the metrics.
type Hook struct {
	Name string // in the metrics, such as webhook

	// Run notifies them of the revision. After an error it is called again, unless that is permanent ([poll.Permanent]).
	// It is nil for a program that a check runs: the hook only counts its runs.
	Run func(ctx context.Context, revision string) error

	Pause time.Duration // after an error; 0 for the pauses of failed checks

	succeeded, failed atomic.Int64 // runs
}

// Count counts a run that has ended with err, or nil, unless ctx has ended it.
func (h *Hook) Count(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		h.failed.Add(1)
	default:
		h.succeeded.Add(1)
	}
}

// Until runs the hook for a revision until it succeeds, its error is permanent, or ctx ends. Failures are logged.
func (h *Hook) Until(ctx context.Context, log *slog.Logger, revision string) error {
	return h.until(ctx, log, revision, nil, func(error, int) time.Duration { return h.Pause })
}

// until is Until, where a newer revision replaces one whose run has failed. failed returns the pause after an error,
// the fails-th in a row.
func (h *Hook) until(ctx context.Context, log *slog.Logger, revision string, newer <-chan string, failed func(err error, fails int) time.Duration) error {
	start, logged := time.Now(), ""
	var last error
	for fails, runs := 1, 1; ; fails, runs = fails+1, runs+1 {
		err := h.Run(ctx, revision)
		if h.Count(ctx, err); err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
			pause := failed(err, fails)
			if poll.IsPermanent(err) {
				return err
			}
			logged = warn(log, err, logged, pause)
			limit, cancel := context.WithTimeout(ctx, pause)
			select {
			case revision = <-newer:
				fails = 0
			case <-limit.Done():
			}
			cancel()
		}
		switch {
		case ctx.Err() == nil:
		case last == nil:
			return err
		default: // which says more than a run that was cut off
			return failure.WithHint(&poll.Error{Attempts: runs, Waited: time.Since(start), Cause: context.Cause(ctx), Last: last}, failure.Hint(last))
		}
	}
}

// follow starts the hooks. Each runs for what notify is called with, until it succeeds or there is something newer, and
// holds up neither the checks nor the other hooks. stop ends them.
func (l *loop) follow(ctx context.Context) (notify func(revision string), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var inboxes []chan string
	for _, h := range l.Hooks {
		if h.Run == nil {
			continue
		}
		inbox := make(chan string, 1)
		inboxes = append(inboxes, inbox)
		wg.Go(func() { l.serve(ctx, h, inbox) })
	}
	notify = func(revision string) {
		for _, inbox := range inboxes {
			select {
			case <-inbox: // it is out of date, and the hook has not begun with it
			default:
			}
			inbox <- revision
		}
	}
	return notify, func() { cancel(); wg.Wait() }
}

// serve runs a hook for each revision that comes, until ctx ends.
func (l *loop) serve(ctx context.Context, h *Hook, inbox <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case revision := <-inbox:
			err := h.until(ctx, l.Log, revision, inbox, func(err error, fails int) time.Duration {
				l.mu.Lock()
				l.tally.failures[class(err)]++
				l.mu.Unlock()
				if h.Pause > 0 {
					return h.Pause
				}
				return l.backOff(fails)
			})
			if ctx.Err() == nil {
				warn(l.Log, err, "", 0)
			}
		}
	}
}
