package poll

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var errDown = errors.New("down")

// upAfter returns a try that fails until so much time has passed.
func upAfter(d time.Duration) func(context.Context) error {
	start := time.Now()
	return func(context.Context) error {
		if time.Since(start) < d {
			return errDown
		}
		return nil
	}
}

// The wait adds at most 6 % and 60 ms to what it waited for, and stays under 1.2 s however long that is.
func TestReactionIsProportional(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, 200 * time.Millisecond, 3 * time.Second, time.Minute, time.Hour} {
		for seed := range uint64(20) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				if err := Until(t.Context(), Policy{Seed: seed}, upAfter(d)); err != nil {
					t.Fatal(err)
				}
				late := time.Since(start) - d
				if limit := min(d*6/100+60*time.Millisecond, 1200*time.Millisecond); late > limit {
					t.Errorf("up after %v, seen %v later, want at most %v", d, late, limit)
				}
				if d == 0 && late != 0 {
					t.Errorf("first attempt after %v, want at once", late)
				}
			})
		}
	}
}

func TestSeedSpreadsPods(t *testing.T) {
	ends := map[time.Duration]bool{}
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			Until(t.Context(), Policy{Seed: seed}, upAfter(10*time.Second))
			ends[time.Since(start)] = true
		})
	}
	if len(ends) < 9 {
		t.Errorf("10 Pods knock at %d different times", len(ends))
	}
}

// All attempts of the outer loop are noticed, and only they.
func TestNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var noticed []error
		ctx := Notice(t.Context(), func(err error) { noticed = append(noticed, err) })
		attempts := 0
		err := Until(ctx, Policy{}, func(ctx context.Context) error {
			if err := Until(ctx, Policy{}, upAfter(time.Second)); err != nil {
				t.Error(err)
			}
			if attempts++; attempts < 3 {
				return errDown
			}
			return nil
		})
		if err != nil || !slices.Equal(noticed, []error{errDown, errDown, nil}) {
			t.Errorf("%v; noticed %v", err, noticed)
		}
	})
}

func TestUntilEnds(t *testing.T) {
	fatal := errors.New("no such revision")
	stop := errors.New("stopped")
	tests := []struct {
		name string
		try  func(context.Context) error
		is   error // what the error must be
		last error // what the error must say
	}{
		{"permanent", func(context.Context) error { return Permanent(fmt.Errorf("clone: %w", fatal)) }, fatal, nil},
		{"deadline", func(context.Context) error { return errDown }, context.DeadlineExceeded, errDown},
		{"cut short", func(ctx context.Context) error { <-ctx.Done(); return errors.New("i/o timeout") }, context.DeadlineExceeded, &Hung{}},
		{"stopped", func(context.Context) error { return errDown }, stop, errDown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if tt.name == "stopped" {
					c, stopNow := context.WithCancelCause(ctx)
					ctx = c
					time.AfterFunc(2*time.Second, func() { stopNow(stop) })
				}
				start := time.Now()
				err := Until(ctx, Policy{}, tt.try)
				if !errors.Is(err, tt.is) {
					t.Errorf("error is %v, want %v", err, tt.is)
				}
				if elapsed := time.Since(start); elapsed > 5*time.Second {
					t.Errorf("took %v", elapsed)
				}
				if tt.last == nil {
					return
				}
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("error is %T", err)
				}
				if _, hung := tt.last.(*Hung); hung {
					if !errors.As(e.Last, new(*Hung)) {
						t.Errorf("last failure is %v, want Hung", e.Last)
					}
				} else if e.Last != tt.last {
					t.Errorf("last failure is %v, want %v", e.Last, tt.last)
				}
			})
		})
	}
}

// TestNoTime pins that the end of a wait which had no time for an attempt is an error, too.
func TestNoTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // whether there is one attempt is chance
		var e *Error
		if err := Until(ctx, Policy{}, func(context.Context) error { return errDown }); !errors.As(err, &e) || !errors.Is(err, context.Canceled) {
			t.Fatalf("error is %v", err)
		}
	}
}

