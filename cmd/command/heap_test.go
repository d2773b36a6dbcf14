package command

import (
	"runtime"
	"testing"
)

// TestPercent pins how far a heap may grow: to the room, or to twice what is in use.
func TestPercent(t *testing.T) {
	for _, test := range []struct {
		live int64
		want int64
	}{{0, 100}, {4 << 20, 100}, {8 << 20, 700}, {16 << 20, 300}, {32 << 20, 100}, {64 << 20, 100}, {1 << 30, 100}} {
		if got := percent(64<<20, test.live); got != test.want {
			t.Errorf("%d bytes in use: got %d, want %d", test.live, got, test.want)
		}
	}
}

// TestAfterCollection pins that what watches the heap is called after each collection, until it has enough.
func TestAfterCollection(t *testing.T) {
	calls := make(chan bool, 10)
	afterCollection(func() bool {
		calls <- true
		return len(calls) < 2
	})
	for len(calls) < 2 {
		runtime.GC()
		runtime.Gosched()
	}
}
