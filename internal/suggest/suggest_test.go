package suggest

import "testing"

func TestSlips(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "ab", 2}, {"status", "status", 0}, {"stauts", "status", 1}, {"stats", "status", 1},
		{"staatus", "status", 1}, {"stqtus", "status", 1}, {"josn", "json", 1}, {"user", "json", 3}, {"body", "both", 2},
	} {
		if got, back := slips(test.a, test.b), slips(test.b, test.a); got != test.want || back != test.want {
			t.Errorf("from %q to %q: %d, back %d, want %d", test.a, test.b, got, back, test.want)
		}
	}
}

func TestClosest(t *testing.T) {
	known := []string{"timeout", "attempt-timeout", "type", "any", "h"}
	for name, want := range map[string]string{
		"tmeout": "timeout", "tiemout": "timeout", "time": "timeout", "timeouts": "timeout", "attempt_timeout": "attempt-timeout", "types": "type", "tipe": "type",
		"nope": "", "no": "", "x": "", "": "", "output": "",
	} {
		if got := Closest(name, known); got != want {
			t.Errorf("Closest(%s) = %q, want %q", name, got, want)
		}
	}
}
