package zookeeper_test

import (
	"context"
	"fmt"

	"initbox/test/kindtest"
	"initbox/waitfor/target"
	"initbox/waitfor/zookeeper"
)

// A server is ready in any mode but that of one without a quorum.
func Example() {
	for _, mode := range []string{"follower", "read-only"} {
		addr := kindtest.Says("Zookeeper version: 3.9.2\nMode: " + mode + "\n")
		check, err := target.Kinds{&zookeeper.Kind}.Parse("zookeeper://"+addr, target.Options{})
		if err == nil {
			err = check.Check(context.Background())
		}
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// the server's mode is read-only
}
