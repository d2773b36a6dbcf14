package jinja

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"initbox/render/engine"
)

// fn is a filter, a test, a method or a function of templates. The tables of
// them are literal: filters, tests, functions, stringMethods and so on.
type fn struct {
	// params names the parameters after a filter's value, separated by spaces. One that ends in ! has to be given; a *
	// at the end stands for any number more, ** also for any named ones.
	params string

	// do computes the result. Its call has an argument for each parameter, absent if not given, then what * stands for.
	do operator

	lax      bool // do handles missing arguments itself
	unsteady bool // the result differs from call to call
}

// call calls a filter, a test or a method: the first argument is its value.
func (f fn) call(c *call) any     { c.args = f.bind(c, 1); return f.do(c) }
func (f fn) function(c *call) any { c.args = f.bind(c, 0); return f.do(c) }

// bind returns c's arguments, the first of them as they are, then one for each parameter.
func (f fn) bind(c *call, first int) []any {
	if f.params == "" && len(c.args) == first && len(c.names) == 0 {
		return c.args
	}
	params, rest := strings.Fields(f.params), strings.HasSuffix(f.params, "*")
	if rest {
		params = params[:len(params)-1]
	}
	bound, unknown := c.bind(c.op.name, first, params, rest, nil)
	for i, p := range params {
		failIf(bound[first+i] == nil && strings.HasSuffix(p, "!"), "the argument %s is required", strings.TrimSuffix(p, "!"))
	}
	failIf(len(unknown) > 0 && !strings.HasSuffix(f.params, "**"), "there is no argument %s", strings.Join(unknown, " or "))
	return bound
}

// bind returns the first arguments of c as they are, and the others in the order of the parameters, with instead for
// absent ones. It also returns the names of the arguments that match no parameter.
func (c *call) bind(name string, first int, params []string, rest bool, instead any) (bound []any, unknown []string) {
	given, n := len(c.args)-first, len(params)
	failIf(given > n && !rest, "%s takes at most %d arguments, got %d", name, n, given)
	bound = append(slices.Clone(c.args), slices.Repeat([]any{instead}, max(0, n-given))...)
	for _, name := range c.names {
		i := slices.IndexFunc(params, func(p string) bool { return strings.TrimSuffix(p, "!") == name })
		if i < 0 {
			unknown = append(unknown, name)
			continue
		}
		failIf(i < given, "the argument %s is given twice", name)
		bound[first+i] = c.named[name]
	}
	return bound, unknown
}

// or is argument i, or instead if it is not given.
func (c *call) or(i int, instead any) any {
	if c.args[i] == nil {
		return instead
	}
	return c.args[i]
}

// has reports whether argument i is given, and not None.
func (c *call) has(i int) bool { return i < len(c.args) && c.args[i] != nil && c.args[i] != none }

// text is argument i, a string.
func (c *call) text(i int, instead string) string { return given(c, i, instead, asString, "string") }

// int is argument i, an integer.
func (c *call) int(i int, instead int64) int64 {
	failIf(c.has(i) && is[*big.Int](c.args[i]), "the number is too large")
	return given(c, i, instead, whole, "whole number")
}

// size returns n as an int, which may have 32 bits: then n is beyond everything that is counted.
func size(n int64) int { return int(max(math.MinInt, min(n, math.MaxInt))) }

func given[T any](c *call, i int, instead T, as func(any) (T, bool), what string) T {
	if !c.has(i) {
		return instead
	}
	v, ok := as(c.args[i])
	failIf(!ok, "want a %s, got a %s", what, typeName(c.args[i]))
	return v
}

// bool is argument i, of any type.
func (c *call) bool(i int, instead bool) bool {
	return given(c, i, instead, func(v any) (bool, bool) { return isTrue(v), true }, "")
}

// items is argument i, something to iterate over.
func (c *call) items(i int) []any {
	items := must(iterate(c.args[i]))
	c.step(len(items) / 8)
	if l, ok := c.args[i].(*list); ok && l.kind == generatorKind {
		c.args[i] = newList(items)
	}
	return items
}

func (c *call) dict(i int) *dict {
	d, ok := c.args[i].(*dict)
	failIf(!ok, "want a mapping, got a %s", typeName(c.args[i]))
	return d
}

// helper makes a fn of a plain Go function. It may be used as a function, and as a filter, with the value as its first
// argument.
func helper(name string, f any) fn {
	v := reflect.ValueOf(f)
	return fn{params: "*", do: func(c *call) any {
		in, err := goArguments(c, v.Type())
		failIf(err != nil, "%s: %w", name, err)
		out := v.Call(in)
		err, _ = out[len(out)-1].Interface().(error)
		failIf(err != nil, "%s: %w", name, err)
		return toValue(out[0].Interface())
	}}
}

