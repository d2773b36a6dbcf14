package failure

// WithHint returns err with the way to fix it, which the program prints on a line of its own below the error. It is
// found by errors.As with an interface{ Hint() string }, and wraps err.
func WithHint(err error, hint string) error { return hintedError{err, hint} }

type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }
func (e hintedError) Hint() string  { return e.hint }
