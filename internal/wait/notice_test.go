package wait

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"initbox/internal/failure"
)

// changing is a check whose state depends on the time since the start.
type changing struct {
	start time.Time
	ready time.Duration // 0 for never
}

func (c changing) String() string { return "db" }

func (c changing) Check(context.Context) error {
	switch since := time.Since(c.start); {
	case c.ready > 0 && since >= c.ready:
		return nil
	case since < 70*time.Second:
		return failure.New(failure.NoSuchName, "no such name")
	}
	return failure.New(failure.Refused, "connection refused")
}

// TestNotice pins when a notice comes: with the first summary, when the reason is another one, and at the end; and that
// a short wait has none.
func TestNotice(t *testing.T) {
	for _, test := range []struct {
		ready, limit time.Duration
		want         []string
	}{
		{20 * time.Second, time.Hour, nil},
		{0, 20 * time.Second, nil},
		{3 * time.Minute, time.Hour, []string{
			"waiting for 30s, 1 of 1 target left: db: no such name", "waiting for 1m30s, 1 of 1 target left: db: connection refused", "over, ready: ready after 3m",
		}},
		{0, 40 * time.Second, []string{
			"waiting for 30s, 1 of 1 target left: db: no such name", "over: not ready within 40s: db: no such name",
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var got []string
			ctx, cancel := context.WithTimeout(t.Context(), test.limit)
			defer cancel()
			err := All(ctx, Options{Notice: func(text string, over, ready bool) {
				switch {
				case ready:
					text = "over, ready: " + text
				case over:
					text = "over: " + text
				}
				got = append(got, text)
			}}, changing{start, test.ready})
			if (err == nil) != (test.ready > 0) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if !slices.EqualFunc(got, test.want, func(got, want string) bool { return strings.HasPrefix(got, want) }) {
				t.Errorf("ready after %v: %q, want %q", test.ready, got, test.want)
			}
		})
	}
}
