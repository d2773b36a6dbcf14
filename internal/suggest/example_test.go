package suggest_test

import (
	"fmt"

	"initbox/internal/suggest"
)

func ExampleClosest() {
	flags := []string{"timeout", "attempt-timeout", "retry-tls"}
	fmt.Printf("%q %q\n", suggest.Closest("timeuot", flags), suggest.Closest("verbose", flags))
	// Output: "timeout" ""
}
