package waitfor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/target"
)

// checkFunc is a check for tests.
type checkFunc struct {
	name string
	f    func(ctx context.Context) error
}

func (c checkFunc) String() string                  { return c.name }
func (c checkFunc) Check(ctx context.Context) error { return c.f(ctx) }

// readyAfter returns a check that fails for the duration d.
func readyAfter(name string, d time.Duration) target.Check {
	start := time.Now()
	return checkFunc{name, func(context.Context) error {
		if time.Since(start) < d {
			return failure.New(failure.Refused, "connection refused")
		}
		return nil
	}}
}

var errGone = errors.New("gone for good")

func hopeless(name string) target.Check {
	return checkFunc{name, func(context.Context) error { return poll.Permanent(errGone) }}
}

func TestAllNeedsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := All(t.Context(), target.Options{}, readyAfter("a", time.Second), readyAfter("b", 10*time.Second), readyAfter("c", 0))
		if took := time.Since(start); err != nil || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("%v after %v, want ready within a twentieth of 10s", err, took)
		}
	})
}

func TestAllNeedsSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := All(t.Context(), target.Options{Need: 2}, readyAfter("a", time.Second), readyAfter("b", time.Hour), readyAfter("c", 0))
		if took := time.Since(start); err != nil || took > 2*time.Second {
			t.Errorf("%v after %v, want ready after two of three", err, took)
		}
	})
}

// TestRefusedLoginIsNotHurried pins the pause after a refused login: servers log each one, and lock users out.
func TestRefusedLoginIsNotHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		attempts := 0
		All(ctx, target.Options{}, checkFunc{"a", func(context.Context) error {
			attempts++
			return failure.New(failure.Authentication, "WRONGPASS")
		}})
		if attempts != 11 {
			t.Errorf("%d attempts in 10.5 s, want one a second", attempts)
		}
	})
}

func TestTargetsOfOneNameAreNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := readyAfter("redis://a", time.Hour)
		err := All(ctx, target.Options{}, late, readyAfter("redis://a", 0), readyAfter("redis://b", time.Hour), late)
		if said := fmt.Sprint(err); !strings.Contains(said, "redis://a: connection refused") || !strings.Contains(said, "redis://a (3): connection refused") {
			t.Error(said)
		}
	})
}

func TestAllEndsWhenHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := All(t.Context(), target.Options{}, readyAfter("a", time.Hour), hopeless("b"))
		if !poll.IsPermanent(err) || !strings.Contains(err.Error(), "cannot become ready") || !strings.Contains(err.Error(), "b: ") {
			t.Errorf("%v, want that it cannot become ready", err)
		}
		// A hopeless check does not matter if the others are enough.
		if err := All(t.Context(), target.Options{Need: 1}, readyAfter("a", time.Minute), hopeless("b")); err != nil {
			t.Error(err)
		}
		if err := All(t.Context(), target.Options{Need: 2}, readyAfter("a", 0), hopeless("b"), hopeless("c")); !poll.IsPermanent(err) {
			t.Errorf("%v, want that it cannot become ready", err)
		}
	})
}

// TestAllSaysWhy pins the error of a wait: it unwraps to the cause, its text has the states of the targets, and its
// hint says what to do.
func TestAllSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("told to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(90*time.Second, func() { cancel(cause) })
		err := All(ctx, target.Options{}, readyAfter("tcp://a:1", time.Hour), readyAfter("tcp://b:1", 0))
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "told to stop after 1m30s: 1 of 2 targets left") ||
			!strings.Contains(err.Error(), "tcp://a:1: connection refused, for 1m30s, ") || strings.Contains(err.Error(), "tcp://b:1") {
			t.Errorf("%v", err)
		}

		ctx2, cancel2 := context.WithTimeout(t.Context(), time.Minute)
		defer cancel2()
		hang := checkFunc{"http://c/", func(ctx context.Context) error {
			poll.Doing(ctx, "TLS handshake")
			<-ctx.Done()
			return ctx.Err()
		}}
		err = All(ctx2, target.Options{AttemptTimeout: 10 * time.Second}, hang)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "not ready within 1m0s: http://c/: TLS handshake: no answer (for ") {
			t.Errorf("%v", err)
		}

		// If the wait ends before the first attempt does, the message says what that was doing.
		ctx3, cancel3 := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel3()
		err = All(ctx3, target.Options{}, hang)
		if err == nil || !strings.Contains(err.Error(), "http://c/: TLS handshake: no answer (for 100ms), for 100ms, 1 attempt") {
			t.Errorf("%v", err)
		}
	})
}

