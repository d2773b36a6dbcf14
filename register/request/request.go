// Package request sends one HTTP request until it succeeds, or one for each file of a directory.
//
//	answer, err := request.Run(ctx, request.Options{
//		URL:    "http://search:9200/_index_template/{name}",
//		Method: "PUT",
//		Each:   "/templates",
//	})
package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/lazy"
	"initbox/internal/secret"
	"initbox/internal/words"
	"initbox/register/exchange"
)

// Options says what to request, from whom, and what to do with the answer.
type Options struct {
	URL         string // may refer to secrets: ${file:/PATH}, ${env:NAME}; with Each, to the file: {name}, {file}
	Method      string
	Credentials httpclient.Credentials
	Retry       httpclient.Retry // how to connect, and how to try again; Prepare and Judge are set here

	// Body returns what to send, and the secrets in it; f is nil without Each. If Body is nil, the file's content is
	// sent, or nothing.
	Body func(ctx context.Context, f *File) (body *exchange.Body, secrets []string, err error)
	Each string // the directory whose files are sent, in the order of their names; "" for one request
	Sent Record // of the files that were sent; nil for none

	Key     string // from which the header Idempotency-Key is made; "" for none
	KeyAsIs bool   // Key is the header's value

	Success httpclient.Statuses // besides 2xx
	Again   httpclient.Statuses // to be retried, besides the usual ones
	Answer  bool                // the answer is wanted
	Extract string              // the JSON Pointer (RFC 6901) of the value in the answer to take in its place
	Output  exchange.Output

	DryRun bool // send nothing
	Getenv func(string) string
	Log    *slog.Logger // nil for none
}

// Record remembers across runs which files were sent, by a digest of the request.
type Record interface {
	Has(digest string) bool
	Add(digest string) error
}

// maxBody is the longest body, in bytes. It is kept in memory to be sent again.
const maxBody = 16 << 20

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	f := &File{Name: "x"}
	u, err := o.parse(f)
	if err != nil {
		return err
	}
	switch text, _, _ := secret.Extract(o.in(f), "the URL", o.Getenv); {
	case inBraces().MatchString(text):
		return errors.New("the URL has a " + inBraces().FindString(text) + " that stands for nothing: {name} and {file} are for --each; write %7B and %7D for literal braces")
	case strings.Contains(u.RawQuery, " "):
		return errors.New("the URL has a space in it: write %20")
	case u.PasswordShown():
		return errors.New("a password in the URL is visible in the Pod's specification: refer to a file, as in http://user:${file:/secrets/password}@host/, or use --user and --password-file")
	case u.User != nil && (o.Credentials.User != "" || o.Credentials.TokenFile != ""):
		return errors.New("a user in the URL and another way to log in are mutually exclusive")
	}
	return nil
}

// inBraces finds what is meant to be replaced. JSON in a query has quotes in its braces.
var inBraces = lazy.Regexp(`\{[A-Za-z]+\}`)

