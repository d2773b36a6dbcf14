// Package lazy defers work that would otherwise be done at each start of the program, though few starts need it.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles the expression when it is first called, and panics if it is invalid.
// Compiling takes up to 0.05 ms and 15 kB, which an init container that does something else should not spend.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
