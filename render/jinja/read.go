package jinja

import (
	"fmt"
	"slices"
	"strings"

	"initbox/render/engine"
)

// reader makes the tree of a template from its tokens. It accepts what Jinja's parser and compiler accept, and nothing
// else.
type reader struct {
	*template
	*source
	tokens []token
	i      int   // of the current token
	open   []tag // whose end is not read yet

	locals    map[string]int // how often the template itself sets a name, at the place that is read
	sets      []string       // which those are, in order
	macros    []*macroStmt   // around that place
	inner     int            // bodies around that place that have their own scope
	loopDepth int            // loops around that place
	inLoop    bool           // break and continue can end one of them
	depth     int
	strict    bool // functions that do not exist are errors here, rather than where they are called
}

// tag is one that has an end.
type tag struct {
	name   string
	offset int
}

// read reads a template. That of a partial may call macros of the templates that it is included in.
func (e *jinja) read(name, text string, partial bool) (_ *template, err error) {
	s := newSource(name, text)
	r := &reader{
		template: &template{e: e, name: name, blocks: map[string]*block{}, tested: map[string]bool{}, unsteady: map[string]bool{}},
		source:   s, tokens: s.tokens(), strict: !partial,
		locals: map[string]int{"self": 1, "caller": 1, "super": 1},
	}
	defer recovered(name, &err)
	r.survey()
	r.template.body = r.statements()
	return r.template, nil
}

// survey notes the macros, which may call each other, and whether the template extends one whose macros it may call.
func (r *reader) survey() {
	for i := range len(r.tokens) - 2 {
		switch {
		case r.tokens[i].kind != kindTag:
		case r.tokens[i+1].is(kindName, "macro"):
			r.locals[r.tokens[i+2].text]++
		case r.tokens[i+1].is(kindName, "extends"):
			r.strict = false
		}
	}
}

// fail ends the reading: read recovers.
func (r *reader) fail(offset int, fix, text string, args ...any) {
	panic(&engine.Error{Position: r.at(offset), Text: fmt.Sprintf(text, args...), Fix: fix})
}

// deeper bounds the nesting of what is read until the returned function is called.
func (r *reader) deeper(what string) func() {
	before := r.depth
	r.level(what)
	return func() { r.depth = before }
}

func (r *reader) level(what string) {
	if r.depth++; r.depth > maxDepth {
		r.fail(r.token().offset, "", "the %s is nested too deeply", what)
	}
}

func (r *reader) token() token { return r.tokens[r.i] }

// after is the token behind the current one.
func (r *reader) after() token { return r.tokens[min(r.i+1, len(r.tokens)-1)] }

func (r *reader) next() token {
	t := r.token()
	if t.kind == kindWrong {
		r.unexpected("")
	}
	if r.i < len(r.tokens)-1 {
		r.i++
	}
	return t
}

// unexpected fails because the current token is not what is wanted.
func (r *reader) unexpected(wanted string) {
	t := r.token()
	if t.kind == kindWrong {
		panic(t.value)
	}
	text := "unexpected " + t.String()
	if wanted != "" {
		text += ", expected " + wanted
	}
	panic(r.wrong(r.tokens[:r.i+1], t.offset, text, ""))
}

func (r *reader) sees(k kind) bool          { return r.token().kind == k }
func (r *reader) seesWord(word string) bool { return r.token().is(kindName, word) }

// skip reads an operator, or a word, if it is there.
func (r *reader) skip(text string) bool {
	if t := r.token(); t.kind != kind(text) && !t.is(kindName, text) {
		return false
	}
	r.next()
	return true
}

func (r *reader) expect(text string) {
	if !r.skip(text) {
		r.unexpected(text)
	}
}

func (r *reader) name() string {
	if !r.sees(kindName) {
		r.unexpected("a name")
	}
	return r.next().text
}

func (r *reader) end() {
	if !r.sees(kindEnd) {
		r.unexpected("the end of the tag")
	}
	r.next()
}

// with makes names local while inside is read, which has its own scope.
func (r *reader) with(names []string, inside func()) {
	before := len(r.sets)
	r.set(names...)
	r.inner++
	inside()
	r.inner--
	r.count(r.sets[before:], -1)
	r.sets = r.sets[:before]
}

