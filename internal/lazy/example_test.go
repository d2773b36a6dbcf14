package lazy_test

import (
	"fmt"

	"initbox/internal/lazy"
)

var digits = lazy.Regexp(`[0-9]+`) // not compiled yet

func ExampleRegexp() {
	fmt.Println(digits().FindString("web-12"))
	// Output: 12
}
