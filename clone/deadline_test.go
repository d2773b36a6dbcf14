package clone_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"initbox/clone"
	"initbox/clone/publish"
	"initbox/internal/poll"
)

// Attempts end before the deadline, by a second or by a tenth of a short one.
func TestBeforeEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for timeout, want := range map[time.Duration]time.Duration{5 * time.Minute: time.Second, 2 * time.Second: 200 * time.Millisecond, 0: 0} {
			ctx, cancel := context.WithCancel(t.Context())
			if timeout > 0 {
				ctx, cancel = context.WithTimeout(ctx, timeout)
			}
			attempts, stop := clone.BeforeEnd(ctx)
			end, ok := attempts.Deadline()
			if ok != (timeout > 0) || ok && time.Until(end) != timeout-want {
				t.Errorf("with a timeout of %v, attempts end after %v, %t", timeout, time.Until(end), ok)
			}
			stop()
			cancel()
		}
	})
}

// A clone that cannot begin, because another one works in the directory, ends at the deadline, neither before nor after
// it, or as soon as it is told to.
func TestEnd(t *testing.T) {
	o := clone.Options{URL: "file:///none", Dir: filepath.Join(t.TempDir(), "app")}
	other, err := publish.Open(t.Context(), publish.Options{Dir: o.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	synctest.Test(t, func(t *testing.T) {
		passed, stopped := errors.New("the deadline passed"), errors.New("stopped")
		for _, c := range []struct {
			after time.Duration
			want  error
		}{{0, passed}, {30 * time.Second, stopped}, {99500 * time.Millisecond, stopped}} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Second, errors.Join(passed, context.DeadlineExceeded))
			ctx, stop := context.WithCancelCause(ctx)
			want := 100 * time.Second
			if c.after > 0 {
				want = c.after
				time.AfterFunc(c.after, func() { stop(stopped) })
			}
			start := time.Now()
			_, err := clone.Run(ctx, o)
			if took := time.Since(start); took < want || took > want+50*time.Millisecond {
				t.Errorf("it took %v, want %v", took, want)
			}
			var ended *poll.Error
			if !errors.As(err, &ended) || !errors.Is(err, c.want) || ended.Waited < want {
				t.Errorf("error %v, want %v", err, c.want)
			}
			stop(nil)
			cancel()
		}
	})
}

// A clone that fails leaves no parents of DIR that it has created.
func TestParentsOfFailure(t *testing.T) {
	top := t.TempDir()
	for _, o := range []clone.Options{
		{Dir: filepath.Join(top, "a/b/app")}, {Dir: filepath.Join(top, "a/b"), Link: "current"}, {Dir: filepath.Join(top, "app"), GitDir: filepath.Join(top, "a/git")},
	} {
		o.URL = "file:///none"
		if _, err := run(t, o); err == nil {
			t.Fatal("no error")
		}
		if left, err := os.ReadDir(top); err != nil || len(left) > 0 {
			t.Errorf("%+v: left %v, %v", o, left, err)
		}
	}
}
