package jinja

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"

	"initbox/render/engine"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2"
)

// The library is used only to parse: its evaluator is not suited to configuration files. It treats missing values as
// empty, builds strings and lists of any size, computes integers in floating point, loses the order of mappings, and
// scopes names differently. Its syntax tree is internal, so it is read through reflect, once, into the nodes of ast.go.
// The version is pinned in go.mod, and TestTree shows what a new one has changed.
//
// The linker keeps the evaluator nevertheless (0.3 MB): to reflect on a Template makes the methods of all types that
// its fields lead to reachable, those of State among them, because text/template calls methods by name.

// node is a node of the library's tree, or the zero Value.
type node struct{ reflect.Value }

// syntaxTree returns the root of a template's syntax tree, a parser.Template.
func syntaxTree(t *minijinja.Template) node {
	return node{reflect.ValueOf(t).Elem()}.get("compiled").get("ast")
}

// inside follows pointers and interfaces.
func inside(v reflect.Value) node {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return node{v}
}

func (n node) kind() string {
	if !n.IsValid() {
		return ""
	}
	return n.Type().Name()
}
func (n node) get(field string) node    { return inside(n.FieldByName(field)) }
func (n node) text(field string) string { return n.FieldByName(field).String() }
func (n node) flag(field string) bool   { return n.FieldByName(field).Bool() }
func (n node) number(field string) int  { return int(n.FieldByName(field).Int()) }
func (n node) offset(end string) int    { return int(n.get("span").FieldByName(end).Uint()) }
func (n node) each(field string) []node { return items(n.FieldByName(field)) }
func items(list reflect.Value) (all []node) {
	for i := range list.Len() {
		all = append(all, inside(list.Index(i)))
	}
	return all
}

// The kinds of arguments, as the library counts them.
const (
	argPositional = iota
	argNamed
	argList    // *list
	argMapping // **mapping
)

// Operators as the library counts them: the other unary one is a sign, the other binary ones evaluate both operands.
const unaryNot, scAnd, scOr = 0, 6, 7

type reader struct {
	*template
	source      string
	lines       []int // where each begins
	statements  map[string]func(node) stmt
	expressions map[string]func(node) expr
	locals      map[string]int // names that the template sets itself, at the place that is read
	macros      []*macroStmt   // around that place
	inner       int            // bodies around that place that have their own scope
	depth       int
	moved       map[uintptr]bool // signs that are read already, see sign
	strict      bool             // functions that do not exist are errors here, rather than where they are called
}

