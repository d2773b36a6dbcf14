package secret_test

import (
	"fmt"

	"initbox/internal/secret"
)

func ExampleParseURL() {
	getenv := func(name string) string { return map[string]string{"TOKEN": "s3cr3t"}[name] }
	u, err := secret.ParseURL("http://api:8080/register?token=${env:TOKEN}", getenv)
	if err != nil {
		fmt.Println(err)
		return
	}
	request, err := u.Expand() // to be sent; reads files again
	fmt.Println(request, err)
	fmt.Println(u) // to be shown
	// Output:
	// http://api:8080/register?token=s3cr3t <nil>
	// http://api:8080/register?…
}

// Servers repeat what they were sent.
func ExampleQuote() {
	fmt.Println(secret.Quote("no such user:\n  app with password pass%2fword", "pass/word"))
	// Output: no such user: app with password […]
}
