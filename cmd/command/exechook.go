package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/clone"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/process"
	"initbox/internal/sidecar"
)

// execHook is a program to run for each commit, in its tree, with the commit's id in $GITSYNC_HASH. No shell is
// involved, and the program gets no arguments.
type execHook struct {
	flag             string // without dashes
	command          string // "" for none
	timeout, backoff time.Duration
	once             bool          // even if it fails
	within           *sidecar.Hook // counts the runs before a tree is published
}

func (h *execHook) flags(flag, when string) []cli.Flag {
	*h = execHook{flag: flag, timeout: 30 * time.Second, backoff: 3 * time.Second, within: &sidecar.Hook{Name: flag}}
	return []cli.Flag{
		textFlag(flag+"-command", "`PROGRAM` to run "+when+", without arguments or a shell, with the commit's id in GITSYNC_HASH", categoryHooks, &h.command),
		durationFlag(flag+"-timeout", "deadline of one run of it", categoryHooks, &h.timeout),
		durationFlag(flag+"-backoff", "pause after a run that fails", categoryHooks, &h.backoff),
	}
}

// check refuses flags that need another one, and times that cannot be right.
func (h *execHook) check(c *cli.Context) error {
	if h.command == "" {
		return needs(c, [][2]string{{h.flag + "-timeout", h.flag + "-command"}, {h.flag + "-backoff", h.flag + "-command"}})
	}
	if h.timeout <= 0 || h.backoff <= 0 {
		return usagef("--%s-timeout and --%s-backoff: want times such as 30s", h.flag, h.flag)
	}
	return unreplaced("--"+h.flag+"-command", h.command)
}

// run runs the program in dir. What it prints goes to stderr alone.
func (h *execHook) run(ctx context.Context, e *env, dir, sha string) error {
	start, target := time.Now(), failure.Printable(h.command)
	log := e.log.With(failure.Fields(target, 0, nil))
	err := process.Run(ctx, process.Program{
		Path: h.command, Dir: dir, Timeout: h.timeout, Output: e.stderr, Log: log,
		Env: append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PWD=") }), "GITSYNC_HASH="+sha),
	})
	class, hint := failure.Unexpected, "see in the log what the program printed"
	switch {
	case ctx.Err() != nil:
		return failure.WithHint(fmt.Errorf("run %s, the --%s-command: %w", target, h.flag, err), hint+", or give it more time with --timeout")
	case err == nil:
		log.Info(fmt.Sprintf("%s: done in %v", h.command, time.Since(start).Round(time.Millisecond)), failure.Seconds(time.Since(start)))
		return nil
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		class, hint = failure.TimedOut, hint+", or give it more time with --"+h.flag+"-timeout"
	case errors.Is(err, syscall.ENOEXEC):
		hint = "a script needs a first line such as #!/bin/sh, and a program must be built for this machine, linux/" + runtime.GOARCH
	case isAnyOf(err, exec.ErrNotFound, os.ErrNotExist, os.ErrPermission):
		hint = "the image of initbox has no other program, and no shell: is it on a volume, static, and executable?"
		if strings.Contains(h.command, " ") {
			hint = "it is run as it is, without arguments: put them into a script"
		}
	}
	f := failure.New(class, "run %s, the --%s-command: %v", h.command, h.flag, err).WithHint(hint)
	err = failure.About(target, f, f)
	if h.once {
		return poll.Permanent(err)
	}
	return err
}

func isAnyOf(err error, any ...error) bool {
	return slices.ContainsFunc(any, func(one error) bool { return errors.Is(err, one) })
}

// after returns the hook that runs the program after a change.
func (h *execHook) after(e *env, dir func() string) *sidecar.Hook {
	return &sidecar.Hook{Name: h.flag, Pause: h.backoff, Run: func(ctx context.Context, sha string) error {
		return h.run(ctx, e, dir(), sha)
	}}
}

// unpublished is the error of a program that runs before a tree is published.
type unpublished struct{ error }

func (u unpublished) Unwrap() error { return u.error }

// before returns what is to run before a tree is published, for [clone.Options].
func (h *execHook) before(e *env) func(ctx context.Context, dir, sha string) error {
	if h.command == "" {
		return nil
	}
	return func(ctx context.Context, dir, sha string) error {
		err := h.run(ctx, e, dir, sha)
		if h.within.Count(ctx, err); err == nil || ctx.Err() != nil || poll.IsPermanent(err) {
			return err
		}
		return poll.After(h.backoff, unpublished{err})
	}
}

// hookDir returns the directory that the program runs in: with a link, the one that it leads to.
func hookDir(o clone.Options) func() string { return o.Path }

// wakeSignals are the values of --sync-on-signal: signals that nothing else uses here.
var wakeSignals = []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}

// parseWakeSignal returns the signal that has the name, with or without SIG, or the number.
func parseWakeSignal(text string) (syscall.Signal, error) {
	_, named, _ := sidecar.SignalNamed(text)
	for _, s := range wakeSignals {
		if named == s || text == strconv.Itoa(int(s)) {
			return s, nil
		}
	}
	return 0, usagef("--sync-on-signal %s: want HUP, USR1 or USR2", text).hint("the others end the program, or belong to the kernel")
}

// wakeOn returns a channel that has a value after each signal, which no longer ends the program.
func wakeOn(ctx context.Context, text string) (<-chan struct{}, error) {
	if text == "" {
		return nil, nil
	}
	sig, err := parseWakeSignal(text)
	if err != nil {
		return nil, err
	}
	signals, wake := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Reset(sig) // what withSignals has set
	signal.Notify(signals, sig)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			select {
			case wake <- struct{}{}:
			default: // the last one is not handled yet
			}
		}
	}()
	return wake, nil
}
