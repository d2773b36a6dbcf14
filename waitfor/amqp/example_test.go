package amqp_test

import (
	"fmt"

	"initbox/waitfor/amqp"
	"initbox/waitfor/target"
)

// A target is shown without its credentials; a mistake in it is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&amqp.Kind}
	check, err := kinds.Parse("amqp://app:hunter2@rabbit/shop#queue=orders&no-alarm", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("amqp://rabbit?auth_mechanism=gssapi", target.Options{})
	fmt.Println(err)
	// Output:
	// amqp://rabbit/shop <nil>
	// amqp://rabbit?…: auth_mechanism: want plain or external
}
