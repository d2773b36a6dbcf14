package jinja

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"unsafe"

	"initbox/render/engine"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2"
)

// The library parses templates and walks through their statements. What it does
// in between is not what configuration files need: operators take what is missing
// for nothing, build strings and lists of any size, compute integers in floating
// point, and mappings lose their order. It lets filters and functions be replaced,
// but not operators, and its syntax tree is internal. So the tree is rewritten,
// once, after parsing: each expression a ⊕ b becomes a call of an [op] with a and
// b as its arguments, each name, attribute, filter, test and function likewise.
// The types of the tree have no names outside of the library, hence reflect;
// the version is pinned in go.mod, and TestTree says what a new one changed.

// tree returns the root of a template's syntax tree, a *parser.Template.
func tree(t *minijinja.Template) reflect.Value {
	field := func(of reflect.Value, name string) reflect.Value {
		f := of.FieldByName(name)
		return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
	}
	compiled := field(reflect.ValueOf(t).Elem(), "compiled")
	return field(compiled.Elem(), "ast")
}

// nodes are the types of nodes that the rewriting makes.
type nodes struct{ call, constant, arg, emit, filterBlock, filter, args reflect.Type }

// nodeTypes finds them in a template that has one of each.
var nodeTypes = sync.OnceValue(func() nodes {
	t, err := minijinja.EmptyEnvironment().TemplateFromString("{{ f(1) }}{% filter g %}{% endfilter %}")
	if err != nil {
		panic(err)
	}
	children := tree(t).Elem().FieldByName("Children")
	emit, block := children.Index(0).Elem(), children.Index(1).Elem()
	call := emit.Elem().FieldByName("Expr").Elem()
	args := call.Elem().FieldByName("Args")
	return nodes{
		call: call.Type().Elem(), args: args.Type(), arg: args.Type().Elem(),
		constant:    args.Index(0).FieldByName("Value").Elem().Type().Elem(),
		emit:        emit.Type().Elem(),
		filterBlock: block.Type().Elem(),
		filter:      block.Elem().FieldByName("Filter").Elem().Type().Elem(),
	}
})

// The kinds of arguments, as the library counts them.
const (
	argPositional = iota
	argNamed
	argSplat // *list
)

// unaryNot is the first of the unary operators. The other one is a sign.
const unaryNot = 0

// maxDepth bounds how deep expressions are nested, and with it the stack. The
// parser bounds parentheses itself, but not a + b + c + ….
const maxDepth = 5_000

// rewriter rewrites one template, and notes what that needs.
type rewriter struct {
	nodes
	e      *jinja
	name   string
	lines  []int // where each begins
	source string
	locals map[string]int // names that the template sets itself, where the rewriting is
	depth  int
	notes
}

// notes is what a template's text tells.
type notes struct {
	inputs   []engine.Input
	tested   map[string]bool // inputs that are tested with "is defined"
	unsteady map[string]bool
	includes []string // templates that are included, imported or extended
}

// rewrite rewrites the template t.
func (e *jinja) rewrite(t *minijinja.Template) (_ *notes, err error) {
	w := &rewriter{nodes: nodeTypes(), e: e, name: t.Name(), source: t.Source(), lines: []int{0}}
	w.locals = map[string]int{"self": 1, "caller": 1, "super": 1}
	w.tested, w.unsteady = map[string]bool{}, map[string]bool{}
	for i := range len(w.source) {
		if w.source[i] == '\n' {
			w.lines = append(w.lines, i+1)
		}
	}
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(*engine.Error)
			if !ok {
				panic(r)
			}
			err = failed
		}
	}()
	root := tree(t)
	w.macros(root)
	w.statements(root.Elem().FieldByName("Children"))
	return &w.notes, nil
}

// fail ends the rewriting: rewrite recovers.
func (w *rewriter) fail(node reflect.Value, text, fix string) {
	panic(&engine.Error{Position: w.at(node), Text: text, Fix: fix})
}