// TestLogHasChangesOnly counts the lines of a wait: one per change, a summary every 30 s, and a limited number for a
// target that flaps.
func TestLogHasChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs servers.Output
		o := target.Options{Log: slog.New(slog.NewTextHandler(&logs, nil))}
		if err := All(t.Context(), o, readyAfter("a", 100*time.Second)); err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]int{"a: connection refused\"": 1, "still waiting after": 3, "a: ready after 1m4": 1} {
			if got := strings.Count(logs.String(), text); got != want {
				t.Errorf("%d lines with %q, want %d\n%s", got, text, want, logs.String())
			}
		}

		var flaps servers.Output
		var n atomic.Int64
		flapping := checkFunc{"b", func(context.Context) error {
			if n.Add(1)%2 == 0 {
				return failure.New(failure.Refused, "connection refused")
			}
			return failure.New(failure.Unexpected, "status 503")
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second)
		defer cancel()
		err := All(ctx, target.Options{Log: slog.New(slog.NewTextHandler(&flaps, nil))}, flapping)
		if err == nil {
			t.Fatal("ready")
		}
		if lines := strings.Count(flaps.String(), "\n"); lines > 3*10+4 {
			t.Errorf("%d lines\n%s", lines, flaps.String())
		}
		if !strings.Contains(flaps.String(), "more changes") {
			t.Errorf("the summary does not say that changes were left out\n%s", flaps.String())
		}
	})
}

func TestStableFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		flapping := checkFunc{"a", func(context.Context) error { // up 200 ms, down 300 ms, up for good after 20 s
			if d := time.Since(start); d < 20*time.Second && d%(500*time.Millisecond) >= 200*time.Millisecond {
				return failure.New(failure.Refused, "connection refused")
			}
			return nil
		}}
		if err := All(t.Context(), target.Options{StableFor: 2 * time.Second}, flapping); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 21*time.Second || took > 24*time.Second {
			t.Errorf("ready after %v, want 2s after it stays up", took)
		}
	})
}

// TestNoneOfAThousandStarves waits for 1 000 real targets that refuse or hang, and one that comes up after the first
// attempts of all others: it is seen before these have many more. (It counts attempts, not seconds: the machine may be
// busy.)
func TestNoneOfAThousandStarves(t *testing.T) {
	servers.Slow(t)
	refused := kindtest.RefusedAddr(t)
	hangs := servers.Serve(t, kindtest.Hang)
	late := t.TempDir() + "/late.sock"
	const first = 4 // attempts of each before the late one comes up
	var turns sync.WaitGroup
	attempts := make([]atomic.Int64, 1000)
	var checks []target.Check
	for i := range attempts {
		text := "tcp://" + refused
		switch {
		case i == 500:
			text = "unix://" + late
		case i%4 == 0:
			text = "http://" + hangs + "/"
			turns.Add(1)
		default:
			turns.Add(first)
		}
		check, err := Parse(text, target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		checks = append(checks, checkFunc{text, func(ctx context.Context) error {
			if n := attempts[i].Add(1); i != 500 && (n == 1 || n <= first && i%4 != 0) {
				defer turns.Done()
			}
			return check.Check(ctx)
		}})
	}
	var before int64 // attempts made before the late one came up
	total := func() (n int64) {
		for i := range attempts {
			n += attempts[i].Load()
		}
		return n
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		turns.Wait()
		before = total()
		if l, err := net.Listen("unix", late); err == nil {
			t.Cleanup(func() { l.Close() })
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := All(ctx, target.Options{Need: 1, AttemptTimeout: 10 * time.Second}, checks...); err != nil {
		t.Fatal(err)
	}
	<-up
	if more := total() - before; more > 4*int64(len(attempts)) {
		t.Errorf("%d attempts at others before the one that was ready, want at most 4 each", more)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapInuse+m.StackInuse > 64<<20 {
		t.Errorf("%d MiB in use", (m.HeapInuse+m.StackInuse)>>20)
	}
}

// TestKinds pins the table from which the documentation and the flags are made.
func TestKinds(t *testing.T) {
	first := map[string]target.Setting{}
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if k.Usage == "" || k.Ready == "" || len(k.Schemes) == 0 {
			t.Errorf("%v is not described", k.Schemes)
		}
		for _, scheme := range k.Schemes {
			if seen[scheme] || scheme != strings.ToLower(scheme) || KindOf(scheme) != k {
				t.Errorf("%s is not found as itself", scheme)
			}
			seen[scheme] = true
		}
		for _, s := range k.Settings {
			if s.Usage == "" {
				t.Errorf("%s #%s is not described", k.Schemes[0], s.Name)
			}
			if was, ok := first[s.Name]; !ok {
				first[s.Name] = s
			} else if was.Multi != s.Multi || (was.Value == "") != (s.Value == "") {
				t.Errorf("#%s of %s is %+v and elsewhere %+v, but is one flag", s.Name, k.Schemes[0], s, was)
			}
		}
	}
}
