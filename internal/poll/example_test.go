package poll_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"initbox/internal/poll"
)

func ExampleUntil() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	attempts := 0
	policy := poll.Policy{
		AttemptTimeout: 10 * time.Second,
		Notify:         func(e poll.Event) { fmt.Printf("attempt %d: %v\n", e.Attempt, e.Err) },
	}
	err := poll.Until(ctx, policy, func(ctx context.Context) error {
		poll.Doing(ctx, "asking the server") // what the message says if this attempt hangs
		if attempts++; attempts < 3 {
			return errors.New("not ready")
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// attempt 1: not ready
	// attempt 2: not ready
	// attempt 3: <nil>
	// <nil>
}

func ExamplePermanent() {
	err := poll.Until(context.Background(), poll.Policy{}, func(context.Context) error {
		return poll.Permanent(errors.New("no such revision"))
	})
	fmt.Println(err, poll.IsPermanent(err))
	// Output: no such revision true
}

func ExampleRace() {
	addresses := []string{"192.0.2.1", "127.0.0.1"}
	winner, _ := poll.Race(context.Background(), len(addresses), 250*time.Millisecond, false,
		func(_ context.Context, i int) (string, error) {
			if i == 0 {
				return "", errors.New("no route")
			}
			return addresses[i], nil
		})
	fmt.Println(addresses[winner])
	// Output: 127.0.0.1
}
