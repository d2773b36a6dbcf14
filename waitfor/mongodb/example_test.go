package mongodb_test

import (
	"fmt"

	"initbox/waitfor/mongodb"
	"initbox/waitfor/target"
)

// A target is shown without its credentials; a mistake in it is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&mongodb.Kind}
	check, err := kinds.Parse("mongodb://app:hunter2@db-0,db-1/app?replicaSet=rs0#role=any", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("mongodb+srv://db.example:27017", target.Options{})
	fmt.Println(err)
	// Output:
	// mongodb://db-0,db-1/app?… <nil>
	// mongodb+srv://db.example:27017: mongodb+srv:// needs one name, without a port: its SRV records contain hosts and ports
}
