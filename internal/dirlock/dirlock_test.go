package dirlock

import (
	"errors"
	"os"
	"testing"
)

// A lock that became free is held by the run that has waited for it.
func TestWaited(t *testing.T) {
	waits := make(chan struct{})
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	first, second, third := New(dir, "lock"), New(dir, "lock"), New(dir, "lock")
	if err := first.Wait(t.Context(), nil); err != nil || !first.Held() || first.None() {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- second.Wait(t.Context(), func(error) { close(waits) }) }()
	<-waits
	first.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := third.try(); !errors.As(err, new(errLocked)) {
		t.Errorf("the lock is free: %v", err)
	}
	second.Release()
	if err := third.try(); err != nil {
		t.Error(err)
	}
	third.Release()
	if names, err := os.ReadDir(dir.Name()); err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}
