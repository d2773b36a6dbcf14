package doctor

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// examine adds what is wrong around a Pod.
func (d *doctor) examine(ctx context.Context, p *Pod, depth int) {
	d.events1(ctx, p)
}

func (d *doctor) events1(ctx context.Context, p *Pod) {
	for _, e := range d.events(ctx, p.Namespace) {
		if e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == p.Name {
			p.add(Finding{About: e.Reason, Text: e.Message})
		}
	}
}

// last returns when an event was seen last.
func last(e *corev1.Event) time.Time {
	t := latest(e.LastTimestamp.Time, e.EventTime.Time)
	if e.Series != nil {
		t = latest(t, e.Series.LastObservedTime.Time)
	}
	return latest(e.CreationTimestamp.Time, t)
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
