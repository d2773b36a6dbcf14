package command

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/cmd/duration"
	"initbox/internal/failure"
	"initbox/internal/podinfo"
	"initbox/internal/poll"
)

func sleep(e *env) *cli.Command {
	var jitter, step time.Duration
	return &cli.Command{
		Usage:     "do nothing for a while, but stop at once on a signal",
		ArgsUsage: "DURATION",
		Description: `Sleeps for DURATION, such as 60 or 0.5 (seconds) or 1m30s, at most ten years (87600h).
If you sleep until something is ready, wait for that instead.

Examples:
  initbox sleep 1m30s
  initbox sleep 0 --ordinal-step 10s --jitter 5s   # the Pods of a StatefulSet, one by one`,
		Flags: []cli.Flag{
			durationFlag("jitter", "sleep longer, by a random time up to this", "", &jitter),
			durationFlag("ordinal-step", "sleep longer, by this times the ordinal of the StatefulSet's Pod", "", &step),
		},
		Action: e.action(func(c *cli.Context) (work, error) {
			args := c.Args().Slice()
			if len(args) != 1 {
				return nil, usagef("want one duration, got %d", len(args)).hint("as in: initbox sleep 1m30s")
			}
			d, err := duration.Parse(args[0])
			if err != nil {
				return nil, usagef("%q: %w", args[0], err)
			}
			if d, err = e.prolong(d, step, jitter); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				e.log.Info(fmt.Sprintf("sleeping for %v", d.Round(time.Millisecond)))
				if err := poll.Sleep(ctx, d); err != nil {
					return fmt.Errorf("sleep %v: %w", d.Round(time.Millisecond), err)
				}
				return nil
			}, nil
		}),
	}
}

// prolong returns d plus step times the Pod's ordinal, plus a random time of up to jitter.
func (e *env) prolong(d, step, jitter time.Duration) (time.Duration, error) {
	if step > 0 && !(e.inspecting && os.Getenv("POD_NAME") == "") { // the host's name is the Pod's in the Pod only
		ordinal, err := podinfo.Ordinal(podinfo.Name())
		if err != nil {
			return 0, failure.WithHint(err, "set POD_NAME from the downward API: env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]")
		}
		if time.Duration(ordinal) > duration.Max/step {
			return 0, usagef("--ordinal-step %v times the Pod's ordinal %d: %w", step, ordinal, duration.ErrTooLong)
		}
		d += time.Duration(ordinal) * step
	}
	if d+jitter > duration.Max {
		return 0, usagef("sleep %v: %w", d+jitter, duration.ErrTooLong)
	}
	return d + rand.N(jitter+1), nil
}
