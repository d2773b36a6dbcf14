package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"initbox/render/engine"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2"
	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// operator computes what an op stands for.
type operator func(c *call) (value.Value, error)

// op is an operation at a place of a template. The library sees a value that
// can be called.
type op struct {
	at    engine.Position
	name  string
	do    operator
	lax   bool     // what is missing is for do to look at
	names []string // of the named arguments, in the order of the text
}

// call is one execution of an op.
type call struct {
	*run
	op    *op
	state *minijinja.State
	args  []value.Value
	named map[string]value.Value
}

func (o *op) GetAttr(string) value.Value { return value.Undefined() }

// Call executes the operation, unless an argument is missing. Its error is kept
// in the run, with the place.
func (o *op) Call(st value.State, args []value.Value, named map[string]value.Value) (v value.Value, err error) {
	state := st.(*minijinja.State)
	r := state.Context().(*run)
	at := r.at
	r.at, r.past = o.at, o.at
	defer func() {
		if p := recover(); p != nil {
			err = failure(o.name, p)
		}
		if err != nil && r.err == nil {
			r.err = r.located(err)
		}
		r.at = at
	}()
	if err := r.step(1); err != nil {
		return value.Undefined(), err
	}
	if !o.lax {
		if m := firstMissing(args, named); m != nil {
			m.tell()
			if !r.e.o.MissingZero {
				return value.FromObject(m), nil
			}
		}
	}
	return o.do(&call{run: r, op: o, state: state, args: args, named: named})
}

// failure is the error of an operation that panicked: with an argument that is
// none, with a value too deep to look at, or by a mistake.
func failure(name string, p any) error {
	if e, ok := p.(argError); ok {
		return e.error
	}
	if e, ok := p.(error); ok && (e == errNesting || e == errSize) {
		return e
	}
	return fmt.Errorf("%s failed: %v", name, p)
}

func firstMissing(args []value.Value, named map[string]value.Value) *missing {
	for _, a := range args {
		if m, ok := a.Raw().(*missing); ok {
			return m
		}
	}
	for _, name := range sortedKeys(named) {
		if m, ok := named[name].Raw().(*missing); ok {
			return m
		}
	}
	return nil
}

// located gives err the place of the operation at work, unless it has one.
func (r *run) located(err error) error {
	var e *engine.Error
	if errors.As(err, &e) || r.Err() != nil && errors.Is(err, r.Err()) {
		return err
	}
	return &engine.Error{Position: r.at, Text: err.Error(), Err: err}
}

// rawText writes the text between tags.
func rawText(text string) operator {
	v := value.FromSafeString(text)
	return func(c *call) (value.Value, error) { return v, c.emit(len(text)) }
}

// write makes the text of {{ }}.
func write(c *call) (value.Value, error) {
	v := c.args[0]
	if v.IsSafe() {
		s, _ := v.AsString()
		return v, c.emit(len(s))
	}
	s := str(v)
	if c.state.AutoEscape().IsHTML() { // in a block that asks for it
		s = htmlEscaper().Replace(s)
		v = value.FromSafeString(s)
		return v, c.emit(len(s))
	}
	return newString(s), c.emit(len(s))
}

// lookup is a name: of a variable, an input, or a function that is passed on.
func lookup(name string) operator {
	return func(c *call) (value.Value, error) {
		if c.args[0].IsUndefined() {
			return c.missed(name), nil
		}
		return c.args[0], nil
	}
}

// loopOver is what a loop loops over. Its steps are counted before: a loop
// without a body has no other operation.
func loopOver(c *call) (value.Value, error) {
	items, err := iterate(c.args[0])
	if err != nil {
		return value.Undefined(), err
	}
	return value.FromSlice(items), c.step(len(items))
}

// loopOverEach is loopOver for items that have to be n things themselves.
func loopOverEach(n int) operator {
	return func(c *call) (value.Value, error) {
		all, err := loopOver(c)
		for _, item := range all.Iter() {
			if err == nil {
				err = unpackable(item, n)
			}
		}
		return all, err
	}
}

// unpack is what is assigned to n names.
func unpack(n int) operator {
	return func(c *call) (value.Value, error) { return c.args[0], unpackable(c.args[0], n) }
}

func unpackable(v value.Value, n int) error {
	if m, ok := v.Raw().(*missing); ok {
		m.tell()
		return nil
	}
	items, err := iterate(v)
	if err == nil && len(items) != n {
		err = fmt.Errorf("there are %d items for %d names", len(items), n)
	}
	return err
}

// templateNames checks that a template that is included exists, for the place in
// the error.
func templateNames(optional bool) operator {
	return func(c *call) (value.Value, error) {
		names := []value.Value{c.args[0]}
		if _, ok := c.args[0].AsString(); !ok {
			names = c.args[0].Iter()
		}
		for _, n := range names {
			if c.e.partials[str(n)] != nil {
				return n, nil
			}
		}
		if optional || len(names) == 0 {
			return newString(""), nil
		}
		text := fmt.Sprintf("there is no template %s to include", str(names[len(names)-1]))
		return value.Undefined(), &engine.Error{Position: c.at, Text: text, Fix: similarTo(str(names[0]), sortedKeys(c.e.partials))}
	}
}