// Run sends what the options say. It returns the answer, or what Extract takes of it; nothing with Each. It retries
// what can heal until ctx ends; then the error wraps a [*poll.Error].
func Run(ctx context.Context, o Options) ([]byte, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, redirect := range []int{301, 302, 303, 307, 308} {
		o.Retry.NoRedirect = o.Retry.NoRedirect || o.Success.Has(redirect) || o.Again.Has(redirect)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if o.Each != "" {
		return nil, o.each(ctx)
	}
	if err := o.Output.Check(); err != nil {
		return nil, err
	}
	m, err := o.message(ctx, nil)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	answer, err := m.send(ctx)
	if err != nil || o.DryRun {
		return nil, err
	}
	took := time.Since(start)
	m.server.Log.Info(fmt.Sprintf("%s: %s was answered with status %d, in %s", m.server.Place(), o.Method, answer.Status, words.Seconds(took)), failure.Seconds(took))
	if !o.Answer {
		return nil, nil
	}
	content, err := exchange.Take(answer, o.Extract)
	if err != nil {
		hint := "look at the whole answer: --output FILE without --extract"
		if o.Extract == "" {
			hint = "download it with initbox fetch"
		}
		return nil, failure.WithHint(fmt.Errorf("%s: the request succeeded, but the answer %w", m.server.Place(), err), hint)
	}
	return content, o.Output.Write(content)
}

// message is one request.
type message struct {
	*Options
	server *exchange.Server
	body   exchange.Body
	query  string // instead of the body, where that means nothing
	digest string // the same for the same request
	key    string // Idempotency-Key; "" for none
	name   string // of the file, for messages; "" for none
}

// message returns the request, for a file or for nil.
func (o *Options) message(ctx context.Context, f *File) (*message, error) {
	u, err := o.parse(f)
	if err != nil {
		return nil, err
	}
	m := &message{Options: o, server: &exchange.Server{URL: u, Log: o.Log.With(failure.Fields(u.String(), 0, nil)), Hints: hints}}
	if f != nil {
		m.name = failure.Printable(f.Name)
	}
	switch {
	case o.Body != nil:
		body, secrets, err := o.Body(ctx, f)
		if err != nil {
			return nil, err
		}
		if m.server.Hide(secrets...); body != nil {
			m.body = *body
		}
	case f != nil:
		m.body.Content = f.Content
	}
	if len(m.body.Content) > maxBody {
		return nil, fmt.Errorf("the body is longer than %d MiB", maxBody>>20)
	}
	m.body.Detect()
	if m.body.Type == exchange.FormType && exchange.QueryOnly(o.Method) {
		m.query, m.body = string(m.body.Content), exchange.Body{}
	}
	m.digest = exchange.Digest(o.Method, u.URL.String(), m.query, m.body.Type, string(m.body.Content))
	switch {
	case o.Key != "" && o.KeyAsIs && f == nil:
		m.key = o.Key
	case o.Key != "":
		m.key = exchange.UUID(o.Key + " " + m.digest)
	}
	return m, nil
}

// send sends the request until it succeeds, or with DryRun only says what it is.
func (m *message) send(ctx context.Context) (*httpclient.Answer, error) {
	if m.DryRun {
		m.server.Log.Info(fmt.Sprintf("%s: would send %s, with a body of %s", m.server.Place(), strings.TrimSpace(m.Method+" "+m.name), words.Bytes(int64(len(m.body.Content)))))
		return nil, nil
	}
	header := http.Header{"User-Agent": {"initbox"}, "Accept": {"*/*"}}
	if m.body.Type != "" {
		header.Set("Content-Type", m.body.Type)
	}
	if m.key != "" {
		header.Set("Idempotency-Key", m.key)
	}
	retry := m.Retry
	retry.Prepare, retry.Judge = m.prepare, m.judge
	// The URL with its secrets is prepare's.
	answer, err := m.server.Send(ctx, m.Method, retry, m.Method, m.server.URL.Redacted(), header, m.body.Content)
	if err != nil {
		return nil, m.server.Explain(m.Method, "", err)
	}
	return answer, nil
}

// prepare sets what may have changed since the last attempt: secrets.
func (m *message) prepare(req *http.Request) error {
	u, err := m.server.Expand()
	if err != nil {
		return err
	}
	u.RawQuery = strings.Trim(u.RawQuery+"&"+m.query, "&")
	req.URL, req.Host = u, u.Host
	secrets, err := m.Credentials.Apply(req)
	m.server.Hide(secrets...)
	return err
}

func (m *message) judge(a *httpclient.Answer) httpclient.Verdict {
	switch {
	case m.Again.Has(a.Status):
		return httpclient.Again
	case m.Success.Has(a.Status):
		return httpclient.Done
	}
	return httpclient.ByStatus(a)
}

func (o *Options) parse(f *File) (*secret.URL, error) {
	return secret.ParseURL(o.in(f), o.Getenv)
}

// in returns the URL for a file, or as it is without Each.
func (o *Options) in(f *File) string {
	if o.Each == "" {
		return o.URL
	}
	return f.in(o.URL)
}

// hints say what to do about a status that is not retried.
var hints = map[int]string{
	http.StatusMovedPermanently:     redirectHint,
	http.StatusFound:                redirectHint,
	http.StatusTemporaryRedirect:    redirectHint,
	http.StatusPermanentRedirect:    redirectHint,
	http.StatusUnauthorized:         credentialsHint,
	http.StatusForbidden:            credentialsHint,
	http.StatusNotFound:             "is the path right? if it will exist later, retry with --retry-status 404",
	http.StatusMethodNotAllowed:     "does the server expect another --method?",
	http.StatusConflict:             "if this means that it is there already, accept it with --success-status 409",
	http.StatusUnsupportedMediaType: "give the type that the server expects with --content-type",
}

const (
	redirectHint    = "give the URL that it leads to, or accept the status with --success-status"
	credentialsHint = "are the credentials right? give them with --token-file, --user and --password-file, --netrc or --header-file"
)
