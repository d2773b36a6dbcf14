package command

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"initbox/internal/podinfo"
)

// mostRoom is what the heap may grow to before it is collected, if the container may use four times as much.
const mostRoom = 32 << 20

// roomyHeap has the heap collected when it has grown to a part of the container's memory, instead of to twice what is
// in use, which for a few megabytes is often. It returns a function that ends that. A program that needs no collection
// pays nothing: the first one decides about the next.
func roomyHeap() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	var mu sync.Mutex
	var ended bool
	var room int64
	const usual = 100
	now := int64(usual) // GOGC
	afterCollection(func() bool {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return false
		}
		if room == 0 {
			if room = mostRoom; podinfo.MemoryLimit() > 0 {
				room = min(room, podinfo.MemoryLimit()/4)
			}
		}
		// Not runtime/metrics, whose tables every start would pay for.
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		now = percent(room, int64(memory.NextGC)*100/(100+now))
		debug.SetGCPercent(int(now))
		return true
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if ended = true; now != usual {
			debug.SetGCPercent(usual)
		}
	}
}

// percent returns the GOGC with which a heap grows to the room, but to no less than twice what is in use. Little in use
// is collected quickly, so it needs no room.
func percent(room, live int64) int64 {
	const little = 6 << 20
	if live < little {
		return 100
	}
	return max(100*(room-live)/live, 100)
}

// afterCollection calls f after each collection of garbage, until it returns false.
func afterCollection(f func() bool) {
	type garbage [2]*int // large enough and with pointers: others may never be finalized
	runtime.SetFinalizer(new(garbage), func(*garbage) {
		if f() {
			afterCollection(f)
		}
	})
}