// read reads the template t. That of a partial may call macros of the templates that it is included in.
func (e *jinja) read(t *minijinja.Template, partial bool) (_ *template, err error) {
	r := &reader{
		template: &template{e: e, name: t.Name(), blocks: map[string]*block{}, tested: map[string]bool{}, unsteady: map[string]bool{}},
		source:   t.Source(), lines: []int{0}, strict: !partial,
		locals: map[string]int{"self": 1, "caller": 1, "super": 1}, moved: map[uintptr]bool{},
	}
	r.statements, r.expressions = r.statementKinds(), r.expressionKinds()
	for i, c := range []byte(r.source) {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	defer recovered(r.name, &err)
	root := syntaxTree(t)
	r.survey(root)
	r.body = r.all(root, "Children")
	return r.template, nil
}

// fail ends the reading: read recovers.
func (r *reader) fail(n node, text, fix string) {
	panic(&engine.Error{Position: r.at(n), Text: text, Fix: fix})
}

// at is where a node begins, from the offset: the library's lines end at 65535.
func (r *reader) at(n node) position {
	offset := n.offset("StartOffset")
	line := sort.SearchInts(r.lines, offset+1) - 1
	return position{File: r.name, Line: line + 1, Column: offset - r.lines[line] + 1}
}

// deeper bounds the nesting of what is read until the returned function is called.
func (r *reader) deeper(n node, bound int, what string) func() {
	if r.depth++; r.depth > bound {
		p := position{File: r.name}
		if n.Kind() == reflect.Struct && n.FieldByName("span").IsValid() {
			p = r.at(n)
		}
		panic(&engine.Error{Position: p, Text: "the " + what + " is nested too deeply"})
	}
	return func() { r.depth-- }
}

// survey notes the macros in n, which may call each other, and whether n extends a template, whose macros it may call.
func (r *reader) survey(n node) {
	defer r.deeper(n, maxTree, "template")()
	switch n.Kind() {
	case reflect.Slice:
		for _, item := range items(n.Value) {
			r.survey(item)
		}
	case reflect.Struct:
		switch n.kind() {
		case "Macro":
			r.locals[n.text("Name")]++
		case "Extends":
			r.strict = false
		}
		for i := range n.NumField() {
			if n.Type().Field(i).IsExported() {
				r.survey(inside(n.Field(i)))
			}
		}
	}
}

// with makes names local while inside is read, which has its own scope.
func (r *reader) with(names []string, inside func()) {
	before := maps.Clone(r.locals)
	r.set(names...)
	r.inner++
	inside()
	r.inner--
	r.locals = before
}

func (r *reader) set(names ...string) {
	for _, n := range names {
		r.locals[n]++
	}
}

// names returns the names that an assignment to t sets.
func names(t target) (all []string) {
	switch t := t.(type) {
	case nameTarget:
		return []string{string(t)}
	case *tupleTarget:
		for _, item := range t.items {
			all = append(all, names(item)...)
		}
	}
	return all
}

func (r *reader) target(n node) target {
	switch n.kind() {
	case "Var":
		return nameTarget(n.text("ID"))
	case "Const": // {% import "x" as "y" %}
		return nameTarget(fmt.Sprint(r.constant(n)))
	case "GetAttr":
		return &attributeTarget{at: r.at(n), of: r.sub(n, "Expr"), name: n.text("Name")}
	case "List":
		t := &tupleTarget{at: r.at(n)}
		for _, item := range n.each("Items") {
			t.items = append(t.items, r.target(item))
		}
		return t
	}
	r.fail(n, "this cannot be assigned to", "")
	return nil
}

// assigned reads a target whose names are local from there on.
func (r *reader) assigned(n node) target {
	t := r.target(n)
	r.set(names(t)...)
	return t
}

func (r *reader) all(n node, field string) (body []stmt) {
	for _, s := range n.each(field) {
		read := r.statements[s.kind()]
		if read == nil {
			r.fail(s, "there is no "+s.kind(), "")
		}
		body = append(body, read(s))
	}
	return body
}

// scope reads a body that has its own scope.
func (r *reader) scope(n node, field string, names ...string) (body []stmt) {
	r.with(names, func() { body = r.all(n, field) })
	return body
}

// statementKinds returns how each of the library's statements is read.
func (r *reader) statementKinds() map[string]func(node) stmt {
	return map[string]func(node) stmt{
		"AutoEscape": func(n node) stmt { return &autoescape{r.sub(n, "Enabled"), r.scope(n, "Body")} },
		"Block":      r.block,
		"Break":      func(node) stmt { return broken },
		"CallBlock":  func(n node) stmt { return &output{r.at(n), r.callBlock(n), true} },
		"Continue":   func(node) stmt { return continued },
		"Do":         func(n node) stmt { return &doStmt{r.sub(n, "Call")} },
		"EmitExpr":   func(n node) stmt { return &output{r.at(n), r.sub(n, "Expr"), false} },
		"EmitRaw":    func(n node) stmt { return text(n.text("Raw")) },
		"Extends": func(n node) stmt {
			if r.inner > 0 {
				r.fail(n, "extends has to stand outside of loops, blocks and macros", "")
			}
			return &extends{r.reference(n, "Name", false)}
		},
		"FilterBlock": func(n node) stmt { return &output{r.at(n), r.piped(n, false), true} },
		"ForLoop":     r.loop,
		"FromImport":  r.fromImport,
		"IfCond":      r.condition,
		"Import":      func(n node) stmt { return &importAs{r.reference(n, "Expr", false), r.assigned(n.get("Name"))} },
		"Include":     func(n node) stmt { return &include{r.reference(n, "Name", true)} },
		"Macro":       func(n node) stmt { return r.macro(n, n.text("Name")) },
		"Set":         func(n node) stmt { return &assignment{r.at(n), r.sub(n, "Expr"), r.assigned(n.get("Target"))} },
		"SetBlock":    func(n node) stmt { return &assignment{r.at(n), r.piped(n, true), r.assigned(n.get("Target"))} },
		"WithBlock":   r.withBlock,
	}
}

// condition reads {% if %}. To the library, an elif is an if in an else.
func (r *reader) condition(n node) stmt {
	s := &ifStmt{}
	for {
		s.branches = append(s.branches, branch{r.sub(n, "Expr"), r.all(n, "TrueBody")})
		others := n.each("FalseBody")
		if len(others) != 1 || others[0].kind() != "IfCond" {
			s.orElse = r.all(n, "FalseBody")
			return s
		}
		n = others[0]
	}
}

func (r *reader) loop(n node) stmt {
	l := &loopStmt{at: r.at(n), over: r.sub(n, "Iter"), recursive: n.flag("Recursive"), target: r.target(n.get("Target"))}
	r.with(names(l.target), func() { l.filter = r.sub(n, "FilterExpr") })
	l.body = r.scope(n, "Body", append(names(l.target), "loop")...)
	l.orElse = r.scope(n, "ElseBody")
	return l
}

func (r *reader) withBlock(n node) stmt {
	w := &withStmt{}
	var all []string
	for _, a := range n.each("Assignments") {
		t := r.target(a.get("Target"))
		w.assignments = append(w.assignments, assignment{r.at(n), r.sub(a, "Value"), t})
		all = append(all, names(t)...)
	}
	w.body = r.scope(n, "Body", all...)
	return w
}

func (r *reader) block(n node) stmt {
	tag, _, _ := strings.Cut(r.source[n.offset("StartOffset"):], "%}")
	b := &block{at: r.at(n), name: n.text("Name"), required: n.flag("Required")}
	b.scoped = slices.Contains(strings.Fields(strings.Trim(tag, "+-")), "scoped") && b.name != "scoped"
	r.blocks[b.name] = b
	b.body = r.scope(n, "Body")
	return b
}

func (r *reader) macro(n node, name string) *macroStmt {
	m := &macroStmt{at: r.at(n), name: name, uses: map[string]bool{}}
	for _, p := range n.each("Args") {
		m.params = append(m.params, p.text("ID"))
	}
	r.macros = append(r.macros, m)
	r.with(append([]string{"varargs", "kwargs"}, m.params...), func() {
		for _, d := range n.each("Defaults") {
			m.defaults = append(m.defaults, r.expr(d))
		}
		m.body = r.all(n, "Body")
	})
	r.macros = r.macros[:len(r.macros)-1]
	for i, p := range m.params {
		if p == "caller" && m.uses[p] && i < len(m.params)-len(m.defaults) {
			r.fail(n, "the parameter caller needs a default", "")
		}
		delete(m.uses, p)
	}
	return m
}

// callBlock reads a call whose argument caller is the block's body.
func (r *reader) callBlock(n node) expr {
	e := r.sub(n, "Call")
	caller := argument{argNamed, "caller", r.macro(n.get("MacroDecl"), "")}
	if i, ok := e.(*invocation); ok {
		i.args = append(i.args, caller)
	}
	return e
}

// reference reads the name of a template and the words that follow it, which are not in the library's tree.
func (r *reader) reference(n node, field string, context bool) reference {
	name := n.get(field)
	if name.kind() == "Const" {
		if s, ok := r.constant(name).(string); ok {
			r.includes = append(r.includes, s)
		}
	}
	ref := reference{at: r.at(n), name: r.expr(name), context: context, choice: n.kind() == "Include"}
	tag := r.source[n.offset("StartOffset"):n.offset("EndOffset")]
	if ref.optional = ref.choice && n.flag("IgnoreMissing"); ref.optional {
		tag, _ = cutWord(tag, "missing")
		tag, _ = cutWord(tag, "ignore")
	}
	if tag, marked := cutWord(tag, "context"); marked {
		_, without := cutWord(tag, "without")
		ref.context = !without
	}
	return ref
}

func cutWord(tag, word string) (string, bool) {
	rest, ok := strings.CutSuffix(tag, word)
	return strings.TrimRight(rest, " \t\r\n"), ok
}

func (r *reader) fromImport(n node) stmt {
	i := &importFrom{reference: r.reference(n, "Expr", false)}
	for _, name := range n.each("Names") {
		from := name.get("Name").text("ID")
		if strings.HasPrefix(from, "_") {
			r.fail(n, from+" cannot be imported: names that begin with an underscore are private", "")
		}
		as := from
		if alias := name.get("Alias"); alias.IsValid() {
			as = alias.text("ID")
		}
		i.names = append(i.names, imported{from, as})
		r.set(as)
	}
	return i
}

// piped reads the body of a {% filter %} or {% set %} block, and its filters.
func (r *reader) piped(n node, own bool) expr {
	var filters []node
	for f := n.get("Filter"); f.IsValid(); f = f.get("Expr") {
		filters = append(filters, f)
	}
	var e expr = &captured{r.scope(n, "Body"), own}
	for _, f := range slices.Backward(filters) {
		e = r.applied(r.called(f, "filter", r.e.filters), e, f)
	}
	return e
}

// applied makes an operation on of, with the arguments of n.
func (r *reader) applied(o op, of expr, n node) expr {
	return &operation{o, append([]argument{{value: of}}, r.arguments(n)...)}
}

func (r *reader) expr(n node) expr {
	e, _ := r.place(n)
	return e
}

// sub reads an expression that is a field of n, and may be absent.
func (r *reader) sub(n node, field string) expr {
	if n = n.get(field); n.IsValid() {
		return r.expr(n)
	}
	return nil
}

// place reads an expression, and notes what it reads.
func (r *reader) place(n node) (expr, place) {
	defer r.deeper(n, maxDepth, "expression")()
	if sign, ok := r.sign(n); ok && n.kind() != "UnaryOp" {
		r.moved[sign.Addr().Pointer()] = true
		return newOperation(r.at(sign), "-", negate, r.expr(n)), place{at: r.at(n)}
	}
	switch n.kind() {
	case "Var":
		return r.variable(n)
	case "GetAttr":
		return r.attribute(n)
	case "GetItem":
		return r.item(n)
	}
	read := r.expressions[n.kind()]
	if read == nil {
		r.fail(n, "there is no "+n.kind(), "")
	}
	return read(n), place{at: r.at(n)}
}

// expressionKinds returns how each of the library's expressions is read, but those that have a path.
func (r *reader) expressionKinds() map[string]func(node) expr {
	return map[string]func(node) expr{
		"BinOp": func(n node) expr {
			left, right, i := r.sub(n, "Left"), r.sub(n, "Right"), n.number("Op")
			if i == scAnd || i == scOr {
				return &junction{i == scAnd, left, right}
			}
			return newOperation(r.at(n), "operator", binaryOperators[i], left, right)
		},
		"Call": r.call,
		"Compare": func(n node) expr {
			c := &comparison{first: r.sub(n, "Expr")}
			for _, l := range n.each("Ops") {
				do := comparators[l.number("Op")]
				c.links = append(c.links, link{op{at: r.at(n), name: "comparison", do: do}, r.sub(l, "Expr")})
			}
			return c
		},
		"Const":  func(n node) expr { return constant{r.constant(n)} },
		"Filter": r.filter,
		"IfExpr": func(n node) expr {
			return &conditional{r.sub(n, "TestExpr"), r.sub(n, "TrueExpr"), r.sub(n, "FalseExpr")}
		},
		"List": func(n node) expr {
			do := makeList
			if !strings.HasPrefix(r.source[n.offset("StartOffset"):], "[") {
				do = makeTuple
			}
			return r.literal(n, "list", do, n.each("Items"))
		},
		"Map": func(n node) expr {
			var items []node
			values := n.each("Values")
			for i, k := range n.each("Keys") {
				items = append(items, k, values[i])
			}
			return r.literal(n, "mapping", makeDict, items)
		},
		"Slice": func(n node) expr {
			bounds := []expr{r.expr(r.operand(n)), r.sub(n, "Start"), r.sub(n, "Stop"), r.sub(n, "Step")}
			for i, b := range bounds {
				if b == nil {
					bounds[i] = constant{none}
				}
			}
			return newOperation(r.at(n), "slice", slice, bounds...)
		},
		"Test": r.test,
		"UnaryOp": func(n node) expr {
			of := r.sub(n, "Expr")
			if n.number("Op") == unaryNot {
				return negation{of}
			}
			return newOperation(r.at(n), "-", negate, of)
		},
	}
}

// literal reads a list or a mapping; items may be missing.
func (r *reader) literal(n node, name string, do operator, items []node) expr {
	o := newOperation(r.at(n), name, do)
	for _, item := range items {
		o.args = append(o.args, argument{value: r.expr(item)})
	}
	o.lax = true
	return o
}

func (r *reader) constant(n node) any {
	switch v := n.get("Value"); v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Int64:
		return v.Int()
	case reflect.Float64:
		return v.Float()
	case reflect.Bool:
		return v.Bool()
	case reflect.Invalid:
		return none
	}
	r.fail(n, errTooLarge.Error(), "") // a big.Int
	return nil
}