// at is where a node begins, from the offset: the library's lines end at 65535.
func (w *rewriter) at(node reflect.Value) engine.Position {
	offset := int(node.Elem().FieldByName("span").FieldByName("StartOffset").Uint())
	line := sort.SearchInts(w.lines, offset+1) - 1
	return engine.Position{File: w.name, Line: line + 1, Column: offset - w.lines[line] + 1}
}

// macros notes the names of the macros anywhere in node: they may call each other.
func (w *rewriter) macros(node reflect.Value) {
	if w.depth++; w.depth > 20*maxDepth {
		panic(&engine.Error{Position: engine.Position{File: w.name}, Text: "the template is nested too deeply"})
	}
	defer func() { w.depth-- }()
	switch node.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !node.IsNil() {
			w.macros(node.Elem())
		}
	case reflect.Slice:
		for i := range node.Len() {
			w.macros(node.Index(i))
		}
	case reflect.Struct:
		if node.Type().Name() == "Macro" {
			w.locals[node.FieldByName("Name").String()]++
		}
		for i := range node.NumField() {
			if node.Type().Field(i).IsExported() {
				w.macros(node.Field(i))
			}
		}
	}
}

// assigned returns the names in the targets of assignments.
func assigned(targets ...reflect.Value) (names []string) {
	for _, t := range targets {
		switch t.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !t.IsNil() {
				names = append(names, assigned(t.Elem())...)
			}
		case reflect.Slice:
			names = append(names, assigned(each(t)...)...)
		case reflect.Struct:
			switch t.Type().Name() {
			case "Var":
				names = append(names, t.FieldByName("ID").String())
			case "Const":
				names = append(names, fmt.Sprint(t.FieldByName("Value").Interface()))
			case "List":
				names = append(names, assigned(t.FieldByName("Items"))...)
			case "ImportName":
				if t.FieldByName("Alias").IsNil() {
					names = append(names, assigned(t.FieldByName("Name"))...)
				} else {
					names = append(names, assigned(t.FieldByName("Alias"))...)
				}
			}
		}
	}
	return names
}

// names is how many names an assignment to a, b has, 0 if it is one to a.
func names(target reflect.Value) int {
	if list := target.Elem().Elem(); list.Type().Name() == "List" {
		return list.FieldByName("Items").Len()
	}
	return 0
}

// assignment rewrites an expression that is assigned.
func (w *rewriter) assignment(expr, target reflect.Value) {
	node := expr.Elem()
	w.expr(expr)
	if n := names(target); n > 0 {
		w.wrap(expr, w.op(node, "set", unpack(n)))
	}
}

// with makes names local while inside is rewritten.
func (w *rewriter) with(names []string, inside func()) {
	for _, n := range names {
		w.locals[n]++
	}
	inside()
	for _, n := range names {
		w.locals[n]--
	}
}

// set makes names local from here on.
func (w *rewriter) set(targets ...reflect.Value) {
	for _, n := range assigned(targets...) {
		w.locals[n]++
	}
}

// statements rewrites a body, a []parser.Stmt.
func (w *rewriter) statements(body reflect.Value) {
	for i := range body.Len() {
		w.statement(body.Index(i))
	}
}