func TestErrorCountsAttempts(t *testing.T) {
	for attempts, want := range map[int]string{1: "stopped after 1.5s and 1 attempt: down", 2: "stopped after 1.5s and 2 attempts: down"} {
		err := &Error{Attempts: attempts, Waited: 1500 * time.Millisecond, Cause: errors.New("stopped"), Last: errDown}
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

// An attempt that the deadline cuts short must not hide the real cause.
func TestLastCauseSurvivesDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		n := 0
		err := Until(ctx, Policy{Patience: time.Second, AttemptTimeout: 10 * time.Second}, func(ctx context.Context) error {
			if n++; n == 1 {
				return errDown
			}
			<-ctx.Done()
			return context.DeadlineExceeded
		})
		var e *Error
		if !errors.As(err, &e) || e.Last != errDown {
			t.Errorf("error is %v, want one that says %v", err, errDown)
		}
	})
}

// TestLastMoment pins the same for an attempt that fails in the moment of the deadline, before the context says so.
func TestLastMoment(t *testing.T) {
	for range 50 { // which of the two is noticed first is chance
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
			defer cancel()
			deadline, _ := ctx.Deadline()
			n := 0
			err := Until(ctx, Policy{}, func(context.Context) error {
				if n++; n == 1 {
					return errDown
				}
				time.Sleep(time.Until(deadline))
				return errors.New("i/o timeout")
			})
			var e *Error
			if !errors.As(err, &e) || e.Last != errDown {
				t.Fatalf("error is %v, want one that says %v", err, errDown)
			}
		})
	}
}

// An attempt that its own deadline ends has hung, whatever the end looks like from inside: package net may say so
// early, and a connection that is closed on this side says only that. What a server did is reported even so.
func TestAttemptTimeoutIsHang(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		hung bool
	}{
		"deadline":   {context.DeadlineExceeded, true},
		"cancelled":  {context.Canceled, true},
		"i/o":        {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		"our close":  {fmt.Errorf("handshake: %w", &net.OpError{Op: "read", Err: net.ErrClosed}), true},
		"late reset": {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
				defer cancel()
				err := Until(ctx, Policy{AttemptTimeout: 200 * time.Millisecond}, func(ctx context.Context) error {
					Doing(ctx, "connected")
					<-ctx.Done()
					return tt.err
				})
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("error is %T", err)
				}
				want := tt.err.Error()
				if tt.hung {
					want = "connected: no answer within 200ms"
				}
				if e.Last == nil || e.Last.Error() != want {
					t.Errorf("last failure is %v, want %s", e.Last, want)
				}
			})
		})
	}
}

