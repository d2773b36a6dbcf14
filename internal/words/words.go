// Package words puts numbers and lists into messages for people, the same way
// in all of them.
package words

import (
	"fmt"
	"strings"
	"time"
)

// Seconds rounds a duration for people: 340ms, 1.2s, 4m58s.
func Seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Plural counts what has a regular plural: 1 name, 2 names.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// MaxNamed is how many things a message names; the rest it counts.
const MaxNamed = 8

// List joins words for a message and stops before it grows long.
func List(words []string) string {
	if more := len(words) - MaxNamed; more > 0 {
		return strings.Join(words[:MaxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}
