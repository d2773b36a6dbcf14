package sidecar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestDay runs 50 sidecars, which all start in the same second, for a day of fake time against a server whose files
// change at random and which is away from time to time, as is the application that they notify. No change is missed for
// longer than the times that the documentation gives, the server is never asked by many at once when it returns, and
// nothing piles up.
func TestDay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		const (
			sidecars = 50
			period   = time.Minute
			day      = 24 * time.Hour
		)
		ctx, cancel := context.WithTimeout(t.Context(), day)
		defer cancel()
		start := time.Now()
		random := rand.New(rand.NewPCG(1, 2))
		var outages, deaf []time.Duration // begin and end, alternately
		for at := time.Hour; at < day-2*time.Hour; at += time.Duration(random.Int64N(int64(2 * time.Hour))) {
			end := at + time.Duration(random.Int64N(int64(20*time.Minute)))
			outages, deaf = append(outages, at, end), append(deaf, at+10*time.Minute, end+10*time.Minute)
			at = end + 10*time.Minute
		}
		away := func(times []time.Duration) bool {
			i, _ := slices.BinarySearch(times, time.Since(start))
			return i%2 == 1
		}

		var mu sync.Mutex
		version, changes := 1, 0
		asked := map[int64]int{} // by second
		seen, told := make([]int, sidecars), make([]string, sidecars)
		go func() {
			for time.Since(start) < day-2*time.Hour {
				time.Sleep(time.Duration(random.Int64N(int64(time.Hour))))
				mu.Lock()
				version, changes = version+1, changes+1
				mu.Unlock()
			}
		}()
		var wg sync.WaitGroup
		for i := range sidecars {
			wg.Go(func() {
				seed := rand.New(rand.NewPCG(uint64(i), 3))
				time.Sleep(time.Duration(seed.Int64N(int64(time.Second))))
				hook := &Hook{Name: "webhook", Run: func(_ context.Context, revision string) error {
					if away(deaf) {
						return errors.New("connection refused")
					}
					told[i] = revision
					return nil
				}}
				err := Run(ctx, Options{Hooks: []*Hook{hook}, Rand: seed}, period, func(context.Context) (string, bool, error) {
					mu.Lock()
					defer mu.Unlock()
					asked[int64(time.Since(start)/time.Second)]++
					if away(outages) {
						return "", false, errors.New("connection refused")
					}
					news := seen[i] != version
					seen[i] = version
					return fmt.Sprint(version), news, nil
				})
				if err != nil {
					t.Errorf("sidecar %d: %v", i, err)
				}
			})
		}
		time.Sleep(time.Hour)
		goroutines := runtime.NumGoroutine()
		time.Sleep(day - 2*time.Hour)
		synctest.Wait()
		if now := runtime.NumGoroutine(); now > goroutines {
			t.Errorf("%d goroutines, %d after an hour", now, goroutines)
		}
		time.Sleep(30 * time.Minute) // after the last change and the last outage
		mu.Lock()
		for i := range sidecars {
			if seen[i] != version || told[i] != fmt.Sprint(version) {
				t.Errorf("sidecar %d has version %d and told %s, of %d", i, seen[i], told[i], version)
			}
		}
		mu.Unlock()
		wg.Wait()
		most, total := 0, 0
		for second, n := range asked {
			total += n
			if second > 10*60 { // the start is together, and the times spread them over the first minutes
				most = max(most, n)
			}
		}
		t.Logf("%d changes, %d outages, %d looks, %d in the busiest second after ten minutes", changes, len(outages)/2, total, most)
		if most > sidecars/3 { // on average it is less than one; in step it would be all
			t.Errorf("%d looks in one second", most)
		}
		if perHour := float64(total) / sidecars / 24; perHour < 50 || perHour > 70 {
			t.Errorf("%.1f looks an hour", perHour)
		}
	})
}
