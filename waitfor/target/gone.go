package target

import (
	"context"
	"errors"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/resolver"
)

// gone inverts a check: it is ready when the target is known not to exist. Only a refused connection, a name that does
// not exist and a missing file show that; a hang or another error does not.
type gone struct{ check Check }

// Gone returns the check that is ready when the target of c is known not to exist.
func Gone(c Check) Check { return gone{c} }

// Unwrap returns the check that is inverted.
func (g gone) Unwrap() Check { return g.check }

func (g gone) String() string { return g.check.String() }

// Parsed returns the target that the check was parsed from.
func (g gone) Parsed() *Target { return Of(g.check) }

func (g gone) Check(ctx context.Context) error {
	err := g.check.Check(ctx)
	if err == nil {
		return &failure.Failure{Class: failure.Unexpected, Text: "still there", Hint: "what is supposed to stop it? look at its Pods and their owner"}
	}
	if poll.IsPermanent(err) {
		return err
	}
	var lookup *resolver.Failure
	f := failure.Of(err)
	switch {
	case f.Elsewhere: // another server than the target is missing
		return err
	case errors.As(err, &lookup): // every search name must be known not to exist
		if lookup.Gone() {
			return nil
		}
		return err
	case f.Class == failure.Refused, f.Class == failure.Missing && f.Err == ErrNotThere:
		return nil
	}
	switch f.Class {
	case failure.Unexpected, failure.Authentication, failure.TLS, failure.Reset:
		return &failure.Failure{Class: f.Class, Text: "still there: " + f.Text, Note: f.Note, Err: err}
	}
	return err
}

// Share passes s on to the inverted check.
func (g gone) Share(s *Shared) {
	if j, ok := g.check.(Sharer); ok {
		j.Share(s)
	}
}

// Watch passes on the changes that the inverted check learns of.
func (g gone) Watch(ctx context.Context) <-chan struct{} {
	if w, ok := g.check.(Watcher); ok {
		return w.Watch(ctx)
	}
	return nil
}
