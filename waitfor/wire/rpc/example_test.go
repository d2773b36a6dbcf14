package rpc_test

import (
	"fmt"

	"initbox/waitfor/wire/rpc"
)

// A message with a text in field 1 and a number in field 2, written and read.
func Example() {
	message := rpc.AppendNumber(rpc.AppendText(nil, 1, "orders"), 2, 7)
	wellFormed := rpc.Fields(message, func(field, number uint64, text []byte) {
		fmt.Printf("%d: %d %q\n", field, number, text)
	})
	fmt.Println(wellFormed)
	// Output:
	// 1: 0 "orders"
	// 2: 7 ""
	// true
}
