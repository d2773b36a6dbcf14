package jinja

import (
	"slices"
	"strings"

	"initbox/render/engine"
	"initbox/render/helpers"
)

// Each function here reads one level of the grammar of expressions, from the weakest operator to the strongest, and
// calls the one of the next level. They return what is read and, for what is read of the data, its place.

// place is what an expression like a.b["c"] reads.
type place struct {
	at   position // where the expression begins
	path string   // such as a.b.c, if it reads just that of the data
	text string   // such as a.b[…], as far as that is plain
}

// literals are the names that are values.
var literals = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": none, "None": none}

// here is the position of the current token.
func (r *reader) here() position { return r.at(r.token().offset) }

// expr reads an expression; a tuple needs parentheses.
func (r *reader) expr() expr {
	e, _ := r.conditional()
	return e
}

// tuple reads an expression or, where there are commas, a tuple.
func (r *reader) tuple(conditional bool) expr {
	e, _ := r.tupleAt(conditional)
	if e == nil {
		r.unexpected("an expression")
	}
	return e
}

// tupleAt returns nil where there is no expression.
func (r *reader) tupleAt(conditional bool) (expr, place) {
	at := r.here()
	var items []expr
	var p place
	isTuple := false
	for more := true; more && !r.tupleEnds(); {
		var e expr
		if conditional {
			e, p = r.conditional()
		} else {
			e, p = r.or()
		}
		items = append(items, e)
		more = r.skip(",")
		isTuple = isTuple || more
	}
	switch {
	case isTuple:
		return r.literal(at, "tuple", makeTuple, items), place{at: at}
	case len(items) == 1:
		return items[0], p
	}
	return nil, place{at: at}
}

func (r *reader) tupleEnds() bool { return r.sees(kindEnd) || r.sees(")") }

// literal makes a list, a tuple or a mapping; items may be missing.
func (r *reader) literal(at position, name string, do operator, items []expr) expr {
	o := newOperation(at, name, do, items...)
	o.lax = true
	return o
}

func newOperation(at position, name string, do operator, args ...expr) *operation {
	o := &operation{op: op{at: at, name: name, do: do}}
	for _, a := range args {
		o.args = append(o.args, argument{value: a})
	}
	return o
}

// conditional reads a if b else c.
func (r *reader) conditional() (expr, place) {
	defer r.deeper("expression")()
	e, p := r.or()
	for r.skip("if") {
		r.level("expression")
		c := &conditional{yes: e}
		c.test, _ = r.or()
		if r.skip("else") {
			c.no, _ = r.conditional()
		}
		e, p = c, place{at: p.at}
	}
	return e, p
}

func (r *reader) or() (expr, place)  { return r.junction("or", r.and) }
func (r *reader) and() (expr, place) { return r.junction("and", r.not) }

func (r *reader) junction(word string, operand func() (expr, place)) (expr, place) {
	defer r.deeper("expression")()
	left, p := operand()
	for r.skip(word) {
		r.level("expression")
		right, _ := operand()
		left, p = &junction{word == "and", left, right}, place{at: p.at}
	}
	return left, p
}

func (r *reader) not() (expr, place) {
	at := r.here()
	if !r.skip("not") {
		return r.compare()
	}
	defer r.deeper("expression")()
	e, _ := r.not()
	return negation{e}, place{at: at}
}

var comparisons = []kind{"==", "!=", "<", "<=", ">", ">="} // in the order of comparators, which end in "in" and "not in"

func (r *reader) compare() (expr, place) {
	first, p := r.sum()
	c := &comparison{first: first}
	for {
		i := slices.Index(comparisons, r.token().kind)
		switch {
		case i >= 0:
		case r.seesWord("in"):
			i = len(comparisons)
		case r.seesWord("not") && r.after().is(kindName, "in"):
			i = len(comparisons) + 1
			r.next()
		case len(c.links) == 0:
			return first, p
		default:
			return c, place{at: p.at}
		}
		r.next()
		right, _ := r.sum()
		c.links = append(c.links, link{op{at: p.at, name: "comparison", do: comparators[i]}, right})
	}
}

// binary reads operators of one level, from left to right.
func (r *reader) binary(operand func() (expr, place), operators map[kind]operator) (expr, place) {
	defer r.deeper("expression")()
	left, p := operand()
	for do := operators[r.token().kind]; do != nil; do = operators[r.token().kind] {
		r.level("expression")
		sign := string(r.next().kind)
		right, _ := operand()
		if sign == "~" && isConstant(left) && isConstant(right) {
			do = concatConstants
		}
		left, p = newOperation(p.at, sign, do, left, right), place{at: p.at}
	}
	return left, p
}