func goArguments(c *call, t reflect.Type) (in []reflect.Value, err error) {
	least := t.NumIn()
	if t.IsVariadic() {
		least--
	}
	if len(c.args) < least || len(c.args) > least && !t.IsVariadic() {
		return nil, fmt.Errorf("want %d arguments, got %d", least, len(c.args))
	}
	for i, a := range c.args {
		want := t.In(min(i, t.NumIn()-1))
		if i >= least {
			want = want.Elem()
		}
		x := reflect.New(want).Elem()
		switch n, isNumber := number(a); {
		case want.Kind() == reflect.Interface:
			if got := toGo(a); got != nil {
				x.Set(reflect.ValueOf(got))
			}
		case want.Kind() == reflect.String:
			x.SetString(str(a))
		case x.CanInt() && isNumber && !n.real && n.big == nil:
			x.SetInt(n.i)
		case x.CanFloat() && isNumber:
			x.SetFloat(n.f)
		default:
			return nil, fmt.Errorf("argument %d cannot be a %s", i+1, typeName(a))
		}
		in = append(in, x)
	}
	return in, nil
}

// functions are those of Jinja that are useful in files, and resolve.
func functions() map[string]fn {
	return map[string]fn{
		"range":     {params: "start! stop step", do: makeRange},
		"dict":      {params: "from **", do: func(c *call) any { return c.mapping() }, lax: true},
		"namespace": {params: "from **", do: func(c *call) any { return &namespace{c.mapping()} }, lax: true},
		"cycler":    {params: "*", do: newCycler},
		"joiner":    {params: "sep", do: newJoiner},
		"resolve":   {params: "host!", do: resolve},
	}
}

func makeRange(c *call) any {
	start, stop, step := int64(0), c.int(0, 0), c.int(2, 1)
	if c.has(1) {
		start, stop = stop, c.int(1, 0)
	}
	failIf(step == 0, "the step of a range cannot be 0")
	const limit = 1 << 62
	require(step != math.MinInt64 && start <= limit && start >= -limit && stop <= limit && stop >= -limit, errTooLarge)
	n := max(0, (stop-start+step-int64(cmp.Compare(step, 0)))/step)
	c.growItems(n, 1)
	numbers := make([]any, n)
	for i := range numbers {
		numbers[i] = int64(start + int64(i)*step)
	}
	return &list{v: numbers, kind: rangeKind, bounds: [3]int64{start, stop, step}}
}

// mapping returns what dict and namespace are made from: a mapping or pairs, then the named arguments in their order.
func (c *call) mapping() *dict {
	if !c.has(0) {
		return c.mappingOf(nil)
	}
	if from, ok := c.args[0].(*dict); ok {
		return c.mappingOf(from.items())
	}
	return c.mappingOf(c.items(0))
}

// mappingOf makes a mapping of pairs and the named arguments.
func (c *call) mappingOf(pairs []any) *dict {
	d := newDict()
	for _, pair := range pairs {
		check(d.set(keyAndValue(pair)))
	}
	for _, name := range c.names {
		d.set(name, c.named[name])
	}
	return d
}

func keyAndValue(pair any) (key, value any) {
	kv := must(iterate(pair))
	failIf(len(kv) != 2, "want pairs of keys and values")
	return kv[0], kv[1]
}

// namespace is an object whose attributes can be set.
type namespace struct{ attributes *dict }

func (n *namespace) attr(name string) (any, bool) { return n.attributes.get(name) }
func (n *namespace) String() string               { return "<Namespace " + repr(n.attributes) + ">" }

// cycler returns its items in turn, again and again.
type cycler struct {
	items []any
	at    int
}

func (y *cycler) attr(name string) (any, bool) {
	switch name {
	case "current":
		return y.items[y.at], true
	case "items":
		return tuple(y.items...), true
	case "pos":
		return int64(y.at), true
	}
	return &op{name: "cycler." + name, lax: true, do: func(*call) any {
		v := y.items[y.at]
		if y.at = (y.at + 1) % len(y.items); name == "reset" {
			y.at = 0
		}
		return v
	}}, name == "next" || name == "reset"
}

func newCycler(c *call) any {
	failIf(len(c.args) == 0, "a cycler needs items")
	return &cycler{items: c.args}
}

// newJoiner makes a function that returns nothing once, then a separator.
func newJoiner(c *call) any {
	sep, next := c.text(0, ", "), ""
	return &op{name: "joiner", do: func(*call) (v any) {
		v, next = next, sep
		return v
	}}
}

// resolve looks up a host's addresses, where the user allowed it.
func resolve(c *call) any {
	lookup, host := c.e.data.Resolve, c.text(0, "")
	require(lookup != nil, &engine.Error{Position: c.at, Text: "resolve is not allowed", Fix: "allow templates to look up names with --resolve"})
	addrs, err := lookup(context.Context(c.run), host)
	failIf(err != nil, "looking up %s: %w", host, err)
	return toValue(addrs)
}
