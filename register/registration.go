package register

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/secret"
)

// Registration is an entry at a registry. Its methods are not to be called at
// once.
type Registration struct {
	o        Options
	protocol *Preset
	entry    Entry
	url      *secret.URL
	log      *slog.Logger
	client   httpclient.Options

	kept      map[string]string // of answers, for later calls
	token     string            // from the protocol's login, "" before it
	resumed   bool              // an earlier run has registered it
	forgotten int               // heartbeats in a row that found it gone
	answer    []byte            // what is wanted of the registry's
	round     int               // see state.Round
	key       string            // the Idempotency-Key of what is being sent
	before    *state            // see state.Before
	unsure    bool              // a heartbeat was on its way while somebody else took the entry away, and may have brought it back

	mu      sync.Mutex
	secrets map[string]bool // what has been sent and must not be shown
}

// Open returns a registration of which nothing has been sent yet. Its error tells
// what is wrong with the options.
func Open(o Options) (*Registration, error) {
	r := &Registration{o: o, protocol: o.Protocol.preset(), entry: o.Entry, log: o.Log, secrets: map[string]bool{}}
	if r.protocol == nil {
		return nil, fmt.Errorf("no such preset: %s", o.Protocol.Preset)
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	for _, s := range o.Secrets {
		r.hide(s)
	}
	var err error
	if r.url, err = secret.ParseURL(o.Server.URL, o.Getenv); err != nil {
		return nil, err
	}
	if password, set := r.url.User.Password(); set && !r.url.In(password) {
		return nil, errors.New("a password in the URL shows in the Pod's specification: refer to a file, as in http://user:${file:/secrets/password}@host/, or use --user and --password-file")
	}
	if err := o.Protocol.Custom.check(); err != nil {
		return nil, err
	}
	names := o.Resolver
	if names == nil {
		names = new(resolver.Resolver)
	}
	r.client = httpclient.Options{Dial: dial.New(names).DialContext, TLS: o.Server.TLS, NoProxy: o.Server.NoProxy}
	return r, nil
}

// place is where the registration is, for messages.
func (r *Registration) place() string { return r.url.String() }

// names are the values that paths and queries may refer to.
func (r *Registration) names() map[string]string {
	names := r.entry.names()
	if r.protocol.names != nil {
		maps.Copy(names, r.protocol.names(&r.entry))
	}
	maps.Copy(names, r.kept)
	return names
}

// request is a call with everything filled in but secrets.
type request struct {
	method string
	ref    *url.URL // below the server's URL, or a whole one
	below  bool
	body   *Body
}

func (r *Registration) request(c *call) (*request, error) {
	names := r.names()
	escape := url.PathEscape
	if strings.HasPrefix(c.path, "{") && strings.HasSuffix(c.path, "}") { // it is a whole URL that a server's answer has named
		escape = func(s string) string { return s }
	}
	path, err := expand(c.path, names, escape)
	if err != nil {
		return nil, err
	}
	ref, err := url.Parse(path)
	if err != nil {
		return nil, errors.New("what the answer has named is no part of a URL")
	}
	query, err := expand(c.query, names, url.QueryEscape)
	if err != nil {
		return nil, err
	}
	if query != "" {
		ref.RawQuery = strings.Trim(ref.RawQuery+"&"+query, "&")
	}
	body, err := c.content(&r.entry)
	return &request{cmp.Or(c.method, http.MethodPost), ref, r.o.Protocol.Custom == nil, body}, err
}

// resolve returns the request's URL at the server. The query of the server's own URL
// is for all calls below it.
func (q *request) resolve(server *url.URL) *url.URL {
	if !q.below && (q.ref.Scheme != "" || q.ref.Host != "" || q.ref.Path != "") {
		u := server.ResolveReference(q.ref)
		if httpclient.SameOrigin(u, server) {
			u.User = server.User
		}
		return u
	}
	u := *server
	if q.ref.Path != "" { // JoinPath would make a relative path of none
		u.Path, u.RawPath = strings.TrimSuffix(server.Path, "/")+q.ref.Path, strings.TrimSuffix(server.EscapedPath(), "/")+q.ref.EscapedPath()
	}
	u.RawQuery = strings.Trim(server.RawQuery+"&"+q.ref.RawQuery, "&")
	return &u
}

// identity tells this registration from others: it is the same if the same Pod
// tells the same server the same.
func (r *Registration) identity() (string, error) {
	h := sha256.New()
	add := func(parts ...string) {
		for _, part := range parts {
			fmt.Fprintf(h, "%d:%s", len(part), part) // so that two parts are never one
		}
	}
	add(r.o.Pod, r.o.Server.URL, r.protocol.Name)
	for i := range r.protocol.register {
		q, err := r.request(&r.protocol.register[i])
		if err != nil {
			return "", err
		}
		add(q.method, q.ref.String())
		if q.body != nil {
			add(q.body.Type, string(q.body.Content))
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// idempotencyKey returns the same for the same registration, and another one when
// it is made anew: a server that knows the key repeats its answer, and does nothing.
// It has the form of a UUID (RFC 9562, version 8), which many servers want.
func idempotencyKey(identity string, round int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", identity, round))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// do sends a call until it is answered, or ctx ends. What is refused is an error,
// and gone is not.
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
	r.hide(r.token)
	return true, nil
}

// logsIn reports whether the user's name and password are for the protocol's login.
func (r *Registration) logsIn() bool {
	return r.protocol.login != nil && r.o.Server.Credentials.User != ""
}

func (r *Registration) send(ctx context.Context, c *call, doing string) (found finding, answer *httpclient.Answer, err error) {
	q, err := r.request(c)
	if err != nil {
		return refused, nil, fmt.Errorf("%s: %s: %w", r.place(), doing, err)
	}
	report := r.newReport(ctx, doing)
	defer report.close()
	retry := &httpclient.Retry{
		Options:        r.client,
		AttemptTimeout: r.o.AttemptTimeout,
		Spread:         r.spread(c),
		Seed:           r.o.Seed,
		RetryTLS:       r.o.RetryTLS,
		Prepare:        func(req *http.Request) error { return r.prepare(req, q, c) },
		Judge:          func(a *httpclient.Answer) httpclient.Verdict { return r.judge(c, a).verdict() },
		Notify: func(attempt int, a *httpclient.Answer, err error, next time.Duration) {
			if a == nil {
				r.token = "" // a server that has lost its data does not answer who has a token of before (etcd waits to know it)
			}
			report.attempt(attempt, a, err, next)
		},
	}
	header := http.Header{"User-Agent": {"initbox"}, "Accept": {"*/*"}}
	if r.o.Protocol.Custom == nil {
		header.Set("Accept", jsonType) // Eureka prefers XML, and Spring Boot Admin has a stream at the same path
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
	answer, err = retry.Do(ctx, q.method, q.resolve(r.url.URL).Redacted(), header, content)
	if err != nil {
		if answer != nil && r.judge(c, answer) == stale {
			return stale, answer, r.explain(doing, c, err)
		}
		return refused, answer, r.explain(doing, c, err)
	}
	report.done()
	found = r.judge(c, answer)
	if found == there {
		err = r.keep(c, answer)
	}
	return found, answer, err
}

// spread is that of the options, but a heartbeat that came much later than the next
// one is due would be of no use.
func (r *Registration) spread(c *call) time.Duration {
	if c == r.heartbeat() {
		return min(cmp.Or(r.o.Spread, httpclient.DefaultSpread), r.pace())
	}
	return r.o.Spread
}

// prepare sets what may have changed since the last attempt: the secrets.
func (r *Registration) prepare(req *http.Request, q *request, c *call) error {
	if c.login == nil {
		if _, err := r.login(req.Context()); err != nil {
			return err
		}
	}
	server, err := r.url.Expand()
	if err != nil {
		return err
	}
	for _, s := range r.url.Secrets() {
		r.hide(s)
	}
	for _, values := range server.Query() {
		for _, value := range values {
			if len(value) >= likelySecret {
				r.hide(value)
			}
		}
	}
	req.URL = q.resolve(server)
	req.Host = req.URL.Host
	if !httpclient.SameOrigin(req.URL, server) {
		req.URL.User = nil
		return nil // the credentials are not for it
	}
	credentials := r.o.Server.Credentials
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
	for _, s := range secrets {
		r.hide(s)
	}
	return err
}

// likelySecret is the length from which a value in a URL's query, of which nobody
// says what it is, is taken for a secret.
const likelySecret = 8

// setLogin has the request carry the user's name and password.
func (r *Registration) setLogin(req *http.Request, c *call) error {
	password, err := secret.Read(r.o.Server.Credentials.PasswordFile)
	if err != nil {
		return err
	}
	r.hide(password)
	body := c.login(r.o.Server.Credentials.User, password)
	req.Header.Set("Content-Type", body.Type)
	req.ContentLength = int64(len(body.Content))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body.Content)), nil }
	req.Body, err = req.GetBody()
	return err
}

// judge returns what an answer to c means. That the entry is gone, or the token
// stale, is not to be waited for: who takes 404 or 403 for passing means what
// registers.
func (r *Registration) judge(c *call, a *httpclient.Answer) finding {
	found := r.meaning(c, a)
	if r.o.Again.Has(a.Status) && (found == refused || found == stale && !r.logsIn() || r.registers(c) && found != stale) {
		return again
	}
	return found
}

func (r *Registration) meaning(c *call, a *httpclient.Answer) finding {
	switch {
	case r.registers(c) && r.o.Success.Has(a.Status):
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
			if value, err = pointer(a.Body, from); err != nil {
				return hintedError{fmt.Errorf("%s: the answer: %w", r.place(), err), "what stands in braces in a URL is looked for in the answer: a JSON Pointer as in {/id}, or a header as in {Location}"}
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

// explain says what was being done, and why it failed, without secrets.
func (r *Registration) explain(doing string, c *call, err error) error {
	var status *httpclient.StatusError
	var ended *poll.Error
	switch {
	case errors.As(err, &status):
		return r.refusal(doing, c, &status.Answer)
	case errors.As(err, &ended) && ended.Last != nil:
		f := failure.Of(ended.Last)
		last := &poll.Error{Attempts: ended.Attempts, Waited: ended.Waited, Cause: ended.Cause, Last: errors.New(r.redact(f.Error()))}
		return hintedError{fmt.Errorf("%s: %s: %w", r.place(), doing, last), hintOf(f, ended.Last)}
	}
	f := failure.Of(err)
	return hintedError{fmt.Errorf("%s: %s: %w", r.place(), doing, textError{r.redact(f.Error()), err}), hintOf(f, err)}
}

// hintOf is the hint of f, which was made of err, as far as it names flags that
// register has.
func hintOf(f *failure.Failure, err error) string {
	switch {
	case errors.Is(err, httpclient.ErrRedirects), errors.Is(err, httpclient.ErrBodyElsewhere), strings.Contains(f.Hint, "--no-redirect"):
		return "give the URL that the redirect leads to"
	case strings.Contains(f.Hint, "--h2c"):
		return "is it the right port? does the server want TLS (https://)?"
	}
	return f.Hint
}

// textError is an error in words without secrets.
type textError struct {
	text string
	err  error
}

func (e textError) Error() string { return e.text }
func (e textError) Unwrap() error { return e.err }

// refusal is the error of an answer that will not be another one.
func (r *Registration) refusal(doing string, c *call, a *httpclient.Answer) error {
	text := failure.Status(a.Status).Text
	if r.o.Protocol.Custom == nil { // the path is not one that the user gave
		text = c.method + " " + c.path + ": " + text
	}
	if said := r.said(a); said != "" {
		text += ": " + said
	}
	return hintedError{fmt.Errorf("%s: %s: %s", r.place(), doing, text), refusalHints[a.Status]}
}

// refusalHints say what to do about a status that is not tried again.
var refusalHints = map[int]string{
	http.StatusUnauthorized:         credentialsHint,
	http.StatusForbidden:            credentialsHint,
	http.StatusNotFound:             "is the path right? if it will be there later, try again with --retry-status 404",
	http.StatusMethodNotAllowed:     "does the server want another --method?",
	http.StatusConflict:             "does it mean that the Pod is registered already? then take it for success with --success-status 409",
	http.StatusUnsupportedMediaType: "does the server want a form (--field) or JSON (--json)? see also --content-type",
}

const credentialsHint = "are the credentials right? give them with --token-file, --user and --password-file, or --header-file"