// isConstant returns whether e reads no data.
func isConstant(e expr) bool {
	switch e := e.(type) {
	case constant:
		return true
	case *operation:
		return !slices.ContainsFunc(e.args, func(a argument) bool { return !isConstant(a.value) })
	}
	return false
}

var (
	sums     = map[kind]operator{"+": add, "-": arithmetic("-")}
	concats  = map[kind]operator{"~": concat}
	products = map[kind]operator{"*": multiply, "/": arithmetic("/"), "//": arithmetic("//"), "%": remainder}
	powers   = map[kind]operator{"**": arithmetic("**")}
)

func (r *reader) sum() (expr, place)     { return r.binary(r.concat, sums) }
func (r *reader) concat() (expr, place)  { return r.binary(r.product, concats) }
func (r *reader) product() (expr, place) { return r.binary(r.power, products) }
func (r *reader) power() (expr, place) {
	return r.binary(func() (expr, place) { return r.unary(true) }, powers)
}

// unary reads signs, and what they apply to. Filters apply to the signed value.
func (r *reader) unary(filtered bool) (e expr, p place) {
	defer r.deeper("expression")()
	p.at = r.here()
	switch {
	case r.skip("-"):
		of, _ := r.unary(false)
		e = newOperation(p.at, "-", negate, of)
	case r.skip("+"):
		of, _ := r.unary(false)
		e = newOperation(p.at, "+", positive, of)
	default:
		e, p = r.primary()
	}
	e, p = r.postfix(e, p)
	for filtered {
		switch {
		case r.skip("|"):
			e = r.filter(e, p)
		case r.seesWord("is"):
			e = r.test(e, p)
		case r.sees("("):
			e = r.call(e, p)
		default:
			return e, p
		}
		r.level("expression")
		p = place{at: p.at}
	}
	return e, p
}

func (r *reader) primary() (expr, place) {
	p := place{at: r.here()}
	switch t := r.token(); t.kind {
	case kindName:
		r.next()
		if v, ok := literals[t.text]; ok {
			return constant{v}, p
		}
		return r.variable(t.text, p.at)
	case kindNumber:
		return constant{r.next().value}, p
	case kindString:
		return constant{r.strings()}, p
	case "(":
		r.next()
		e, inside := r.tupleAt(true)
		r.expect(")")
		if e == nil {
			e = r.literal(p.at, "tuple", makeTuple, nil)
		}
		return e, inside
	case "[":
		return r.literal(p.at, "list", makeList, r.items("]", func() []expr { return []expr{r.expr()} })), p
	case "{":
		return r.literal(p.at, "mapping", makeDict, r.items("}", func() []expr {
			key := r.expr()
			r.expect(":")
			return []expr{key, r.expr()}
		})), p
	}
	if r.sees(".") && r.after().kind == kindName {
		r.fail(r.token().offset, "in Jinja, write "+r.after().text, "unexpected . before a name")
	}
	r.unexpected("an expression")
	return nil, p
}

// strings reads one string, or several in a row, which are one.
func (r *reader) strings() string {
	var all strings.Builder
	for r.sees(kindString) {
		t := r.next()
		s, wrong := unquoted(t.text)
		if wrong != "" {
			r.fail(t.offset, "", "%s", wrong)
		}
		all.WriteString(s)
	}
	return all.String()
}

// items reads the items of a list or a mapping, in brackets.
func (r *reader) items(end kind, item func() []expr) (all []expr) {
	for r.next(); !r.sees(end); {
		all = append(all, item()...)
		if !r.sees(end) {
			r.expect(",")
		}
	}
	r.next()
	return all
}

// postfix reads the attributes, items and calls behind an expression.
func (r *reader) postfix(e expr, p place) (expr, place) {
	defer r.deeper("expression")()
	for {
		switch {
		case r.skip("."):
			e, p = r.attribute(e, p)
		case r.sees("["):
			e, p = r.subscript(e, p)
		case r.sees("("):
			e, p = r.call(e, p), place{at: p.at}
		default:
			return e, p
		}
		r.level("expression")
	}
}

// attribute reads what follows a dot: an attribute, a method that is called, or an index.
func (r *reader) attribute(of expr, p place) (expr, place) {
	t := r.token()
	switch {
	case t.kind == kindNumber && is[int64](t.value):
		r.next()
		return r.item(of, p, constant{t.value})
	case t.kind != kindName:
		r.unexpected("a name or a number")
	}
	name := r.next().text
	missed := p.missed(name, "the attribute ")
	if r.sees("(") {
		return &invocation{p.at, of, name, missed, r.arguments()}, place{at: p.at}
	}
	o := newOperation(p.at, name, getAttr(name, missed), of)
	return o, r.extend(p, name, "."+name)
}

