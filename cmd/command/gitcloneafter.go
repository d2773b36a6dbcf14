package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/clone"
	"initbox/internal/failure"
	"initbox/internal/sidecar"
	"initbox/internal/tlsconfig"
)

// aftermath is what follows a clone.
type aftermath struct {
	output, touch string
	hook          *execHook
	webhook       *sidecar.Webhook // nil for none
}

// after returns what is to follow the clone.
func (g *gitFlags) after(c *cli.Context, e *env) (aftermath, error) {
	a := aftermath{output: g.output, touch: g.sidecar.touch, hook: &g.hook}
	if err := g.checkAfter(c); err != nil {
		return a, err
	}
	names, err := g.names.resolver(e)
	if err != nil {
		return a, err
	}
	a.webhook, err = g.sidecar.webhook(e, names, tlsconfig.Options{CAFile: g.o.Remote.HTTP.TLS.CAFile})
	return a, err
}

// checkAfter refuses flags that exclude each other or need another one.
func (g *gitFlags) checkAfter(c *cli.Context) error {
	if err := needs(c, [][2]string{{"parallel", "config"}, {"sync-on-signal", "watch"}}); err != nil {
		return err
	}
	for _, h := range []*execHook{&g.hook, &g.hookBefore} {
		if err := h.check(c); err != nil {
			return err
		}
		if g.config != "" && h.command != "" {
			return usagef("--%s-command is for one commit, and --config clones several", h.flag)
		}
	}
	if g.wakeSignal != "" {
		if _, err := parseWakeSignal(g.wakeSignal); err != nil {
			return err
		}
	}
	switch {
	case g.config != "" && g.sidecar.watch > 0:
		return usagef("--config and --watch are mutually exclusive").hint("give each repository to watch its own sidecar")
	case g.config != "" && (g.sidecar.touch != "" || g.sidecar.url != ""):
		return usagef("--touch and --webhook-url are for one commit, and --config clones several").hint("--output lists what was cloned")
	case isSet(c, "parallel") && g.parallel < 1:
		return usagef("--parallel %d: want a number from 1", g.parallel)
	}
	return g.sidecar.check(c)
}

// checkOutside refuses files in the directory that becomes the tree and nothing else: each run, and each check
// of --watch, would find it changed and clone again.
func (g *gitFlags) checkOutside(o clone.Options) error {
	dir, err := filepath.Abs(o.Dir)
	if err != nil || o.Link != "" { // the tree is then in a directory of its own
		return nil
	}
	files := g.sidecar.files()
	if g.output != "-" {
		files["output"] = g.output
	}
	for flag, name := range files {
		file, err := filepath.Abs(name)
		if err == nil && name != "" && strings.HasPrefix(file, dir+"/") {
			return usagef("--%s %s is in %s, which holds the tree and nothing else", flag, name, o.Dir).
				hint("choose a file outside, or publish with --link")
		}
	}
	return nil
}

// done writes the files, runs the program and calls the webhook, which are retried until ctx ends.
func (a aftermath) done(ctx context.Context, e *env, o clone.Options, r clone.Result) error {
	if err := a.write(e, r); err != nil {
		return err
	}
	if a.hook.command != "" {
		if err := a.hook.after(e, hookDir(o)).Until(ctx, e.log, r.SHA); err != nil {
			return err
		}
	}
	if a.webhook == nil {
		return nil
	}
	return a.webhook.Call(ctx, r.SHA)
}

// write writes the files.
func (a aftermath) write(e *env, r clone.Result) error {
	if err := writeResult(e, a.output, r); err != nil || a.touch == "" {
		return err
	}
	return sidecar.Touch(a.touch, r.SHA, r.Changed)
}

// writeResult writes a result, or several, as JSON.
func writeResult(e *env, output string, result any) error {
	if output == "" {
		return nil
	}
	text, err := encodeJSON(result)
	switch {
	case err != nil:
		return fmt.Errorf("write the --output: %w", err)
	case output == "-":
		_, err = e.stdout.Write(text)
		return err
	}
	if err := sidecar.WriteFile(output, text); err != nil {
		return failure.WithHint(fmt.Errorf("write the --output: %w", err), writableHint)
	}
	return nil
}

// withHint returns err with the hint of the failure in it, unless it has a hint.
func withHint(err error) error {
	var f *failure.Failure
	if failure.Hint(err) == "" && errors.As(err, &f) && f.Hint != "" {
		return failure.WithHint(err, f.Hint)
	}
	return err
}

// stay clones, and clones again whenever there is a new commit, until a signal comes. The deadline applies to the first
// clone; later failures are retried.
func (g *gitFlags) stay(first context.Context, e *env, o clone.Options, after aftermath) error {
	w, err := clone.NewWatcher(o)
	if err != nil {
		return err
	}
	listed := false // the --output has the last result
	side := g.sidecar.options(after.webhook, e.log)
	side.GitSync = g.compat != ""
	if g.hook.command != "" {
		side.Hooks = append(side.Hooks, g.hook.after(e, hookDir(o)))
	}
	if g.hookBefore.command != "" {
		side.Hooks = append(side.Hooks, g.hookBefore.within)
	}
	if side.Wake, err = wakeOn(e.untilStopped, g.wakeSignal); err != nil {
		return err
	}
	side.Metrics = func() []sidecar.Family {
		return []sidecar.Family{{Name: "initbox_received_bytes_total", Type: "counter", Help: "Bytes that the server of the repository sent.", Samples: sidecar.Value(float64(w.Received()))}}
	}
	return e.stay(first, side, g.sidecar.watch, func(ctx context.Context) (string, bool, error) {
		r, err := w.Look(ctx)
		if _, held := errors.AsType[unpublished](err); held {
			err = sidecar.After(g.hookBefore.backoff, err)
		}
		if err != nil {
			return "", false, err
		}
		if r.Changed || !listed {
			err = writeResult(e, after.output, r)
			listed = err == nil
		}
		return r.SHA, r.Changed, err
	})
}

// gitWords are git's own words for failures, which programs that read git-sync's error file may look for.
var gitWords = map[failure.Class]string{
	failure.NoRevision:     "couldn't find remote ref",
	failure.NoRepository:   "repository not found",
	failure.Authentication: "Authentication failed",
	failure.NoSuchName:     "Could not resolve host",
}

// errorFile is git-sync's --error-file: why the last run failed.
type errorFile string

// report writes err into the file, or removes the file if err is nil. It returns err, and why the file cannot be
// written.
func (f errorFile) report(err error) error {
	if f == "" || errors.As(err, new(usageError)) {
		return err
	}
	if err == nil {
		if err := os.Remove(string(f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	why := failure.Lines(err.Error())
	if words := gitWords[failure.Of(err).Class]; words != "" {
		why = words + ": " + why
	}
	text, _ := json.Marshal(map[string]any{"Msg": "git-clone failed", "Err": why, "Args": struct{}{}})
	return errors.Join(err, sidecar.WriteFile(string(f), append(text, '\n')))
}
