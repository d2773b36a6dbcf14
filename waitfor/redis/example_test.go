package redis_test

import (
	"context"
	"fmt"

	"initbox/test/kindtest"
	"initbox/waitfor/redis"
	"initbox/waitfor/target"
)

// A server that is loading its data answers PING, too, but is not ready.
func Example() {
	for _, answer := range []string{"-LOADING Redis is loading the dataset in memory\r\n", "+PONG\r\n"} {
		check, err := target.Kinds{&redis.Kind}.Parse("redis://"+kindtest.Says(answer), target.Options{})
		if err == nil {
			err = check.Check(context.Background())
		}
		fmt.Println(err)
	}
	// Output:
	// LOADING Redis is loading the dataset in memory
	// <nil>
}