func newOperation(at position, name string, do operator, args ...expr) *operation {
	o := &operation{op: op{at: at, name: name, do: do}}
	for _, a := range args {
		o.args = append(o.args, argument{value: a})
	}
	return o
}

// sign returns the sign to move in front of the chain n: the library reads -a[0] as (-a)[0].
func (r *reader) sign(n node) (sign node, ok bool) {
	for range maxChain {
		switch n.kind() {
		case "GetAttr", "GetItem", "Slice", "Call":
			n = r.operand(n)
		case "UnaryOp":
			return n, n.number("Op") != unaryNot
		default:
			return n, false
		}
	}
	return n, false
}

// operand is what a chain like a.b[c] is about: a, without a sign that was moved.
func (r *reader) operand(n node) node {
	n = n.get("Expr")
	for n.kind() == "UnaryOp" && r.moved[n.Addr().Pointer()] {
		n = n.get("Expr")
	}
	return n
}

func (r *reader) variable(n node) (expr, place) {
	id := n.text("ID")
	for _, m := range r.macros {
		m.uses[id] = m.uses[id] || id == "caller" || id == "kwargs" || id == "varargs"
	}
	v := &variable{at: r.at(n), id: id, local: r.locals[id] > 0, missed: id}
	p := place{at: v.at, text: id}
	if v.local {
		return v, p
	}
	v.missed = inputName(id)
	if f, ok := r.e.functions[id]; ok {
		v.fn = &op{at: v.at, name: id, do: f.function, lax: f.lax}
		if r.e.data.Values[id] == nil { // to be passed on
			return v, p
		}
	}
	r.inputs = append(r.inputs, engine.Input{Position: v.at, Name: v.missed})
	p.path = id
	return v, p
}

