package words

import (
	"strings"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 340 * time.Millisecond: "340ms", 1234 * time.Millisecond: "1.2s", 14249 * time.Millisecond: "14.2s",
		time.Minute: "1m0s", 298*time.Second + 400*time.Millisecond: "4m58s", 26 * time.Hour: "26h0m0s",
	} {
		if got := Seconds(d); got != want {
			t.Errorf("Seconds(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for want, noun := range map[string]string{"1 directory": "directory", "2 directories": "directory", "3 files": "file", "4 keys": "key"} {
		if got := Plural(int(want[0]-'0'), noun); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestList(t *testing.T) {
	all := strings.Split("abcdefghij", "")
	for n, want := range map[int]string{0: "", 1: "a", 2: "a, b", 8: "a, b, c, d, e, f, g, h", 10: "a, b, c, d, e, f, g, h and 2 more"} {
		if got := List(all[:n]); got != want {
			t.Errorf("%d words: %q, want %q", n, got, want)
		}
	}
}