func (r *reader) set(names ...string) {
	r.sets = append(r.sets, names...)
	r.count(names, 1)
}

func (r *reader) count(names []string, by int) {
	for _, n := range names {
		r.locals[n] += by
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

// statements reads up to a tag with one of those names, of which it reads the name, or to the end of the template.
func (r *reader) statements(ends ...string) (body []stmt) {
	defer r.deeper("template")()
	for {
		switch t := r.token(); t.kind {
		case kindText:
			if r.next(); t.text != "" {
				body = append(body, text(t.text))
			}
		case kindOutput:
			r.next()
			at := r.at(r.token().offset)
			body = append(body, &output{at, r.tuple(true), false})
			r.end()
		case kindTag:
			r.next()
			if word := r.token(); word.kind == kindName && slices.Contains(ends, word.text) {
				r.next()
				return body
			}
			body = append(body, r.statement(t.offset)...)
			r.end()
		case kindFinished:
			if len(ends) > 0 {
				o := r.open[len(r.open)-1]
				r.fail(o.offset, "", "{%% %s %%} is not closed: there is no {%% end%s %%}", o.name, o.name)
			}
			return body
		default:
			r.unexpected("")
		}
	}
}

// blockOf reads the body of a tag, up to its end, or to one of others.
func (r *reader) blockOf(ends ...string) []stmt {
	r.skip(":")
	r.end()
	return r.statements(ends...)
}

// scope reads the body of a tag that has its own scope, in which names are set.
func (r *reader) scope(end string, names ...string) (body []stmt) {
	r.with(names, func() { body = r.blockOf(end) })
	return body
}

// statementKinds returns how each statement is read. Its tag begins at the offset.
func (r *reader) statementKinds() map[string]func(offset int) stmt {
	return map[string]func(int) stmt{
		"autoescape": func(int) stmt { return &autoescape{r.expr(), r.scope("endautoescape")} },
		"block":      r.block,
		"break":      func(o int) stmt { return r.jump(o, broken) },
		"call":       r.callBlock,
		"continue":   func(o int) stmt { return r.jump(o, continued) },
		"do":         func(int) stmt { return &doStmt{r.tuple(true)} },
		"extends":    r.extends,
		"filter":     r.filterBlock,
		"for":        r.loop,
		"from":       r.importFrom,
		"if":         r.condition,
		"import":     r.importAs,
		"include":    func(o int) stmt { return &include{r.reference(o, true)} },
		"macro":      r.macroTag,
		"set":        r.assignment,
		"with":       r.withBlock,
	}
}

// statement reads a tag behind its {%.
func (r *reader) statement(offset int) []stmt {
	defer r.deeper("template")()
	word := r.token()
	if word.kind != kindName {
		r.unexpected("the name of a tag")
	}
	if word.text == "print" {
		return r.printTag()
	}
	read := r.statementKinds()[word.text]
	if read == nil {
		r.unknownTag(word)
	}
	r.next()
	r.open = append(r.open, tag{word.text, offset})
	s := read(word.offset)
	r.open = r.open[:len(r.open)-1]
	return []stmt{s}
}

func (r *reader) unknownTag(word token) {
	_, isEnd := strings.CutPrefix(word.text, "end")
	if (isEnd || word.text == "else" || word.text == "elif") && len(r.open) > 0 {
		o := r.open[len(r.open)-1]
		r.fail(word.offset, "", "unexpected {%% %s %%}: {%% %s %%} of line %d has no {%% end%s %%} yet", word.text, o.name, r.at(o.offset).Line, o.name)
	}
	r.fail(word.offset, similarTo(word.text, r.statementKinds()), "there is no tag %s", word.text)
}

func (r *reader) printTag() (body []stmt) {
	for r.next(); !r.sees(kindEnd); {
		if len(body) > 0 {
			r.expect(",")
		}
		at := r.at(r.token().offset)
		body = append(body, &output{at, r.expr(), false})
	}
	return body
}

// jump reads break and continue, which Jinja has as an extension.
func (r *reader) jump(offset int, how flow) stmt {
	if !r.inLoop {
		fix := ""
		if r.loopDepth > 0 {
			fix = "move it out of the block, macro or filter that is between it and its loop"
		}
		r.fail(offset, fix, "break and continue have to be in a loop")
	}
	return how
}

// apart reads what break and continue cannot leave.
func (r *reader) apart(inside func()) {
	before := r.inLoop
	r.inLoop = false
	inside()
	r.inLoop = before
}

func (r *reader) condition(int) stmt {
	s := &ifStmt{}
	for {
		b := branch{test: r.tuple(false)}
		b.body = r.blockOf("elif", "else", "endif")
		s.branches = append(s.branches, b)
		switch r.tokens[r.i-1].text {
		case "else":
			s.orElse = r.blockOf("endif")
			return s
		case "endif":
			return s
		}
	}
}

func (r *reader) loop(offset int) stmt {
	r.loopDepth++
	l := &loopStmt{at: r.at(offset), target: r.target(false)}
	r.expect("in")
	l.over = r.tuple(false)
	all := names(l.target)
	if r.skip("if") {
		r.with(all, func() { l.filter = r.expr() })
	}
	l.recursive = r.skip("recursive")
	around := r.inLoop
	r.inLoop = true
	r.with(append(all, "loop"), func() { l.body = r.blockOf("endfor", "else") })
	if r.inLoop = around && !l.recursive; r.tokens[r.i-1].text == "else" {
		l.orElse = r.scope("endfor")
	}
	r.inLoop = around
	r.loopDepth--
	return l
}

func (r *reader) withBlock(offset int) stmt {
	w, at := &withStmt{}, r.at(offset)
	var all []string
	for !r.sees(kindEnd) {
		if len(w.assignments) > 0 {
			r.expect(",")
		}
		t := r.target(false)
		r.expect("=")
		w.assignments = append(w.assignments, assignment{at, r.expr(), t})
		all = append(all, names(t)...)
	}
	w.body = r.scope("endwith", all...)
	return w
}

func (r *reader) assignment(offset int) stmt {
	a := &assignment{at: r.at(offset), target: r.target(true)}
	if r.skip("=") {
		a.value = r.tuple(true)
	} else {
		a.value = r.piped(true, "endset")
	}
	r.set(names(a.target)...)
	return a
}

// piped reads the filters of a {% filter %} or {% set %} block, and its body.
func (r *reader) piped(own bool, end string) expr {
	c := &captured{own: own}
	var e expr = c
	for r.sees("|") || e == c && !own {
		if r.sees("|") {
			r.next()
		}
		e = r.filter(e, place{})
	}
	r.apart(func() { c.body = r.scope(end) })
	return e
}

func (r *reader) filterBlock(offset int) stmt {
	return &output{r.at(offset), r.piped(false, "endfilter"), true}
}

func (r *reader) block(offset int) stmt {
	b := &block{at: r.at(offset), name: r.name()}
	b.scoped, b.required = r.skip("scoped"), r.skip("required")
	if r.blocks[b.name] != nil {
		r.fail(offset, "", "there are two blocks named %s", b.name)
	}
	r.blocks[b.name] = b
	r.apart(func() { b.body = r.scope("endblock") })
	for _, s := range b.body {
		if t, plain := s.(text); b.required && (!plain || trimLeft(string(t)) != "") {
			r.fail(offset, "", "the block %s is required, and so it may only contain comments", b.name)
		}
	}
	if r.seesWord(b.name) {
		r.next()
	}
	return b
}

func (r *reader) extends(offset int) stmt {
	if r.inner > 0 {
		r.fail(offset, "", "extends has to stand outside of loops, blocks and macros")
	}
	return &extends{r.reference(offset, false)}
}

func (r *reader) macroTag(offset int) stmt {
	name := r.name()
	m := &macroStmt{at: r.at(offset), name: name}
	r.macroBody(m, offset, "endmacro", func() {})
	return m
}

// callBlock reads a call whose argument caller is the block's body.
func (r *reader) callBlock(offset int) stmt {
	caller := &macroStmt{at: r.at(offset)}
	var call *invocation
	r.macroBody(caller, offset, "endcall", func() {
		start := r.token().offset
		var ok bool
		if call, ok = r.expr().(*invocation); !ok {
			r.fail(start, "", "{%% call %%} needs the call of a macro")
		}
	})
	call.args = append(call.args, argument{argNamed, "caller", caller})
	return &output{caller.at, call, true}
}

// macroBody reads the parameters of a macro, what follows them outside of its scope, and its body.
func (r *reader) macroBody(m *macroStmt, offset int, end string, between func()) {
	m.uses = map[string]bool{}
	r.macros = append(r.macros, m)
	outside := len(r.sets)
	r.with([]string{"varargs", "kwargs"}, func() {
		if r.sees("(") || end == "endmacro" {
			r.signature(m)
		}
		inside := r.sets[outside:]
		r.count(inside, -1)
		r.macros = r.macros[:len(r.macros)-1]
		between()
		r.macros = append(r.macros, m)
		r.count(inside, 1)
		r.apart(func() { m.body = r.blockOf(end) })
	})
	r.macros = r.macros[:len(r.macros)-1]
	for i, p := range m.params {
		if p == "caller" && m.uses[p] && i < len(m.params)-len(m.defaults) {
			r.fail(offset, "", "the parameter caller needs a default")
		}
		delete(m.uses, p)
	}
}

func (r *reader) signature(m *macroStmt) {
	r.set(r.parameters()...)
	for r.expect("("); !r.sees(")"); {
		if len(m.params) > 0 {
			r.expect(",")
		}
		offset, p := r.token().offset, r.name()
		if slices.Contains(m.params, p) {
			r.fail(offset, "", "there are two parameters %s", p)
		}
		m.params = append(m.params, p)
		if r.skip("=") {
			m.defaults = append(m.defaults, r.expr())
		} else if len(m.defaults) > 0 {
			r.fail(offset, "", "the parameter %s needs a default, since one before it has one", p)
		}
	}
	r.next()
}

// parameters returns the names of those that follow: a default may name one behind it.
func (r *reader) parameters() (all []string) {
	depth := 0
	for i := r.i; i < len(r.tokens)-1 && r.tokens[i].kind != kindEnd; i++ {
		t := r.tokens[i]
		switch {
		case t.kind == "(" || t.kind == "[" || t.kind == "{":
			depth++
		case t.kind == ")" || t.kind == "]" || t.kind == "}":
			depth--
		}
		if depth == 1 && (t.kind == "(" || t.kind == ",") && r.tokens[i+1].kind == kindName {
			all = append(all, r.tokens[i+1].text)
		}
		if depth == 0 {
			break
		}
	}
	return all
}

// reference reads the name of a template, and the words that follow it except those of an import.
func (r *reader) reference(offset int, isInclude bool) reference {
	ref := reference{at: r.at(offset), name: r.expr(), context: isInclude, choice: isInclude}
	if c, ok := ref.name.(constant); ok {
		if s, ok := c.v.(string); ok {
			r.includes = append(r.includes, s)
		}
	}
	if isInclude {
		if r.seesWord("ignore") && r.after().is(kindName, "missing") {
			r.i += 2
			ref.optional = true
		}
		r.withContext(&ref)
	}
	return ref
}

// withContext reads "with context" or "without context".
func (r *reader) withContext(ref *reference) bool {
	if !(r.seesWord("with") || r.seesWord("without")) || !r.after().is(kindName, "context") {
		return false
	}
	ref.context = r.seesWord("with")
	r.i += 2
	return true
}

func (r *reader) importAs(offset int) stmt {
	i := &importAs{reference: r.reference(offset, false)}
	r.expect("as")
	name := r.storedName()
	i.target = nameTarget(name)
	r.withContext(&i.reference)
	r.set(name)
	return i
}

// storedName reads a name that is set.
func (r *reader) storedName() string {
	offset, name := r.token().offset, r.name()
	if _, literal := literals[name]; literal {
		r.fail(offset, "", "%s cannot be assigned to", name)
	}
	return name
}

func (r *reader) importFrom(offset int) stmt {
	i := &importFrom{reference: r.reference(offset, false)}
	r.expect("import")
	for {
		if len(i.names) > 0 {
			r.expect(",")
		}
		if r.withContext(&i.reference) {
			return i
		}
		offset, from := r.token().offset, r.storedName()
		if strings.HasPrefix(from, "_") {
			r.fail(offset, "", "%s cannot be imported: names that begin with an underscore are private", from)
		}
		as := from
		if r.skip("as") {
			as = r.storedName()
		}
		i.names = append(i.names, imported{from, as})
		r.set(as)
		if r.withContext(&i.reference) || !r.sees(",") {
			return i
		}
	}
}