func (w *rewriter) statement(slot reflect.Value) {
	node := slot.Elem()
	s := node.Elem()
	field := s.FieldByName
	switch s.Type().Name() {
	case "EmitRaw":
		emit := reflect.New(w.emit)
		w.call(emit.Elem().FieldByName("Expr"), w.op(node, "text", rawText(field("Raw").String())))
		slot.Set(emit)
	case "EmitExpr":
		w.expr(field("Expr"))
		w.wrap(field("Expr"), w.op(node, "output", write))
	case "Include":
		w.template(node, field("Name"), field("IgnoreMissing").Bool())
	case "Extends":
		w.template(node, field("Name"), false)
	case "Import":
		w.template(node, field("Expr"), false)
		w.set(field("Name"))
	case "FromImport":
		w.template(node, field("Expr"), false)
		w.set(field("Names"))
	case "SetBlock":
		w.statements(field("Body"))
		w.blockFilter(field("Filter"), field("Body"))
		w.set(field("Target"))
	case "FilterBlock":
		w.statements(field("Body"))
		w.blockFilter(field("Filter"), field("Body"))
	case "Do":
		w.callArgs(field("Call"))
	case "CallBlock":
		w.callArgs(field("Call"))
		w.macro(field("MacroDecl").Elem())
	case "Macro":
		w.macro(s)
	case "ForLoop":
		w.loop(node)
	case "IfCond":
		w.expr(field("Expr"))
		w.statements(field("TrueBody"))
		w.statements(field("FalseBody"))
	case "WithBlock":
		w.withBlock(s)
	case "Set":
		w.assignment(field("Expr"), field("Target"))
		if target := field("Target").Elem(); target.Elem().Type().Name() == "GetAttr" {
			w.wrap(target.Elem().FieldByName("Expr"), w.op(target, "set", namespaceOnly))
		}
		w.set(field("Target"))
	case "AutoEscape":
		w.expr(field("Enabled"))
		w.statements(field("Body"))
	case "Block":
		w.statements(field("Body"))
	}
}

func (w *rewriter) loop(node reflect.Value) {
	field := node.Elem().FieldByName
	w.expr(field("Iter"))
	do := loopOver
	if n := names(field("Target")); n > 0 {
		do = loopOverEach(n)
	}
	w.wrap(field("Iter"), w.op(node, "for", do))
	w.with(append(assigned(field("Target")), "loop"), func() {
		w.expr(field("FilterExpr"))
		w.statements(field("Body"))
	})
	w.statements(field("ElseBody"))
}

func (w *rewriter) macro(macro reflect.Value) {
	w.exprs(macro.FieldByName("Defaults"))
	w.with(assigned(macro.FieldByName("Args")), func() { w.statements(macro.FieldByName("Body")) })
}

func (w *rewriter) withBlock(block reflect.Value) {
	var names []string
	for _, a := range each(block.FieldByName("Assignments")) {
		w.assignment(a.FieldByName("Value"), a.FieldByName("Target"))
		names = append(names, assigned(a.FieldByName("Target"))...)
	}
	w.with(names, func() { w.statements(block.FieldByName("Body")) })
}

// template rewrites the name of a template that is included.
func (w *rewriter) template(node, name reflect.Value, optional bool) {
	if c := name.Elem().Elem(); c.Type().Name() == "Const" {
		if s, ok := c.FieldByName("Value").Interface().(string); ok {
			w.includes = append(w.includes, s)
		}
	}
	w.expr(name)
	w.wrap(name, w.op(node, "include", templateNames(optional)))
}

// blockFilter rewrites the filter of a {% filter %} or {% set %} block. The
// library applies the last one of several only: the others become blocks inside.
func (w *rewriter) blockFilter(slot, body reflect.Value) {
	if slot.IsNil() {
		return
	}
	node := slot.Elem()
	f := node.Elem()
	inner := f.FieldByName("Expr")
	if !inner.IsNil() {
		block := reflect.New(w.filterBlock)
		block.Elem().FieldByName("Filter").Set(inner)
		block.Elem().FieldByName("Body").Set(body)
		inside := reflect.MakeSlice(body.Type(), 1, 1)
		inside.Index(0).Set(block)
		body.Set(inside)
		w.blockFilter(block.Elem().FieldByName("Filter"), block.Elem().FieldByName("Body"))
	}
	w.arguments(f.FieldByName("Args"))
	filter := reflect.New(w.filter)
	filter.Elem().FieldByName("Name").SetString(blockFilterName)
	args := reflect.MakeSlice(w.args, 1, 1+f.FieldByName("Args").Len())
	args.Index(0).FieldByName("Value").Set(w.constantOf(w.filterOp(node)))
	filter.Elem().FieldByName("Args").Set(reflect.AppendSlice(args, f.FieldByName("Args")))
	slot.Set(filter)
}

