package jinja

import (
	"fmt"
	"slices"
	"strings"
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
		switch {
		case d.kind == "" && !d.tuple:
			return e.lists
		case d.kind == "" || d.kind == rangeKind:
			return e.tuples
		}
		return nil
	}
	if _, ok := asString(v); ok {
		return e.strings
	}
	if _, ok := number(v); ok {
		return e.numbers
	}
	return nil
}

// method is one that is not called yet.
type method struct {
	of   any
	name string
	f    fn
}

func (m *method) call(c *call) any {
	return c.method(&op{c.at, m.name, m.f.call, m.f.lax}, arguments{append([]any{m.of}, c.args...), c.named, c.names, c.escape})
}

// methodOf returns v's method with that name.
func (e *jinja) methodOf(v any, name string) (any, bool) {
	f, ok := e.methodsOf(v)[name]
	return &method{v, name, f}, ok
}

// getAttr is a.name. As in Python, a mapping's method comes before a key of the same name.
func getAttr(name, missed string) operator {
	return func(c *call) any {
		if m, ok := c.e.methodOf(c.args[0], name); ok {
			return m
		}
		if got, ok := attr(c.args[0], name); ok {
			return got
		}
		failIf(strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__"), "%s is not supported: it is an attribute of Python's objects", name)
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
		if name, isName := asString(key); isName {
			if m, ok := c.e.methodOf(v, name); ok {
				return m
			}
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
			return l.all()[i], l.kind == "" || l.kind == rangeKind
		}
		s, _ := asString(v)
		return like(v, string([]rune(s)[i])), true
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
		if d.kind == generatorKind {
			return -1
		}
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
	if l, ok := plainList(v); ok {
		c.growItems(int64(len(l.all())), 1)
		return &list{v: cut(l.all(), bounds), tuple: l.tuple}
	}
	if l, ok := v.(*list); ok && l.kind == rangeKind {
		start, stop, step := indices(int64(len(l.v)), bounds)
		r := &list{v: cut(l.v, bounds), kind: rangeKind}
		r.bounds = [3]int64{l.bounds[0] + start*l.bounds[2], l.bounds[0] + stop*l.bounds[2], step * l.bounds[2]}
		return r
	}
	s, ok := asString(v)
	failIf(!ok, "a %s cannot be sliced", typeName(v))
	return c.sized(like(v, string(cut([]rune(s), bounds))))
}

// like returns s as safe if v is.
func like(v any, s string) any {
	if is[safe](v) {
		return safe(s)
	}
	return s
}

// fromEnd is i, counted from n if it is negative, between low and high.
func fromEnd(i, n, low, high int64) int64 {
	if i < 0 {
		i += n
	}
	return min(max(i, low), high)
}

// indices returns the bounds of a slice of n items.
func indices(n int64, bounds [3]*int64) (start, stop, step int64) {
	step = 1
	if bounds[2] != nil {
		step = *bounds[2]
	}
	low, high := int64(0), n // where the bounds are moved to
	start, stop = low, high
	if step < 0 {
		low, high = -1, n-1
		start, stop = high, low
	}
	for i, b := range []*int64{&start, &stop} {
		if bounds[i] != nil {
			*b = fromEnd(*bounds[i], n, low, high)
		}
	}
	return start, stop, step
}

func cut[T any](all []T, bounds [3]*int64) []T {
	n := int64(len(all))
	start, stop, step := indices(n, bounds)
	var part []T
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		part = append(part, all[i])
		if step > n || step < -n {
			break // before i overflows
		}
	}
	return part
}