// A black hole that opens is seen a second later, and a server that takes three
// seconds to answer is ready all the same.
func TestHangingAttempts(t *testing.T) {
	p := Policy{Patience: time.Second, AttemptTimeout: 10 * time.Second}
	t.Run("black hole opens", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start, most := time.Now(), 0
			var mu sync.Mutex
			var live []context.Context
			err := Until(t.Context(), p, func(ctx context.Context) error {
				if time.Since(start) > 7300*time.Millisecond {
					return nil
				}
				mu.Lock()
				live = slices.DeleteFunc(append(live, ctx), func(c context.Context) bool { return c.Err() != nil })
				most = max(most, len(live))
				mu.Unlock()
				<-ctx.Done()
				return ctx.Err()
			})
			if late := time.Since(start) - 7300*time.Millisecond; err != nil || late > 1100*time.Millisecond {
				t.Errorf("seen %v after it opened, error %v", late, err)
			}
			if most > 2 {
				t.Errorf("%d attempts at once, want 2 at most", most)
			}
		})
	})
	t.Run("deaf attempts do not pile up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var mu sync.Mutex
			running, most := 0, 0
			Until(ctx, p, func(context.Context) error {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(7 * time.Second) // whatever its context says
				mu.Lock()
				running--
				mu.Unlock()
				return errDown
			})
			time.Sleep(10 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if most > 2 {
				t.Errorf("%d attempts at once", most)
			}
		})
	})
	t.Run("slow answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var said []string
			p.Notify = func(e Event) { said = append(said, fmt.Sprint(e.Err)) }
			err := Until(t.Context(), p, func(ctx context.Context) error {
				Doing(ctx, "waiting for the answer")
				select {
				case <-time.After(3 * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if took := time.Since(start); err != nil || took != 3*time.Second {
				t.Errorf("took %v, error %v, want 3s", took, err)
			}
			if len(said) == 0 || said[0] != "waiting for the answer: no answer within 1s" {
				t.Errorf("said %q", said)
			}
		})
	})
	t.Run("a deaf attempt that ends starts no other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start, began := time.Now(), make(chan time.Duration, 100)
			Until(ctx, p, func(context.Context) error {
				if began <- time.Since(start); len(began) <= 2 {
					time.Sleep(5 * time.Second)
				}
				return errDown
			})
			close(began)
			times := []time.Duration{}
			for at := range began {
				times = append(times, at)
			}
			// The third begins when there is room for it, and then the pace is the ordinary one,
			// also when the second ends.
			if want := []time.Duration{0, time.Second, 5 * time.Second}; !slices.Equal(times[:3], want) || slices.Contains(times, 6*time.Second) {
				t.Errorf("attempts at %v, want them at %v, and none at 6s", times, want)
			}
		})
	})
	t.Run("a finding that is out of date does not count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			said := map[string]bool{}
			p.Notify = func(e Event) { said[e.Err.Error()] = true }
			var n atomic.Int32
			Until(ctx, p, func(context.Context) error {
				if n.Add(1) > 1 {
					return errDown
				}
				time.Sleep(1500 * time.Millisecond)
				return errors.New("out of date")
			})
			if !said["down"] || said["out of date"] {
				t.Errorf("said %v", said)
			}
		})
	})
	t.Run("the oldest that is left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			var said []string
			p.Notify = func(e Event) { said = append(said, e.Err.Error()) }
			var n atomic.Int32
			Until(ctx, p, func(ctx context.Context) error {
				if n.Add(1) == 1 {
					time.Sleep(1500 * time.Millisecond)
					return errDown
				}
				<-ctx.Done()
				return ctx.Err()
			})
			// The second attempt began after one second.
			if want := []string{"no answer within 1s", errDown.Error(), "no answer within 2s"}; !slices.Equal(said, want) {
				t.Errorf("said %q, want %q", said, want)
			}
		})
	})
	t.Run("slow failure is no flapping", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			hung := 0
			p.Notify = func(e Event) {
				if errors.As(e.Err, new(*Hung)) {
					hung++
				}
			}
			Until(ctx, p, func(ctx context.Context) error {
				select {
				case <-time.After(1500 * time.Millisecond):
					return errDown
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if hung > 1 {
				t.Errorf("said %d times that there is no answer, though there was one each 1.5 s", hung)
			}
		})
	})
}

func TestStableFor(t *testing.T) {
	p := Policy{StableFor: time.Second}
	t.Run("flapping never counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			start := time.Now()
			err := Until(ctx, p, func(context.Context) error {
				if time.Since(start)%(500*time.Millisecond) < 200*time.Millisecond {
					return nil
				}
				return errDown
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error is %v", err)
			}
		})
	})
	t.Run("slow counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 18*time.Second)
			defer cancel()
			p := Policy{StableFor: 3 * time.Second, Patience: time.Second, AttemptTimeout: 10 * time.Second}
			err := Until(ctx, p, func(ctx context.Context) error {
				select {
				case <-time.After(2500 * time.Millisecond):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("at its pace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int32
			err := Until(t.Context(), Policy{StableFor: 10 * time.Second}, func(context.Context) error { n.Add(1); return nil })
			if want := int32(10*time.Second/maxStablePause) + 1; err != nil || n.Load() != want {
				t.Errorf("%d attempts in 10 s, want %d; error %v", n.Load(), want, err)
			}
		})
	})
	t.Run("steady counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := Until(t.Context(), p, upAfter(time.Second))
			if took := time.Since(start); err != nil || took < 2*time.Second || took > 2200*time.Millisecond {
				t.Errorf("took %v, error %v", took, err)
			}
		})
	})
}

