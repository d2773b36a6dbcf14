package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"initbox/render/engine"
)

type operator func(c *call) any

// op is an operation at a place of a template.
type op struct {
	at   position
	name string
	do   operator
	lax  bool // do handles missing arguments itself
}

type arguments struct {
	args  []any
	named map[string]any
	names []string // of the named ones, in their order

	escape bool // {% autoescape true %}
}

type call struct {
	*run
	op *op
	arguments
}

// failure ends an execution: Execute recovers it, and gives it the position of the operation at work.
type failure struct{ error }

func failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func failIf(wrong bool, format string, args ...any) {
	if wrong {
		failf(format, args...)
	}
}

func check(err error) { require(err == nil, err) }

// require fails with err, unless it holds.
func require(holds bool, err error) {
	if !holds {
		panic(failure{err})
	}
}

// must returns v, or fails with err.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// located gives err the place of the operation at work, unless it has one.
func (r *run) located(err error) error {
	var e *engine.Error
	if errors.As(err, &e) || r.Err() != nil && errors.Is(err, r.Err()) {
		return err
	}
	return &engine.Error{Position: r.at, Text: err.Error(), Err: err, Function: r.doing}
}

// apply executes an operation, unless an argument is missing.
func (r *run) apply(o *op, a arguments) any {
	at, doing := r.at, r.doing
	r.at, r.doing = o.at, o.name
	r.step(1)
	if !o.lax {
		if m := a.missing(); m != nil {
			m.report()
			if !r.e.o.MissingZero {
				r.at, r.doing = at, doing
				return m
			}
		}
	}
	v := o.do(&call{run: r, op: o, arguments: a})
	r.at, r.doing = at, doing
	return v
}

func (a arguments) missing() *missing {
	for _, v := range a.args {
		if m, ok := v.(*missing); ok {
			return m
		}
	}
	for _, name := range a.names {
		if m, ok := a.named[name].(*missing); ok {
			return m
		}
	}
	return nil
}

// arguments evaluates those of a call, behind first.
func (f *frame) arguments(args []argument, first ...any) (a arguments) {
	a.args, a.escape = slices.Grow(first, len(args)), f.escape
	for i := range args {
		v := args[i].value.eval(f)
		switch args[i].kind {
		case argPositional:
			a.args = append(a.args, v)
		case argNamed:
			a.set(args[i].name, v)
		case argList:
			items := must(iterate(v))
			f.step(len(items) / 8)
			a.args = append(a.args, items...)
		case argMapping:
			d, ok := v.(*dict)
			failIf(!ok, "want a mapping behind **, got a %s", typeName(v))
			for k, item := range d.all() {
				a.set(str(k), item)
			}
		}
	}
	return a
}

func (a *arguments) set(name string, v any) {
	if a.named == nil {
		a.named = map[string]any{}
	}
	if _, again := a.named[name]; !again {
		a.names = append(a.names, name)
	}
	a.named[name] = v
}

func (c constant) eval(*frame) any { return c.v }

func (v *variable) eval(f *frame) any {
	got, set := f.lookup(v.id)
	if !set && !v.called && v.id != "self" {
		got, set = f.ctx.global(f.run, v.id)
	}
	switch {
	case set && got != unset:
		return got
	case !set && v.id == "self":
		return &blocks{f.run, f.ctx}
	case !set && v.fn != nil:
		return v.fn
	}
	if v.called {
		check(f.e.noFunction(v.at, v.id))
	}
	m := &missing{r: f.run, name: v.missed, at: v.at}
	if !v.local {
		m.why = f.e.otherName(v.id)
	}
	if !v.local && !f.ctx.data {
		m.why = `values are not visible in a template that is imported or included without context: add "with context"`
	}
	return m
}

// noFunction is the error of a call of a function that does not exist. Its arguments begin with the texts.
func (e *jinja) noFunction(at position, name string, texts ...string) error {
	err := &engine.Error{Position: at, Text: "there is no function " + name}
	switch name {
	case "super":
		err.Text = "there is no block to call with super(): no parent template has this block"
	case "caller":
		err.Text, err.Fix = "there is no caller", "call the macro with {% call %}"
	case "getenv", "env", "environ", "lookup", "query": // of other programs
		variable := "NAME"
		if len(texts) > 0 {
			variable = texts[len(texts)-1]
		}
		if isEnv := name != "lookup" && name != "query" || len(texts) > 0 && texts[0] == "env"; isEnv {
			err.Fix = "write Env." + variable
		}
	default:
		err.Fix = similarTo(name, e.functions)
	}
	return err
}