// subscript reads [key] or a slice.
func (r *reader) subscript(of expr, p place) (expr, place) {
	at := r.at(r.next().offset)
	var keys []expr
	for !r.sees("]") {
		if len(keys) > 0 {
			r.expect(",")
		}
		bounds, isSlice := r.subscribed()
		if isSlice {
			if len(keys) > 0 || !r.sees("]") {
				r.unexpected("]")
			}
			r.next()
			return newOperation(p.at, "slice", slice, slices.Concat([]expr{of}, bounds)...), place{at: p.at}
		}
		keys = append(keys, bounds[0])
	}
	r.next()
	if len(keys) == 1 {
		return r.item(of, p, keys[0])
	}
	return r.item(of, p, r.literal(at, "tuple", makeTuple, keys))
}

// subscribed reads what stands between brackets: a key, or the three bounds of a slice.
func (r *reader) subscribed() (bounds []expr, isSlice bool) {
	bounds = []expr{constant{none}, constant{none}, constant{none}}
	for i := range bounds {
		if !r.sees(":") && !r.sees("]") && !r.sees(",") {
			bounds[i] = r.expr()
		} else if i == 0 && !r.sees(":") {
			r.unexpected("an expression")
		}
		if i == len(bounds)-1 || !r.skip(":") {
			return bounds, i > 0
		}
	}
	return bounds, true
}

func (r *reader) item(of expr, p place, subscript expr) (expr, place) {
	key := "[…]"
	c, isConstant := subscript.(constant)
	if isConstant {
		key = str(c.v)
	}
	o := newOperation(p.at, key, getItem(p.missed(key, "item ")), of, subscript)
	if !isConstant {
		p.path = ""
	}
	return o, r.extend(p, key, "[…]")
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
	if p.text != "" {
		p.text += text
	}
	if p.path != "" {
		p.path += "." + name
		r.input(p).Name = inputName(p.path)
	}
	return p
}

// input returns the input that is just what p reads, nil if there is none. It is the one that was noted last.
func (r *reader) input(p place) *engine.Input {
	if p.path == "" {
		return nil
	}
	return &r.inputs[len(r.inputs)-1]
}

