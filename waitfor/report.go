package waitfor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"initbox/internal/poll"
)

// report tells the story of a wait: a line when a target's state changes, a
// summary now and then, and the last word if it fails.
type report struct {
	log     *slog.Logger
	start   time.Time
	need    int
	stable  time.Duration
	targets []*targetState

	mu   sync.Mutex
	told map[string]bool // the urgent hints that were logged
}

// targetState is what is known of one target. Its found method is the target's
// [poll.Policy.Notify].
type targetState struct {
	report *report
	name   string
	goal   string // what it is to become: ready or gone

	mu       sync.Mutex
	attempts int
	failure  *Failure      // nil: ready, or not tried yet
	ready    bool          // by the last attempt
	done     bool          // for long enough
	since    time.Time     // of the present state
	changes  int           // logged since the last summary
	unsaid   int           // changes not logged since the last summary
	noted    bool          // this state was logged with a note
	ups      int           // how often it became ready
	longest  time.Duration // that it stayed so, of those that ended
}

// A target that flaps may log so many changes between two summaries.
const maxChanges = 10

// The last word gives so many different hints.
const maxHints = 3

// A message names so many targets; the rest it counts.
const maxNamed = 8

func newReport(o Options, need int, checks []Check) *report {
	r := &report{log: o.Log, start: time.Now(), need: need, stable: o.StableFor}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	for _, c := range checks {
		t := &targetState{report: r, name: c.String(), goal: "ready", since: r.start}
		if _, ok := c.(gone); ok {
			t.goal = "gone"
		}
		r.targets = append(r.targets, t)
	}
	return r
}

// found takes the finding of one attempt.
func (t *targetState) found(e poll.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts = e.Attempt
	log := t.report.log.With("target", t.name, "attempt", e.Attempt)
	if e.Err == nil {
		if !t.ready {
			t.ready, t.failure = true, nil
			t.ups++
			if t.change() && t.report.stable > 0 {
				log.Info(fmt.Sprintf("%s: %s, has to stay so for %s", t.name, t.goal, seconds(t.report.stable)))
			}
		}
		return
	}
	f := classify(e.Err)
	log = log.With("class", string(f.Class))
	changed := t.ready || t.failure == nil || t.failure.Text != f.Text
	// The note is of the moment, but that there is one is news, once.
	noted := !changed && f.Note != "" && !t.noted
	if t.ready {
		t.longest = max(t.longest, time.Since(t.since))
	}
	t.ready, t.failure, t.noted = false, f, f.Note != "" || t.noted && !changed
	switch {
	case changed && t.change(), noted:
		log.Info(t.says())
	default:
		log.Debug(t.says())
	}
	if f.urgent && t.report.first(f.Hint) {
		log.Warn("hint: " + f.Hint)
	}
}

// first reports whether the hint was not told before, and takes it for told.
func (r *report) first(hint string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told[hint] {
		return false
	}
	if r.told == nil {
		r.told = map[string]bool{}
	}
	r.told[hint] = true
	return true
}

// says is the target and why it is not ready. The two may begin with the same
// name.
func (t *targetState) says() string {
	if s := t.failure.Error(); strings.HasPrefix(s, strings.TrimSuffix(t.name, ".")+": ") {
		return s
	}
	return fmt.Sprintf("%s: %v", t.name, t.failure)
}

// gaveUp takes the error of a wait that ended before any attempt did: what that
// attempt was doing is all there is to say.
func (t *targetState) gaveUp(err error) {
	var e *poll.Error
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.As(err, &e) && e.Last != nil && t.failure == nil && !t.ready {
		t.failure, t.attempts = classify(e.Last), e.Attempts
	}
}

// finish marks the target as ready for good.
func (t *targetState) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	t.report.log.Info(fmt.Sprintf("%s: %s after %s", t.name, t.goal, seconds(time.Since(t.report.start))),
		"target", t.name, "attempt", t.attempts)
}

// change notes a new state and reports whether to log it.
func (t *targetState) change() bool {
	t.since = time.Now()
	if t.changes >= maxChanges {
		t.unsaid++
		return false
	}
	t.changes++
	return true
}