// expr rewrites the expression in slot, a parser.Expr, and returns its path:
// the name of what it reads of the data, as x.y, if it does just that.
func (w *rewriter) expr(slot reflect.Value) (path string) {
	if slot.IsNil() {
		return ""
	}
	w.hoistSign(slot)
	node := slot.Elem()
	if w.depth++; w.depth > maxDepth {
		w.fail(node, "the expression is nested too deeply", "")
	}
	defer func() { w.depth-- }()

	field := node.Elem().FieldByName
	switch node.Elem().Type().Name() {
	case "Var":
		return w.variable(slot, node)
	case "GetAttr":
		return w.attribute(slot, node, false)
	case "GetItem":
		return w.item(slot, node)
	case "UnaryOp":
		w.expr(field("Expr"))
		if field("Op").Int() != unaryNot { // for which the library asks ObjectIsTrue
			w.become(slot, w.op(node, "-", negate), field("Expr"))
		}
	case "BinOp":
		w.expr(field("Left"))
		w.expr(field("Right"))
		if do := w.e.operators[fmt.Sprint(field("Op").Interface())]; do != nil {
			w.become(slot, w.op(node, "operator", do), field("Left"), field("Right"))
		}
	case "Compare":
		w.comparison(slot, node)
	case "IfExpr":
		w.expr(field("TestExpr"))
		w.expr(field("TrueExpr"))
		w.expr(field("FalseExpr")) // without which it is empty, as in Jinja
	case "Filter":
		w.filterExpr(slot, node)
	case "Test":
		w.test(slot, node)
	case "Call":
		w.callArgs(node)
	case "List":
		w.exprs(field("Items"))
		do := makeList
		if start := w.at(node); !strings.HasPrefix(w.source[w.lines[start.Line-1]+start.Column-1:], "[") {
			do = makeTuple
		}
		w.become(slot, w.lax(node, "list", do), each(field("Items"))...)
	case "Map":
		var parts []reflect.Value
		for i := range field("Keys").Len() {
			k, v := field("Keys").Index(i), field("Values").Index(i)
			w.expr(k)
			w.expr(v)
			parts = append(parts, k, v)
		}
		w.become(slot, w.lax(node, "mapping", makeDict), parts...)
	case "Slice":
		parts := []reflect.Value{field("Expr"), field("Start"), field("Stop"), field("Step")}
		for _, p := range parts {
			if w.expr(p); p.IsNil() {
				p.Set(w.constantOf(nil))
			}
		}
		w.become(slot, w.op(node, "slice", slice), parts...)
	}
	return ""
}

// maxChain bounds how far the beginning of an expression like a.b[c].d is looked
// for, at each of its parts.
const maxChain = 100

// hoistSign makes -(a[0]) of (-a)[0], which is what the library takes -a[0] for.
func (w *rewriter) hoistSign(top reflect.Value) {
	inner := top
	for range maxChain {
		switch s := inner.Elem().Elem(); s.Type().Name() {
		case "GetAttr", "GetItem", "Slice", "Call":
			if inner = s.FieldByName("Expr"); !inner.IsNil() {
				continue
			}
		case "UnaryOp":
			if sign := inner.Elem(); inner != top && s.FieldByName("Op").Int() != unaryNot {
				inner.Set(s.FieldByName("Expr").Elem())
				s.FieldByName("Expr").Set(top.Elem())
				top.Set(sign)
			}
		}
		return
	}
}

func (w *rewriter) exprs(list reflect.Value) {
	for _, slot := range each(list) {
		w.expr(slot)
	}
}

