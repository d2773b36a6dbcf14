package failure_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"initbox/internal/failure"
)

func ExampleOf() {
	err := fmt.Errorf("asking mydb: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	f := failure.Of(err)
	fmt.Println(f.Class)
	fmt.Println(f)
	fmt.Println("hint:", f.Hint)
	// Output:
	// refused
	// connection refused
	// hint: nothing listens there yet: is the server running, and is it the right port?
}

func ExampleWithHint() {
	err := failure.WithHint(errors.New("cannot write /work/state"), "is the volume mounted?")
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		fmt.Printf("%v\nhint: %s\n", err, hinted.Hint())
	}
	// Output:
	// cannot write /work/state
	// hint: is the volume mounted?
}
