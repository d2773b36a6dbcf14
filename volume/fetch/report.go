package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// report logs the attempts at one source: a line when the reason for a failure changes, and a summary now and then.
type report struct {
	what     string
	log      *slog.Logger
	start    time.Time
	progress func() string // how much has arrived; nil if unknown
	end      func()

	mu   sync.Mutex
	last *failure.Failure
}

const summaryEvery = 30 * time.Second

// newReport returns the report of a source. Its end must be called.
func newReport(o *Options, src *Source, progress func() string) *report {
	ctx, cancel := context.WithCancel(context.Background())
	r := &report{what: src.String(), log: o.Log, start: time.Now(), progress: progress, end: cancel}
	go poll.Every(ctx, summaryEvery, r.summarise)
	return r
}

// until makes attempts until one succeeds or cannot succeed, or ctx ends. A server may say when to come back.
func (o *Options) until(ctx context.Context, report *report, attempt func(context.Context) error) error {
	pause := httpclient.Pace(ctx, o.Spread, o.Seed)
	return poll.Until(ctx, poll.Policy{Seed: o.Seed, Notify: report.attempt}, func(ctx context.Context) error {
		err := attempt(ctx)
		var answer *httpclient.StatusError
		if err == nil || poll.IsPermanent(err) || !errors.As(err, &answer) {
			return err
		}
		next, more := pause(answer.Status, answer.Header)
		if !more {
			next = math.MaxInt64 // until ctx ends
		}
		return poll.After(next, err)
	})
}

// attempt is called after each attempt.
func (r *report) attempt(e poll.Event) {
	if e.Err == nil || poll.IsPermanent(e.Err) { // which is returned
		return
	}
	f := failure.Of(e.Err)
	r.mu.Lock()
	defer r.mu.Unlock()
	level := slog.LevelDebug
	if r.last == nil || r.last.Text != f.Text {
		level = slog.LevelInfo
	}
	r.last = f
	r.log.Log(context.Background(), level, fmt.Sprintf("%s: %v", r.what, f), failure.Fields(r.what, 0, f), "attempt", e.Attempt)
}

// summarise logs how far the download is.
func (r *report) summarise() {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, fields := r.what+":", []any{failure.Fields(r.what, time.Since(r.start), nil)}
	if r.progress != nil {
		text += " " + r.progress() + " received,"
	}
	text += " for " + words.Seconds(time.Since(r.start))
	if r.last != nil {
		text += fmt.Sprintf("; last failure: %v", r.last)
		if r.last.Hint != "" {
			text += "; " + r.last.Hint
		}
		fields = []any{failure.Fields(r.what, time.Since(r.start), r.last), failure.Advised(r.last.Hint, "")}
	}
	r.log.Info(text, fields...)
}

// explain adds to an error what was being done, and the hint. progress is how much had arrived, or "".
func explain(src *Source, progress string, err error) error {
	f := failure.Of(err)
	var ended *poll.Error
	if errors.As(err, &ended) && ended.Last != nil {
		f = failure.Of(ended.Last)
		if progress != "" && errors.As(ended.Last, new(*poll.Hung)) {
			f = failure.New(failure.TimedOut, "still receiving, %s so far", progress)
			if errors.Is(ended.Cause, context.DeadlineExceeded) {
				f.Hint = "give it more time with --timeout"
			}
		}
		err = &poll.Error{Attempts: ended.Attempts, Waited: ended.Waited, Cause: ended.Cause, Last: f}
	}
	hint := f.Hint
	var hinted interface{ Hint() string }
	if hint == "" && errors.As(err, &hinted) {
		hint = hinted.Hint()
	}
	doing := fmt.Errorf("downloading %s: %w", src, err)
	if what, isOCI := strings.CutPrefix(src.String(), "oci://"); isOCI && strings.HasPrefix(err.Error(), what) {
		doing = fmt.Errorf("downloading %w", err)
	}
	return failure.WithHint(failure.About(src.String(), f, doing), hint)
}
