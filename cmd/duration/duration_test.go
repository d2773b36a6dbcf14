package duration

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "60": time.Minute, "90s": 90 * time.Second, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond, "1.5s": 1500 * time.Millisecond,
		"0.5": 500 * time.Millisecond, "1.5": 1500 * time.Millisecond, "87600h": Max,
	} {
		var v Value
		if err := v.Set(text); time.Duration(v) != want || err != nil {
			t.Errorf("Set(%q) = %v, %v, want %v", text, v, err, want)
		}
	}
	for _, text := range []string{"", ".", "-", "-1", "-1s", "-0.5", "soon", "1.5.5", "1e3", "inf", "1 s", "1d", "9999999999999", "87601h", "9223372036854775807ns"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
		}
	}
}

func TestString(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", time.Minute: "1m", 5 * time.Minute: "5m", 90 * time.Second: "1m30s", 10 * time.Second: "10s"} {
		if got := Value(d).String(); got != want {
			t.Errorf("Value(%v) is written %s, want %s", d, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", 720 * time.Hour: "720h"} {
		if got := Short(d); got != want {
			t.Errorf("Short(%v) is %s, want %s", d, got, want)
		}
	}
}
