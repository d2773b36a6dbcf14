package gotemplate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"initbox/internal/suggest"
	"initbox/render/engine"
	"initbox/render/helpers"
)

// The rewritten forms, with N the number of a site, by which the function finds the position and the name:
//
//	.a.b, $x.a, (…).a       _chain N . — when strict; nil if it is optional there
//	.Files.Get "x"          _method N .Files "x" — when strict
//	index .a "b"            _index N .a "b" — when strict; likewise env, expandenv
//	include, tpl, required  _include N …
//	default, coalesce       _choose N … — when strict; likewise ternary
//	{{f .a}}                {{f .a | _print N}}, unless f returns text or a number
//	{{range …}}…            {{range …}}{{_tick}}…
//	the body of a template  {{_enter}}…{{_leave}}
//	{{template "x" .a}}     {{template "x" .a | _dot N}}
//
// Workers that stop at a missing input execute the same tree as workers that look for all
// missing inputs: only their functions differ.

// site is a position in a text where a value is read or printed, or a function called.
type site struct {
	source   *unit
	pos      int      // byte offset
	head     string   // of a chain, as written: "" for dot, "$x", "(…)"
	keys     []string // of a chain: the keys to look up, each in the previous value
	ref      ref      // of the value, from the dot of the template; for an index, of the indexed value
	reads    bool     // it reads ref: an input, if it is in the data
	constant []string // of an index: the keys, if they are literals
	function string   // the name of the called function in the template
	optional bool     // nil is allowed
	chosen   bool     // by _choose, which gets a gap if the value is missing
	resort   bool     // the last one of those to choose from, where nil is not allowed
	resorts  []*site  // of a _choose: those that are the last ones
	print    bool     // its value is printed
	calls    string   // the template that is called with ref as its dot, if its name is a literal
}

// text returns the source of the site, shortened if it is long.
func (s *site) text() string {
	const most = 200
	text := s.whole()
	if runes := []rune(text[:min(len(text), 4*most)]); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func (s *site) whole() string {
	if s.keys != nil {
		return s.head + "." + strings.Join(s.keys, ".")
	}
	text := s.source.text[min(s.pos, len(s.source.text)):]
	if i := strings.Index(text, s.source.right); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSpace(strings.TrimSuffix(text, "-"))
}

// position returns the position of the site, or of the call of tpl whose text it is in.
func (s *site) position() engine.Position {
	if s.source.given != nil {
		return s.source.given.position()
	}
	return s.source.position(s.pos)
}

// rewriter walks one tree. On an error it panics with an *engine.Error.
type rewriter struct {
	*unit
	e    *goEngine
	body []*site
	dot  ref
	vars []variable

	resorts map[*parse.CommandNode][]*site // of the calls that become _choose
}

type variable struct {
	name string
	ref  ref
}

// rewrite prepares a tree of the unit.
func (u *unit) rewrite(e *goEngine, tree *parse.Tree) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *engine.Error:
			err = p
		default:
			panic(p)
		}
	}()
	own := ref{known: true}
	r := &rewriter{unit: u, e: e, dot: own, vars: []variable{{"$", own}}, resorts: map[*parse.CommandNode][]*site{}}
	r.list(tree.Root)
	tree.Root.Nodes = slices.Concat([]parse.Node{action(tree.Root.Pos, "_enter")}, tree.Root.Nodes, []parse.Node{action(tree.Root.Pos, "_leave")})
	u.bodies[tree.Name] = r.body
	return nil
}

func (r *rewriter) fail(pos parse.Pos, fix, format string, args ...any) {
	panic(&engine.Error{Position: r.position(int(pos)), Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *rewriter) add(s site) *site {
	s.source = r.unit
	r.sites, r.body = append(r.sites, &s), append(r.body, &s)
	return &s
}

// id returns the node with the number of the last site, the argument of our functions.
func (r *rewriter) id(pos parse.Pos) parse.Node {
	n := r.number<<32 | int64(len(r.sites)-1)
	return &parse.NumberNode{NodeType: parse.NodeNumber, Pos: pos, IsInt: true, Int64: n, Text: strconv.FormatInt(n, 10)}
}

func ident(pos parse.Pos, name string) parse.Node { return parse.NewIdentifier(name).SetPos(pos) }

func command(pos parse.Pos, args ...parse.Node) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: args}
}

