package cassandra_test

import (
	"fmt"

	"initbox/waitfor/cassandra"
	"initbox/waitfor/target"
)

// A target is shown without its credentials; a mistake in it is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&cassandra.Kind}
	check, err := kinds.Parse("cassandra://app:hunter2@db-0,db-1:9043/shop", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("cassandra://db-0/shop#keyspace=shop", target.Options{})
	fmt.Println(err)
	// Output:
	// cassandra://db-0,db-1:9043/shop <nil>
	// cassandra://db-0/shop: keyspace: the path of the target already names one
}
