package grpc_test

import (
	"fmt"

	"initbox/waitfor/grpc"
	"initbox/waitfor/target"
)

// A mistake in a target is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&grpc.Kind}
	check, err := kinds.Parse("grpc://api:50051/shop.v1.Orders", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("grpc://api/shop.v1.Orders", target.Options{})
	fmt.Println(err)
	// Output:
	// grpc://api:50051/shop.v1.Orders <nil>
	// grpc://api/shop.v1.Orders: port missing, want grpc://HOST:PORT[/SERVICE]
}
