package sidecar

import (
	"context"
	"sync"
	"time"

	"initbox/internal/poll"
)

// Hook notifies others of a change.
type Hook struct {
	Name string // in the metrics, such as webhook

	// Run notifies them of the revision. After an error it is called again, unless that is permanent ([poll.Permanent]).
	Run func(ctx context.Context, revision string) error

	Pause time.Duration // after an error; 0 for the pauses of failed looks
}

// follow starts the hooks. Each runs for what notify is called with, until it succeeds or there is something newer, and
// holds up neither the looks nor the other hooks. stop ends them.
func (l *loop) follow(ctx context.Context) (notify func(revision string), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var inboxes []chan string
	for _, h := range l.Hooks {
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
func (l *loop) serve(ctx context.Context, h Hook, inbox <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case revision := <-inbox:
			l.deliver(ctx, h, revision, inbox)
		}
	}
}

// deliver runs a hook until it succeeds or ctx ends. A newer revision replaces one whose hook has failed.
func (l *loop) deliver(ctx context.Context, h Hook, revision string, inbox <-chan string) {
	logged := ""
	for fails := 1; ; fails++ {
		err := h.Run(ctx, revision)
		if ctx.Err() != nil {
			return
		}
		l.count(h, err)
		pause := h.Pause
		switch {
		case err == nil:
			return
		case poll.IsPermanent(err):
			l.warn(err, "", 0)
			return
		case pause == 0:
			pause = l.backOff(fails)
		}
		logged = l.warn(err, logged, pause)
		limit, cancel := context.WithTimeout(ctx, pause)
		select {
		case revision = <-inbox:
			fails = 0
		case <-limit.Done():
		}
		cancel()
	}
}

// count counts a run of a hook for the metrics.
func (l *loop) count(h Hook, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.tally.failures[class(err)]++
	}
	l.tally.hooks[h.Name][result(err)]++
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

// Runs counts the runs of a program that is part of a look, for the metrics of hooks.
type Runs struct {
	Name string // as in Hook

	mu     sync.Mutex
	counts map[string]int // by result
}

// Add counts a run that ended with err, or nil.
func (r *Runs) Add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[result(err)]++
}

func (r *Runs) results() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return map[string]int{"success": r.counts["success"], "error": r.counts["error"]}
}
