package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/clone"
	"initbox/internal/atomicfile"
	"initbox/internal/dial"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/mounts"
	"initbox/internal/podinfo"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/tlsconfig"
)

// defaultWebhookTimeout is the deadline of one attempt to call --webhook-url.
const defaultWebhookTimeout = 10 * time.Second

// aftermath is what follows a clone.
type aftermath struct {
	output, touch string
	webhook       *webhook // nil for none
}

// after returns what is to follow the clone.
func (g *gitFlags) after(c *cli.Context) (aftermath, error) {
	a := aftermath{output: g.output, touch: g.touch}
	if err := g.checkAfter(c); err != nil {
		return a, err
	}
	if g.webhookURL == "" {
		return a, nil
	}
	address, err := secret.ParseURL(g.webhookURL, os.Getenv)
	if err != nil {
		return a, usagef("--webhook-url: %w", err)
	}
	a.webhook = &webhook{url: address, method: strings.ToUpper(cmp.Or(g.webhookMethod, http.MethodPost)), timeout: g.webhookTimeout, once: g.callOnce, tls: tlsconfig.Options{CAFile: g.o.Remote.HTTP.TLS.CAFile}}
	if strings.ContainsAny(a.webhook.method, " \t\r\n:/") {
		return a, usagef("--webhook-method %s: want a method such as POST or PUT", g.webhookMethod)
	}
	if a.webhook.success, err = httpclient.ParseStatuses(cmp.Or(g.webhookSuccess, "200-299")); err != nil {
		return a, usagef("--webhook-success-status %s: %w", g.webhookSuccess, err)
	}
	a.webhook.names, err = g.names.resolver()
	return a, err
}

// checkAfter refuses flags that exclude each other or need another one.
func (g *gitFlags) checkAfter(c *cli.Context) error {
	if err := needs(c, [][2]string{
		{"webhook-method", "webhook-url"}, {"webhook-success-status", "webhook-url"}, {"webhook-timeout", "webhook-url"},
		{"parallel", "config"}, {"startup-probe", "watch"},
	}); err != nil {
		return err
	}
	switch {
	case g.config != "" && g.watch > 0:
		return usagef("--config and --watch are mutually exclusive").hint("give each repository to watch its own sidecar")
	case g.config != "" && (g.touch != "" || g.webhookURL != ""):
		return usagef("--touch and --webhook-url are for one commit, and --config clones several").hint("--output lists what was cloned")
	case c.IsSet("parallel") && g.parallel < 1:
		return usagef("--parallel %d: want a number from 1", g.parallel)
	case c.IsSet("watch") && g.watch < minWatch:
		return usagef("--watch %v: want at least %v", g.watch, minWatch)
	}
	_, err := probeAddress(g.startupProbe)
	return err
}

// checkOutside refuses files in the directory that becomes the tree and nothing else: each run, and each look of
// --watch, would find it changed and clone again.
func (g *gitFlags) checkOutside(o clone.Options) error {
	dir, err := filepath.Abs(o.Dir)
	if err != nil || o.Link != "" { // the tree is then in a directory of its own
		return nil
	}
	address, _ := probeAddress(g.startupProbe)
	for _, f := range []struct {
		flag, file string
		is         bool
	}{{"output", g.output, g.output != "-"}, {"touch", g.touch, true}, {"startup-probe", g.startupProbe, address == ""}} {
		file, err := filepath.Abs(f.file)
		if err == nil && f.is && f.file != "" && strings.HasPrefix(file, dir+"/") {
			return usagef("--%s %s is in %s, which holds the tree and nothing else", f.flag, f.file, o.Dir).
				hint("choose a file outside, or publish with --link")
		}
	}
	return nil
}

// done writes the files and calls the webhook, which is retried until ctx ends.
func (a aftermath) done(ctx context.Context, e *env, r clone.Result) error {
	if err := a.write(e, r); err != nil || a.webhook == nil {
		return err
	}
	return a.webhook.call(ctx, e, r.SHA)
}

// write writes the files.
func (a aftermath) write(e *env, r clone.Result) error {
	if err := writeResult(e, a.output, r); err != nil || a.touch == "" {
		return err
	}
	err := writeFile(a.touch, []byte(r.SHA+"\n"))
	if now := time.Now(); err == nil && r.Changed {
		err = os.Chtimes(a.touch, now, now)
	}
	if err != nil {
		return failure.WithHint(fmt.Errorf("write the --touch file: %w", err), writableHint)
	}
	return nil
}

// writeFile writes a file that others read, and makes its directory, as git-sync does.
func writeFile(name string, content []byte) error {
	dir, err := mounts.MakeDirs(filepath.Dir(name), false, func(parent *os.File, name string) error {
		return dirfd.Mkdir(parent, name, 0o755)
	})
	if err != nil {
		return err
	}
	dir.Close()
	return atomicfile.Write(name, content, 0o644)
}