// inputName is the name of an input as other engines write it: top-level names are those of .Values.
func inputName(path string) string {
	switch first, _, _ := strings.Cut(path, "."); first {
	case "Values", "Env", "Pod":
		return "." + path
	}
	return ".Values." + path
}

// place is what an expression like a.b["c"] reads.
type place struct {
	at   position // where the expression begins
	path string   // such as a.b.c, if it reads just that of the data
	text string   // such as a.b[…], as far as that is plain
}

// missed returns how errors call the part of p with that name, or kind if nothing is known of p.
func (p place) missed(name, kind string) string {
	switch {
	case p.path != "":
		return inputName(p.path + "." + name)
	case p.text == "":
		return kind + name
	}
	return p.text + "." + name
}

// extend returns the place of a part of p. What is read is a.b, not a: the input that was noted last is renamed.
func (r *reader) extend(p place, name, text string) place {
	if p.text += text; p.path != "" {
		p.path += "." + name
		r.inputs[len(r.inputs)-1].Name = inputName(p.path)
	}
	return p
}

func (r *reader) attribute(n node) (expr, place) {
	name := n.text("Name")
	of, p := r.place(r.operand(n))
	o := newOperation(p.at, name, getAttr(name, p.missed(name, "the attribute ")), of)
	return o, r.extend(p, name, "."+name)
}

