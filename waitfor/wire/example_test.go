package wire_test

import (
	"fmt"

	"initbox/waitfor/wire"
)

// Servers repeat what they were sent.
func ExampleQuote() {
	fmt.Println(wire.Quote("no such user:\n  app with password hunter22", "hunter22"))
	// Output: no such user: app with password …
}