func namespaceOnly(c *call) (value.Value, error) {
	if _, ok := c.args[0].AsMutableObject(); !ok {
		return value.Undefined(), errors.New("only attributes of a namespace() can be set")
	}
	return c.args[0], nil
}

func makeList(c *call) (value.Value, error) {
	return newList(c.args), c.growItems(int64(len(c.args)), 1)
}
func makeTuple(c *call) (value.Value, error) { return tuple(c.args...), nil }

func makeDict(c *call) (value.Value, error) {
	d := newDict()
	for i := 0; i < len(c.args); i += 2 {
		if err := d.set(c.args[i], c.args[i+1]); err != nil {
			return value.Undefined(), err
		}
	}
	return fromDict(d), nil
}

// operators are those of the syntax tree, by the library's names. "and" and "or"
// are left to it.
func operators() map[string]operator {
	return map[string]operator{
		"Eq":       func(c *call) (value.Value, error) { return truth(equal(c.args[0], c.args[1])) },
		"Ne":       func(c *call) (value.Value, error) { return truth(!equal(c.args[0], c.args[1])) },
		"Lt":       ordered(func(n int) bool { return n < 0 }),
		"Lte":      ordered(func(n int) bool { return n <= 0 }),
		"Gt":       ordered(func(n int) bool { return n > 0 }),
		"Gte":      ordered(func(n int) bool { return n >= 0 }),
		"In":       in,
		"NotIn":    notIn,
		"Add":      add,
		"Sub":      arithmetic("-"),
		"Mul":      multiply,
		"Div":      arithmetic("/"),
		"FloorDiv": arithmetic("//"),
		"Rem":      remainder,
		"Pow":      arithmetic("**"),
		"Concat":   concat,
	}
}

func truth(b bool) (value.Value, error) { return value.FromBool(b), nil }

func ordered(want func(int) bool) operator {
	return func(c *call) (value.Value, error) {
		n, err := compare(c.args[0], c.args[1])
		return value.FromBool(err == nil && want(n)), err
	}
}

// compareAll is a chain like 1 < x <= 10.
func compareAll(kinds []operator) operator {
	return func(c *call) (value.Value, error) {
		all := c.args
		for i, compare := range kinds {
			c.args = all[i : i+2]
			if v, err := compare(c); err != nil || !v.IsTrue() {
				return v, err
			}
		}
		return value.True(), nil
	}
}

func in(c *call) (value.Value, error) {
	ok, err := contains(c.args[1], c.args[0])
	return value.FromBool(ok), err
}

func notIn(c *call) (value.Value, error) {
	ok, err := contains(c.args[1], c.args[0])
	return value.FromBool(!ok), err
}

// contains is Python's "in".
func contains(container, v value.Value) (bool, error) {
	if s, ok := container.AsString(); ok {
		part, ok := v.AsString()
		if !ok {
			return false, fmt.Errorf("a string cannot contain a %s", typeName(v))
		}
		return strings.Contains(s, part), nil
	}
	if d, ok := container.Raw().(*dict); ok {
		_, ok := d.get(v)
		return ok, nil
	}
	items, err := iterate(container)
	for _, item := range items {
		if equal(item, v) {
			return true, nil
		}
	}
	return false, err
}

func equal(a, b value.Value) bool {
	left := 200_000 // comparisons
	return equalAt(a, b, 0, &left)
}

func equalAt(a, b value.Value, depth int, left *int) bool {
	if depth > maxNesting {
		panic(errNesting)
	}
	if *left--; *left < 0 {
		panic(errSize)
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x.cmp(y) == 0
	}
	switch x := a.Raw().(type) {
	case *list:
		y, ok := b.Raw().(*list)
		if !ok || len(x.all()) != len(y.all()) || x.tuple != y.tuple {
			return false
		}
		for i := range x.v {
			if !equalAt(x.v[i], y.v[i], depth+1, left) {
				return false
			}
		}
		return true
	case *dict:
		y, ok := b.Raw().(*dict)
		if !ok || len(x.list()) != len(y.list()) {
			return false
		}
		for _, k := range x.keys {
			p, _ := x.get(k)
			if q, ok := y.get(k); !ok || !equalAt(p, q, depth+1, left) {
				return false
			}
		}
		return true
	case *missing:
		x.tell()
		return false
	}
	return a.SameAs(b) || a.Equal(b)
}

// compare orders values as Python does, or not at all.
func compare(a, b value.Value) (int, error) {
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return x.cmp(y), nil
		}
	}
	if x, ok := a.AsString(); ok {
		if y, ok := b.AsString(); ok {
			return strings.Compare(x, y), nil
		}
	}
	x, ok1 := a.Raw().(*list)
	y, ok2 := b.Raw().(*list)
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("a %s and a %s have no order", typeName(a), typeName(b))
	}
	for i := range min(len(x.all()), len(y.all())) {
		if equal(x.v[i], y.v[i]) {
			continue
		}
		return compare(x.v[i], y.v[i])
	}
	return len(x.v) - len(y.v), nil
}

