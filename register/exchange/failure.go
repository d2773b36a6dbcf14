package exchange

import (
	"errors"
	"fmt"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// Explain returns an error that says what was being done and why it failed, for err of [Server.Send], without secrets.
// what, if not empty, names the request where the server refuses it.
func (s *Server) Explain(doing, what string, err error) error {
	var status *httpclient.StatusError
	var ended *poll.Error
	switch {
	case errors.As(err, &ended) && ended.Last != nil:
		f := failure.Of(ended.Last)
		text := s.redact(f.Error())
		if errors.As(ended.Last, &status) {
			text += s.said(&status.Answer)
		}
		last := &poll.Error{Attempts: ended.Attempts, Waited: ended.Waited, Cause: ended.Cause, Last: errors.New(text)}
		return failure.WithHint(failure.About(s.Place(), f, fmt.Errorf("%s: %s: %w", s.Place(), doing, last)), f.Hint)
	case errors.As(err, &status):
		return s.Refusal(doing, what, &status.Answer)
	}
	f := failure.Of(err)
	return failure.WithHint(failure.About(s.Place(), f, fmt.Errorf("%s: %s: %w", s.Place(), doing, textError{s.redact(f.Error()), err})), f.Hint)
}

// Refusal is the error of an answer that a retry would not change.
func (s *Server) Refusal(doing, what string, a *httpclient.Answer) error {
	f := failure.Status(a.Status)
	text := f.Text
	if what != "" {
		text = what + ": " + text
	}
	return failure.WithHint(failure.About(s.Place(), f, fmt.Errorf("%s: %s: %s", s.Place(), doing, text+s.said(a))), s.Hints[a.Status])
}

// textError is err with a text without secrets.
type textError struct {
	text string
	err  error
}

func (e textError) Error() string { return e.text }
func (e textError) Unwrap() error { return e.err }
