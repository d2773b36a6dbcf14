package jinja

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// object is a value that has attributes.
type object interface{ attr(name string) (any, bool) }

// attr returns v.name, for what is not a method.
func attr(v any, name string) (any, bool) {
	switch d := v.(type) {
	case *dict:
		return d.get(name)
	case *list:
		if i := slices.Index([]string{"grouper", "list"}, name); d.group && i >= 0 {
			return d.v[i], true
		}
	case object:
		return d.attr(name)
	}
	return nil, false
}

// methodsOf returns Python's methods of v.
func (e *jinja) methodsOf(v any) map[string]fn {
	switch d := v.(type) {
	case *dict:
		return e.dicts
	case *list:
		if d.tuple {
			return e.tuples
		}
		return e.lists
	}
	if _, ok := asString(v); ok {
		return e.strings
	}
	return nil
}

// getAttr is a.name. A method that is not called is not found, so that a mapping's key "items" is.
func getAttr(name, missed string) operator {
	return func(c *call) any {
		if got, ok := attr(c.args[0], name); ok {
			return got
		}
		return c.missed(missed)
	}
}

// getItem is a[key].
func getItem(missed string) operator {
	return func(c *call) any {
		v, key := c.args[0], c.args[1]
		if got, ok := index(v, key); ok {
			return got
		}
		if i, ok := whole(key); ok && !is[*dict](v) {
			return c.missed(fmt.Sprintf("%s (%d of %d)", missed, i, length(v)))
		}
		return c.missed(missed)
	}
}

func index(v, key any) (any, bool) {
	if d, ok := v.(*dict); ok {
		return d.get(key)
	}
	if i, ok := whole(key); ok {
		if i < 0 {
			i += int64(length(v))
		}
		if i < 0 || i >= int64(length(v)) {
			return nil, false
		}
		if l, ok := v.(*list); ok {
			return l.v[i], true
		}
		s, _ := asString(v)
		return string([]rune(s)[i]), true
	}
	if name, ok := asString(key); ok {
		return attr(v, name)
	}
	return nil, false
}

// length is how many items or characters v has, -1 if it has none.
func length(v any) int {
	switch d := v.(type) {
	case *dict:
		return len(d.list())
	case *list:
		return len(d.all())
	}
	if s, ok := asString(v); ok {
		return utf8.RuneCountInString(s)
	}
	return -1
}

// slice is v[start:stop:step].
func slice(c *call) any {
	var bounds [3]*int64
	for i, v := range c.args[1:] {
		if v != none {
			n, ok := whole(v)
			failIf(!ok, "the bounds of a slice are whole numbers")
			bounds[i] = &n
		}
	}
	failIf(bounds[2] != nil && *bounds[2] == 0, "the step of a slice cannot be 0")
	v := c.args[0]
	if l, ok := v.(*list); ok {
		c.growItems(int64(len(l.v)), 1)
		return &list{v: cut(l.all(), bounds), tuple: l.tuple}
	}
	s, ok := asString(v)
	failIf(!ok, "a %s cannot be sliced", typeName(v))
	return c.sized(string(cut([]rune(s), bounds)))
}

// fromEnd is i, counted from n if it is negative, between low and high.
func fromEnd(i, n, low, high int64) int64 {
	if i < 0 {
		i += n
	}
	return min(max(i, low), high)
}

func cut[T any](all []T, bounds [3]*int64) []T {
	n, step := int64(len(all)), int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	low, high := int64(0), n // where the bounds are moved to
	start, stop := low, high
	if step < 0 {
		low, high = -1, n-1
		start, stop = high, low
	}
	for i, b := range []*int64{&start, &stop} {
		if bounds[i] != nil {
			*b = fromEnd(*bounds[i], n, low, high)
		}
	}
	var part []T
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		part = append(part, all[i])
		if step > n || step < -n {
			break // before i overflows
		}
	}
	return part
}
