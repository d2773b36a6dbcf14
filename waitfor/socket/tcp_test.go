package socket

import (
	"strings"
	"testing"
	"time"

	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// kinds has only the kinds of the package.
var kinds = target.Kinds{&TCP, &TLS, &Unix}

func TestHold(t *testing.T) {
	for _, test := range []struct {
		text    string
		attempt time.Duration
		want    time.Duration // -1: an error
	}{
		{"tcp://h:1", 10 * time.Second, wire.DefaultHold},
		{"tcp://h:1#hold=5", 10 * time.Second, 5 * time.Second},
		{"tcp://h:1#hold=0", 10 * time.Second, 0},
		{"tcp://h:1#hold=9999ms", 10 * time.Second, 9999 * time.Millisecond},
		{"tcp://h:1#hold=10", 10 * time.Second, -1},
		{"tcp://h:1#hold=1m", 10 * time.Second, -1},
		{"tcp://h:1#hold=1m", 0, time.Minute}, // attempts without a limit
		{"tcp6://h:1", wire.DefaultHold, -1},
	} {
		check, err := kinds.Parse(test.text, target.Options{AttemptTimeout: test.attempt})
		switch {
		case test.want < 0 && (err == nil || !strings.Contains(err.Error(), "attempt-timeout")):
			t.Errorf("%s in %v: %v, want that it is too long", test.text, test.attempt, err)
		case test.want >= 0 && err != nil:
			t.Errorf("%s in %v: %v", test.text, test.attempt, err)
		case test.want >= 0 && check.(tcpCheck).hold != test.want:
			t.Errorf("%s in %v holds for %v", test.text, test.attempt, check.(tcpCheck).hold)
		}
	}
	// Flags count as the settings of a target do.
	o := target.Options{AttemptTimeout: time.Second, Settings: target.Settings{"hold": {"2"}}}
	if _, err := kinds.Parse("tcp://h:1", o); err == nil {
		t.Error("a flag may hold longer than an attempt takes")
	}
	if _, err := kinds.Parse("tls://h:1", o); err != nil {
		t.Errorf("%v, but tls does not take hold", err)
	}
}
