package jinja

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// method is a method of a value, on its way to being called.
type method struct {
	of   value.Value
	name string
	fn
}

func (m *method) GetAttr(string) value.Value { return value.Undefined() }
func (m *method) String() string             { return "<method " + m.name + ">" }
func (m *method) Call(st value.State, args []value.Value, named map[string]value.Value) (value.Value, error) {
	o := &op{name: m.name, do: m.fn.call, lax: m.lax}
	r := st.Context().(*run)
	o.at = r.at
	return o.Call(st, append([]value.Value{m.of}, args...), named)
}

// methodsOf returns Python's methods of v.
func (e *jinja) methodsOf(v value.Value) map[string]fn {
	switch d := v.Raw().(type) {
	case *dict:
		return e.dicts
	case *list:
		if d.tuple {
			return e.tuples
		}
		return e.lists
	}
	if _, ok := v.AsString(); ok {
		return e.strings
	}
	return nil
}

// getAttr is a.name: as in Python a method first, then, in a mapping, a key. A
// method that is not called is none, so that a mapping's key "items" is found.
func getAttr(name, missed string, called bool) operator {
	return func(c *call) (value.Value, error) {
		v := c.args[0]
		if name == "changed" && called && reflect.TypeOf(v.Raw()).String() == "*minijinja.loopObject" {
			return value.FromObject(&op{at: c.at, name: "loop.changed", do: changedIn(c.op, v), lax: true}), nil
		}
		if f, ok := c.e.methodsOf(v)[name]; ok && called {
			return value.FromObject(&method{of: v, name: name, fn: f}), nil
		}
		if got := v.GetAttr(name); !got.IsUndefined() {
			return got, nil
		}
		if called && c.e.methodsOf(v) != nil {
			return value.Undefined(), fmt.Errorf("a %s has no method %s", typeName(v), name)
		}
		return c.missed(missed), nil
	}
}

// compared is what loop.changed was called with, and in which round.
type compared struct {
	round int64
	with  value.Value
}

// changedIn is loop.changed: whether its arguments are others than at the last
// time. The library would compare what it does not know, and with nothing: it
// makes a new object for each round. So what was before belongs to the place.
func changedIn(place *op, loop value.Value) operator {
	round, _ := loop.GetAttr("index").AsInt()
	return func(c *call) (value.Value, error) {
		if c.last == nil {
			c.last = map[*op]compared{}
		}
		before, now := c.last[place], compared{round, newList(c.args)}
		c.last[place] = now
		return truth(before.round == 0 || before.round >= round || !equal(before.with, now.with))
	}
}

// getItem is a[key].
func getItem(missed string) operator {
	return func(c *call) (value.Value, error) {
		v, key := c.args[0], c.args[1]
		if got, ok := index(v, key); ok {
			return got, nil
		}
		if _, ok := key.AsString(); !ok {
			if n, isNumber := number(key); isNumber && !n.real && v.Kind() != value.KindMap {
				return c.missed(fmt.Sprintf("%s (%d of %d)", missed, n.i, length(v))), nil
			}
		}
		return c.missed(missed), nil
	}
}

func index(v, key value.Value) (value.Value, bool) {
	n, isNumber := number(key)
	at := func(length int) (int, bool) {
		if n.i < 0 {
			n.i += int64(length)
		}
		return int(n.i), isNumber && !n.real && n.i >= 0 && n.i < int64(length)
	}
	switch d := v.Raw().(type) {
	case *dict:
		return d.get(key)
	case *list:
		if i, ok := at(len(d.all())); ok {
			return d.v[i], true
		}
		if name, ok := key.AsString(); ok && d.group {
			got := d.GetAttr(name)
			return got, !got.IsUndefined()
		}
		return value.Value{}, false
	}
	if s, ok := v.AsString(); ok {
		runes := []rune(s)
		if i, ok := at(len(runes)); ok {
			return newString(string(runes[i])), true
		}
		return value.Value{}, false
	}
	if name, ok := key.AsString(); ok {
		got := v.GetAttr(name)
		return got, !got.IsUndefined()
	}
	return value.Value{}, false
}

// length is how many items or characters v has, -1 if it has none.
func length(v value.Value) int {
	switch d := v.Raw().(type) {
	case *dict:
		return len(d.list())
	case *list:
		return len(d.all())
	}
	if n, ok := v.Len(); ok {
		return n
	}
	return -1
}

// slice is v[start:stop:step].
func slice(c *call) (value.Value, error) {
	var bounds [3]*int64
	for i, v := range c.args[1:] {
		if v.IsNone() {
			continue
		}
		n, ok := number(v)
		if !ok || n.real {
			return value.Undefined(), errors.New("the bounds of a slice are whole numbers")
		}
		bounds[i] = &n.i
	}
	if bounds[2] != nil && *bounds[2] == 0 {
		return value.Undefined(), errors.New("the step of a slice cannot be 0")
	}
	v := c.args[0]
	if l, ok := v.Raw().(*list); ok {
		return value.FromObject(&list{v: cut(l.all(), bounds), tuple: l.tuple}), c.growItems(int64(len(l.v)), 1)
	}
	if s, ok := v.AsString(); ok {
		return c.sized(string(cut([]rune(s), bounds)), nil)
	}
	return value.Undefined(), fmt.Errorf("a %s cannot be sliced", typeName(v))
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
