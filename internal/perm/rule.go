package perm

import (
	"fmt"
	"path"
	"strings"
)

// Rule is a value for the files whose names match Pattern, or for all files if that is empty. The pattern is
// path.Match's, for the whole name below the destination, or for its last part if the pattern has no slash.
type Rule[T any] struct {
	Pattern string
	Value   T
}

// ParseRule reads VALUE or PATTERN=VALUE. What follows the = of a symbolic mode such as u=rw is no mode, so that the
// whole is a VALUE.
func ParseRule[T any](text string, parse func(string) (T, error)) (Rule[T], error) {
	pattern, value, found := strings.Cut(text, "=")
	if !found {
		pattern, value = "", text
	}
	v, err := parse(value)
	if err != nil && found {
		if whole, err := parse(text); err == nil {
			return Rule[T]{"", whole}, nil
		}
	}
	if err == nil {
		_, err = path.Match(pattern, "")
	}
	return Rule[T]{pattern, v}, err
}

// ParseRules reads the values of a setting, whose name errors begin with.
func ParseRules[T any](name string, texts []string, parse func(string) (T, error)) (all []Rule[T], err error) {
	for _, text := range texts {
		rule, err := ParseRule(text, parse)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", name, text, err)
		}
		all = append(all, rule)
	}
	return all, nil
}

// LastMatch returns the value of the last rule that matches a name.
func LastMatch[T any](rules []Rule[T], name string) (value T, found bool) {
	for _, rule := range rules {
		if rule.Matches(name) {
			value, found = rule.Value, true
		}
	}
	return value, found
}

// Matches returns whether the rule is for the file with that slash-separated name.
func (r Rule[T]) Matches(name string) bool { return Match(r.Pattern, name) }

// Match returns whether a slash-separated name matches a pattern of path.Match, by its last part if the pattern has no
// slash. The empty pattern matches every name, and a malformed one none.
func Match(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(pattern, name)
	return ok
}