func TestWatch(t *testing.T) {
	t.Run("not needed", func(t *testing.T) {
		p := Policy{Watch: func(context.Context) <-chan struct{} { t.Error("watches what is ready"); return nil }}
		if err := Until(t.Context(), p, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	t.Run("unavailable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var attempts atomic.Int32
			watches := 0
			p := Policy{Watch: func(context.Context) <-chan struct{} { watches++; return nil }}
			Until(ctx, p, func(context.Context) error { attempts.Add(1); return errDown })
			if n := attempts.Load(); n > 25 || watches != 1 {
				t.Errorf("%d attempts and %d watches in a second, want the ordinary pace", n, watches)
			}
		})
	})
	t.Run("storm", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			wake := make(chan struct{})
			var storm sync.WaitGroup
			defer storm.Wait() // it may be asleep when the wait ends
			storm.Go(func() {
				for {
					select {
					case wake <- struct{}{}:
					case <-ctx.Done():
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
			var n atomic.Int32
			p := Policy{Watch: func(context.Context) <-chan struct{} { return wake }}
			Until(ctx, p, func(context.Context) error { n.Add(1); return errDown })
			if n := n.Load(); n > 60 {
				t.Errorf("%d attempts in a second", n)
			}
		})
	})
	t.Run("wakes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wake := make(chan struct{}, 1)
			start := time.Now()
			time.AfterFunc(100*time.Second, func() { wake <- struct{}{} })
			p := Policy{Watch: func(context.Context) <-chan struct{} { return wake }}
			err := Until(t.Context(), p, upAfter(100*time.Second))
			if took := time.Since(start); err != nil || took != 100*time.Second {
				t.Errorf("took %v, error %v, want 100s", took, err)
			}
		})
	})
	t.Run("right after an attempt", func(t *testing.T) { // that no change has caused
		synctest.Test(t, func(t *testing.T) {
			wake, n, start := make(chan struct{}, 1), 0, time.Now()
			p := Policy{Watch: func(context.Context) <-chan struct{} { return wake }}
			var changed atomic.Int64 // when
			Until(t.Context(), p, func(context.Context) error {
				if n++; n == 5 {
					time.AfterFunc(time.Millisecond, func() { changed.Store(int64(time.Since(start))); wake <- struct{}{} })
				}
				if changed.Load() == 0 {
					return errDown
				}
				return nil
			})
			if late := time.Since(start) - time.Duration(changed.Load()); changed.Load() == 0 || late != 0 {
				t.Errorf("noticed after %v, want at once", late)
			}
		})
	})
	t.Run("during an attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wake, n, start := make(chan struct{}, 1), 0, time.Now()
			p := Policy{Watch: func(context.Context) <-chan struct{} { return wake }}
			var changed time.Duration
			Until(t.Context(), p, func(context.Context) error {
				if changed != 0 {
					return nil
				}
				if n++; n == 20 { // the pause is long by then
					changed = time.Since(start)
					wake <- struct{}{}
					time.Sleep(time.Millisecond)
				}
				return errDown
			})
			if late := time.Since(start) - changed; changed == 0 || late > minWake {
				t.Errorf("noticed after %v, want after %v at most", late, minWake)
			}
			time.Sleep(time.Millisecond) // until the attempt has ended
		})
	})
	t.Run("a likely change", func(t *testing.T) {
		for name, tt := range map[string]struct {
			err  error
			late time.Duration
		}{
			"is looked for":  {errDown, 0},
			"but not before": {After(time.Second, errDown), 700 * time.Millisecond},
		} {
			synctest.Test(t, func(t *testing.T) {
				wake, n, start := make(chan struct{}, 1), 0, time.Now()
				time.AfterFunc(10300*time.Millisecond, func() { wake <- struct{}{} })
				Until(t.Context(), Policy{Wake: wake, MinPause: func() time.Duration { return time.Hour }}, func(context.Context) error {
					if n++; time.Since(start) < 10300*time.Millisecond {
						return tt.err
					}
					return nil
				})
				if took := time.Since(start); took != 10300*time.Millisecond+tt.late {
					t.Errorf("%s: noticed after %v and %d attempts", name, took, n)
				}
			})
		}
	})
	t.Run("too late for a change", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, start := 0, time.Now()
			p := Policy{Watch: func(context.Context) <-chan struct{} { return make(chan struct{}) }}
			Until(t.Context(), p, func(context.Context) error {
				if n++; n == 1 {
					return errDown
				}
				return nil
			})
			if took := time.Since(start); took != 0 {
				t.Errorf("second attempt after %v, want one as soon as the watch stands", took)
			}
		})
	})
}

