package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// report logs the course of a wait: a line when a target's state changes and a summary now and then. If the wait fails,
// it makes the final message.
type report struct {
	log     *slog.Logger
	start   time.Time
	need    int
	stable  time.Duration
	targets []*targetState
	stir    func() // a target has become ready

	mu      sync.Mutex
	logged  map[string]bool // urgent hints
	noticed string          // the text of the last notice; "" for none
}

// targetState is the state of one target. Its found method is the target's [poll.Policy.Notify].
type targetState struct {
	report *report
	name   string
	goal   string // the state that is waited for, such as ready or gone

	mu       sync.Mutex
	attempts int
	failure  *failure.Failure // nil: ready, or not tried yet
	ready    bool             // at the last attempt
	done     bool             // for long enough
	since    time.Time        // the start of the present state
	changes  int              // number logged since the last summary
	unlogged int              // number not logged since the last summary
	noted    bool             // this state was logged with a note
	ups      int              // how often it became ready
	longest  time.Duration    // the longest time that it was ready, of those that ended
	took     time.Duration    // until it was done
}

// maxChanges limits the changes that a flapping target logs between two summaries.
const maxChanges = 10

// maxHints limits the different hints in the final message.
const maxHints = 3

func newReport(o Options, need int, checks []Check) *report {
	r := &report{log: o.Log, start: time.Now(), need: need, stable: o.StableFor}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	same := map[string]int{} // targets may differ only in what their names do not show
	for _, c := range checks {
		t := &targetState{report: r, name: c.String(), goal: o.goal(c), since: r.start}
		if same[t.name]++; same[t.name] > 1 {
			t.name = fmt.Sprintf("%s (%d)", t.name, same[t.name])
		}
		r.targets = append(r.targets, t)
	}
	return r
}

// found takes the result of one attempt.
func (t *targetState) found(e poll.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts = e.Attempt
	if e.Err == nil {
		if !t.ready {
			t.ready, t.failure = true, nil
			t.ups++
			t.report.stir()
			if t.change() && t.report.stable > 0 {
				t.report.log.Info(fmt.Sprintf("%s: %s, must stay %[2]s for %[3]s", t.name, t.goal, words.Seconds(t.report.stable)), t.fields(0))
			}
		}
		return
	}
	f := failureOf(e.Err)
	changed := t.ready || t.failure == nil || t.failure.Text != f.Text
	// A note changes all the time; only its first appearance is logged.
	noted := !changed && f.Note != "" && !t.noted
	if t.ready {
		t.longest = max(t.longest, time.Since(t.since))
	}
	t.ready, t.failure, t.noted = false, f, f.Note != "" || t.noted && !changed
	switch {
	case changed && t.change(), noted:
		t.report.log.Info(t.says(), t.fields(0))
	case t.report.log.Enabled(context.Background(), slog.LevelDebug): // it takes longer than the attempt
		t.report.log.Debug(t.says(), t.fields(0))
	}
	if f.Urgent && t.report.first(f.Hint) {
		hint, role := f.Advice()
		t.report.log.Warn("hint: "+hint, t.fields(0), failure.Advised(hint, role))
	}
}

// fields returns the fields of a line of the log about the target, of which something took a while. The caller holds
// its lock.
func (t *targetState) fields(took time.Duration) slog.Attr {
	var err error
	if t.failure != nil {
		err = t.failure
	}
	return slog.GroupAttrs("", failure.Fields(t.name, took, err), slog.Int("attempt", t.attempts))
}

// first reports whether the hint has not been logged before, and marks it as logged.
func (r *report) first(hint string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logged[hint] {
		return false
	}
	if r.logged == nil {
		r.logged = map[string]bool{}
	}
	r.logged[hint] = true
	return true
}

// says returns the target and why it is not ready. The failure may begin with the target's name already.
func (t *targetState) says() string {
	if s := t.failure.Error(); strings.HasPrefix(s, strings.TrimSuffix(t.name, ".")+": ") {
		return s
	}
	return fmt.Sprintf("%s: %v", t.name, t.failure)
}

