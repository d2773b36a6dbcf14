package poll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"initbox/test/soak"
)

// TestTry pins which error an attempt returns, and when it ends.
func TestTry(t *testing.T) {
	hang := func(ctx context.Context) error {
		Doing(ctx, "reading")
		<-ctx.Done()
		return ctx.Err()
	}
	late := func(ctx context.Context) error { <-ctx.Done(); return errDown }
	for name, tt := range map[string]struct {
		within, limit time.Duration // of the context, of the attempt
		try           func(context.Context) error
		want          string
		took          time.Duration
	}{
		"success":          {time.Minute, time.Second, func(context.Context) error { return nil }, "", 0},
		"failure":          {time.Minute, time.Second, func(context.Context) error { return errDown }, errDown.Error(), 0},
		"hang":             {time.Minute, time.Second, hang, "reading: no answer within 1s", time.Second},
		"hang to the end":  {2 * time.Second, time.Minute, hang, "reading: no answer within 2s", 2 * time.Second},
		"hang, no limit":   {2 * time.Second, 0, hang, "reading: no answer within 2s", 2 * time.Second},
		"a finding, late":  {time.Minute, time.Second, late, errDown.Error(), time.Second},
		"its own deadline": {time.Minute, time.Second, func(context.Context) error { return context.DeadlineExceeded }, "context deadline exceeded", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.within)
				defer cancel()
				start := time.Now()
				err := Try(ctx, tt.limit, tt.try)
				if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want || time.Since(start) != tt.took {
					t.Errorf("%v after %v, want %q after %v", err, time.Since(start), tt.want, tt.took)
				}
				if hung := new(Hung); tt.want[:min(7, len(tt.want))] == "reading" && !errors.As(err, &hung) {
					t.Errorf("error is %T", err)
				}
			})
		})
	}
}

func TestPause(t *testing.T) {
	r := soak.Rand(t)
	for waited, want := range map[time.Duration]time.Duration{
		0: 50 * time.Millisecond, time.Second: 50 * time.Millisecond, 10 * time.Second: 500 * time.Millisecond,
		20 * time.Second: time.Second, time.Hour: time.Second,
	} {
		for range 100 {
			if p := Pause(waited, r); p < want*8/10 || p > want*12/10 {
				t.Errorf("after %v: %v, want about %v", waited, p, want)
			}
		}
	}
}
