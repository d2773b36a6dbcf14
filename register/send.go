package register

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/secret"
	"initbox/register/exchange"
)

// do sends a call until it is answered, or ctx ends. An answer that refuses is an error; gone is not.
func (r *Registration) do(ctx context.Context, c *call, doing string) (finding, *httpclient.Answer, error) {
	for {
		renewed, err := r.login(ctx)
		if err != nil {
			return refused, nil, err
		}
		found, answer, err := r.send(ctx, c, doing)
		if found != stale || renewed || !r.logsIn() {
			return found, answer, err
		}
		r.token = ""
	}
}

// login gets a token, if the protocol has them, the user a name, and there is none
// yet. It reports whether the token is new.
func (r *Registration) login(ctx context.Context) (renewed bool, err error) {
	if !r.logsIn() || r.token != "" {
		return false, nil
	}
	if _, _, err := r.send(ctx, r.protocol.login, "log in"); err != nil {
		return false, err
	}
	r.token = r.kept["token"]
	delete(r.kept, "token") // it is not for the state
	r.server.Hide(r.token)
	return true, nil
}

// logsIn reports whether the user's name and password are for the protocol's login.
func (r *Registration) logsIn() bool {
	return r.protocol.login != nil && r.o.Server.Credentials.User != ""
}

// send sends a call with the token that there is, if any.
func (r *Registration) send(ctx context.Context, c *call, doing string) (found finding, answer *httpclient.Answer, err error) {
	q, err := r.request(c)
	if err != nil {
		return refused, nil, fmt.Errorf("%s: %s: %w", r.place(), doing, err)
	}
	retry := httpclient.Retry{
		Options:        r.client,
		AttemptTimeout: r.o.AttemptTimeout,
		Spread:         r.spread(c),
		Seed:           r.o.Seed,
		RetryTLS:       r.o.RetryTLS,
		Prepare:        func(req *http.Request) error { return r.prepare(req, q, c) },
		Judge: func(a *httpclient.Answer) httpclient.Verdict {
			r.count(strconv.Itoa(a.Status))
			return r.judge(c, a).verdict()
		},
		Notify: func(_ int, a *httpclient.Answer, err error, _ time.Duration) {
			if a == nil {
				r.count(string(failure.Of(err).Class))
				r.token = "" // a server that has lost its data does not answer a request with an earlier token (etcd waits until it knows the token)
			}
		},
	}
	header := http.Header{"User-Agent": {"initbox"}, "Accept": {"*/*"}}
	if r.o.Protocol.Custom == nil {
		header.Set("Accept", exchange.JSONType) // Eureka prefers XML, and Spring Boot Admin has a stream at the same path
	}
	var content []byte
	if q.body != nil {
		if q.body.Type != "" {
			header.Set("Content-Type", q.body.Type)
		}
		content = q.body.Content
	}
	if r.key != "" {
		header.Set("Idempotency-Key", r.key)
	}
	// The URL with its secrets is prepare's.
	answer, err = r.server.Send(ctx, doing, retry, q.method, q.resolve(r.url.URL).Redacted(), header, content)
	if err != nil {
		if answer != nil && r.judge(c, answer) == stale {
			return stale, answer, r.explain(doing, c, err)
		}
		return refused, answer, r.explain(doing, c, err)
	}
	found = r.judge(c, answer)
	if found == there {
		err = r.keep(c, answer)
	}
	return found, answer, err
}

// spread returns the spread of the options, bounded: a heartbeat that came much later than
// the next one is due would be useless.
func (r *Registration) spread(c *call) time.Duration {
	if c == r.heartbeat() {
		return min(cmp.Or(r.o.Spread, httpclient.DefaultSpread), r.pace())
	}
	return r.o.Spread
}

// prepare sets what may have changed since the last attempt: secrets.
func (r *Registration) prepare(req *http.Request, q *request, c *call) error {
	if c.login == nil { // the last attempt may have lost the token
		if _, err := r.login(req.Context()); err != nil {
			return err
		}
	}
	server, err := r.server.Expand()
	if err != nil {
		return err
	}
	req.URL = q.resolve(server)
	req.Host = req.URL.Host
	if !httpclient.SameOrigin(req.URL, server) {
		req.URL.User = nil
		return nil // the credentials are not for it
	}
	credentials := r.o.Server.Credentials
	credentials.Getenv = r.o.Getenv // those of a stored registration have none
	if c.login != nil {
		if err := r.setLogin(req, c); err != nil {
			return err
		}
	}
	if r.logsIn() {
		credentials.User, credentials.PasswordFile = "", ""
	}
	secrets, err := credentials.Apply(req)
	if r.token != "" {
		req.Header.Set("Authorization", strings.ReplaceAll(r.protocol.tokenAs, "{token}", r.token))
	}
	r.server.Hide(secrets...)
	return err
}

// setLogin has the request carry the user's name and password.
func (r *Registration) setLogin(req *http.Request, c *call) error {
	password, err := secret.Read(r.o.Server.Credentials.PasswordFile)
	if err != nil {
		return err
	}
	r.server.Hide(password)
	body := c.login(r.o.Server.Credentials.User, password)
	req.Header.Set("Content-Type", body.Type)
	req.ContentLength = int64(len(body.Content))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body.Content)), nil }
	req.Body, err = req.GetBody()
	return err
}

// judge returns what an answer to c means. Options.Again does not turn a gone entry or a stale token into a retry: a
// user who lists 404 or 403 there means the calls that register.
func (r *Registration) judge(c *call, a *httpclient.Answer) finding {
	found := r.meaning(c, a)
	if r.o.Again.Has(a.Status) && (found == refused || found == stale && !r.logsIn() || r.registers(c) && found != stale) {
		return again
	}
	return found
}

func (r *Registration) meaning(c *call, a *httpclient.Answer) finding {
	if r.registers(c) && r.o.Success.Has(a.Status) {
		return there
	}
	found := byStatus(a)
	if c.judge != nil {
		found = c.judge(&r.entry, a)
	}
	if found == gone && (c == &r.protocol.register[0] || c == r.protocol.login) {
		return refused // there is nothing yet that could be gone
	}
	return found
}

func (r *Registration) registers(c *call) bool {
	for i := range r.protocol.register {
		if c == &r.protocol.register[i] {
			return true
		}
	}
	return false
}

func (f finding) verdict() httpclient.Verdict {
	switch f {
	case again:
		return httpclient.Again
	case refused, stale:
		return httpclient.Failed
	}
	return httpclient.Done
}

// keep takes from an answer what later calls need.
func (r *Registration) keep(c *call, a *httpclient.Answer) error {
	for name, from := range c.keep {
		value := a.Header.Get(from)
		if from == "" || strings.HasPrefix(from, "/") {
			var err error
			if value, err = exchange.Pointer(a.Body, from); err != nil {
				return failure.WithHint(fmt.Errorf("%s: the answer: %w", r.place(), err), "braces in a URL refer to the answer: a JSON Pointer as in {/id}, or a header as in {Location}")
			}
		}
		if value == "" {
			return fmt.Errorf("%s: the answer has no %s", r.place(), from)
		}
		if r.kept == nil {
			r.kept = map[string]string{}
		}
		r.kept[name] = value
	}
	return nil
}
