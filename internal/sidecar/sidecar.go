// Package sidecar is what sidecars share: the port with the kubelet's probes and the metrics, the file and the hooks
// that notify other containers of a change, and the loop that checks for changes until a signal comes.
//
//	err := sidecar.Run(ctx, sidecar.Options{HTTP: ":8080", Touch: "/shared/changed", Log: log}, time.Minute,
//		func(ctx context.Context) (revision string, changed bool, err error) { … })
//
// Run checks at once, and again after the time given or when [Options.Wake] has a value. The port answers
//
//	/startupz, /readyz, /   200 once the first check has succeeded
//	/livez                  503 if a check does not end
//	/healthz                503 if checks fail, or the last success is long ago; the answer says why
//	/metrics                the metrics, in the text format of Prometheus or as OpenMetrics
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"initbox/internal/atomicfile"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// Staying is logged when a sidecar has done what the other containers need. Nothing in the container tells whether it
// is one: an ordinary init container would go on as well, and hold up the Pod.
const Staying = "running until SIGTERM: an init container needs restartPolicy: Always for this, or the Pod stays at Init"

// WritableHint is the hint where a file cannot be written.
const WritableHint = "is the volume mounted, writable by this user and not full?"

// Options configures [Run].
type Options struct {
	Command, Version string // of the program, for the metrics

	HTTP  string  // the address of the port for probes and metrics, from [Address]; "" for none
	File  string  // that exists once the first check has succeeded; "" for none
	Touch string  // the file that is written after each change; "" for none
	Hooks []*Hook // that notify others after the first check, and after each change
	Quiet bool    // the hooks do not run after the first check: others read the files when they start

	// Started, if set, is called when the first check has succeeded, before other containers are notified of it.
	Started func()
	Wake    <-chan struct{}      // has a value when the next check should come at once; nil for never
	Pause   func() time.Duration // until the next check, 0 for none; nil for the same time always, and a shorter one after failures
	Health  func() error         // why it is not healthy, and checks do not count as successes, though they do not fail; nil for never
	Metrics func() []Family      // besides those that all have; nil for none
	Rand    *rand.Rand           // spreads the checks, so that many sidecars do not ask in step; nil does not
	Secret  bool                 // the revision is a checksum of secrets, which might be guessed from it: the metrics, which all may read, do not have it
	GitSync bool                 // the port also has git-sync's names for metrics, and its answer for all other paths
	Log     *slog.Logger         // nil discards
}

// grace is how long checks may fail before /healthz says so. A cluster's control plane may be away as long while it is
// upgraded.
const grace = 30 * time.Second

// periods is how many checks may be missing before /healthz says so.
const periods = 3

// spread is the part of the time until the next check by which that may come earlier or later.
const spread = 0.1

// longest is how long a check after the first may take before /livez says that it hangs. A clone may take half of it.
const longest = time.Hour

// shortPause is the longest time before a failed check, or hook, is tried again. It doubles with each failure, up to
// the time between checks, so that a server that returns is not met by all sidecars of a cluster at once.
const (
	shortPause   = 10 * time.Second
	maxDoublings = 10
)

