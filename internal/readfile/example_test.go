package readfile_test

import (
	"fmt"

	"initbox/internal/readfile"
)

func ExampleAll() {
	_, err := readfile.All("/dev/zero")
	fmt.Println(err)
	// Output: read /dev/zero: longer than 1048576 bytes
}
