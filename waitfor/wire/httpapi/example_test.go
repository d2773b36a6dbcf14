package httpapi_test

import (
	"fmt"

	"initbox/waitfor/wire/httpapi"
)

// The second result is what a server's answer must not show.
func ExampleBasic() {
	header, secrets := httpapi.Basic("app", "s3cr3t")
	fmt.Println(header.Get("Authorization"))
	fmt.Printf("%q\n", secrets)
	// Output:
	// Basic YXBwOnMzY3IzdA==
	// ["s3cr3t" "YXBwOnMzY3IzdA=="]
}