func action(pos parse.Pos, function string) parse.Node {
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: pos, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{command(pos, ident(pos, function))},
	}}
}

// list walks the nodes of a block, whose variables end with it.
func (r *rewriter) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	defer func(n int) { r.vars = r.vars[:n] }(len(r.vars))
	for _, n := range l.Nodes {
		r.node(n)
	}
}

func (r *rewriter) node(n parse.Node) {
	switch n := n.(type) {
	case *parse.ActionNode:
		r.pipe(n.Pipe, false)
		if len(n.Pipe.Decl) == 0 {
			r.printed(n)
		}
	case *parse.IfNode:
		r.block(&n.BranchNode, func(ref) {})
	case *parse.WithNode:
		r.block(&n.BranchNode, func(of ref) { r.dot = of })
	case *parse.RangeNode:
		r.block(&n.BranchNode, func(of ref) {
			r.dot = of.child(each)
			for i, v := range n.Pipe.Decl { // one variable is the element, two are the key and the element
				element := ref{}
				if i == len(n.Pipe.Decl)-1 {
					element = r.dot
				}
				r.declare(v.Ident[0], element, n.Pipe.IsAssign)
			}
		})
		n.List.Nodes = slices.Insert(n.List.Nodes, 0, action(n.Pos, "_tick"))
	case *parse.TemplateNode:
		var dot ref
		if n.Pipe != nil {
			dot = r.pipe(n.Pipe, false)
			r.add(site{pos: int(n.Pos), ref: dot, calls: n.Name})
			n.Pipe.Cmds = append(n.Pipe.Cmds, command(n.Pos, ident(n.Pos, "_dot"), r.id(n.Pos)))
		} else {
			r.add(site{pos: int(n.Pos), calls: n.Name})
		}
		r.composes = true
	}
}

// block walks a node with two lists; inner is the dot of the first one.
func (r *rewriter) block(n *parse.BranchNode, inner func(ref)) {
	defer func(dot ref, n int) { r.dot, r.vars = dot, r.vars[:n] }(r.dot, len(r.vars))
	dot := r.dot
	of := r.pipe(n.Pipe, false)
	inner(of)
	r.list(n.List)
	r.dot = dot
	r.list(n.ElseList)
}

func (r *rewriter) declare(name string, of ref, assign bool) {
	if !assign {
		r.vars = append(r.vars, variable{name, of})
		return
	}
	for i := len(r.vars) - 1; i >= 0; i-- {
		if r.vars[i].name == name {
			r.vars[i].ref = ref{} // of several origins
			return
		}
	}
}

func (r *rewriter) variable(name string) ref {
	for i := len(r.vars) - 1; i >= 0; i-- {
		if r.vars[i].name == name {
			return r.vars[i].ref
		}
	}
	return ref{}
}

// printed adds a check to an action that prints: the value may be null, or endless.
func (r *rewriter) printed(n *parse.ActionNode) {
	last := n.Pipe.Cmds[len(n.Pipe.Cmds)-1]
	switch first := last.Args[0].(type) {
	case *parse.StringNode, *parse.NumberNode, *parse.BoolNode:
		return
	case *parse.IdentifierNode:
		if first.Ident == "_chain" {
			r.sites[len(r.sites)-1].print = true
			return
		}
		if printable(r.e.function(first.Ident)) {
			return
		}
	}
	r.add(site{pos: int(n.Pipe.Pos), print: true})
	n.Pipe.Cmds = append(n.Pipe.Cmds, command(n.Pos, ident(n.Pos, "_print"), r.id(n.Pos)))
}

