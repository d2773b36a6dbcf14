package register

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// explain returns an error that says what was being done and why it failed, without secrets.
func (r *Registration) explain(doing string, c *call, err error) error {
	var status *httpclient.StatusError
	var ended *poll.Error
	switch {
	case errors.As(err, &status):
		return r.refusal(doing, c, &status.Answer)
	case errors.As(err, &ended) && ended.Last != nil:
		f := failure.Of(ended.Last)
		last := &poll.Error{Attempts: ended.Attempts, Waited: ended.Waited, Cause: ended.Cause, Last: errors.New(r.redact(f.Error()))}
		return failure.WithHint(fmt.Errorf("%s: %s: %w", r.place(), doing, last), hintOf(f, ended.Last))
	}
	f := failure.Of(err)
	return failure.WithHint(fmt.Errorf("%s: %s: %w", r.place(), doing, textError{r.redact(f.Error()), err}), hintOf(f, err))
}

// hintOf returns the hint of f, the failure of err, in terms of flags that register has.
func hintOf(f *failure.Failure, err error) string {
	switch {
	case errors.Is(err, httpclient.ErrRedirects), errors.Is(err, httpclient.ErrBodyElsewhere), strings.Contains(f.Hint, "--no-redirect"):
		return "give the URL that the redirect leads to"
	case strings.Contains(f.Hint, "--h2c"):
		return "is it the right port? does the server expect TLS (https://)?"
	}
	return f.Hint
}

// textError is err with a text without secrets.
type textError struct {
	text string
	err  error
}

func (e textError) Error() string { return e.text }
func (e textError) Unwrap() error { return e.err }

// refusal is the error of an answer that a retry would not change.
func (r *Registration) refusal(doing string, c *call, a *httpclient.Answer) error {
	text := failure.Status(a.Status).Text
	if r.o.Protocol.Custom == nil { // the path is not one that the user gave
		text = c.method + " " + c.path + ": " + text
	}
	if said := r.said(a); said != "" {
		text += ": " + said
	}
	return failure.WithHint(fmt.Errorf("%s: %s: %s", r.place(), doing, text), refusalHints[a.Status])
}

// refusalHints say what to do about a status that is not retried.
var refusalHints = map[int]string{
	http.StatusUnauthorized:         credentialsHint,
	http.StatusForbidden:            credentialsHint,
	http.StatusNotFound:             "is the path right? if it will exist later, retry with --retry-status 404",
	http.StatusMethodNotAllowed:     "does the server expect another --method?",
	http.StatusConflict:             "if this means that the Pod is already registered, accept it with --success-status 409",
	http.StatusUnsupportedMediaType: "does the server expect a form (--field) or JSON (--json)? see also --content-type",
}

const credentialsHint = "are the credentials right? give them with --token-file, --user and --password-file, or --header-file"

// volumeHint says what to do if a file cannot be written.
const volumeHint = "is the volume mounted, writable by this user and not full?"
