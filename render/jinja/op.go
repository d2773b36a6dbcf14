package jinja

import (
	"cmp"
	"math"
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

var (
	comparators = [...]operator{
		func(c *call) any { return equal(c.args[0], c.args[1]) },
		func(c *call) any { return !equal(c.args[0], c.args[1]) },
		func(c *call) any { return compare(c.args[0], c.args[1]) < 0 },
		func(c *call) any { return compare(c.args[0], c.args[1]) <= 0 },
		func(c *call) any { return compare(c.args[0], c.args[1]) > 0 },
		func(c *call) any { return compare(c.args[0], c.args[1]) >= 0 },
		func(c *call) any { return contains(c.args[1], c.args[0]) },
		func(c *call) any { return !contains(c.args[1], c.args[0]) },
	}
	binaryOperators = slices.Concat(comparators[:6], []operator{
		nil, nil, // and, or
		add, arithmetic("-"), multiply, arithmetic("/"), arithmetic("//"), remainder, arithmetic("**"), concat, comparators[6],
	})
)

// contains is Python's "in".
func contains(container, v any) bool {
	if s, ok := asString(container); ok {
		part, ok := asString(v)
		failIf(!ok, "a string cannot contain a %s", typeName(v))
		return strings.Contains(s, part)
	}
	if d, ok := container.(*dict); ok {
		return d.has(v)
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
		return ok && x.tuple == y.tuple && slices.EqualFunc(x.all(), y.all(), func(v, w any) bool { return equalAt(v, w, depth+1, left) })
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

// compare orders values as Python does, and fails where Python has no order.
func compare(a, b any) int {
	if x, y, ok := both(number, a, b); ok {
		return x.cmp(y)
	}
	if x, y, ok := both(asString, a, b); ok {
		return strings.Compare(x, y)
	}
	x, y, ok := both(as[*list], a, b)
	failIf(!ok, "a %s and a %s cannot be ordered", typeName(a), typeName(b))
	for i := range min(len(x.all()), len(y.all())) {
		if !equal(x.v[i], y.v[i]) {
			return compare(x.v[i], y.v[i])
		}
	}
	return len(x.v) - len(y.v)
}

// num is an integer, or a float if real is set.
type num struct {
	i    int64
	f    float64
	real bool
}

// number is v as a number, which booleans are in Python.
func number(v any) (num, bool) {
	switch d := v.(type) {
	case int64:
		return num{i: d, f: float64(d)}, true
	case float64:
		return num{f: d, real: true}, true
	case bool:
		if d {
			return num{i: 1, f: 1}, true
		}
		return num{}, true
	}
	return num{}, false
}

// whole is v as an integer.
func whole(v any) (int64, bool) {
	n, ok := number(v)
	return n.i, ok && !n.real
}

func (n num) cmp(m num) int {
	switch {
	case !n.real && !m.real:
		return cmp.Compare(n.i, m.i)
	case n.f < m.f:
		return -1
	case n.f == m.f:
		return 0
	}
	return 1
}

func add(c *call) any {
	a, b := c.args[0], c.args[1]
	if x, y, ok := both(asString, a, b); ok {
		c.grow(int64(len(x) + len(y)))
		return joined(a, b)
	}
	if x, y, ok := both(as[*list], a, b); ok && x.tuple == y.tuple {
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
		return strings.Repeat(s, int(times))
	}
	if l, isList := a.(*list); isList && ok {
		if len(l.all()) == 0 {
			times = 0
		}
		c.growItems(int64(len(l.v)), times)
		return &list{v: slices.Repeat(l.v, int(times)), tuple: l.tuple}
	}
	return arithmetic("*")(c)
}

func remainder(c *call) any {
	if format, ok := asString(c.args[0]); ok {
		return c.sized(c.percentFormat(format, c.args[1]))
	}
	return arithmetic("%")(c)
}

func negate(c *call) any {
	n, ok := number(c.args[0])
	failIf(!ok, "a %s cannot be negated", typeName(c.args[0]))
	if n.real {
		return -n.f
	}
	require(n.i != math.MinInt64, errTooLarge)
	return int64(-n.i)
}

// arithmetic is an operator on numbers: on integers without rounding, with Python's signs for // and %.
func arithmetic(sign string) operator {
	divides := sign == "/" || sign == "//" || sign == "%"
	return func(c *call) any {
		a, b, ok := both(number, c.args[0], c.args[1])
		if !ok {
			failf("cannot calculate %s %s %s", typeName(c.args[0]), sign, typeName(c.args[1]))
		}
		failIf(b.f == 0 && divides || sign == "**" && a.f == 0 && b.f < 0, "division by zero")
		if a.real || b.real || sign == "/" || sign == "**" && b.i < 0 {
			return realArithmetic[sign](a.f, b.f)
		}
		i, ok := intArithmetic(sign, a.i, b.i)
		require(ok, errTooLarge)
		return i
	}
}

var realArithmetic = map[string]func(a, b float64) float64{
	"+":  func(a, b float64) float64 { return a + b },
	"-":  func(a, b float64) float64 { return a - b },
	"*":  func(a, b float64) float64 { return a * b },
	"/":  func(a, b float64) float64 { return a / b },
	"//": func(a, b float64) float64 { return math.Floor(a / b) },
	"**": math.Pow,
	"%": func(a, b float64) float64 {
		m := math.Mod(a, b)
		if m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return m
	},
}

func intArithmetic(sign string, a, b int64) (int64, bool) {
	switch sign {
	case "+":
		return a + b, (a+b > a) == (b > 0)
	case "-":
		return a - b, (a-b < a) == (b > 0)
	case "*":
		return product(a, b)
	case "**":
		return power(a, b)
	}
	if a == math.MinInt64 && b == -1 {
		return 0, sign == "%"
	}
	q, m := a/b, a%b
	if m != 0 && (m < 0) != (b < 0) {
		q, m = q-1, m+b
	}
	if sign == "%" {
		return m, true
	}
	return q, true
}

func product(a, b int64) (int64, bool) {
	p := a * b
	return p, a == 0 || p/a == b && (a != -1 || b != math.MinInt64)
}

func power(a, b int64) (int64, bool) {
	p, ok := int64(1), true
	for ; b > 0 && ok; b >>= 1 {
		if b&1 == 1 {
			if p, ok = product(p, a); !ok {
				return 0, false
			}
		}
		if b > 1 {
			a, ok = product(a, a)
		}
	}
	return p, ok
}
