package local_test

import (
	"errors"
	"fmt"
	"os"

	"initbox/clone/local"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "initbox")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	_, err = local.Open(dir)
	fmt.Println(errors.Is(err, local.ErrNone))
	// Output: true
}