// summary logs what is missing, since when, and what to do about it.
func (r *report) summary() {
	missing := r.missing()
	still := fmt.Sprintf("still waiting after %s, %s", seconds(time.Since(r.start)), r.count(missing))
	for _, t := range missing[:min(len(missing), maxNamed)] {
		t.mu.Lock()
		line := still + ": " + t.describe()
		if t.unsaid > 0 {
			line += fmt.Sprintf(", after %d more changes", t.unsaid)
		}
		log := r.log.With("target", t.name, "attempt", t.attempts)
		if f := t.failure; f != nil {
			hint := f.Hint
			if f.urgent { // which was told already
				hint = ""
			}
			log = log.With("class", string(f.Class), "hint", hint)
			if hint != "" {
				line += "; hint: " + hint
			}
		}
		t.changes, t.unsaid = 0, 0
		t.mu.Unlock()
		log.Warn(line)
	}
	if more := len(missing) - maxNamed; more > 0 {
		r.log.Warn(fmt.Sprintf("%s: and %d more", still, more))
	}
}

func (r *report) missing() []*targetState {
	var missing []*targetState
	for _, t := range r.targets {
		t.mu.Lock()
		if !t.done {
			missing = append(missing, t)
		}
		t.mu.Unlock()
	}
	return missing
}

func (r *report) count(missing []*targetState) string {
	s := fmt.Sprintf("%d of %s left", len(missing), plural(len(r.targets), "target"))
	if r.need < len(r.targets) {
		s += fmt.Sprintf(" (%d must be ready)", r.need)
	}
	return s
}

// describe says what is known of the target; the caller holds its lock.
func (t *targetState) describe() string {
	lasting := seconds(time.Since(t.since))
	switch {
	case t.ready:
		return fmt.Sprintf("%s: %s for %s only, has to stay so for %s", t.name, t.goal, lasting, seconds(t.report.stable))
	case t.ups > 0:
		return fmt.Sprintf("%s, for %s, %s; it was %s %s before, for %s at most", t.says(), lasting,
			plural(t.attempts, "attempt"), t.goal, plural(t.ups, "time"), seconds(t.longest))
	case t.failure == nil:
		return fmt.Sprintf("%s: no attempt has ended yet", t.name)
	}
	return fmt.Sprintf("%s, for %s, %s", t.says(), lasting, plural(t.attempts, "attempt"))
}

// NotReady is why a wait did not end well.
type NotReady struct {
	Cause error // why it ended
	text  string
	hint  string
}

func (e *NotReady) Error() string { return e.text }
func (e *NotReady) Unwrap() error { return e.Cause }

// Hint says what to do about it; it may be empty.
func (e *NotReady) Hint() string { return e.hint }

// notReady puts together the last word on a wait that ended for the cause
// given.
func (r *report) notReady(cause error) *NotReady {
	missing := r.missing()
	waited := seconds(time.Since(r.start))
	why := fmt.Sprintf("%v after %s", cause, waited) // by a signal
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		why = fmt.Sprintf("not %s within %s", r.targets[0].goal, waited)
	case poll.IsPermanent(cause):
		why = "cannot become " + r.targets[0].goal
	}
	e := &NotReady{Cause: cause}
	var lines, hints []string
	for _, t := range missing[:min(len(missing), maxNamed)] {
		t.mu.Lock()
		lines = append(lines, t.describe())
		if f := t.failure; f != nil && f.Hint != "" && !slices.Contains(hints, f.Hint) {
			hints = append(hints, f.Hint)
		}
		t.mu.Unlock()
	}
	e.hint = strings.Join(hints[:min(len(hints), maxHints)], "\nhint: ")
	if more := len(missing) - maxNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if len(r.targets) == 1 {
		e.text = why + ": " + strings.Join(lines, "")
	} else {
		e.text = why + ": " + r.count(missing) + "\n  " + strings.Join(lines, "\n  ")
	}
	return e
}

// seconds rounds a duration for people: 340ms, 1.2s, 4m58s.
func seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// list joins words for a message and stops before it grows long.
func list(words []string) string {
	if more := len(words) - maxNamed; more > 0 {
		return strings.Join(words[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}
