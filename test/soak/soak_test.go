package soak_test

import (
	"slices"
	"testing"

	"initbox/test/soak"
)

func TestKilledAtFixedMoments(t *testing.T) {
	t.Setenv("INITBOX_SOAK", "")
	if got, want := slices.Collect(soak.Moments(t, 4)), []float64{0.125, 0.375, 0.625, 0.875}; !slices.Equal(got, want) {
		t.Errorf("moments %v, want %v", got, want)
	}
	if soak.Running(t) {
		t.Error("reports that make soak runs")
	}
}

func TestKilledAtRandomMoments(t *testing.T) {
	t.Setenv("INITBOX_SOAK", "1h")
	t.Setenv("INITBOX_SEED", "7")
	draw := func() (moments []float64) {
		for m := range soak.Moments(t, 1) {
			if m < 0 || m >= 1 {
				t.Fatalf("moment %v is outside [0, 1)", m)
			}
			if moments = append(moments, m); len(moments) == 100 {
				break
			}
		}
		return moments
	}
	first, again := draw(), draw()
	if len(first) != 100 || !slices.Equal(first, again) {
		t.Errorf("the same seed drew %v, then %v", first[:3], again[:3])
	}
	t.Setenv("INITBOX_SEED", "8")
	if slices.Equal(first, draw()) {
		t.Error("another seed drew the same moments")
	}
}
