package render

import (
	"context"
	"fmt"
	"time"
)

// patience is how long the work has to notice the end of the context. A single step that
// takes longer (a parser, a regular expression over megabytes, a schema that refers to itself
// a million times) is abandoned, so that the program ends in time after a signal.
const patience = 50 * time.Millisecond // of the 100 in which a signal ends the program

// patiently calls a function, and waits for it until patience after ctx ends. what names it in the error.
func patiently(ctx context.Context, what func() string, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	over, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-over.Done():
		return fmt.Errorf("%s: stopped in the middle of a step: %w", what(), context.Cause(ctx))
	}
}
