package pktline_test

import (
	"bytes"
	"fmt"

	"initbox/clone/pktline"
)

func Example() {
	message := pktline.AppendFlush(pktline.Append(nil, "command=ls-refs\n"))
	fmt.Printf("%q\n", message)
	r := pktline.NewReader(bytes.NewReader(message))
	for {
		kind, payload, err := r.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%t %q\n", kind == pktline.Flush, payload)
	}
	// Output:
	// "0014command=ls-refs\n0000"
	// false "command=ls-refs\n"
	// true ""
	// EOF
}
