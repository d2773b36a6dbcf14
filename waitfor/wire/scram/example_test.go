package scram_test

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"initbox/waitfor/wire/scram"
)

// A server that does not repeat the client's nonce does not know the conversation.
func Example() {
	c := scram.New(sha256.New, "app", "s3cr3t")
	fmt.Println(strings.HasPrefix(c.First(), "n,,n=app,r="))
	_, err := c.Final("r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
	fmt.Println(err)
	// Output:
	// true
	// the server's message is not SCRAM
}