// pipe walks a pipeline; optional means that its value may be nil.
func (r *rewriter) pipe(p *parse.PipeNode, optional bool) ref {
	var of ref
	nilWillDo := func(i int) bool { // as the value of the i-th command
		if i+1 == len(p.Cmds) {
			return optional
		}
		next := p.Cmds[i+1]
		f, ok := next.Args[0].(*parse.IdentifierNode)
		return ok && isOptional(f.Ident, next, len(next.Args)-1, len(next.Args))
	}
	for i, cmd := range p.Cmds {
		of = r.command(cmd, nilWillDo(i), i > 0, of)
		if i+1 < len(p.Cmds) {
			next := p.Cmds[i+1]
			r.choose(next, cmd, len(next.Args)-1, len(next.Args), nilWillDo(i+1))
		}
	}
	if len(p.Decl) == 1 { // a range declares its own
		r.declare(p.Decl[0].Ident[0], of, p.IsAssign)
	}
	return of
}

// command walks one command of a pipeline; before is the ref of its last argument.
func (r *rewriter) command(cmd *parse.CommandNode, optional, piped bool, before ref) ref {
	args := cmd.Args
	switch first := args[0].(type) {
	case *parse.IdentifierNode:
		return r.call(cmd, first, optional, piped, before)
	case *parse.PipeNode:
		return r.pipe(first, optional)
	case *parse.FieldNode, *parse.VariableNode, *parse.ChainNode:
		if len(args) == 1 && !piped {
			node, of := r.value(first, optional)
			if p, ok := node.(*parse.PipeNode); ok && node != parse.Node(first) {
				cmd.Args = p.Cmds[0].Args
			}
			return of
		}
		return r.method(cmd, optional)
	case *parse.DotNode:
		return r.dot
	}
	return ref{}
}

// value walks an operand, and returns its replacement.
func (r *rewriter) value(n parse.Node, optional bool) (parse.Node, ref) {
	switch n := n.(type) {
	case *parse.DotNode:
		return n, r.dot
	case *parse.PipeNode:
		return n, r.pipe(n, optional)
	case *parse.IdentifierNode: // a function without arguments
		cmd := command(n.Pos, n)
		of := r.call(cmd, n, optional, false, ref{})
		if len(cmd.Args) == 1 && cmd.Args[0] == parse.Node(n) {
			return n, of
		}
		return pipeOf(cmd), of
	case *parse.FieldNode:
		return r.chain(n, optional)
	case *parse.VariableNode:
		if len(n.Ident) == 1 {
			return n, r.variable(n.Ident[0])
		}
		return r.chain(n, optional)
	case *parse.ChainNode:
		return r.chain(n, optional)
	}
	return n, ref{}
}

func pipeOf(cmd *parse.CommandNode) *parse.PipeNode {
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: cmd.Pos, Cmds: []*parse.CommandNode{cmd}}
}

// receiver splits a chain of fields: its first node, the ref of that node, the fields, the source of the first node,
// and its position. The parser reports the position of the second field, if there is one.
func (r *rewriter) receiver(n parse.Node, optional bool) (recv parse.Node, of ref, keys []string, head string, pos parse.Pos) {
	pos = n.Position()
	switch n := n.(type) {
	case *parse.FieldNode:
		if len(n.Ident) > 1 {
			pos -= parse.Pos(len(n.Ident[0]) + 1)
		}
		return &parse.DotNode{NodeType: parse.NodeDot, Pos: pos}, r.dot, n.Ident, "", pos
	case *parse.VariableNode:
		if len(n.Ident) > 1 {
			pos -= parse.Pos(len(n.Ident[0]))
		}
		v := &parse.VariableNode{NodeType: parse.NodeVariable, Pos: pos, Ident: n.Ident[:1]}
		return v, r.variable(n.Ident[0]), n.Ident[1:], n.Ident[0], pos
	case *parse.ChainNode:
		head = n.Node.String()
		r.rootless(n, head)
		if _, ok := n.Node.(*parse.PipeNode); ok {
			head = "(" + head + ")"
			pos = n.Node.Position()
		}
		recv, of = r.value(n.Node, optional)
		return recv, of, n.Field, head, pos
	}
	return n, ref{}, nil, "", pos
}

