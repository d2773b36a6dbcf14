// Package duration reads and writes durations as the command line has them: 500ms, 1m30s, or a number of seconds, also
// 0.5, as sleep(1) takes it.
package duration

import (
	"errors"
	"strings"
	"time"
)

// Max is longer than any Pod waits, and short enough that the sum of a few durations does not overflow.
const Max = 10 * 365 * 24 * time.Hour

// ErrTooLong is the error of a duration, or of a sum of durations, of more than [Max].
var ErrTooLong = errors.New("want a duration of at most 87600h, ten years")

// Parse reads a duration from 0 to [Max].
func Parse(text string) (time.Duration, error) {
	withUnit := text
	if strings.Trim(text, "+-.0123456789") == "" {
		withUnit += "s"
	}
	d, err := time.ParseDuration(withUnit)
	switch {
	case err != nil && strings.HasSuffix(strings.TrimLeft(text, "0123456789"), "d"):
		return 0, errors.New("want a duration such as 30s or 36h: the longest unit is the hour, a day is 24h")
	case err != nil:
		return 0, errors.New("want a duration such as 30s, 1m30s or 500ms")
	case d < 0:
		return 0, errors.New("a duration cannot be negative")
	case d > Max:
		return 0, ErrTooLong
	}
	return d, nil
}

// Value is a duration as the value of a flag; it is a [flag.Value].
type Value time.Duration

// String returns v without seconds that are zero: 5m, not 5m0s.
func (v Value) String() string {
	s := time.Duration(v).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// Short returns d as people write it: as [Value] does, but 1h, not 1h0m.
func Short(d time.Duration) string {
	s := Value(d).String()
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Set reads v with [Parse].
func (v *Value) Set(text string) error {
	d, err := Parse(text)
	*v = Value(d)
	return err
}
