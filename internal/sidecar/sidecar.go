// Package sidecar is what sidecars share: the file or port for the kubelet's probes, the files and the webhook that
// notify other containers of a change, and the loop that looks for changes until a signal comes.
//
//	err := sidecar.Run(ctx, sidecar.Options{Probe: "8080", Touch: "/shared/changed", Log: log}, time.Minute,
//		func(ctx context.Context) (revision string, changed bool, err error) { … })
//
// Run looks at once, and again after the time given or when [Options.Wake] has a value. A program with a loop of its
// own uses [OpenProbe], [Touch] and [Webhook.Call].
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"initbox/internal/atomicfile"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/words"
)

// Staying is logged when a sidecar has done what the other containers need. Nothing in the container tells whether it
// is one: an ordinary init container would go on as well, and hold up the Pod.
const Staying = "running until SIGTERM: an init container needs restartPolicy: Always for this, or the Pod stays at Init"

// WritableHint is the hint where a file cannot be written.
const WritableHint = "is the volume mounted, writable by this user and not full?"

// Options configures [Run].
type Options struct {
	Probe   string   // the value of --startup-probe; "" for none
	Touch   string   // the file that is written after each change; "" for none
	Webhook *Webhook // that is called after each change; nil for none

	// Started, if set, is called when the first look has succeeded, before other containers are notified of it.
	Started func()
	Wake    <-chan struct{} // has a value when the next look should come at once; nil for never
	Health  func() error    // why it is not healthy, besides failed looks; nil for never
	Log     *slog.Logger    // nil discards
}

// grace is how long looks may fail, or one may take longer than the time for it, before /healthz says so. A cluster's
// control plane may be away as long while it is upgraded.
const grace = 30 * time.Second

// webhookTries is how many timeouts of the webhook the next look may have to wait.
const webhookTries = 5

// shortPause is the longest time before a failed look, or webhook, is tried again.
const shortPause = 10 * time.Second

// Run looks at once, and then each time that the duration every has passed, until ctx ends. A look returns what the
// files are now, for the webhook, and whether it has changed any. An error of the first look, or of what must be done
// after it, is returned; later ones are logged and retried. Run returns nil if ctx ends after the first look.
//
// A change is followed by the touched file and the webhook. The webhook is called until it succeeds, but never holds up
// the next look by more than a few of its timeouts.
func Run(ctx context.Context, o Options, every time.Duration, look func(ctx context.Context) (revision string, changed bool, err error)) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &loop{Options: o, every: every, look: look}
	probe, err := OpenProbe(o.Probe, l.unhealthy)
	if err != nil {
		return err
	}
	defer probe.Close()
	if err := l.once(ctx); err != nil {
		return err
	}
	if err := probe.Ready(); err != nil {
		return err
	}
	if o.Started != nil {
		o.Started()
	}
	o.Log.Info(Staying)
	for {
		if l.owed {
			l.call(ctx)
		}
		if l.wait(ctx) != nil {
			return nil
		}
		if err := l.once(ctx); ctx.Err() == nil {
			l.warn(err)
		}
	}
}

// loop is one call of [Run].
type loop struct {
	Options
	every    time.Duration
	look     func(context.Context) (string, bool, error)
	revision string
	owed     bool   // the webhook was not called since the last change
	logged   string // the last warning

	mu        sync.Mutex
	succeeded time.Time // when a look last did
	err       error     // of the last look
	failing   time.Time // when the first error after that came
}

// once looks, and touches the file.
func (l *loop) once(ctx context.Context) error {
	revision, changed, err := l.look(ctx)
	if err == nil && l.Touch != "" {
		err = Touch(l.Touch, revision, changed)
	}
	l.revision, l.owed = revision, l.owed || changed && l.Webhook != nil
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.err == nil {
		l.failing = time.Now()
	}
	if err == nil && l.err != nil && l.logged != "" {
		l.Log.Info("it works again, after " + words.Seconds(time.Since(l.failing)))
	}
	if l.err = err; err == nil {
		l.succeeded = time.Now()
	}
	return err
}

// call calls the webhook.
func (l *loop) call(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, webhookTries*l.Webhook.Timeout)
	defer cancel()
	err := l.Webhook.Call(limit, l.revision)
	l.owed = err != nil
	if ctx.Err() == nil {
		l.warn(err)
	}
}

// warn logs an error once, and again if its text differs.
func (l *loop) warn(err error) {
	switch {
	case err == nil && !l.owed:
		l.logged = ""
	case err != nil && err.Error() != l.logged:
		l.logged = err.Error()
		text := fmt.Sprintf("%s; trying again in %v", failure.Lines(l.logged), l.pause())
		if hinted, ok := errors.AsType[interface {
			error
			Hint() string
		}](err); ok && hinted.Hint() != "" {
			text += "; hint: " + hinted.Hint()
		}
		l.Log.Warn(text)
	}
}

// pause returns the longest time until the next look.
func (l *loop) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.owed {
		return min(l.every, shortPause)
	}
	return l.every
}

func (l *loop) wait(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, l.pause())
	defer cancel()
	select {
	case <-l.Wake:
	case <-limit.Done():
	}
	return ctx.Err()
}

// unhealthy returns why /healthz is to fail, or nil.
func (l *loop) unhealthy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.every + grace
	if l.Webhook != nil {
		limit += webhookTries * l.Webhook.Timeout
	}
	switch age := time.Since(l.succeeded); {
	case l.succeeded.IsZero():
		return errors.New("not ready")
	case l.err != nil && time.Since(l.failing) > grace:
		return fmt.Errorf("for %v: %w", time.Since(l.failing).Round(time.Second), l.err)
	case age > limit:
		return fmt.Errorf("no success for %v", age.Round(time.Second))
	}
	if l.Health == nil {
		return nil
	}
	return l.Health()
}

// Touch writes the revision into the file for others to see, and makes its directory. The file's time changes if
// something was changed, even if its content does not.
func Touch(name, revision string, changed bool) error {
	err := WriteFile(name, []byte(revision+"\n"))
	if now := time.Now(); err == nil && changed {
		err = os.Chtimes(name, now, now)
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