// Run checks at once, and then each time that the duration every has passed, until ctx ends. A check returns what the
// files are now, for the webhook, and whether it has changed any. An error of the first check, or of what must be done
// after it, is returned; later ones are logged and retried. Run returns nil if ctx ends after the first check.
//
// A change is followed by the touched file and the hooks. Each hook runs until it succeeds, beside the checks. All run
// after the first check, too, even if it has changed nothing: an earlier run may have been killed before its hooks ran.
func Run(ctx context.Context, o Options, every time.Duration, look func(ctx context.Context) (revision string, changed bool, err error)) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &loop{Options: o, every: every, look: look, tally: newTally()}
	file := readyFile(o.File)
	if err := file.clear(); err != nil {
		return err
	}
	defer file.remove()
	if o.HTTP != "" {
		server, err := listen(o.HTTP, l.answers)
		if err != nil {
			return err
		}
		defer server.Close()
	}
	if err := l.once(ctx); err != nil {
		return err
	}
	if err := file.create(); err != nil {
		return err
	}
	l.mu.Lock()
	l.ready = true
	l.mu.Unlock()
	if o.Started != nil {
		o.Started()
	}
	o.Log.Info(Staying)
	notify, stop := l.follow(ctx)
	defer stop()
	l.news = !o.Quiet
	for {
		if l.news {
			notify(l.revision)
			l.news = false
		}
		if l.wait(ctx) != nil {
			return nil
		}
		if err := l.once(ctx); ctx.Err() == nil {
			l.logged = warn(l.Log, err, l.logged, l.pause())
		}
	}
}

// loop is one call of [Run].
type loop struct {
	Options
	every   time.Duration
	look    func(context.Context) (string, bool, error)
	pending bool   // the file was not touched since the last change
	news    bool   // the hooks were not told of the last change
	fails   int    // of checks, without a success between them
	logged  string // the last warning

	mu        sync.Mutex
	ready     bool
	revision  string
	began     time.Time // when the check that is under way began; zero between checks
	succeeded time.Time // when a check last did
	period    time.Duration
	err       error     // of the last check
	early     error     // of the last attempt of the check that is under way; nil after a success
	failing   time.Time // when the first error after that came
	tally     tally
}

// once checks, and touches the file.
func (l *loop) once(ctx context.Context) error {
	start := time.Now()
	l.mu.Lock()
	l.began = start
	l.mu.Unlock()
	revision, news, err := l.look(poll.Notice(ctx, l.attempted))
	l.pending, l.news = l.pending || news, l.news || news
	if err == nil && l.Touch != "" && (l.pending || !l.ready) { // who reads it may remove it until the next change
		err = Touch(l.Touch, revision, l.pending)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Time{}
	duration := time.Since(start)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		l.tally.look(failed, duration)
		l.fails++
		if l.early == nil {
			l.tally.failures[class(err)]++
		} else { // its last attempt is counted
			l.tally.early--
		}
		if l.err == nil {
			l.failing = time.Now()
		}
	default:
		if l.err != nil && l.logged != "" {
			took := time.Since(l.failing)
			l.Log.Info("this attempt succeeded, after failures for "+words.Seconds(took), failure.Fields(failure.Target(l.err), took, nil))
		}
		if l.pending || l.early == nil { // otherwise, it was woken by a failure, which is counted
			result := unchanged
			if l.pending {
				result = changed
			}
			l.tally.look(result, duration)
			if l.Health == nil || l.Health() == nil {
				l.succeeded = time.Now()
			}
		}
		l.fails, l.pending = 0, false
	}
	l.err, l.early = err, nil
	if revision != "" {
		l.revision = revision
	}
	return err
}

// attempted notes an attempt of a check that makes several, as the first does.
func (l *loop) attempted(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.early = err; err == nil {
		return // the check is counted when it ends
	}
	l.tally.early++
	l.tally.failures[class(err)]++
}

// After marks an error of a check with the pause before the next one, instead of the usual back-off.
func After(pause time.Duration, err error) error { return &laterError{err, pause} }

type laterError struct {
	error
	pause time.Duration
}

func (e *laterError) Unwrap() error { return e.error }

// warn logs an error unless logged, the text of the one before, is the same. It returns the text. A pause of zero means
// that it is not tried again.
func warn(log *slog.Logger, err error, logged string, pause time.Duration) string {
	if err == nil {
		return ""
	}
	key := err.Error()
	if ended, repeated := errors.AsType[*poll.Error](err); repeated && ended.Last != nil {
		key = failure.Of(ended.Last).Text // without times, which always differ
	}
	if key != logged {
		text := failure.Lines(err.Error())
		if pause > time.Second {
			pause = pause.Round(time.Second)
		}
		if pause > 0 {
			text += fmt.Sprintf("; trying again in %v", pause)
		}
		hint, role := failure.Advice(err)
		if hint != "" {
			text += "; hint: " + hint
		}
		log.Warn(text, failure.Fields("", 0, err), failure.Advised(hint, role))
	}
	return key
}