func each(list reflect.Value) (slots []reflect.Value) {
	for i := range list.Len() {
		slots = append(slots, list.Index(i))
	}
	return slots
}

// arguments rewrites those of a call, a []parser.CallArg, and returns the names
// of the named ones.
func (w *rewriter) arguments(args reflect.Value) (names []string) {
	for _, a := range each(args) {
		node := a.FieldByName("Value").Elem()
		w.expr(a.FieldByName("Value"))
		switch a.FieldByName("Kind").Int() {
		case argNamed:
			names = append(names, a.FieldByName("Name").String())
		case argSplat:
			w.wrap(a.FieldByName("Value"), w.op(node, "arguments", loopOver))
		}
	}
	return names
}

func (w *rewriter) variable(slot, node reflect.Value) string {
	name := node.Elem().FieldByName("ID").String()
	if w.locals[name] > 0 {
		if name != "self" && name != "loop" && name != "super" && name != "caller" {
			w.wrap(slot, w.lax(node, name, lookup(name)))
		}
		return ""
	}
	if f, ok := w.e.function(name); ok && w.e.data.Values[name] == nil { // to be passed on
		slot.Set(w.constantOf(w.op(node, name, f.function)))
		return ""
	}
	w.input(node, name)
	w.wrap(slot, w.lax(node, name, lookup(inputName(name))))
	return name
}

// inputName is the name of an input as other engines write it: top-level names
// are those of .Values.
func inputName(path string) string {
	switch first, _, _ := strings.Cut(path, "."); first {
	case "Values", "Env", "Pod":
		return "." + path
	}
	return ".Values." + path
}

func (w *rewriter) input(node reflect.Value, path string) {
	w.inputs = append(w.inputs, engine.Input{Position: w.at(node), Name: inputName(path)})
}

// extend makes the input that was noted last one of a longer path: what is read
// is a.b, not a.
func (w *rewriter) extend(path, name string) string {
	if path == "" {
		return ""
	}
	path += "." + name
	w.inputs[len(w.inputs)-1].Name = inputName(path)
	return path
}

func (w *rewriter) attribute(slot, node reflect.Value, called bool) string {
	expr, name := node.Elem().FieldByName("Expr"), node.Elem().FieldByName("Name").String()
	at, text := w.leftmost(node)
	path := w.expr(expr)
	missed := text + "." + name
	if text == "" {
		missed = "the attribute " + name
	}
	if path != "" {
		missed = inputName(path + "." + name)
	}
	if !called {
		path = w.extend(path, name)
	}
	o := w.op(node, name, getAttr(name, missed, called))
	o.at = at
	w.become(slot, o, expr)
	return path
}

func (w *rewriter) item(slot, node reflect.Value) string {
	expr, subscript := node.Elem().FieldByName("Expr"), node.Elem().FieldByName("SubscriptExpr")
	at, text := w.leftmost(node)
	path := w.expr(expr)
	key, constant := "[…]", false
	if c := subscript.Elem().Elem(); c.Type().Name() == "Const" {
		key, constant = fmt.Sprint(c.FieldByName("Value").Interface()), true
	}
	missed := text + "." + key
	if text == "" {
		missed = "item " + key
	}
	if path != "" {
		missed = inputName(path + "." + key)
	}
	before := len(w.inputs)
	w.expr(subscript)
	if path != "" && constant && before == len(w.inputs) {
		path = w.extend(path, key)
	} else {
		path = ""
	}
	o := w.op(node, key, getItem(missed))
	o.at = at
	w.become(slot, o, expr, subscript)
	return path
}

