package kafka_test

import (
	"fmt"

	"initbox/waitfor/kafka"
	"initbox/waitfor/target"
)

// A list of bootstrap servers is shown as a URL; a mistake in a target is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&kafka.Kind}
	check, err := kinds.Parse("SASL_SSL://b1:9093,SASL_SSL://b2:9093#user=app&password-file=/secrets/password&topic=orders", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("kafka://b1#mechanism=PLAIN", target.Options{})
	fmt.Println(err)
	// Output:
	// kafka://b1:9093,b2:9093 <nil>
	// kafka://b1: mechanism PLAIN needs a user: write kafka://USER@HOST, with password-file
}
