package jinja

import (
	"fmt"
	"unicode/utf8"
)

// object is a value with attributes of its own.
type object interface{ attr(name string) (any, bool) }

// attr returns v.name, for what is not a method.
func attr(v any, name string) (any, bool) {
	switch d := v.(type) {
	case *dict:
		return d.get(name)
	case *list:
		switch {
		case d.group && name == "grouper":
			return d.v[0], true
		case d.group && name == "list":
			return d.v[1], true
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
		if _, ok := asString(key); !ok {
			if n, isNumber := number(key); isNumber && !n.real && !isMapping(v) {
				return c.missed(fmt.Sprintf("%s (%d of %d)", missed, n.i, length(v)))
			}
		}
		return c.missed(missed)
	}
}

func index(v, key any) (any, bool) {
	n, isNumber := number(key)
	at := func(length int) (int, bool) {
		if n.i < 0 {
			n.i += int64(length)
		}
		return int(n.i), isNumber && !n.real && n.i >= 0 && n.i < int64(length)
	}
	switch d := v.(type) {
	case *dict:
		return d.get(key)
	case *list:
		if i, ok := at(len(d.all())); ok {
			return d.v[i], true
		}
		if name, ok := asString(key); ok {
			return attr(d, name)
		}
		return nil, false
	}
	if s, ok := asString(v); ok {
		runes := []rune(s)
		if i, ok := at(len(runes)); ok {
			return string(runes[i]), true
		}
		return nil, false
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
		if v == none {
			continue
		}
		n, ok := number(v)
		failIf(!ok || n.real, "the bounds of a slice are whole numbers")
		bounds[i] = &n.i
	}
	failIf(bounds[2] != nil && *bounds[2] == 0, "the step of a slice cannot be 0")
	v := c.args[0]
	if l, ok := v.(*list); ok {
		c.growItems(int64(len(l.v)), 1)
		return &list{v: cut(l.all(), bounds), tuple: l.tuple}
	}
	if s, ok := asString(v); ok {
		return c.sized(string(cut([]rune(s), bounds)))
	}
	panic(failure{fmt.Errorf("a %s cannot be sliced", typeName(v))})
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
		if bounds[i] == nil {
			continue
		}
		*b = *bounds[i]
		if *b < 0 {
			*b += n
		}
		*b = min(max(*b, low), high)
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
