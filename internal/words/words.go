// Package words formats durations, sizes, counts and lists, so that all messages look alike.
package words

import (
	"fmt"
	"strings"
	"time"
)

// Seconds returns a rounded duration: 340ms, 1.2s, 4m58s.
func Seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Bytes returns a rounded number of bytes: 3.1 MB.
func Bytes(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < 4 {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %cB", value, "kMGTP"[prefix])
}

// Plural returns a count of a noun with a regular plural: 1 name, 2 names, 2 directories.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok {
		return fmt.Sprintf("%d %sries", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Each returns the text of each item of a list.
func Each[T any](list []T, text func(T) string) []string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = text(item)
	}
	return texts
}

// MaxNamed is how many items a message lists; it counts the rest.
const MaxNamed = 8

// List joins the first [MaxNamed] words, and counts the rest.
func List(words []string) string {
	if more := len(words) - MaxNamed; more > 0 {
		return strings.Join(words[:MaxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}
