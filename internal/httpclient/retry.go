package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// maxAnswer is as much of an answer's body as is read. An endless one must not fill the memory.
const maxAnswer = 1 << 20

// Retry repeats a request until its answer is final, with the pauses of [pace].
//
// Each attempt has a connection of its own, as [Do] makes them: behind the address of a Service the next one may lead
// to another Pod, where a kept one leads back to the Pod that failed; certificates that were renewed are used; and a
// server that closes a kept connection just as a request arrives leaves open whether it has acted. A heartbeat every
// ten seconds can afford that.
type Retry struct {
	Options                      // of the connections; KeepMethod is implied
	AttemptTimeout time.Duration // limit of one attempt, the answer's body included; none if zero
	Spread         time.Duration // over which to come back to a server that says "not now"; [DefaultSpread] if zero
	Seed           uint64        // of the jitter

	// Prepare, if set, completes a request before each attempt, the first too, with what rotates: credentials, a URL
	// that holds one. The attempt has failed if it fails, for good if its error is [poll.Permanent].
	Prepare func(*http.Request) error

	// Judge says what an answer means; nil for [ByStatus]. It sees at most a MiB of the body, and of an answer other
	// than 2xx perhaps less than the server meant to send.
	Judge func(*Answer) Verdict

	// RetryTLS tries again where a certificate does not verify: the authority's may be mounted late.
	RetryTLS bool

	// Once makes one attempt only.
	Once bool

	// Notify, if set, is called after each attempt that is not final: with its number,
	// counted from 1, the answer if there was one, the error, and the pause before the
	// next attempt. The pause is 0 if the deadline leaves no time for another.
	Notify func(attempt int, a *Answer, err error, next time.Duration)
}

// Answer is the answer of a server.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // the first MiB of it
	Cut    bool   // there was more
}

// Verdict is what an answer means.
type Verdict int

const (
	Done   Verdict = iota
	Again          // to be retried
	Failed         // final: a retry would not help
)

// ByStatus judges an answer by what its status means to every server.
func ByStatus(a *Answer) Verdict {
	switch {
	case a.success():
		return Done
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly, a.Status == http.StatusTooManyRequests, a.Status >= 500:
		return Again
	}
	return Failed
}

func (a *Answer) success() bool { return a.Status >= 200 && a.Status <= 299 }

// StatusError is the error of an answer that a retry would not change.
type StatusError struct{ Answer }

// Error returns the status without the body, which may quote the request.
func (e *StatusError) Error() string { return failure.Status(e.Status).Text }

