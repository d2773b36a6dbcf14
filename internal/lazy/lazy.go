// Package lazy puts off what would else be done at each start of the program,
// though few starts need it.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns what compiles the expression when it is first called, and panics if
// it is none. To compile one takes up to 0.05 ms and 15 kB: an init container that
// does something else has to wait for it too.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
