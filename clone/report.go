package clone

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

const (
	summaryEvery  = 30 * time.Second
	progressEvery = 5 * time.Second
	watchedEvery  = time.Second // on a terminal
)

// report logs the attempts of a clone: a line when the reason for a failure changes, and a summary now and then.
type report struct {
	place string
	log   *slog.Logger
	start time.Time

	mu       sync.Mutex
	attempts int
	failure  *failure.Failure // of the last attempt; nil before the first
}

// attempt is called after each attempt.
func (r *report) attempt(e poll.Event) {
	if e.Err == nil {
		return
	}
	f := failure.Of(e.Err)
	r.mu.Lock()
	changed := r.failure == nil || r.failure.Text != f.Text
	r.attempts, r.failure = e.Attempt, f
	r.mu.Unlock()
	level := slog.LevelDebug
	if changed {
		level = slog.LevelInfo
	}
	r.log.Log(context.Background(), level, fmt.Sprintf("%s: %v", r.place, f), failure.Fields("", 0, f), "attempt", e.Attempt)
}

// summarise logs why the clone has not succeeded so far.
func (r *report) summarise() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		return // progress is logged
	}
	text := fmt.Sprintf("%s: %v, for %v, %d attempts", r.place, r.failure, time.Since(r.start).Round(time.Second), r.attempts)
	if r.failure.Hint != "" {
		text += "; " + r.failure.Hint
	}
	r.log.Info(text, failure.Fields("", time.Since(r.start), r.failure), failure.Advised(r.failure.Hint, ""))
}
