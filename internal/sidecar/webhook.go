package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/tlsconfig"
)

// Webhook is a server that is called after a change.
type Webhook struct {
	URL         *secret.URL
	Method      string
	Body        string // of the request; "" for none
	Credentials httpclient.Credentials
	Revision    string // the header with what the files are now; "" for none

	Success httpclient.Statuses // which mean that the server was notified
	Timeout time.Duration       // of one attempt
	Once    bool                // one attempt only
	TLS     tlsconfig.Options
	Names   *resolver.Resolver
	Seed    uint64 // of the jitter
	Log     *slog.Logger

	failing bool // the last call of its hook failed, which was logged
}

// tries is how many timeouts a call of the hook may take, in which it is tried often: an application that is about to
// start soon gets it.
const tries = 5

var errGivenUp = errors.New("given up")

// Hook returns the hook that calls it.
func (w *Webhook) Hook() *Hook {
	return &Hook{Name: "webhook", Run: func(ctx context.Context, revision string) error {
		limit, cancel := context.WithTimeoutCause(ctx, tries*w.Timeout, errGivenUp)
		defer cancel()
		err := w.Call(limit, revision)
		w.failing = err != nil
		return err
	}}
}

// Call sends the request until an attempt succeeds, or ctx ends. Its error has no secrets.
func (w *Webhook) Call(ctx context.Context, revision string) error {
	retry := &httpclient.Retry{
		Options:        httpclient.Options{Dial: dial.New(w.Names).DialContext, TLS: w.TLS},
		AttemptTimeout: w.Timeout,
		Once:           w.Once,
		Seed:           w.Seed,
		Spread:         time.Second, // it is a neighbour, which few Pods call
		Notify: func(attempt int, _ *httpclient.Answer, err error, _ time.Duration) {
			if attempt == 1 && !w.failing {
				w.Log.Info(fmt.Sprintf("%s: call the webhook: %v", w.URL, failure.Of(err)), failure.Fields(w.URL.String(), 0, err))
			}
		},
		Prepare: func(req *http.Request) (err error) {
			if req.URL, err = w.URL.Expand(); err == nil {
				_, err = w.Credentials.Apply(req)
			}
			return err
		},
		Judge: func(a *httpclient.Answer) httpclient.Verdict {
			if w.Success.Has(a.Status) {
				return httpclient.Done
			}
			return max(httpclient.ByStatus(a), httpclient.Again)
		},
	}
	header, with := http.Header{"User-Agent": {"initbox"}}, ""
	if w.Revision != "" {
		header[w.Revision], with = []string{revision}, " with "+revision
	}
	if w.Body != "" {
		header.Set("Content-Type", "text/plain; charset=utf-8")
		if json.Valid([]byte(w.Body)) {
			header.Set("Content-Type", "application/json")
		}
	}
	if _, err := retry.Do(ctx, w.Method, w.URL.URL.Redacted(), header, []byte(w.Body)); err != nil {
		return w.explain(err)
	}
	w.Log.Info(fmt.Sprintf("%s: called%s", w.URL, with), failure.Fields(w.URL.String(), 0, nil))
	return nil
}

// explain returns an error that says what was being done, and why it failed, without the secrets that the URL refers
// to.
func (w *Webhook) explain(err error) error {
	f := failure.Of(err)
	if status, final := errors.AsType[*httpclient.StatusError](err); final {
		f = failure.Status(status.Status)
		f.Err = status
	}
	why := error(f)
	if ended, ok := errors.AsType[*poll.Error](err); ok && ended.Last != nil {
		f = failure.Of(ended.Last)
		why = &poll.Error{Attempts: ended.Attempts, Waited: ended.Waited, Cause: ended.Cause, Last: f}
	}
	return failure.WithHint(failure.About(w.URL.String(), f, fmt.Errorf("%s: call the webhook: %w", w.URL, why)), webhookHint(f))
}

// webhookFlags replaces what hints say of flags that the webhook does not have.
var webhookFlags = strings.NewReplacer(
	"--ca-file", "--webhook-ca-file",
	", or give the expected one with --server-name", "",
	"see --cert-file and --key-file", "the webhook is called without one",
)

// webhookHint returns the hint of f in terms of the flags for the webhook.
func webhookHint(f *failure.Failure) string {
	status, answered := errors.AsType[*httpclient.StatusError](f)
	switch {
	case !answered || status.Status >= http.StatusInternalServerError || status.Status == http.StatusProxyAuthRequired:
		return webhookFlags.Replace(f.Hint)
	case f.Class == failure.Authentication:
		return "are the credentials right? give them with --webhook-user and --webhook-password-file, or --webhook-header-file"
	}
	return "is the path right, and does --webhook-success-status list this status?"
}
