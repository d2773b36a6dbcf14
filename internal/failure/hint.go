package failure

import "errors"

// WithHint returns err with a hint on how to fix it, which the program prints on a separate line below the error. The
// result wraps err; [Hint] returns the hint.
func WithHint(err error, hint string) error { return hintedError{err, hint} }

type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }
func (e hintedError) Hint() string  { return e.hint }

// WithHint sets the hint of f, and returns f.
func (f *Failure) WithHint(hint string) *Failure {
	f.Hint = hint
	return f
}

// Hint returns the hint on how to fix err, or "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	if cause, isFailure := errors.AsType[*Failure](err); isFailure {
		return cause.Hint
	}
	return ""
}