func (r *reader) variable(id string, at position) (expr, place) {
	for _, m := range r.macros {
		m.uses[id] = m.uses[id] || id == "caller" || id == "kwargs" || id == "varargs"
	}
	v := &variable{at: at, id: id, local: r.locals[id] > 0, missed: id}
	p := place{at: at, text: id}
	if v.local {
		return v, p
	}
	v.missed = inputName(id)
	if f, ok := r.e.functions[id]; ok {
		v.fn = &op{at: at, name: id, do: f.function, lax: f.lax}
		if r.e.data.Values[id] == nil { // to be passed on
			return v, p
		}
	}
	p.path = id
	r.inputs = append(r.inputs, engine.Input{Position: at, Name: v.missed})
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

// call reads the arguments of a call.
func (r *reader) call(callee expr, p place) expr {
	v, ok := callee.(*variable)
	if !ok {
		return &invocation{at: p.at, callee: callee, args: r.arguments()}
	}
	f, ok := r.e.functions[v.id]
	switch {
	case r.locals[v.id] > 0:
	case !ok && r.strict:
		panic(r.e.noFunction(v.at, v.id, r.texts()...))
	case f.unsteady:
		r.unsteady[v.id] = true
	}
	if r.input(p) != nil { // a function is no input
		r.inputs = r.inputs[:len(r.inputs)-1]
	}
	v.called = true
	args := r.arguments()
	if v.id != "ordinal" || len(args) == 0 {
		r.readsPod(v.id, p)
	}
	return &invocation{at: p.at, callee: v, args: args}
}

// readsPod notes the input that a function reads by itself, before that of p, which stays the last one.
func (r *reader) readsPod(function string, p place) {
	if name := helpers.Reads(function); name != "" {
		before := len(r.inputs)
		if r.input(p) != nil {
			before--
		}
		r.inputs = slices.Insert(r.inputs, before, engine.Input{Position: p.at, Name: name})
	}
}

// texts returns the texts that a call begins with.
func (r *reader) texts() (all []string) {
	for i := r.i + 1; i < len(r.tokens) && (r.tokens[i].kind == kindString || r.tokens[i].kind == ","); i++ {
		if r.tokens[i].kind == kindString {
			s, _ := unquoted(r.tokens[i].text)
			all = append(all, s)
		}
	}
	return all
}

// arguments reads those in parentheses. As in Python, positional ones come first.
func (r *reader) arguments() (args []argument) {
	for r.next(); !r.sees(")"); {
		offset := r.token().offset
		a := argument{kind: argPositional}
		switch {
		case r.skip("*"):
			a.kind = argList
		case r.skip("**"):
			a.kind = argMapping
		case r.sees(kindName) && r.after().kind == "=":
			a.kind, a.name = argNamed, r.next().text
			r.next()
		}
		for _, before := range args {
			late := a.kind == argPositional && before.kind != argPositional || a.kind == argList && before.kind == argList
			if late || before.kind == argMapping {
				r.fail(offset, "", "the argument is in the wrong order: positional, named, *list, **mapping")
			}
			if a.kind == argNamed && before.name == a.name {
				r.fail(offset, "", "the argument %s is given twice", a.name)
			}
		}
		a.value = r.expr()
		args = append(args, a)
		if !r.sees(")") {
			r.expect(",")
		}
	}
	r.next()
	return args
}

// called reads the name and the arguments of a filter or a test, which has to exist.
func (r *reader) called(what string, table map[string]fn) op {
	t := r.token()
	name := r.name()
	for r.skip(".") {
		name += "." + r.name()
	}
	f, ok := table[name]
	if !ok {
		r.fail(t.offset, similarTo(name, table), "there is no %s %s", what, name)
	}
	if f.unsteady {
		r.unsteady[name] = true
	}
	return op{r.at(t.offset), what + " " + name, f.call, f.lax}
}

// filter reads one that is applied to an expression.
func (r *reader) filter(of expr, p place) expr {
	o := &operation{r.called("filter", r.e.filters), []argument{{value: of}}}
	if name := strings.TrimPrefix(o.name, "filter "); name != "ordinal" { // which reads its argument
		r.readsPod(name, p)
	}
	if in := r.input(p); o.lax && in != nil {
		in.Optional = o.name != "filter mandatory"
	}
	if r.sees("(") {
		o.args = append(o.args, r.arguments()...)
	}
	return o
}

// test reads is, and the test of an expression.
func (r *reader) test(of expr, p place) expr {
	r.next()
	not := r.skip("not")
	o := &operation{r.called("test", r.e.tests), []argument{{value: of}}}
	if in := r.input(p); o.lax && in != nil { // defined or undefined
		in.Optional = true
		r.tested[in.Name] = true
	}
	switch t := r.token(); {
	case t.kind == "(":
		o.args = append(o.args, r.arguments()...)
	case t.is(kindName, "else") || t.is(kindName, "or") || t.is(kindName, "and"):
	case t.is(kindName, "is"):
		r.fail(t.offset, "write and between them", "tests cannot be chained")
	case t.kind == kindName || t.kind == kindString || t.kind == kindNumber || t.kind == "[" || t.kind == "{":
		arg, argPlace := r.primary()
		arg, _ = r.postfix(arg, argPlace)
		o.args = append(o.args, argument{value: arg})
	}
	if not {
		return negation{o}
	}
	return o
}

// target reads what is assigned to, which may be a tuple and, where that is allowed, an attribute of a namespace.
func (r *reader) target(namespace bool) target {
	t := &tupleTarget{at: r.here()}
	isTuple := false
	for more := true; more && !r.tupleEnds(); {
		t.items = append(t.items, r.targetItem(namespace))
		more = r.skip(",")
		isTuple = isTuple || more
	}
	switch {
	case isTuple:
		return t
	case len(t.items) == 1:
		return t.items[0]
	}
	r.unexpected("a name")
	return nil
}

func (r *reader) targetItem(namespace bool) target {
	defer r.deeper("expression")()
	t := r.token()
	switch {
	case r.skip("("):
		inner := r.target(false)
		r.expect(")")
		return inner
	case t.kind != kindName:
		r.unexpected("a name")
	}
	name := r.storedName()
	if namespace && r.skip(".") {
		of, p := r.variable(name, r.at(t.offset))
		if r.input(p) != nil {
			r.inputs = r.inputs[:len(r.inputs)-1]
		}
		return &attributeTarget{at: p.at, of: of, name: r.name()}
	}
	if name == "loop" && r.loopDepth > 0 {
		r.fail(t.offset, "give the variable another name", "loop cannot be set in a loop, where it has a meaning")
	}
	return nameTarget(name)
}