// rootless refuses a chain such as env.NAME, where one that begins with a dot is meant.
func (r *rewriter) rootless(n *parse.ChainNode, head string) {
	if _, ok := n.Node.(*parse.IdentifierNode); !ok || strings.HasSuffix(n.Field[0], "env") || strings.HasSuffix(n.Field[0], "Env") {
		return // the latter are gomplate's, such as env.Getenv
	}
	for _, root := range []string{"Values", "Env", "Pod", "Files"} {
		if strings.EqualFold(head, root) {
			fields := "." + strings.Join(n.Field, ".")
			r.fail(n.Node.Position(), "write ."+root+fields, "there is no %s%s", head, fields)
		}
	}
}

// chain rewrites .a.b, $x.a and (…).a.
func (r *rewriter) chain(n parse.Node, optional bool) (parse.Node, ref) {
	recv, of, keys, head, pos := r.receiver(n, optional)
	of = of.child(keys...)
	if c, ok := n.(*parse.ChainNode); ok {
		c.Node = recv
	}
	r.add(site{pos: int(pos), head: head, keys: keys, ref: of, reads: true, optional: optional})
	if !r.e.strict {
		return n, of
	}
	return pipeOf(command(pos, ident(pos, "_chain"), r.id(pos), recv)), of
}

// method rewrites a chain that has arguments: its last name is a method.
func (r *rewriter) method(cmd *parse.CommandNode, optional bool) ref {
	n := cmd.Args[0]
	recv, of, keys, head, pos := r.receiver(n, optional)
	if c, ok := n.(*parse.ChainNode); ok {
		c.Node = recv
	}
	rest := make([]parse.Node, 0, len(cmd.Args)-1)
	for _, arg := range cmd.Args[1:] {
		arg, _ = r.value(arg, false)
		rest = append(rest, arg)
	}
	if len(keys) == 0 { // a variable with arguments: the executor reports the error
		cmd.Args = append(cmd.Args[:1], rest...)
		return ref{}
	}
	name := keys[len(keys)-1]
	s := r.add(site{pos: int(pos), head: head, keys: keys, function: name, optional: optional, ref: of.child(keys[:len(keys)-1]...)})
	if file, ok := constantOf(cmd.Args, 1); ok && strings.HasPrefix(s.ref.name(), ".Files") {
		s.reads, s.constant = true, []string{file}
	}
	if !r.e.strict {
		cmd.Args = append(cmd.Args[:1], rest...)
		return ref{}
	}
	id := r.id(pos)
	if len(keys) > 1 { // the ones before it are looked up
		r.add(site{pos: int(pos), head: head, keys: keys[:len(keys)-1], ref: s.ref})
		recv = pipeOf(command(pos, ident(pos, "_chain"), r.id(pos), recv))
	}
	cmd.Args = append([]parse.Node{ident(pos, "_method"), id, recv}, rest...)
	return ref{}
}

