package socket_test

import (
	"context"
	"fmt"

	"initbox/test/kindtest"
	"initbox/waitfor/socket"
	"initbox/waitfor/target"
)

// A server that accepts a connection, and does not close it at once, is ready.
func Example() {
	addr := kindtest.Says("")
	for _, text := range []string{"tcp://" + addr + "#hold=0", "unix:///run/no.sock"} {
		check, err := target.Kinds{&socket.TCP, &socket.Unix}.Parse(text, target.Options{})
		if err == nil {
			err = check.Check(context.Background())
		}
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// no such socket
}
