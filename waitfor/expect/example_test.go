package expect_test

import (
	"fmt"

	"initbox/waitfor/expect"
)

func ExampleParseJSON() {
	e, err := expect.ParseJSON(".status==UP")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Check([]byte(`{"status": "UP"}`)))
	fmt.Println(e.Check([]byte(`{"status": "DOWN"}`)))
	// Output:
	// <nil>
	// JSON .status is "DOWN"
}