// call walks the call of a function.
func (r *rewriter) call(cmd *parse.CommandNode, f *parse.IdentifierNode, optional, piped bool, before ref) ref {
	name, pos := f.Ident, f.Pos
	r.known(cmd, name, pos)
	total := len(cmd.Args) - 1
	if piped {
		total++
	}
	refs := make([]ref, 0, total)
	for i := 1; i < len(cmd.Args); i++ {
		var of ref
		cmd.Args[i], of = r.value(cmd.Args[i], isOptional(name, cmd, i-1, total) || optional && name == "index")
		if p, ok := cmd.Args[i].(*parse.PipeNode); ok {
			r.choose(cmd, p.Cmds[len(p.Cmds)-1], i-1, total, optional)
		}
		refs = append(refs, of)
	}
	if piped {
		refs = append(refs, before)
	}
	last := ref{}
	if len(refs) > 0 {
		last = refs[len(refs)-1]
	}
	var result ref
	switch name {
	case "index":
		result = r.index(cmd, refs, pos, optional)
	case "env", "expandenv":
		r.environment(cmd, name, pos, optional)
	case "include", "tpl":
		s := r.add(site{pos: int(pos), function: name, ref: last})
		if name == "include" {
			s.calls, _ = constantOf(cmd.Args, 1)
		}
		r.composes = true
		r.replace(cmd, "_"+name)
	case "required":
		r.add(site{pos: int(pos), function: name, ref: last})
		r.replace(cmd, "_required")
		result = last
	case "deepCopy", "mustDeepCopy":
		result = last
	case "default", "coalesce", "ternary":
		result = r.choice(cmd, name, last, optional)
	case "jvmHeap", "memMiB", "cpuCount", "ordinal":
		if name != "ordinal" || total == 0 {
			r.add(site{pos: int(pos), function: name, reads: true, constant: []string{helpers.Reads(name)}})
		}
	case "dict":
		result = dictOf(cmd, refs)
	case "get", "hasKey":
		r.asks(cmd, refs, 0, 2, 2)
	case "dig":
		r.asks(cmd, refs, total-1, 1, total-2)
	}
	return result
}

// replace makes the command a call of our function, with the last site.
func (r *rewriter) replace(cmd *parse.CommandNode, function string) {
	pos := cmd.Args[0].Position()
	cmd.Args = slices.Concat([]parse.Node{ident(pos, function), r.id(pos)}, cmd.Args[1:])
}

func (r *rewriter) index(cmd *parse.CommandNode, refs []ref, pos parse.Pos, optional bool) ref {
	if len(refs) == 0 {
		return ref{}
	}
	s := r.add(site{pos: int(pos), function: "index", ref: refs[0], optional: optional})
	result := refs[0]
	for i := 1; i < len(refs); i++ {
		key, ok := constantOf(cmd.Args, i+1)
		if !ok {
			result = ref{}
			break
		}
		s.constant = append(s.constant, key)
		result = result.child(key)
	}
	if len(s.constant) > 0 { // the input is the element, not the indexed value
		s.reads = true
		if before := len(r.body) - 2; before >= 0 && r.body[before].ref.name() == s.ref.name() {
			r.body[before].reads = false
		}
	}
	if r.e.strict {
		r.replace(cmd, "_index")
	}
	return result
}

// asks records the input of a function that looks it up by keys: the arguments from first to
// last, in the argument at index of.
func (r *rewriter) asks(cmd *parse.CommandNode, refs []ref, of, first, last int) {
	s := site{pos: int(cmd.Pos), function: "index", optional: true, reads: true}
	for i := first; i <= last; i++ {
		key, ok := constantOf(cmd.Args, i)
		if !ok {
			return
		}
		s.constant = append(s.constant, key)
	}
	if of >= 0 && of < len(refs) && len(s.constant) > 0 {
		s.ref = refs[of]
		r.add(s)
	}
}

func (r *rewriter) environment(cmd *parse.CommandNode, name string, pos parse.Pos, optional bool) {
	s := r.add(site{pos: int(pos), function: name, optional: optional})
	if variable, ok := constantOf(cmd.Args, 1); ok {
		s.reads, s.constant = true, []string{variable}
	}
	if r.e.strict {
		r.replace(cmd, "_"+name)
	}
}

// dictOf returns the ref of a dict with constant keys.
func dictOf(cmd *parse.CommandNode, refs []ref) ref {
	fields := map[string]ref{}
	for i := 1; i < len(refs); i += 2 {
		key, ok := constantOf(cmd.Args, i)
		if !ok {
			return ref{}
		}
		fields[key] = refs[i]
	}
	return ref{known: true, fields: fields}
}

