package exchange

import (
	"context"
	"fmt"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// summaryEvery is the time between two log lines of a call that is not answered.
const summaryEvery = 30 * time.Second

// report logs the course of one call: a line whenever the finding changes, and a summary every [summaryEvery].
type report struct {
	s     *Server
	doing string
	start time.Time
	close context.CancelFunc

	mu       sync.Mutex
	attempts int
	failure  *failure.Failure // of the last attempt; nil before the first
}

func (s *Server) newReport(ctx context.Context, doing string) *report {
	ctx, cancel := context.WithCancel(ctx)
	t := &report{s: s, doing: doing, start: time.Now(), close: cancel}
	go poll.Every(ctx, summaryEvery, t.summarise)
	return t
}

// attempt logs a failed attempt, if it found something new, and the pause after it.
func (t *report) attempt(attempt int, a *httpclient.Answer, err error, next time.Duration) {
	f := failure.Of(err)
	if a != nil {
		f = failure.Status(a.Status)
	}
	f.Text = t.s.redact(f.Text)
	t.mu.Lock()
	changed := t.failure == nil || t.failure.Text != f.Text
	t.attempts, t.failure = attempt, f
	t.mu.Unlock()
	log := t.s.Log.With(failure.Fields("", 0, f), "attempt", attempt)
	text := fmt.Sprintf("%s: %s: %v", t.s.Place(), t.doing, f)
	if next >= time.Second {
		text += fmt.Sprintf("; again in %v", next.Round(time.Second))
	}
	if changed {
		log.Info(text)
	} else {
		log.Debug(text)
	}
}

func (t *report) summarise() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.s.Log.Info(fmt.Sprintf("%s: %s: no answer for %v", t.s.Place(), t.doing, time.Since(t.start).Round(time.Second)), failure.Seconds(time.Since(t.start)))
		return
	}
	text := fmt.Sprintf("%s: %s: %v, for %v, %d attempts", t.s.Place(), t.doing, t.failure, time.Since(t.start).Round(time.Second), t.attempts)
	if t.failure.Hint != "" {
		text += "; " + t.failure.Hint
	}
	t.s.Log.Info(text, failure.Fields("", time.Since(t.start), t.failure), failure.Advised(t.failure.Hint, ""))
}

// done logs that the call was answered, if an attempt at it had failed.
func (t *report) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil {
		t.s.Log.Info(fmt.Sprintf("%s: %s: answered after %v, %d attempts", t.s.Place(), t.doing, time.Since(t.start).Round(100*time.Millisecond), t.attempts+1), failure.Seconds(time.Since(t.start)))
	}
}
