package render

import (
	"path"
	"strings"
)

// Rule gives the files whose name matches Pattern a Value. The pattern is path.Match's, for the whole name below the
// destination, or for its last part if the pattern has no slash; "" matches every file.
type Rule[T any] struct {
	Pattern string
	Value   T
}

// ParseRule reads VALUE or PATTERN=VALUE.
func ParseRule[T any](text string, parse func(string) (T, error)) (Rule[T], error) {
	pattern, value, found := strings.Cut(text, "=")
	if !found {
		pattern, value = "", text
	}
	v, err := parse(value)
	if err == nil {
		_, err = path.Match(pattern, "")
	}
	return Rule[T]{pattern, v}, err
}

// lastMatch returns the value of the last rule that matches a name.
func lastMatch[T any](rules []Rule[T], name string) (value T, found bool) {
	for _, rule := range rules {
		if matches(rule.Pattern, name) {
			value, found = rule.Value, true
		}
	}
	return value, found
}

func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(pattern, name) // ParseRule refuses malformed patterns
	return ok || pattern == ""
}