// leftmost is where an expression like a.b["c"] begins, and its text as far as
// that is plain.
func (w *rewriter) leftmost(node reflect.Value) (engine.Position, string) {
	text := ""
	for n := 0; n < maxChain && (node.Elem().Type().Name() == "GetAttr" || node.Elem().Type().Name() == "GetItem"); n++ {
		if inner := node.Elem().FieldByName("Expr"); !inner.IsNil() {
			node = inner.Elem()
		}
		switch node.Elem().Type().Name() {
		case "GetAttr":
			text = "." + node.Elem().FieldByName("Name").String() + text
		case "GetItem":
			text = "[…]" + text
		}
	}
	if node.Elem().Type().Name() == "Var" {
		text = node.Elem().FieldByName("ID").String() + text
	}
	return w.at(node), text
}

func (w *rewriter) comparison(slot, node reflect.Value) {
	parts := []reflect.Value{node.Elem().FieldByName("Expr")}
	var kinds []operator
	for _, op := range each(node.Elem().FieldByName("Ops")) {
		parts = append(parts, op.FieldByName("Expr"))
		kinds = append(kinds, w.e.operators[fmt.Sprint(op.FieldByName("Op").Interface())])
	}
	for _, p := range parts {
		w.expr(p)
	}
	w.become(slot, w.op(node, "comparison", compareAll(kinds)), parts...)
}

// filterOp makes the operation of a filter, which has to exist.
func (w *rewriter) filterOp(node reflect.Value) *op {
	name := node.Elem().FieldByName("Name").String()
	f, ok := w.e.filter(name)
	if !ok {
		w.fail(node, fmt.Sprintf("there is no filter %s", name), w.e.similar(name, w.e.filters))
	}
	if f.unsteady {
		w.unsteady[name] = true
	}
	o := w.op(node, "filter "+name, f.call)
	o.lax = f.lax
	return o
}

func (w *rewriter) filterExpr(slot, node reflect.Value) {
	name := node.Elem().FieldByName("Name").String()
	before := len(w.inputs)
	path := w.expr(node.Elem().FieldByName("Expr"))
	if f, _ := w.e.filter(name); f.lax && path != "" && len(w.inputs) == before+1 {
		w.inputs[before].Optional = name != "mandatory"
	}
	names := w.arguments(node.Elem().FieldByName("Args"))
	o := w.filterOp(node)
	o.names = names
	w.becomeCall(slot, o, node.Elem().FieldByName("Expr"), node.Elem().FieldByName("Args"))
}

func (w *rewriter) test(slot, node reflect.Value) {
	name := node.Elem().FieldByName("Name").String()
	t, ok := w.e.tests[name]
	if !ok {
		w.fail(node, fmt.Sprintf("there is no test %s", name), similarTo(name, slices.Collect(maps.Keys(w.e.tests))))
	}
	before := len(w.inputs)
	path := w.expr(node.Elem().FieldByName("Expr"))
	if (name == "defined" || name == "undefined") && path != "" && len(w.inputs) == before+1 {
		w.inputs[before].Optional = true
		w.tested[w.inputs[before].Name] = true
	}
	w.arguments(node.Elem().FieldByName("Args"))
	o := w.op(node, "test "+name, t.call)
	o.lax = t.lax
	w.becomeCall(slot, o, node.Elem().FieldByName("Expr"), node.Elem().FieldByName("Args"))
}

// callArgs rewrites a call in place: its target and its arguments.
func (w *rewriter) callArgs(node reflect.Value) {
	target := node.Elem().FieldByName("Expr")
	names := w.arguments(node.Elem().FieldByName("Args"))
	callee := target.Elem()
	switch callee.Elem().Type().Name() {
	case "GetAttr":
		w.attribute(target, callee, true)
	case "Var":
		name := callee.Elem().FieldByName("ID").String()
		if w.locals[name] > 0 {
			w.variable(target, callee) // a macro, which the library calls
			return
		}
		f, ok := w.e.function(name)
		if !ok {
			w.fail(callee, fmt.Sprintf("there is no function %s", name), w.e.similar(name, w.e.functions))
		}
		if f.unsteady {
			w.unsteady[name] = true
		}
		o := w.op(callee, name, f.function)
		o.names, o.lax = names, f.lax
		target.Set(w.constantOf(o))
	default:
		w.expr(target)
	}
}