func TestErrorsThatSayWhen(t *testing.T) {
	for name, tt := range map[string]struct {
		err      error
		min, max time.Duration
	}{
		"after":               {After(27*time.Second, errDown), 27 * time.Second, 27 * time.Second},
		"within, sooner":      {Within(10*time.Millisecond, errDown), 10 * time.Millisecond, 10 * time.Millisecond},
		"within, later":       {Within(27*time.Second, errDown), 40 * time.Millisecond, 60 * time.Millisecond},
		"neither, as a check": {errDown, 40 * time.Millisecond, 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, start := 0, time.Now()
				Until(t.Context(), Policy{}, func(context.Context) error {
					if n++; n == 1 {
						return fmt.Errorf("wrapped: %w", tt.err)
					}
					return nil
				})
				if took := time.Since(start); took < tt.min || took > tt.max {
					t.Errorf("second attempt after %v, want %v to %v", took, tt.min, tt.max)
				}
			})
		})
	}
}

func TestRace(t *testing.T) {
	type runner struct {
		takes time.Duration
		err   error
	}
	const deaf = 2 * time.Hour // to the end of its context
	fail, ok := errors.New("failed"), error(nil)
	tests := []struct {
		name    string
		inOrder bool
		runners []runner
		winner  int
		took    time.Duration
	}{
		{"first wins", false, []runner{{100 * time.Millisecond, ok}, {0, ok}}, 0, 100 * time.Millisecond},
		{"a failure starts the next", false, []runner{{10 * time.Millisecond, fail}, {10 * time.Millisecond, ok}}, 1, 20 * time.Millisecond},
		{"a hang starts the next", false, []runner{{time.Hour, ok}, {10 * time.Millisecond, ok}}, 1, 1010 * time.Millisecond},
		{"the earlier is waited for", true, []runner{{2 * time.Second, ok}, {10 * time.Millisecond, ok}}, 0, 2 * time.Second},
		{"the later wins when the earlier has failed", true, []runner{{2 * time.Second, fail}, {10 * time.Millisecond, ok}}, 1, 2 * time.Second},
		{"the end of time makes the later win", true, []runner{{time.Hour, ok}, {10 * time.Millisecond, ok}}, 1, 10 * time.Second},
		{"the end of time makes the later win over a deaf one", true, []runner{{deaf, ok}, {10 * time.Millisecond, ok}}, 1, 10 * time.Second},
		{"all fail", false, []runner{{5 * time.Millisecond, fail}, {5 * time.Millisecond, fail}}, -1, 10 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				start := time.Now()
				winner, outcomes := Race(ctx, len(tt.runners), time.Second, tt.inOrder, func(ctx context.Context, i int) (int, error) {
					if tt.runners[i].takes == deaf {
						time.Sleep(deaf)
					}
					select {
					case <-time.After(tt.runners[i].takes):
						return i, tt.runners[i].err
					case <-ctx.Done():
						return i, ctx.Err()
					}
				})
				if took := time.Since(start); winner != tt.winner || took != tt.took {
					t.Errorf("winner %d after %v, want %d after %v", winner, took, tt.winner, tt.took)
				}
				if winner >= 0 && outcomes[winner].Value != winner {
					t.Errorf("outcome %+v", outcomes[winner])
				}
				time.Sleep(2 * deaf) // those are still there
			})
		})
	}
}

// TestMinPause pins that a minimum pause slows an early wait down, and has no effect where the back-off is slower.
func TestMinPause(t *testing.T) {
	for _, tt := range []struct {
		minPause, within time.Duration
		least, most      int // attempts
	}{
		{0, time.Second, 16, 27},
		{250 * time.Millisecond, time.Second, 4, 7},
		{10 * time.Millisecond, time.Second, 16, 27}, // shorter than the back-off: without effect
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.within)
			defer cancel()
			attempts := 0
			_ = Until(ctx, Policy{MinPause: func() time.Duration { return tt.minPause }}, func(context.Context) error {
				attempts++
				return errors.New("not yet")
			})
			if attempts < tt.least || attempts > tt.most {
				t.Errorf("a minimum of %v: %d attempts within %v, want %d to %d", tt.minPause, attempts, tt.within, tt.least, tt.most)
			}
		})
	}
}