// gaveUp takes the error of a wait that ended before its first attempt did: only what that attempt was doing is known.
func (t *targetState) gaveUp(err error) {
	var e *poll.Error
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.As(err, &e) && e.Last != nil && t.failure == nil && !t.ready {
		t.failure, t.attempts = failureOf(e.Last), e.Attempts
	}
}

// finish marks the target as ready for good.
func (t *targetState) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done, t.took = true, time.Since(t.report.start)
	fields := []any{t.fields(t.took)}
	if len(t.report.targets) == 1 {
		fields = append(fields, t.report.counts(1)) // no other line follows
	}
	t.report.log.Info(fmt.Sprintf("%s: %s after %s", t.name, t.goal, words.Seconds(t.took)), fields...)
}

// counts returns the fields that only the last line of a wait has.
func (r *report) counts(ready int) slog.Attr {
	return slog.GroupAttrs("", slog.Int("targets", len(r.targets)), slog.Int("ready", ready))
}

// ended logs the end of a successful wait for several targets.
func (r *report) ended() {
	if len(r.targets) == 1 {
		return
	}
	var slowest *targetState
	for _, t := range r.targets {
		t.mu.Lock()
		if t.done && (slowest == nil || t.took > slowest.took) {
			slowest = t
		}
		t.mu.Unlock()
	}
	ready, took := len(r.targets)-len(r.missing()), time.Since(r.start)
	goal := slowest.goal
	if slices.ContainsFunc(r.targets, func(t *targetState) bool { return t.goal != goal }) {
		goal = "done"
	}
	text := fmt.Sprintf("all %s are %s after %s", words.Plural(len(r.targets), "target"), goal, words.Seconds(took))
	if ready < len(r.targets) {
		text = fmt.Sprintf("%d of %s %s after %s, which is enough", ready, words.Plural(len(r.targets), "target"), goal, words.Seconds(took))
	}
	if ready > 1 {
		text += "; the slowest was " + slowest.name
	}
	r.log.Info(text, failure.Fields(slowest.name, took, nil), r.counts(ready))
}

// change records a new state and reports whether to log it.
func (t *targetState) change() bool {
	t.since = time.Now()
	if t.changes >= maxChanges {
		t.unlogged++
		return false
	}
	t.changes++
	return true
}

// summary logs what is missing, since when, and what to do about it.
func (r *report) summary() {
	missing := r.missing()
	still := fmt.Sprintf("still waiting after %s, %s", words.Seconds(time.Since(r.start)), r.count(missing))
	for _, t := range missing[:min(len(missing), words.MaxNamed)] {
		t.mu.Lock()
		line := still + ": " + t.describe()
		if t.unlogged > 0 {
			line += fmt.Sprintf(", after %d more changes", t.unlogged)
		}
		hint := ""
		if t.failure != nil && !t.failure.Urgent { // which is logged already
			hint = t.failure.Hint
		}
		if hint != "" {
			line += "; hint: " + hint
		}
		fields := t.fields(time.Since(t.since))
		t.changes, t.unlogged = 0, 0
		t.mu.Unlock()
		r.log.Warn(line, fields, failure.Advised(hint, ""))
	}
	if more := len(missing) - words.MaxNamed; more > 0 {
		r.log.Warn(fmt.Sprintf("%s: and %d more", still, more), failure.Seconds(time.Since(r.start)))
	}
}

// notice calls f with what is missing, if the reasons are news.
func (r *report) notice(f func(text string, over, ready bool)) {
	if f == nil {
		return
	}
	missing := r.missing()
	var reasons []string
	for _, t := range missing[:min(len(missing), words.MaxNamed)] {
		t.mu.Lock()
		text := t.name + ": no attempt has finished yet"
		switch {
		case t.failure != nil:
			text = t.says()
		case t.ready:
			text = t.name + ": " + t.goal + ", but not for long enough"
		}
		t.mu.Unlock()
		reasons = append(reasons, text)
	}
	text := r.count(missing) + ": " + strings.Join(reasons, "; ")
	r.mu.Lock()
	news := text != r.noticed
	r.noticed = text
	r.mu.Unlock()
	if news {
		f("waiting for "+words.Seconds(time.Since(r.start))+", "+text, false, false)
	}
}

