package poll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPartsThatHang pins what is logged about an attempt at several things at once: what one
// of them has found, or what the one that hangs is doing, whichever reported last.
func TestPartsThatHang(t *testing.T) {
	hang := func(ctx context.Context) error {
		Doing(ctx, "connecting to a")
		<-ctx.Done()
		return ctx.Err()
	}
	down := func(ctx context.Context) error { Doing(ctx, "asking b"); return errDown }
	found := func(ctx context.Context) error { Meanwhile(ctx, errDown); return down(ctx) }
	for name, tt := range map[string]struct {
		parts []func(context.Context) error
		want  string
	}{
		"one hangs, one is down":        {[]func(context.Context) error{hang, down}, "connecting to a: no answer within 1s"},
		"one is down, one hangs":        {[]func(context.Context) error{down, hang}, "connecting to a: no answer within 1s"},
		"one hangs, one says something": {[]func(context.Context) error{hang, found}, errDown.Error()},
		"one says something, one hangs": {[]func(context.Context) error{found, hang}, errDown.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
				defer cancel()
				told := map[string]bool{}
				first := ""
				p := Policy{AttemptTimeout: 10 * time.Second, Patience: time.Second, Notify: func(e Event) {
					if told[e.Err.Error()] = true; first == "" {
						first = e.Err.Error()
					}
				}}
				err := Until(ctx, p, func(ctx context.Context) error {
					Race(ctx, len(tt.parts), 250*time.Millisecond, false, func(ctx context.Context, i int) (struct{}, error) {
						return struct{}{}, tt.parts[i](ctx)
					})
					return context.DeadlineExceeded
				})
				ended := new(Error)
				if !errors.As(err, &ended) || first != tt.want {
					t.Errorf("%v; first it was %q, want %q", err, first, tt.want)
				}
				if tt.want == errDown.Error() && len(told) > 1 {
					t.Errorf("told are %v, want one thing only", told)
				}
			})
		})
	}
}

// TestPartsThatOutlive pins that a part which runs on after its race has ended has no say in what the attempt is doing.
func TestPartsThatOutlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Try(t.Context(), 10*time.Second, func(ctx context.Context) error {
			Race(ctx, 2, time.Second, false, func(ctx context.Context, i int) (struct{}, error) {
				if i == 0 {
					time.Sleep(5 * time.Second)
					Doing(ctx, "what is over")
					Meanwhile(ctx, errDown)
				}
				return struct{}{}, nil
			})
			Doing(ctx, "what comes next")
			<-ctx.Done()
			return ctx.Err()
		})
		if want := "what comes next: no answer within 10s"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}