// constantOf returns the argument if it is a literal: a list's index is "[i]".
func constantOf(args []parse.Node, i int) (string, bool) {
	if i >= len(args) {
		return "", false
	}
	switch n := args[i].(type) {
	case *parse.StringNode:
		return n.Text, true
	case *parse.NumberNode:
		return "[" + n.Text + "]", n.IsInt
	}
	return "", false
}

// known records the use of a function, and fails if the name is unknown.
func (r *rewriter) known(cmd *parse.CommandNode, name string, pos parse.Pos) {
	if !slices.Contains(r.functions, name) {
		r.functions = append(r.functions, name)
	}
	r.callsTpl = r.callsTpl || name == "tpl"
	if isUnsteady(name) && !slices.Contains(r.unsteady, name) {
		r.unsteady = append(r.unsteady, name)
	}
	r.mutates = r.mutates || isMutator(name)
	if strings.HasPrefix(r.text[pos:], name+".") && gomplate()[name+"."] != "" {
		r.fail(pos, gomplate()[name+"."], "there is no function %s", qualified().FindString(r.text[pos:]))
	}
	if slices.Contains(builtins, name) || slices.Contains(runFuncs, name) || r.e.function(name) != nil {
		return
	}
	if variable, ok := constantOf(cmd.Args, 1); ok && len(cmd.Args) == 2 && isGetenv(name) {
		r.fail(pos, "write "+environment(variable), "there is no function %s", name)
	}
	if called, fix := elsewhere(r.text[pos:]); fix != "" {
		r.fail(pos, fix, "there is no function %s", called)
	}
	names := slices.Concat(runFuncs, builtins)
	names = slices.AppendSeq(slices.AppendSeq(names, maps.Keys(r.e.functions())), maps.Keys(r.e.bounded()))
	slices.Sort(names)
	fix := ""
	if field := r.e.data.Field(name); field != "" {
		fix = "write " + field
	}
	lower := make([]string, len(names)) // suggest lowers only the case of the name
	for i, n := range names {
		lower[i] = strings.ToLower(n)
	}
	if i := slices.Index(lower, suggest.Closest(name, lower)); i >= 0 && (fix == "" || strings.EqualFold(name, names[i])) {
		fix = "did you mean " + names[i] + "?"
	}
	r.fail(pos, fix, "there is no function %s", name)
}

// runFuncs are the functions that depend on the run: see worker.funcs.
var runFuncs = []string{"include", "tpl", "required", "env", "expandenv", "getHostByName", "resolve", "resolveSRV", "lookup"}

// builtins are the functions of text/template.
var builtins = []string{
	"and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print", "printf", "println", "slice", "urlquery",
}

// isOptional returns whether the i-th of n arguments of a function may be nil, because the function tests for that.
func isOptional(name string, cmd *parse.CommandNode, i, n int) bool {
	switch name {
	case "default", "coalesce", "empty", "all", "any":
		return true
	case "required", "dig", "kindOf", "kindIs", "typeOf", "typeIs", "typeIsLike":
		return i == n-1
	case "get", "hasKey":
		return i == 0
	case "pluck":
		return i > 0
	case "ternary":
		return i < 2
	case "eq", "ne": // {{if ne .a nil}}
		return slices.ContainsFunc(cmd.Args[1:], func(arg parse.Node) bool { return arg.Type() == parse.NodeNil })
	}
	return false
}

// isUnsteady returns whether the results of the function differ from call to call.
func isUnsteady(name string) bool {
	switch name {
	case "now", "ago", "shuffle", "uuidv4", "htpasswd", "bcrypt", "encryptAES":
		return true
	}
	return strings.HasPrefix(name, "rand") || strings.HasPrefix(name, "gen")
}

// isMutator returns whether the function changes a map that is its argument.
func isMutator(name string) bool {
	return name == "set" || name == "unset" || strings.HasPrefix(name, "merge") || strings.HasPrefix(name, "mustMerge")
}