// otherName explains a top-level name that templates of other programs have, "" if id is not one.
func (e *jinja) otherName(id string) string {
	for _, name := range []string{"Values", "Env", "Pod"} {
		if strings.EqualFold(id, name) {
			return "write " + name + ", with a capital"
		}
	}
	if _, set := e.data.Env[id]; !set && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" {
		return "if it is an environment variable, write Env." + id
	}
	return ""
}

func (o *operation) eval(f *frame) any { return f.apply(&o.op, f.arguments(o.args)) }

func (j *junction) eval(f *frame) any {
	if left := j.left.eval(f); isTrue(left) != j.and {
		return left
	}
	return j.right.eval(f)
}

func (n negation) eval(f *frame) any { return !isTrue(n.of.eval(f)) }

func (c *conditional) eval(f *frame) any {
	switch {
	case isTrue(c.test.eval(f)):
		return c.yes.eval(f)
	case c.no != nil:
		return c.no.eval(f)
	}
	return nil
}

func (c *comparison) eval(f *frame) (v any) {
	left := c.first.eval(f)
	for i := range c.links {
		right := c.links[i].right.eval(f)
		if v = f.apply(&c.links[i].op, arguments{args: []any{left, right}}); !isTrue(v) {
			return v
		}
		left = right
	}
	return v
}

func (c *captured) eval(f *frame) any {
	g := f.inner()
	if c.own {
		g.page = nil
	}
	return g.capture(func(g *frame) { g.execute(c.body) })
}

// callable is a value that templates can call, other than an *op.
type callable interface{ call(c *call) any }

// eval calls a value or a method: as in Python that of the type first, then a mapping's key.
func (i *invocation) eval(f *frame) any {
	callee := i.callee.eval(f)
	if i.method == "" {
		return f.invoke(i.at, callee, f.arguments(i.args))
	}
	if absent, ok := callee.(*missing); ok {
		absent.report()
		f.arguments(i.args)
		return callee
	}
	methods := f.e.methodsOf(callee)
	if m, ok := methods[i.method]; ok {
		return f.method(&op{i.at, i.method, m.call, m.lax}, f.arguments(i.args, callee))
	}
	f.at = i.at
	got, ok := attr(callee, i.method)
	if !ok {
		failIf(methods != nil, "a %s has no method %s", typeName(callee), i.method)
		got = f.missed(i.missed)
	}
	return f.invoke(i.at, got, f.arguments(i.args))
}

// named are the methods whose arguments may have names.
var named = map[string]bool{"encode": true, "expandtabs": true, "format": true, "rsplit": true, "sort": true, "split": true, "splitlines": true, "update": true}

// method calls a method of a's first argument. Those of a safe string escape their arguments, and return safe ones.
func (r *run) method(o *op, a arguments) any {
	r.at = o.at
	failIf(len(a.names) > 0 && !named[o.name], "the arguments of %s have no names", o.name)
	if !is[safe](a.args[0]) {
		return r.apply(o, a)
	}
	for i := range a.args[1:] {
		if s, ok := a.args[i+1].(string); ok && escaping[o.name] {
			a.args[i+1] = escaped(s)
		}
	}
	v := r.apply(o, a)
	switch got := v.(type) {
	case string:
		return safe(got)
	case *list:
		for i, item := range got.v {
			if s, ok := item.(string); ok {
				got.v[i] = safe(s)
			}
		}
	}
	return v
}

// escaping are the methods of safe strings that escape their arguments.
var escaping = map[string]bool{"center": true, "ljust": true, "lstrip": true, "partition": true, "replace": true, "rjust": true, "rpartition": true, "rstrip": true, "strip": true}

func (r *run) invoke(at position, callee any, a arguments) any {
	if o, ok := callee.(*op); ok {
		return r.apply(&op{at, o.name, o.do, o.lax}, a)
	}
	before := r.at
	r.at = at
	r.step(1)
	c, ok := callee.(callable)
	failIf(!ok, "a %s cannot be called", typeName(callee))
	v := c.call(&call{r, &op{at: at}, a})
	r.at = before
	return v
}