// pause returns the longest time until the next check; 0 for any.
func (l *loop) pause() time.Duration {
	switch {
	case l.Pause != nil:
		return l.Pause()
	case l.fails > 0:
		if later, ok := errors.AsType[*laterError](l.err); ok {
			return later.pause
		}
		return l.backOff(l.fails)
	}
	return l.every
}

// backOff returns the time until the next attempt after so many failures.
func (l *loop) backOff(fails int) time.Duration {
	return min(l.every, shortPause<<min(fails-1, maxDoublings))
}

func (l *loop) wait(ctx context.Context) error {
	pause := l.pause()
	l.mu.Lock()
	l.period = max(pause, l.every)
	l.mu.Unlock()
	if l.Rand != nil && l.Pause == nil {
		pause += time.Duration(float64(pause) * spread * (2*l.Rand.Float64() - 1))
	}
	limit := ctx
	if pause > 0 {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, pause)
		defer cancel()
	}
	select {
	case <-l.Wake:
	case <-limit.Done():
	}
	return ctx.Err()
}

// notReady returns why the first check has not succeeded.
func (l *loop) notReady() error {
	switch {
	case l.early != nil:
		return fmt.Errorf("not ready: %w", l.early)
	case !l.began.IsZero():
		return errors.New("not ready: the first attempt is still running")
	}
	return errors.New("not ready")
}

// unready returns why /startupz and /readyz are to fail, or nil.
func (l *loop) unready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		return l.notReady()
	}
	return nil
}

// stuck returns why /livez is to fail, or nil. The first check ends at the deadline.
func (l *loop) stuck() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if took := time.Since(l.began); l.ready && !l.began.IsZero() && took > longest {
		return fmt.Errorf("an attempt has been running for %v", took.Round(time.Second))
	}
	return nil
}

// unhealthy returns why /healthz is to fail, or nil.
func (l *loop) unhealthy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.succeeded.IsZero():
		return l.notReady()
	case l.err != nil && time.Since(l.failing) > grace:
		return fmt.Errorf("failing for %v: %w", time.Since(l.failing).Round(time.Second), l.err)
	}
	if l.Health != nil {
		if err := l.Health(); err != nil {
			return err
		}
	}
	age := time.Since(l.succeeded)
	switch text := "no success for " + age.Round(time.Second).String(); {
	case l.period <= 0 || age <= periods*l.period+grace:
		return nil
	case l.early != nil: // a check that tries again by itself, as heartbeats do
		return fmt.Errorf("%s: %w", text, l.early)
	default:
		return errors.New(text)
	}
}

// Touch writes the revision into the file for others to see, and makes its directory. The file's time changes if
// something was changed, even if its content does not.
func Touch(name, revision string, changed bool) error {
	err := WriteFile(name, []byte(revision+"\n"))
	if now := time.Now(); err == nil && changed {
		if err = os.Chtimes(name, now, now); errors.Is(err, os.ErrNotExist) {
			err = nil // who waits for it has seen it, and removed it
		}
	}
	if err != nil {
		return failure.WithHint(fmt.Errorf("write the --touch file: %w", err), WritableHint)
	}
	return nil
}

// WriteFile writes a file that other containers read, and makes its directory.
func WriteFile(name string, content []byte) error {
	dir, err := mounts.MakeDirs(filepath.Dir(name), false, func(parent *os.File, name string) error {
		return dirfd.Mkdir(parent, name, 0o755)
	})
	if err != nil {
		return err
	}
	dir.Close()
	return atomicfile.Write(name, content, 0o644)
}