const writableHint = "is the volume mounted, writable by this user and not full?"

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
	if err := writeFile(output, text); err != nil {
		return failure.WithHint(fmt.Errorf("write the --output: %w", err), writableHint)
	}
	return nil
}

// webhook calls a server when there is another commit, as git-sync does.
type webhook struct {
	url     *secret.URL
	method  string
	success httpclient.Statuses
	timeout time.Duration // of one attempt
	once    bool          // one attempt only
	tls     tlsconfig.Options
	names   *resolver.Resolver
}

// call sends the commit's id until the server has received it, or ctx ends.
func (w *webhook) call(ctx context.Context, e *env, id string) error {
	retry := &httpclient.Retry{
		Options:        httpclient.Options{Dial: dial.New(w.names).DialContext, TLS: w.tls},
		AttemptTimeout: w.timeout,
		Once:           w.once,
		Seed:           podinfo.Seed(),
		Spread:         time.Second, // it is a neighbour, which few Pods call
		Notify: func(attempt int, _ *httpclient.Answer, err error, _ time.Duration) {
			if attempt == 1 {
				e.log.Info(fmt.Sprintf("%s: call the webhook: %v", w.url, failure.Of(err)))
			}
		},
		Prepare: func(req *http.Request) (err error) {
			req.URL, err = w.url.Expand()
			return err
		},
		Judge: func(a *httpclient.Answer) httpclient.Verdict {
			if w.success.Has(a.Status) {
				return httpclient.Done
			}
			return max(httpclient.ByStatus(a), httpclient.Again)
		},
	}
	header := http.Header{"User-Agent": {"initbox"}, "Gitsync-Hash": {id}}
	if _, err := retry.Do(ctx, w.method, w.url.URL.Redacted(), header, nil); err != nil {
		return w.explain(err)
	}
	e.log.Info(fmt.Sprintf("%s: called with %s", w.url, id))
	return nil
}

// explain returns an error that says what was being done, and why it failed, without the secrets that the URL refers
// to.
func (w *webhook) explain(err error) error {
	var ended *poll.Error
	var status *httpclient.StatusError
	switch {
	case errors.As(err, &ended) && ended.Last != nil:
		f := failure.Of(ended.Last)
		err = &poll.Error{Attempts: ended.Attempts, Waited: ended.Waited, Cause: ended.Cause, Last: f}
		return failure.WithHint(fmt.Errorf("%s: call the webhook: %w", w.url, err), f.Hint)
	case errors.As(err, &status) && status.Status < http.StatusInternalServerError:
		return failure.WithHint(fmt.Errorf("%s: call the webhook: %s", w.url, failure.Status(status.Status).Text), "is the path right, and does --webhook-success-status list this status?")
	}
	f := failure.Of(err)
	return failure.WithHint(fmt.Errorf("%s: call the webhook: %w", w.url, f), f.Hint)
}

// withHint returns err with the hint of the failure in it, unless it has a hint.
func withHint(err error) error {
	var f *failure.Failure
	if hintOf(err) == "" && errors.As(err, &f) && f.Hint != "" {
		return failure.WithHint(err, f.Hint)
	}
	return err
}

// minWatch is the shortest time between looks for a new commit.
const minWatch = 100 * time.Millisecond

// stay clones, and clones again whenever there is a new commit, until a signal comes. The deadline applies to the first
// clone; later failures are retried.
func (g *gitFlags) stay(first context.Context, e *env, o clone.Options, after aftermath) error {
	probe, err := openProbe(g.startupProbe)
	if err != nil {
		return err
	}
	defer probe.close()
	ctx, cancel := context.WithCancelCause(e.untilStopped)
	defer cancel(nil)
	lift := context.AfterFunc(first, func() { cancel(context.Cause(first)) })
	defer lift()
	var (
		there   bool
		useless error // the reason to stop: the first clone could not be reported
	)
	err = clone.Watch(ctx, o, g.watch, func(ctx context.Context, r clone.Result) error {
		err := after.write(e, r)
		if err == nil && !there {
			err = probe.ready()
		}
		if err != nil && !there {
			useless = err
			cancel(err)
		}
		if err != nil {
			return err
		}
		if !there {
			e.log.Info(staying)
		}
		there = true
		lift()
		if after.webhook == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, after.webhook.timeout) // the next change must not wait for the server that is notified of this one
		defer cancel()
		return after.webhook.call(ctx, e, r.SHA)
	})
	switch {
	case useless != nil:
		return useless
	case there && e.untilStopped.Err() != nil:
		return nil
	}
	return err
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
	text, _ := json.Marshal(map[string]string{"Msg": "git-clone failed", "Err": failure.Lines(err.Error())})
	return errors.Join(err, writeFile(string(f), append(text, '\n')))
}