// op makes the operation of a node.
func (w *rewriter) op(node reflect.Value, name string, do operator) *op {
	return &op{at: w.at(node), name: name, do: do}
}

// lax makes one that takes what is missing.
func (w *rewriter) lax(node reflect.Value, name string, do operator) *op {
	o := w.op(node, name, do)
	o.lax = true
	return o
}

// constantOf makes a node whose value is v. An operation is such a value: the
// library calls what it finds to be callable.
func (w *rewriter) constantOf(v any) reflect.Value {
	c := reflect.New(w.constant)
	if v != nil {
		c.Elem().FieldByName("Value").Set(reflect.ValueOf(v))
	}
	return c
}

// call puts a call of o without arguments into slot.
func (w *rewriter) call(slot reflect.Value, o *op) { w.become(slot, o) }

// wrap puts a call of o into slot, with what was there as the argument.
func (w *rewriter) wrap(slot reflect.Value, o *op) { w.become(slot, o, slot) }

// become puts a call of o with the expressions args into slot.
func (w *rewriter) become(slot reflect.Value, o *op, args ...reflect.Value) {
	call := reflect.New(w.nodes.call)
	call.Elem().FieldByName("Expr").Set(w.constantOf(o))
	list := reflect.MakeSlice(w.args, len(args), len(args))
	for i, a := range args {
		list.Index(i).FieldByName("Value").Set(a.Elem())
	}
	call.Elem().FieldByName("Args").Set(list)
	slot.Set(call)
}

// becomeCall puts a call of o into slot, with first and then args, which is a
// []parser.CallArg, as arguments.
func (w *rewriter) becomeCall(slot reflect.Value, o *op, first, args reflect.Value) {
	call := reflect.New(w.nodes.call)
	call.Elem().FieldByName("Expr").Set(w.constantOf(o))
	list := reflect.MakeSlice(w.args, 1, 1+args.Len())
	list.Index(0).FieldByName("Value").Set(first.Elem())
	call.Elem().FieldByName("Args").Set(reflect.AppendSlice(list, args))
	slot.Set(call)
}

var errTooDeep = errors.New("templates include each other too deeply")

// checkText bounds what the library's parser does not: it recurses for the signs
// and negations before an expression, and for elif, and at each tag it looks for
// the next of each kind, to the end of the text if there is none.
func checkText(name, text string) error {
	tags := strings.Count(text, "{{") + strings.Count(text, "{%") + strings.Count(text, "{#")
	if tags*len(text) > maxLooks {
		text := fmt.Sprintf("the template is too large: %d tags in %d bytes", tags, len(text))
		return &engine.Error{Position: engine.Position{File: name}, Text: text, Fix: "make it several, or a loop"}
	}
	run, elifs := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '-' || c == '+':
			run++
		case strings.HasPrefix(text[i:], "not"), strings.HasPrefix(text[i:], "elif"):
			if c == 'e' {
				elifs++
				i++
			}
			run++
			i += 2
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '(':
		case strings.HasPrefix(text[i:], "{%") || strings.HasPrefix(text[i:], "{{") || strings.HasPrefix(text[i:], "{#"):
			run = 0
			i++
		default:
			run = 0
		}
		if run > maxPrefixes || elifs > maxPrefixes {
			return &engine.Error{Position: engine.Position{File: name, Line: 1 + strings.Count(text[:i], "\n")}, Text: "too many signs, negations or elifs"}
		}
	}
	return nil
}

// maxLooks is how many bytes the parser may look at: about a second. A template
// of 1 MB may have 2 000 tags.
const maxLooks = 2_000_000_000

// maxPrefixes leaves room for rulers in comments, ----.
const maxPrefixes = 50_000
