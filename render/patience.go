package render

import (
	"context"
	"fmt"
	"time"
)

// patience is how long the work has to notice the end of the context. What takes
// longer in a single step (a parser, a regular expression over megabytes, a
// schema that refers to itself a million times) is left behind: a Pod is to end
// when it is told to.
const patience = 50 * time.Millisecond // of the 100 in which a signal ends the program

// patiently does something until patience after ctx's end; what says what it was.
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