func (r *reader) item(n node) (expr, place) {
	of, p := r.place(r.operand(n))
	subscript, key := n.get("SubscriptExpr"), "[…]"
	constant := subscript.kind() == "Const"
	if constant {
		key = str(r.constant(subscript))
	}
	o := newOperation(p.at, key, getItem(p.missed(key, "item ")), of, r.expr(subscript))
	if !constant {
		p.path = ""
	}
	return o, r.extend(p, key, "[…]")
}

func (r *reader) arguments(n node) (args []argument) {
	for _, a := range n.each("Args") {
		args = append(args, argument{a.number("Kind"), a.text("Name"), r.expr(a.get("Value"))})
	}
	return args
}

// called makes the operation of a filter or a test, which has to exist.
func (r *reader) called(n node, what string, table map[string]fn) op {
	name := n.text("Name")
	f, ok := table[name]
	if !ok {
		r.fail(n, "there is no "+what+" "+name, similarTo(name, table))
	}
	if f.unsteady {
		r.unsteady[name] = true
	}
	return op{r.at(n), what + " " + name, f.call, f.lax}
}

// subject reads what a filter or a test is applied to, and returns also the input that this is, if it is just that.
func (r *reader) subject(n node) (expr, *engine.Input) {
	before := len(r.inputs)
	of, p := r.place(n.get("Expr"))
	if p.path == "" || len(r.inputs) != before+1 {
		return of, nil
	}
	return of, &r.inputs[before]
}

