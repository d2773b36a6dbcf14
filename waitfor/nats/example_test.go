package nats_test

import (
	"context"
	"fmt"

	"initbox/test/kindtest"
	"initbox/waitfor/nats"
	"initbox/waitfor/target"
)

// A server that is about to stop is not ready.
func Example() {
	for _, info := range []string{`{"nonce": "x"}`, `{"ldm": true}`} {
		addr := kindtest.Says("INFO " + info + "\r\nPONG\r\n")
		check, err := target.Kinds{&nats.Kind}.Parse("nats://"+addr, target.Options{})
		if err == nil {
			err = check.Check(context.Background())
		}
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// the server is in lame duck mode
}
