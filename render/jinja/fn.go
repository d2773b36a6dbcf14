package jinja

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"initbox/render/engine"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// fn is a filter, a test, a method or a function of templates. The tables of
// them are literal: filters, tests, functions, stringMethods and so on.
type fn struct {
	// params names the parameters after a filter's value, separated by spaces.
	// One that ends in ! has to be given; a * at the end stands for any number
	// more, ** also for any named ones.
	params string

	// do computes the result. The arguments of its call are one for each
	// parameter, of which those not given are absent, then what * stands for.
	do operator

	lax      bool // do looks itself at what is missing
	unsteady bool // the result is another one each time
}

// call calls a filter, a test or a method: the first argument is its value.
func (f fn) call(c *call) (value.Value, error) {
	args, err := f.bind(c.args[1:], c.named)
	if err != nil {
		return value.Undefined(), err
	}
	c.args = append([]value.Value{c.args[0]}, args...)
	return f.do(c)
}

// function calls a function.
func (f fn) function(c *call) (v value.Value, err error) {
	if c.args, err = f.bind(c.args, c.named); err != nil {
		return value.Undefined(), err
	}
	return f.do(c)
}

func (f fn) bind(args []value.Value, named map[string]value.Value) ([]value.Value, error) {
	params := strings.Fields(f.params)
	rest, any := false, false
	if n := len(params) - 1; n >= 0 && strings.HasPrefix(params[n], "*") {
		rest, any, params = true, params[n] == "**", params[:n]
	}
	if len(args) > len(params) && !rest {
		return nil, fmt.Errorf("%d arguments are given, where %d may be", len(args), len(params))
	}
	bound := make([]value.Value, max(len(args), len(params)))
	copy(bound, args)
	taken := 0
	for i, p := range params {
		name := strings.TrimSuffix(p, "!")
		if v, ok := named[name]; ok {
			if i < len(args) {
				return nil, fmt.Errorf("the argument %s is given twice", name)
			}
			bound[i] = v
			taken++
		}
		if absent(bound[i]) && name != p {
			return nil, fmt.Errorf("the argument %s is needed", name)
		}
	}
	if taken < len(named) && !any {
		return nil, fmt.Errorf("there is no argument %s", strings.Join(unknown(named, f.params), " or "))
	}
	return bound, nil
}

func unknown(named map[string]value.Value, params string) (names []string) {
	for _, n := range sortedKeys(named) {
		if !strings.Contains(" "+strings.ReplaceAll(params, "!", "")+" ", " "+n+" ") {
			names = append(names, n)
		}
	}
	return names
}

func absent(v value.Value) bool { return v.Raw() == nil }

// argError is how the readers of arguments below fail: op.Call recovers it.
type argError struct{ error }

// has reports whether argument i is given, and not None.
func (c *call) has(i int) bool {
	return i < len(c.args) && !absent(c.args[i]) && !c.args[i].IsNone()
}

// text is argument i, a string.
func (c *call) text(i int, instead string) string {
	if !c.has(i) {
		return instead
	}
	s, ok := c.args[i].AsString()
	if !ok {
		panic(argError{fmt.Errorf("want a string, got a %s", typeName(c.args[i]))})
	}
	return s
}

// int is argument i, an integer.
func (c *call) int(i int, instead int64) int64 {
	if !c.has(i) {
		return instead
	}
	n, ok := number(c.args[i])
	if !ok || n.real {
		panic(argError{fmt.Errorf("want a whole number, got a %s", typeName(c.args[i]))})
	}
	return n.i
}

// bool is argument i, of any type.
func (c *call) bool(i int, instead bool) bool {
	if !c.has(i) {
		return instead
	}
	return c.args[i].IsTrue()
}

// items is argument i, something to iterate over.
func (c *call) items(i int) []value.Value {
	items, err := iterate(c.args[i])
	if err == nil {
		err = c.step(len(items) / 8)
	}
	if err != nil {
		panic(argError{err})
	}
	return items
}

func (c *call) dict(i int) *dict {
	d, ok := c.args[i].Raw().(*dict)
	if !ok {
		panic(argError{fmt.Errorf("want a mapping, got a %s", typeName(c.args[i]))})
	}
	return d
}

// must turns an error into a failure of the call.
func must[T any](v T, err error) T {
	if err != nil {
		panic(argError{err})
	}
	return v
}

func (c *call) mustGrow(n int64) {
	if err := c.grow(n); err != nil {
		panic(argError{err})
	}
}

// filter finds a filter: Jinja's, Ansible's, or a function for Pods.
func (e *jinja) filter(name string) (fn, bool) {
	if f, ok := e.filters[name]; ok {
		return f, true
	}
	f, ok := e.helpers[name]
	return f, ok
}

func (e *jinja) function(name string) (fn, bool) {
	if f, ok := e.functions[name]; ok {
		return f, true
	}
	f, ok := e.helpers[name]
	return f, ok
}