func (r *reader) filter(n node) expr {
	of, input := r.subject(n)
	o := r.called(n, "filter", r.e.filters)
	if o.lax && input != nil {
		input.Optional = o.name != "filter mandatory"
	}
	return r.applied(o, of, n)
}

func (r *reader) test(n node) expr {
	o := r.called(n, "test", r.e.tests)
	of, input := r.subject(n)
	if o.lax && input != nil { // defined or undefined
		input.Optional = true
		r.tested[input.Name] = true
	}
	return r.applied(o, of, n)
}

func (r *reader) call(n node) expr {
	callee := r.operand(n)
	switch callee.kind() {
	case "GetAttr":
		name := callee.text("Name")
		of, p := r.place(r.operand(callee))
		return &invocation{p.at, of, name, p.missed(name, "the attribute "), r.arguments(n)}
	case "Var":
		return r.functionCall(n, callee)
	}
	return &invocation{at: r.at(n), callee: r.expr(callee), args: r.arguments(n)}
}

func (r *reader) functionCall(n, callee node) expr {
	name := callee.text("ID")
	f, ok := r.e.functions[name]
	switch {
	case r.locals[name] > 0:
	case !ok && r.strict:
		panic(r.e.noFunction(r.at(callee), name))
	case f.unsteady:
		r.unsteady[name] = true
	}
	before := len(r.inputs)
	v, _ := r.variable(callee)
	r.inputs = r.inputs[:before] // a function is no input
	v.(*variable).called = true
	return &invocation{at: r.at(callee), callee: v, args: r.arguments(n)}
}
