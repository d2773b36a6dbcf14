package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// sample is a set of durations of one kind.
type sample []time.Duration

// percentile returns the nearest-rank percentile: a value that was measured, and
// for p = 1 the largest. It is 0 for an empty sample.
func (s sample) percentile(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func (s sample) median() time.Duration { return s.percentile(0.5) }
func (s sample) max() time.Duration    { return s.percentile(1) }

// spread returns median, p90 and p99 as they stand in a table.
func (s sample) spread() []string {
	return []string{human(s.median()), human(s.percentile(0.9)), human(s.percentile(0.99))}
}

// human writes a duration with three digits that matter.
func human(d time.Duration) string {
	ms := float64(d) / 1e6
	switch a := math.Abs(ms); {
	case a >= 1000:
		return fmt.Sprintf("%.2f s", ms/1000)
	case a >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case a >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

// ratio writes how many times as large a is as b.
func ratio(a, b float64) string {
	if b == 0 {
		return "–"
	}
	switch r := a / b; {
	case r < 1:
		return fmt.Sprintf("%.3f", r)
	case r < 10:
		return fmt.Sprintf("%.2f", r)
	default:
		return fmt.Sprintf("%.0f", r)
	}
}