// noticeEnd calls f at the end of a wait that it was called for before.
func (r *report) noticeEnd(f func(text string, over, ready bool), err error) {
	r.mu.Lock()
	noticed := r.noticed != ""
	r.mu.Unlock()
	switch {
	case f == nil || !noticed:
	case err == nil:
		f(r.targets[0].goal+" after "+words.Seconds(time.Since(r.start)), true, true)
	default:
		f(err.Error(), true, false)
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
	s := fmt.Sprintf("%d of %s left", len(missing), words.Plural(len(r.targets), "target"))
	if r.need < len(r.targets) {
		s += fmt.Sprintf(" (%d must be ready)", r.need)
	}
	return s
}

// describe returns the state of the target in words; the caller holds its lock.
func (t *targetState) describe() string {
	lasting := words.Seconds(time.Since(t.since))
	switch {
	case t.ready:
		return fmt.Sprintf("%s: %s for only %s, must stay %[2]s for %[4]s", t.name, t.goal, lasting, words.Seconds(t.report.stable))
	case t.ups > 0:
		return fmt.Sprintf("%s, for %s, %s; it was %s %s before, for at most %s", t.says(), lasting,
			words.Plural(t.attempts, "attempt"), t.goal, words.Plural(t.ups, "time"), words.Seconds(t.longest))
	case t.failure == nil:
		return fmt.Sprintf("%s: no attempt has finished yet", t.name)
	}
	return fmt.Sprintf("%s, for %s, %s", t.says(), lasting, words.Plural(t.attempts, "attempt"))
}

// NotReady is the error of a wait that failed.
type NotReady struct {
	Cause  error // why it ended
	text   string
	hint   string
	role   string // the Role to apply, if that is a part of the hint
	fields slog.Attr
}

func (e *NotReady) Error() string { return e.text }
func (e *NotReady) Unwrap() error { return e.Cause }

// Hint says what to do about it; it may be empty.
func (e *NotReady) Hint() string { return e.hint }

// Advice returns the hint, and apart from it the Role to apply.
func (e *NotReady) Advice() (hint, role string) {
	return strings.ReplaceAll(e.hint, "\n"+e.role, ""), e.role
}

// Fields returns the fields of the log: those of the first target that is missing, and how many are.
func (e *NotReady) Fields() slog.Attr { return e.fields }

// notReady returns the error of a wait that ended for the cause.
func (r *report) notReady(cause error) *NotReady {
	missing := r.missing()
	waited := words.Seconds(time.Since(r.start))
	why := fmt.Sprintf("%v after %s", cause, waited) // a signal
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		why = fmt.Sprintf("not %s within %s", r.targets[0].goal, waited)
	case poll.IsPermanent(cause):
		why = "cannot become " + r.targets[0].goal
	}
	e := &NotReady{Cause: cause}
	var lines, hints []string
	for i, t := range missing[:min(len(missing), words.MaxNamed)] {
		t.mu.Lock()
		lines = append(lines, t.describe())
		if i == 0 {
			e.fields = slog.GroupAttrs("", t.fields(time.Since(r.start)), r.counts(len(r.targets)-len(missing)))
		}
		if f := t.failure; f != nil && f.Hint != "" && !slices.Contains(hints, f.Hint) {
			hints = append(hints, f.Hint)
			e.role = cmp.Or(e.role, f.Role)
		}
		t.mu.Unlock()
	}
	e.hint = strings.Join(hints[:min(len(hints), maxHints)], "\nhint: ")
	if more := len(missing) - words.MaxNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if len(r.targets) == 1 {
		e.text = why + ": " + strings.Join(lines, "")
	} else {
		e.text = why + ": " + r.count(missing) + "\n  " + strings.Join(lines, "\n  ")
	}
	return e
}
