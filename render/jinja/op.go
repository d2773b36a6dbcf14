package jinja

import (
	"cmp"
	"slices"
	"strings"
)

func makeList(c *call) any {
	c.growItems(int64(len(c.args)), 1)
	return newList(c.args)
}

func makeTuple(c *call) any { return tuple(c.args...) }

func makeDict(c *call) any {
	d := newDict()
	for i := 0; i < len(c.args); i += 2 {
		check(d.set(c.args[i], c.args[i+1]))
	}
	return d
}

// comparators are == != < <= > >= in, not in.
var comparators = [...]operator{
	func(c *call) any { return equal(c.args[0], c.args[1]) },
	func(c *call) any { return !equal(c.args[0], c.args[1]) },
	func(c *call) any { return compare(c.args[0], c.args[1]) < 0 },
	func(c *call) any { return compare(c.args[0], c.args[1]) <= 0 },
	func(c *call) any { return compare(c.args[0], c.args[1]) == 1 },
	func(c *call) any { i := compare(c.args[0], c.args[1]); return i == 0 || i == 1 },
	func(c *call) any { return contains(c.args[1], c.args[0]) },
	func(c *call) any { return !contains(c.args[1], c.args[0]) },
}

// contains is Python's "in".
func contains(container, v any) bool {
	if s, ok := asString(container); ok {
		part, ok := asString(v)
		failIf(!ok, "a string cannot contain a %s", typeName(v))
		return strings.Contains(s, part)
	}
	if d, ok := container.(*dict); ok {
		must(hash(v))
		return d.has(v)
	}
	l, isList := container.(*list)
	if isList && l.kind == keysKind {
		must(hash(v))
	}
	if isList && l.kind == generatorKind { // only what is before v is used up
		for i, item := range l.v {
			if equal(item, v) {
				l.v = l.v[i+1:]
				return true
			}
		}
	}
	return slices.ContainsFunc(must(iterate(container)), func(item any) bool { return equal(item, v) })
}

func equal(a, b any) bool {
	left := 200_000 // comparisons
	return equalAt(a, b, 0, &left)
}

func equalAt(a, b any, depth int, left *int) bool {
	*left--
	require(depth <= maxNesting, errNesting)
	require(*left >= 0, errSize)
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x.cmp(y) == 0
	}
	switch x := a.(type) {
	case *list:
		y, ok := b.(*list)
		switch {
		case !ok || x.tuple != y.tuple || x.kind != y.kind:
			return false
		case x.kind == generatorKind || x.kind == valuesKind:
			return x == y
		case x.kind == keysKind || x.kind == itemsKind: // sets
			return len(x.all()) == len(y.all()) && !slices.ContainsFunc(x.all(), func(v any) bool { return !contains(y, v) })
		}
		return slices.EqualFunc(x.all(), y.all(), func(v, w any) bool { return equalAt(v, w, depth+1, left) })
	case *dict:
		y, ok := b.(*dict)
		if !ok || len(x.list()) != len(y.list()) {
			return false
		}
		for k, v := range x.all() {
			if w, ok := y.get(k); !ok || !equalAt(v, w, depth+1, left) {
				return false
			}
		}
		return true
	case *missing:
		x.report()
		return false
	}
	return sameAs(a, b)
}

// compare orders values as Python does, and fails where Python has no order. It returns unordered for NaN.
func compare(a, b any) int {
	if x, y, ok := both(number, a, b); ok {
		return x.cmp(y)
	}
	if x, y, ok := both(asString, a, b); ok {
		return strings.Compare(x, y)
	}
	x, y, ok := both(plainList, a, b)
	failIf(!ok || x.tuple != y.tuple, "a %s and a %s cannot be ordered", typeName(a), typeName(b))
	for i := range min(len(x.all()), len(y.all())) {
		if !equal(x.v[i], y.v[i]) {
			return compare(x.v[i], y.v[i])
		}
	}
	return cmp.Compare(len(x.v), len(y.v))
}

func add(c *call) any {
	a, b := c.args[0], c.args[1]
	if x, y, ok := both(asString, a, b); ok {
		c.grow(int64(len(x) + len(y)))
		return joined(a, b)
	}
	if x, y, ok := both(plainList, a, b); ok && x.tuple == y.tuple {
		c.growItems(int64(len(x.all())+len(y.all())), 1)
		return &list{v: slices.Concat(x.v, y.v), tuple: x.tuple}
	}
	return arithmetic("+")(c)
}

// joined is safe if a part of it is: the other one is escaped then.
func joined(a, b any) any {
	if !is[safe](a) && !is[safe](b) {
		return str(a) + str(b)
	}
	return safe(escaped(a) + escaped(b))
}

// concat is ~, which knows of safe strings only where {% autoescape %} is on.
func concat(c *call) any {
	if !c.escape {
		return c.sized(str(c.args[0]) + str(c.args[1]))
	}
	return c.sized(joined(c.args[0], c.args[1]))
}

// concatConstants is ~ of constants, of which Jinja forgets that they are safe.
func concatConstants(c *call) any {
	failIf(c.escape && (is[safe](c.args[0]) || is[safe](c.args[1])), "~ of constants that are safe is escaped by Jinja: set a variable for one of them")
	return concat(c)
}

func multiply(c *call) any {
	a, b := c.args[0], c.args[1]
	if _, ok := number(a); ok {
		a, b = b, a
	}
	times, ok := whole(b)
	times = max(times, 0)
	if s, isText := asString(a); isText && ok {
		if s == "" {
			return s
		}
		if times > c.e.o.Bytes/int64(len(s)) {
			c.grow(-1)
		}
		c.grow(int64(len(s)) * times)
		return like(a, strings.Repeat(s, size(times)))
	}
	if l, isList := plainList(a); isList && ok {
		if len(l.all()) == 0 {
			times = 0
		}
		c.growItems(int64(len(l.v)), times)
		return &list{v: slices.Repeat(l.v, size(times)), tuple: l.tuple}
	}
	return arithmetic("*")(c)
}

func remainder(c *call) any {
	if _, ok := asString(c.args[0]); ok {
		return c.sized(c.percentFormat(c.args[0], c.args[1]))
	}
	return arithmetic("%")(c)
}
