package wait

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// served is a check of one of many servers.
type served struct {
	name     int
	up       func() bool
	attempts *atomic.Int64
}

func (s served) String() string { return fmt.Sprint("server ", s.name) }

func (s served) Check(context.Context) error {
	s.attempts.Add(1)
	if !s.up() {
		return errors.New("down")
	}
	return nil
}

// TestPace pins what a wait for a thousand checks costs, and how late it ends.
func TestPace(t *testing.T) {
	// All timers of a bubble share one context of the race detector, and Go 1.26 crashes when two threads are in it.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const up = 5 * time.Second // when the checks become ready, unless one says otherwise
	for name, tt := range map[string]struct {
		checks, need int
		up           func(i int) time.Duration
		attempts     int64 // until up, at most
		late         time.Duration
	}{
		"all together":       {1000, 0, nil, 7500, 300 * time.Millisecond},
		"one of them later":  {1000, 0, func(i int) time.Duration { return up - time.Second + time.Duration(i/999)*time.Second }, 12000, 400 * time.Millisecond},
		"in two waves":       {1000, 0, func(i int) time.Duration { return up - time.Duration(i%2)*200*time.Millisecond }, 9000, 400 * time.Millisecond},
		"one after another":  {1000, 0, func(i int) time.Duration { return time.Duration(i) * up / 999 }, 20000, 400 * time.Millisecond},
		"the last of any":    {1000, 1, func(i int) time.Duration { return up + time.Duration(1-i/999)*time.Hour }, 21000, 350 * time.Millisecond},
		"as few as are fast": {200, 0, nil, 200 * 60, 350 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts atomic.Int64
				start := time.Now()
				checks := make([]Check, tt.checks)
				for i := range checks {
					at := up
					if tt.up != nil {
						at = tt.up(i)
					}
					checks[i] = served{i, func() bool { return time.Since(start) >= at }, &attempts}
				}
				var atUp atomic.Int64
				time.AfterFunc(up, func() { atUp.Store(attempts.Load()) })
				err := All(t.Context(), Options{Need: tt.need}, checks...)
				before, late := atUp.Load(), time.Since(start)-up
				t.Logf("%d attempts, %v late", before, late)
				if err != nil || late < 0 || late > tt.late || before > tt.attempts {
					t.Errorf("%d attempts, %v late, error %v; want %d attempts, %v late", before, late, err, tt.attempts, tt.late)
				}
			})
		})
	}
}