// Do sends a request with these headers and this body, which may be nil, until
// the answer is [Done], or ctx ends. Its error is
//   - a [StatusError] for an answer that is [Failed], which is returned too,
//   - a [poll.Error] when ctx ends, whose Last, if it is of an answer, wraps a
//     [StatusError],
//   - otherwise an error that cannot heal, marked [poll.Permanent]: an invalid URL or
//     method, a redirect that is not followed, a certificate that does not verify; with
//     Once, why the attempt failed, which for an answer that is [Again] wraps a
//     [StatusError].
//
// No error quotes the URL, or what the server sent.
func (r *Retry) Do(ctx context.Context, method, address string, header http.Header, body []byte) (*Answer, error) {
	var content any // a nil []byte would be a body
	if len(body) > 0 {
		content = body
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, poll.Permanent(errNoRequest)
	}
	if header != nil {
		req.Header = header.Clone()
	}
	s := r.newSending(ctx)
	// http.Client would turn it into an Authorization header before Prepare is called.
	s.user, req.URL.User = req.URL.User, nil
	client := &retryablehttp.Client{
		// What a redirect leads to is found within an attempt.
		HTTPClient:   &http.Client{Transport: s, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		RetryMax:     math.MaxInt, // the end is ctx's
		CheckRetry:   s.goOn,
		Backoff:      func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return s.next },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	// What it returns has lost the answer, or quotes the URL; s has both.
	if resp, err := client.Do(req); err == nil {
		resp.Body.Close()
	}
	return s.outcome(ctx)
}

// errNoRequest does not say what is wrong with the URL, which would quote it.
var errNoRequest = errors.New("the method or the URL is not valid")

// sending is one call of [Retry.Do], and the transport of its attempts.
type sending struct {
	*Retry
	pace
	options  Options
	user     *url.Userinfo // of the URL
	attempts int
	next     time.Duration // the pause

	// Of the last attempt.
	answer  *Answer // nil if there was none
	verdict Verdict // on it, if err is nil
	err     error

	last error // why the last attempt failed that was not cut off by the end of ctx
}

func (r *Retry) newSending(ctx context.Context) *sending {
	s := &sending{Retry: r, options: r.Options}
	s.options.KeepMethod = true
	s.pace = newPace(ctx, r.Spread, rand.New(rand.NewPCG(r.Seed, 0)))
	return s
}

// RoundTrip makes one attempt, from the credentials to the end of the answer's body, so that the attempt's limit
// includes the body. The response that it returns is for go-retryablehttp, and has nothing for it to act on.
func (s *sending) RoundTrip(req *http.Request) (*http.Response, error) {
	s.attempts++
	s.answer = nil
	s.err = poll.Try(req.Context(), s.AttemptTimeout, func(ctx context.Context) (err error) {
		s.answer, err = s.attempt(ctx, req)
		return err
	})
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{StatusCode: s.answer.Status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// attempt returns an answer beside the error if there was one that broke off.
func (s *sending) attempt(ctx context.Context, req *http.Request) (*Answer, error) {
	req = req.Clone(Trace(ctx))
	req.URL.User = s.user
	if s.Prepare != nil {
		if err := s.Prepare(req); err != nil {
			return nil, err
		}
	}
	if !sendable(req.URL) {
		return nil, poll.Permanent(errNoRequest)
	}
	host := req.URL.Host
	resp, err := Do(req, s.options)
	if err != nil {
		if s.lasting(err) {
			return nil, poll.Permanent(failure.HTTP(err, host))
		}
		return nil, failure.HTTP(err, host)
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if a.Cut = len(a.Body) > maxAnswer; a.Cut {
		a.Body = a.Body[:maxAnswer]
	}
	if err != nil && a.success() {
		return a, failure.HTTP(err, host)
	}
	return a, nil // a status that means failure is enough without the body
}

func sendable(u *url.URL) bool { return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") }

// lasting reports whether err is permanent: a retry cannot help.
func (s *sending) lasting(err error) bool {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.Is(err, ErrMethodChanged), errors.Is(err, ErrBodyElsewhere), errors.Is(err, ErrRedirects), errors.Is(err, ErrNotEncrypted):
		return true
	case errors.As(err, &untrusted):
		return !s.RetryTLS
	}
	return false
}

// goOn judges an attempt, reports whether there is another, and when.
func (s *sending) goOn(ctx context.Context, _ *http.Response, _ error) (bool, error) {
	var answer *Answer // if it is one
	if s.err == nil {
		answer = s.answer
		if s.verdict = s.judge(answer); s.verdict != Again {
			poll.Noticed(ctx, nil)
			return false, nil
		}
		s.err = saysNotNow(answer)
	}
	if s.Once && !poll.Ended(ctx) {
		s.err = poll.Permanent(s.err)
	}
	if poll.IsPermanent(s.err) {
		return false, nil
	}
	if ended := poll.Ended(ctx); ended {
		if s.last == nil {
			s.last = s.err
		}
		return false, nil
	}
	s.last = s.err
	now := time.Now()
	at, more := s.pace.next(now, s.answer)
	if s.next = at.Sub(now); !more {
		s.next = math.MaxInt64 // until ctx ends
	}
	poll.Noticed(ctx, s.err)
	if s.Notify != nil {
		told := s.next
		if !more {
			told = 0
		}
		s.Notify(s.attempts, answer, s.err, told)
	}
	return true, nil
}

func (s *sending) judge(a *Answer) Verdict {
	if s.Judge != nil {
		return s.Judge(a)
	}
	return ByStatus(a)
}

// saysNotNow is the error of an answer that is [Again].
func saysNotNow(a *Answer) error {
	f := failure.Status(a.Status)
	f.Err = &StatusError{*a}
	return f
}

// outcome is what [Retry.Do] returns.
func (s *sending) outcome(ctx context.Context) (*Answer, error) {
	switch {
	case poll.IsPermanent(s.err):
		return nil, s.err
	case s.err != nil: // and so ctx has ended
		return nil, &poll.Error{Attempts: s.attempts, Waited: time.Since(s.start), Cause: context.Cause(ctx), Last: s.last}
	case s.verdict == Failed:
		return s.answer, &StatusError{*s.answer}
	}
	return s.answer, nil
}