// helper makes a fn of a plain Go function. It may be used as a function, and
// as a filter, with the value as its first argument.
func helper(name string, f any) fn {
	v := reflect.ValueOf(f)
	return fn{params: "*", do: func(c *call) (value.Value, error) {
		in, err := goArguments(c, v.Type())
		if err != nil {
			return value.Undefined(), fmt.Errorf("%s: %w", name, err)
		}
		out := v.Call(in)
		if n := len(out) - 1; n > 0 {
			if err, _ := out[n].Interface().(error); err != nil {
				return value.Undefined(), fmt.Errorf("%s: %w", name, err)
			}
		}
		return toValue(out[0].Interface()), nil
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
		case x.CanInt() && isNumber && !n.real:
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

// functions are those of Jinja that make sense in files, and resolve.
func functions() map[string]fn {
	return map[string]fn{
		"range":     {params: "start! stop step", do: makeRange},
		"dict":      {params: "from **", do: newMapping, lax: true},
		"namespace": {params: "from **", do: newNamespace, lax: true},
		"cycler":    {params: "*", do: newCycler},
		"joiner":    {params: "sep", do: newJoiner},
		"resolve":   {params: "host!", do: resolve},
	}
}

func makeRange(c *call) (value.Value, error) {
	start, stop, step := int64(0), c.int(0, 0), c.int(2, 1)
	if c.has(1) {
		start, stop = c.int(0, 0), c.int(1, 0)
	}
	if step == 0 {
		return value.Undefined(), errors.New("the step of a range cannot be 0")
	}
	if step == math.MinInt64 || start > 1<<62 || start < -1<<62 || stop > 1<<62 || stop < -1<<62 {
		return value.Undefined(), errTooLarge
	}
	n := max(0, (stop-start+step-sign(step))/step)
	if err := c.growItems(n, 1); err != nil {
		return value.Undefined(), err
	}
	numbers := make([]value.Value, n)
	for i := range numbers {
		numbers[i] = value.FromInt(start + int64(i)*step)
	}
	return newList(numbers), nil
}

func sign(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}

// mapping is what dict and namespace are made from: a mapping or pairs, then
// named arguments in their order.
func (c *call) mapping() *dict {
	d := newDict()
	if c.has(0) {
		if from, ok := c.args[0].Raw().(*dict); ok {
			d.update(from)
		} else {
			for _, pair := range c.items(0) {
				kv := must(iterate(pair))
				if len(kv) != 2 {
					panic(argError{errors.New("want pairs of keys and values")})
				}
				must(0, d.set(kv[0], kv[1]))
			}
		}
	}
	for _, name := range c.op.names {
		d.set(newString(name), c.named[name])
	}
	for _, name := range sortedKeys(c.named) { // of f(**mapping)
		if _, ok := d.get(newString(name)); !ok {
			d.set(newString(name), c.named[name])
		}
	}
	return d
}

func newMapping(c *call) (value.Value, error) { return fromDict(c.mapping()), nil }

// namespace is an object whose attributes can be set.
type namespace struct{ attributes *dict }

func (n *namespace) GetAttr(name string) value.Value { return n.attributes.GetAttr(name) }
func (n *namespace) SetAttr(name string, v value.Value) {
	n.attributes.set(newString(name), v)
}
func (n *namespace) String() string { return "<Namespace " + repr(fromDict(n.attributes)) + ">" }

func newNamespace(c *call) (value.Value, error) {
	return value.FromObject(&namespace{c.mapping()}), nil
}

// cycler goes round through items.
type cycler struct {
	items []value.Value
	at    int
}

func (y *cycler) String() string { return "<cycler>" }
func (y *cycler) GetAttr(name string) value.Value {
	step := func(do func()) value.Value {
		return value.FromObject(&op{name: "cycler." + name, lax: true, do: func(*call) (value.Value, error) {
			v := y.items[y.at]
			do()
			return v, nil
		}})
	}
	switch name {
	case "current":
		return y.items[y.at]
	case "next":
		return step(func() { y.at = (y.at + 1) % len(y.items) })
	case "reset":
		return step(func() { y.at = 0 })
	}
	return value.Undefined()
}

func newCycler(c *call) (value.Value, error) {
	if len(c.args) == 0 {
		return value.Undefined(), errors.New("a cycler needs items")
	}
	return value.FromObject(&cycler{items: c.args}), nil
}

// newJoiner makes a function that returns nothing once, then a separator.
func newJoiner(c *call) (value.Value, error) {
	sep, used := c.text(0, ", "), false
	return value.FromObject(&op{name: "joiner", do: func(*call) (value.Value, error) {
		if used {
			return newString(sep), nil
		}
		used = true
		return newString(""), nil
	}}), nil
}

// resolve looks up a host's addresses, where the user allowed it.
func resolve(c *call) (value.Value, error) {
	if c.e.data.Resolve == nil {
		return value.Undefined(), &engine.Error{Position: c.at, Text: "resolve is not allowed", Fix: "allow templates to look up names with --resolve"}
	}
	addrs, err := c.e.data.Resolve(context.Context(c.run), c.text(0, ""))
	if err != nil {
		return value.Undefined(), fmt.Errorf("looking up %s: %w", c.text(0, ""), err)
	}
	return toValue(addrs), nil
}
