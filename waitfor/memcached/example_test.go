package memcached_test

import (
	"context"
	"fmt"

	"initbox/test/kindtest"
	"initbox/waitfor/memcached"
	"initbox/waitfor/target"
)

// A server that reports its version is ready.
func Example() {
	addr := kindtest.Says("VERSION 1.6.40\r\n")
	check, err := target.Kinds{&memcached.Kind}.Parse("memcached://"+addr, target.Options{})
	if err == nil {
		err = check.Check(context.Background())
	}
	fmt.Println(err)
	// Output: <nil>
}
