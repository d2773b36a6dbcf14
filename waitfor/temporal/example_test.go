package temporal_test

import (
	"fmt"

	"initbox/waitfor/target"
	"initbox/waitfor/temporal"
)

// A mistake in a target is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&temporal.Kind}
	check, err := kinds.Parse("temporal://temporal-frontend#namespace=shop&task-queue=orders", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("temporal://app:hunter2@temporal-frontend", target.Options{})
	fmt.Println(err)
	// Output:
	// temporal://temporal-frontend <nil>
	// temporal://temporal-frontend: has a user, which temporal:// does not take, want temporal://HOST[:PORT][,HOST…]
}
