package doctor

import (
	"context"
	"time"

	"initbox/internal/poll"
)

// again is the time between two diagnoses. Each is of everything that the report depends on, not of the Pods alone: a
// Service whose port is corrected changes no Pod.
const again = 5 * time.Second

// Watch diagnoses again and again, and passes each report on, until nothing is stuck.
func Watch(ctx context.Context, client *Client, o Options, report func(*Report) error) error {
	for {
		r, err := Diagnose(ctx, client, o)
		if err != nil {
			return err
		}
		if err := report(r); err != nil || !r.Found() {
			return err
		}
		if err := poll.Sleep(ctx, again); err != nil {
			return err
		}
	}
}
