package jinja

import (
	"cmp"
	"fmt"
	"strings"
)

// loop is the value of the name loop inside a loop.
type loop struct {
	*loopStmt
	f     *frame // around the loop
	items []any
	i     int
	depth int
	last  any // the arguments of the last call of changed, a list; nil at first
}

func (s *loopStmt) exec(f *frame) flow {
	return s.run(f, s.over.eval(f), 0)
}

// run iterates over v. As in Jinja, the else body is executed unless a round came
// to its end, without break or continue.
func (s *loopStmt) run(f *frame, v any, depth int) flow {
	f.at = s.at
	items := must(iterate(v))
	l := &loop{loopStmt: s, f: f, items: s.chosen(f, items), depth: depth}
	ended, n := false, length(v)
	for l.i = 0; l.i < len(l.items); l.i++ {
		f.at = s.at
		f.step(1)
		s.unchanged(v, n)
		g := f.inner()
		g.vars = make([]binding, 0, 4)
		s.target.assign(g, l.items[l.i])
		g.set("loop", l)
		how := g.execute(s.body)
		if how == broken {
			break
		}
		ended = ended || how == normal
	}
	if l.i >= len(l.items) {
		s.unchanged(v, n)
	}
	if !ended {
		return f.inner().execute(s.orElse)
	}
	return normal
}

// unchanged fails if v no longer has n items.
func (s *loopStmt) unchanged(v any, n int) {
	failIf(n >= 0 && length(v) != n, "the %s is changed in the loop that iterates over it: loop over a copy of it", typeName(v))
}

// chosen returns the items that the loop's condition takes.
func (s *loopStmt) chosen(f *frame, items []any) (chosen []any) {
	if s.filter == nil {
		return items
	}
	for _, v := range items {
		f.step(1)
		g := f.inner()
		s.target.assign(g, v)
		if isTrue(s.filter.eval(g)) {
			chosen = append(chosen, v)
		}
		f.at = s.at
	}
	return chosen
}

func (l *loop) String() string { return fmt.Sprintf("<LoopContext %d/%d>", l.i+1, len(l.items)) }

// call is loop(items), in a recursive loop.
func (l *loop) call(c *call) any {
	failIf(!l.recursive, "only a loop marked recursive can be called")
	failIf(len(c.args) != 1, "loop() takes one argument: what to iterate over")
	if m := c.missing(); m != nil {
		m.report()
		return m
	}
	c.enter(c.op.at)
	v := l.f.capture(func(f *frame) { l.loopStmt.run(f, c.args[0], l.depth+1) })
	c.depth--
	return v
}

// loopAttributes are those of loop. The value is unset where there is no such item.
var loopAttributes = map[string]func(l *loop) any{
	"index":     func(l *loop) any { return int64(l.i + 1) },
	"index0":    func(l *loop) any { return int64(l.i) },
	"revindex":  func(l *loop) any { return int64(len(l.items) - l.i) },
	"revindex0": func(l *loop) any { return int64(len(l.items) - l.i - 1) },
	"first":     func(l *loop) any { return l.i == 0 },
	"last":      func(l *loop) any { return l.i == len(l.items)-1 },
	"length":    func(l *loop) any { return int64(len(l.items)) },
	"depth":     func(l *loop) any { return int64(l.depth + 1) },
	"depth0":    func(l *loop) any { return int64(l.depth) },
	"cycle":     func(l *loop) any { return &op{name: "loop.cycle", do: l.cycle, lax: true} },
	"changed":   func(l *loop) any { return &op{name: "loop.changed", do: l.changed, lax: true} },
	"previtem":  func(l *loop) any { return l.item(l.i - 1) },
	"nextitem":  func(l *loop) any { return l.item(l.i + 1) },
}

func (l *loop) attr(name string) (any, bool) {
	get := loopAttributes[name]
	if get == nil {
		return nil, false
	}
	v := get(l)
	return v, v != unset
}

func (l *loop) item(i int) any {
	if i < 0 || i >= len(l.items) {
		return unset
	}
	return l.items[i]
}

func (l *loop) cycle(c *call) any {
	failIf(len(c.args) == 0, "loop.cycle needs items")
	return c.args[l.i%len(c.args)]
}

// changed reports whether its arguments differ from those of the last call.
func (l *loop) changed(c *call) any {
	before := l.last
	l.last = newList(c.args)
	return before == nil || !equal(before, l.last)
}

// macro is one that is defined: it sees the names of the frame around it.
type macro struct {
	*macroStmt
	f *frame
}

func (s *macroStmt) exec(f *frame) flow { f.set(s.name, &macro{s, f}); return normal }

// eval makes the caller of a {% call %}.
func (s *macroStmt) eval(f *frame) any { return &macro{s, f} }

func (m *macro) String() string {
	if m.name == "" {
		return "<Macro anonymous>"
	}
	return "<Macro " + quote(m.name) + ">"
}

func (m *macro) attr(name string) (any, bool) {
	v, ok := map[string]any{
		"name": m.name, "arguments": tuple(anys(m.params)...), "caller": m.uses["caller"],
		"catch_kwargs": m.uses["kwargs"], "catch_varargs": m.uses["varargs"],
	}[name]
	if v == "" { // a caller has no name
		v = none
	}
	return v, ok
}

func (m *macro) call(c *call) any {
	g := m.f.inner()
	g.page = nil
	m.bind(c, g)
	c.enter(c.op.at)
	for i, d := range m.defaults {
		p := m.params[len(m.params)-len(m.defaults)+i]
		if v, _ := g.lookup(p); v == unset {
			g.set(p, d.eval(g))
		}
	}
	v := g.capture(func(g *frame) { g.execute(m.body) })
	c.depth--
	return v
}

// bind sets the parameters of m in g, to unset where there is no argument.
func (m *macro) bind(c *call, g *frame) {
	name := cmp.Or(m.name, "the caller")
	bound, more := c.bind(name, 0, m.params, m.uses["varargs"], unset)
	for i, p := range m.params {
		g.vars = append(g.vars, binding{p, bound[i]})
	}
	kwargs, caller := newDict(), unset
	var unknown []string
	for _, n := range more {
		switch {
		case n == "caller" && m.uses[n]:
			caller = c.named[n]
		case m.uses["kwargs"]:
			check(kwargs.set(n, c.named[n]))
		default:
			unknown = append(unknown, n)
		}
	}
	failIf(len(unknown) > 0, "%s takes no argument %s", name, strings.Join(unknown, " or "))
	for n, v := range map[string]any{"caller": caller, "kwargs": kwargs, "varargs": tuple(bound[len(m.params):]...)} {
		if m.uses[n] {
			g.set(n, v)
		}
	}
}