// num is a number: an integer, unless it is real.
type num struct {
	i    int64
	f    float64
	real bool
}

// number is v as a number, which booleans are in Python.
func number(v value.Value) (num, bool) {
	switch d := v.Raw().(type) {
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

func (n num) cmp(m num) int {
	x, y := n.f, m.f
	if !n.real && !m.real {
		switch {
		case n.i < m.i:
			return -1
		case n.i > m.i:
			return 1
		}
		return 0
	}
	switch {
	case x < y:
		return -1
	case x == y:
		return 0
	}
	return 1
}

var errTooLarge = errors.New("the number is too large: whole numbers end at ±9223372036854775807")

func add(c *call) (value.Value, error) {
	a, b := c.args[0], c.args[1]
	if x, ok := a.AsString(); ok {
		if y, ok := b.AsString(); ok {
			if err := c.grow(int64(len(x) + len(y))); err != nil {
				return value.Undefined(), err
			}
			return joined(a, b, x+y), nil
		}
	}
	if x, ok := a.Raw().(*list); ok {
		if y, ok := b.Raw().(*list); ok && x.tuple == y.tuple {
			if err := c.growItems(int64(len(x.all())+len(y.all())), 1); err != nil {
				return value.Undefined(), err
			}
			sum := append(append(make([]value.Value, 0, len(x.v)+len(y.v)), x.v...), y.v...)
			return value.FromObject(&list{v: sum, tuple: x.tuple}), nil
		}
	}
	return arithmetic("+")(c)
}

// joined is safe, not to be escaped again, if both parts are.
func joined(a, b value.Value, s string) value.Value {
	if a.IsSafe() && b.IsSafe() {
		return value.FromSafeString(s)
	}
	return newString(s)
}

func concat(c *call) (value.Value, error) {
	x, y := str(c.args[0]), str(c.args[1])
	if err := c.grow(int64(len(x)) + int64(len(y))); err != nil {
		return value.Undefined(), err
	}
	return joined(c.args[0], c.args[1], x+y), nil
}

func multiply(c *call) (value.Value, error) {
	a, b := c.args[0], c.args[1]
	if _, ok := number(a); ok {
		a, b = b, a
	}
	n, ok := number(b)
	if !ok || n.real {
		return arithmetic("*")(c)
	}
	times := max(n.i, 0)
	if s, ok := a.AsString(); ok {
		if high, low := bits.Mul64(uint64(len(s)), uint64(times)); high > 0 || low > math.MaxInt64 {
			return value.Undefined(), c.grow(-1)
		}
		if err := c.grow(int64(len(s)) * times); err != nil {
			return value.Undefined(), err
		}
		if s == "" {
			times = 0
		}
		return newString(strings.Repeat(s, int(times))), nil
	}
	if l, ok := a.Raw().(*list); ok {
		if len(l.all()) == 0 {
			times = 0
		}
		if err := c.growItems(int64(len(l.v)), times); err != nil {
			return value.Undefined(), err
		}
		var all []value.Value
		for range times {
			all = append(all, l.v...)
		}
		return value.FromObject(&list{v: all, tuple: l.tuple}), nil
	}
	return arithmetic("*")(c)
}

func remainder(c *call) (value.Value, error) {
	if format, ok := c.args[0].AsString(); ok {
		return c.sized(c.percentFormat(format, c.args[1]))
	}
	return arithmetic("%")(c)
}

func negate(c *call) (value.Value, error) {
	n, ok := number(c.args[0])
	switch {
	case !ok:
		return value.Undefined(), fmt.Errorf("a %s has no negative", typeName(c.args[0]))
	case n.real:
		return value.FromFloat(-n.f), nil
	case n.i == math.MinInt64:
		return value.Undefined(), errTooLarge
	}
	return value.FromInt(-n.i), nil
}

// arithmetic is an operator on numbers: on integers without rounding, with
// Python's signs for // and %.
func arithmetic(sign string) operator {
	return func(c *call) (value.Value, error) {
		a, ok1 := number(c.args[0])
		b, ok2 := number(c.args[1])
		if !ok1 || !ok2 {
			return value.Undefined(), fmt.Errorf("there is no %s %s %s", typeName(c.args[0]), sign, typeName(c.args[1]))
		}
		if b.f == 0 && (sign == "/" || sign == "//" || sign == "%") || sign == "**" && a.f == 0 && b.f < 0 {
			return value.Undefined(), errors.New("division by zero")
		}
		if a.real || b.real || sign == "/" || sign == "**" && b.i < 0 {
			return value.FromFloat(realArithmetic(sign, a.f, b.f)), nil
		}
		i, ok := intArithmetic(sign, a.i, b.i)
		if !ok {
			return value.Undefined(), errTooLarge
		}
		return value.FromInt(i), nil
	}
}

func realArithmetic(sign string, a, b float64) float64 {
	switch sign {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	case "//":
		return math.Floor(a / b)
	case "**":
		return math.Pow(a, b)
	}
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
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
	if a == 0 || b == 0 {
		return 0, true
	}
	p := a * b
	return p, p/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64)
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
