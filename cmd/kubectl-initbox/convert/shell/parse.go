package shell

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"initbox/internal/secret"
)

// Options are what is known of the shell that runs a script.
type Options struct {
	// Program is its name: bash, ash (of BusyBox), or sh, which may be any of them: then only what all of them read in the
	// same way is accepted.
	Program    string
	Parameters []Word                 // $0, $1, …
	Hostname   string                 // the variable that has what hostname prints; "" without
	Directory  func(path string) bool // reports whether a path is certainly a directory; nil if none is known
	// Lookup returns what is known of a variable of the container. Without it, nothing is.
	Lookup func(name string) (text string, state State)
}

// State says what is known of a variable of the container.
type State int

// The states.
const (
	Uncertain State = iota // it may be set or not
	Unset                  // it is certainly not set
	Literal                // its value is known
	Opaque                 // it is set, and its value is not known
)

// Limits of a script. A loop over a list is unrolled, and a function stands wherever it is called, so that a short
// script may be a long list of statements.
const (
	maxText       = 64 << 10
	maxStatements = 500
	maxDepth      = 40
	maxWords      = 5000
	maxSteps      = 20000
	maxValue      = 16 << 10
)

// Parse returns what a script does. An error, a [*Error], names the word that it is not sure of.
func Parse(text string, o Options) (*Script, error) {
	if o.Lookup == nil {
		o.Lookup = func(string) (string, State) { return "", Uncertain }
	}
	known := o.Lookup
	o.Lookup = func(name string) (string, State) {
		if strings.HasPrefix(name, FileText) {
			return "", Uncertain
		}
		return known(name)
	}
	p := &parser{o: o, steps: new(int), outputs: map[*Call]error{}, state: state{vars: map[string]value{}, exported: map[string]bool{}, functions: map[string]*syntax.Stmt{}, parameters: o.Parameters}}
	file, err := p.file(text)
	if err != nil {
		return nil, err
	}
	body, err := p.statements(file.Stmts, context{tail: true})
	if counted := (*countError)(nil); errors.As(err, &counted) {
		err = &Error{Pos{1, 1}, "$" + counted.name, "a number that a loop counts"}
	}
	if len(p.outputs) > 0 && err == nil { // what some command prints is not looked at: say so of the first
		err = p.outputs[slices.MinFunc(slices.Collect(maps.Keys(p.outputs)), func(a, b *Call) int {
			return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Column-b.Pos.Column)
		})]
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(p.pasted)
	return &Script{Body: body, Pasted: slices.Compact(p.pasted)}, nil
}

// fate is what follows from the failure of a command.
type fate int

const (
	fatal     fate = iota // the script fails
	unchecked             // the script goes on
	ignored               // the script goes on, as it wants to
)

// context is where a statement stands.
type context struct {
	// last is what a failure means for the script if nothing but the status of the list looks at it, exit what it means
	// that the shell exits with a failure, which may be a subshell.
	last, exit fate
	noexit     bool     // set -e has no effect here
	looked     bool     // the status decides whether another command runs
	tail       bool     // nothing follows in this shell
	list       *context // of the list in which the statement stands
	discard    bool     // the output is discarded
	errdiscard bool
}

// state is what a shell knows, and a subshell has a copy of.
type state struct {
	vars       map[string]value
	exported   map[string]bool
	functions  map[string]*syntax.Stmt
	parameters []Word // $0, $1, …
	dir        Word
	umask      string

	errexit, pipefail, nounset, noglob, allexport bool
}

func (s state) clone() state {
	s.vars, s.exported, s.functions = maps.Clone(s.vars), maps.Clone(s.exported), maps.Clone(s.functions)
	return s
}

// value is what a variable of the script holds. At most one field is set.
type value struct {
	word   Word
	list   []Word // of an array
	why    string // why it is not known
	output *Call  // what this command prints
	status *Cond  // whether this succeeded ($? of it)
	counts []int  // one of these numbers
	count  bool   // a number that the loop counts, while the loop is read
	either *either
}

// either is what a variable holds that a condition has set.
type either struct {
	cond    Cond
	yes, no value
}

// flow says how a list of statements ended.
type flow int

const (
	goesOn flow = iota
	exits       // the shell ended, with status 0
	returns
)

type parser struct {
	o Options
	state
	flow       flow
	depth      int
	statementN int
	words      int
	steps      *int           // statements read, each as often as it was
	pick       map[string]int // the numbers for which a condition is evaluated
	pasted     []string
	status     *Cond // what $? is of; nil if that is not known
	statusUsed bool
	locals     map[string]*value // the values before the function of its local variables; nil if there was none
	inLoop     bool
	onSleep    func(*syntax.Stmt, *syntax.CallExpr) error
	counted    syntax.ArithmExpr // what counts the loop's counter; nil if nothing does
	aborts     bool              // set -e may end an attempt of the loop
	outputs    map[*Call]error   // outputs in variables that no condition has looked at yet, and what to say then
}

// file parses the grammar, and refuses what is not the same in every shell that it may be.
func (p *parser) file(text string) (*syntax.File, error) {
	if len(text) > maxText {
		return nil, &Error{Pos{1, 1}, "…", "a script that is too long to be read"}
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return nil, &Error{Pos{1, 1}, "\\0", "no text"}
	}
	if strings.Contains(text, "\r") {
		return nil, &Error{Pos{1, 1}, "\\r", "a carriage return, which shells take for a part of the word"}
	}
	if depth(text) > 200 {
		return nil, &Error{Pos{1, 1}, "(", "nested too deeply"}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if parse := (syntax.ParseError{}); errors.As(err, &parse) {
		return nil, &Error{at(parse.Pos), "…", "not understood: " + parse.Text}
	}
	if lang := (syntax.LangError{}); errors.As(err, &lang) {
		return nil, &Error{at(lang.Pos), "…", "not understood: " + lang.Feature}
	}
	if err != nil {
		return nil, &Error{Pos{1, 1}, "…", err.Error()}
	}
	return file, nil
}

// depth returns an upper bound of how deeply a script is nested.
func depth(text string) int {
	deepest, now := 0, 0
	for _, r := range text {
		switch r {
		case '(', '{', '[':
			now++
			deepest = max(deepest, now)
		case ')', '}', ']':
			now = max(0, now-1)
		}
	}
	for _, word := range []string{"if", "while", "until", "for", "case", "`", "!"} {
		deepest += min(strings.Count(text, word), 150) / 150 * 200
	}
	return deepest
}

// short returns the beginning of a text, for messages.
func short(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return text
}

func at(pos syntax.Pos) Pos { return Pos{int(pos.Line()), int(pos.Col())} }

// refuse returns the error of a node.
func refuse(n syntax.Node, why string) error {
	return &Error{at(n.Pos()), unpasted(short(shown(n))), why}
}

// shown returns a node for messages: a word as it is written, and of a command only its name, since a password may
// be among its arguments.
func shown(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.Stmt:
		return shown(n.Cmd)
	case *syntax.CallExpr:
		if len(n.Args) == 0 && len(n.Assigns) > 0 {
			return shown(n.Assigns[0])
		}
		if len(n.Args) == 1 {
			return shown(n.Args[0])
		}
		if len(n.Args) > 1 {
			return shown(n.Args[0]) + " …"
		}
	case *syntax.Assign:
		if n.Name != nil {
			return n.Name.Value + "=…"
		}
	case *syntax.CmdSubst:
		if len(n.Stmts) > 0 {
			return "$(" + strings.TrimSuffix(shown(n.Stmts[0]), " …") + " …)"
		}
	case *syntax.BinaryCmd:
		return shown(n.X) + " " + n.Op.String() + " " + shown(n.Y)
	case *syntax.IfClause:
		if len(n.Cond) > 0 {
			return "if " + shown(n.Cond[0]) + "; …"
		}
	case *syntax.WhileClause:
		if len(n.Cond) > 0 {
			return map[bool]string{true: "until ", false: "while "}[n.Until] + shown(n.Cond[0]) + "; …"
		}
	case *syntax.Word:
		if len(n.Parts) == 1 {
			return shown(n.Parts[0])
		}
		var b strings.Builder
		for _, part := range n.Parts {
			b.WriteString(shown(part))
		}
		return secret.Word(b.String())
	case *syntax.DblQuoted:
		var b strings.Builder
		for _, part := range n.Parts {
			b.WriteString(shown(part))
		}
		return `"` + b.String() + `"`
	case *syntax.Lit, *syntax.SglQuoted, *syntax.ArithmExp, *syntax.BraceExp, *syntax.ExtGlob:
		return printed(n)
	case *syntax.ParamExp:
		if n.Exp == nil {
			return printed(n)
		}
		return "${" + n.Param.Value + "…}" // behind it may be a password, as a default
	}
	name, _, _ := strings.Cut(printed(n), " ")
	return name + " …"
}

// printed returns the first line of a node.
func printed(n syntax.Node) string {
	var b strings.Builder
	if n == nil || syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n) != nil {
		return "…"
	}
	text, _, more := strings.Cut(strings.TrimSpace(b.String()), "\n")
	if more {
		text += "…"
	}
	return secret.Word(text)
}

// statements reads a list. What follows an exit is not read.
func (p *parser) statements(list []*syntax.Stmt, c context) ([]Statement, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, &Error{at(list[0].Pos()), "…", "nested too deeply"}
	}
	var all []Statement
	for i, s := range list {
		inner := c
		inner.list = &c
		if i < len(list)-1 {
			inner.tail, inner.looked = false, false
			inner.last = max(unchecked, c.last)
			if exitsWithStatus(list[i+1]) {
				inner.last, inner.looked = c.exit, true
			}
		}
		statements, consumed, err := p.statement(s, list[i+1:], c.tail, inner)
		if err != nil {
			return nil, err
		}
		all = append(all, statements...)
		if p.statementN += len(statements); p.statementN > maxStatements {
			return nil, refuse(s, "more statements than can be checked")
		}
		if consumed || p.flow != goesOn {
			break
		}
	}
	return all, nil
}

// exitsWithStatus reports whether a statement is exit with the status of the command before.
func exitsWithStatus(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || call.Args[0].Lit() != "exit" || len(s.Redirs) > 0 {
		return false
	}
	return len(call.Args) == 1 || len(call.Args) == 2 && isStatus(call.Args[1])
}

// isStatus reports whether a word is $?.
func isStatus(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	switch part := w.Parts[0].(type) {
	case *syntax.ParamExp:
		return part.Param != nil && part.Param.Value == "?" && part.Exp == nil
	case *syntax.DblQuoted:
		return isStatus(&syntax.Word{Parts: part.Parts})
	}
	return false
}

// statement reads one statement. rest is what follows it in its list, and consumed whether it is part of the
// statements returned.
func (p *parser) statement(s *syntax.Stmt, rest []*syntax.Stmt, tail bool, c context) (all []Statement, consumed bool, err error) {
	if *p.steps++; *p.steps > maxSteps {
		return nil, false, refuse(s, "more than can be checked")
	}
	if s.Background || s.Coprocess || s.Disown {
		return nil, false, refuse(s, "a job in the background")
	}
	status := p.status
	p.status = nil
	if s.Cmd == nil {
		if s.Negated {
			return nil, false, refuse(s, "the negation of a redirection")
		}
		call := &Call{Pos: at(s.Pos()), Name: ":", Path: ":", Dir: p.dir, Umask: p.umask}
		if err := p.redirect(call, s.Redirs); err != nil {
			return nil, false, err
		}
		all, err = p.result(s, call, c)
		return all, false, err
	}
	if _, call := s.Cmd.(*syntax.CallExpr); s.Negated && !call {
		return nil, false, refuse(s, "the negation of a list")
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.IfClause, *syntax.BinaryCmd:
		p.status = status // [ $? -eq 0 ]
		if c, err = p.outer(s, c); err != nil {
			return nil, false, err
		}
		if binary, ok := cmd.(*syntax.BinaryCmd); ok {
			return p.binary(s, binary, rest, tail, c)
		}
		return p.ifClause(cmd.(*syntax.IfClause), rest, tail, c)
	case *syntax.WhileClause:
		if c, err = p.outer(s, c); err != nil {
			return nil, false, err
		}
		return p.loopStatement(cmd, rest, tail, c, func(l *looper) error { return l.while(cmd) })
	case *syntax.ForClause:
		if c, err = p.outer(s, c); err != nil {
			return nil, false, err
		}
		return p.forClause(cmd, rest, tail, c)
	case *syntax.CaseClause:
		if c, err = p.outer(s, c); err != nil {
			return nil, false, err
		}
		c.tail = tail && len(rest) == 0
		all, err = p.caseClause(cmd, c)
		return all, false, err
	case *syntax.CallExpr:
		all, err = p.call(s, cmd, c)
		return all, false, err
	}
	all, err = p.compound(s, c)
	return all, false, err
}

func (p *parser) compound(s *syntax.Stmt, c context) ([]Statement, error) {
	if decl, ok := s.Cmd.(*syntax.DeclClause); ok && len(s.Redirs) == 0 {
		return nil, p.declare(decl)
	}
	if f, ok := s.Cmd.(*syntax.FuncDecl); ok {
		if f.RsrvWord && p.o.Program != "bash" || f.Name == nil || len(s.Redirs) > 0 {
			return nil, refuse(s, "a function that not every shell knows")
		}
		p.functions[f.Name.Value] = f.Body
		return nil, nil
	}
	c, err := p.outer(s, c)
	if err != nil {
		return nil, err
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.Block:
		return p.statements(cmd.Stmts, c)
	case *syntax.Subshell:
		return p.subshell(func() ([]Statement, error) {
			return p.statements(cmd.Stmts, p.inSubshell(c))
		})
	}
	return nil, refuse(s, "a construct that is not known")
}

// inSubshell returns the context of a subshell: to exit is only to end it.
func (p *parser) inSubshell(c context) context {
	c.exit = p.failing(c)
	c.last = c.exit
	c.tail = true
	return c
}

// failing returns what the failure of a statement means.
func (p *parser) failing(c context) fate {
	if p.errexit && !c.noexit {
		return c.exit
	}
	return c.last
}

// subshell runs read with a copy of the shell's state.
func (p *parser) subshell(read func() ([]Statement, error)) ([]Statement, error) {
	saved := p.state
	p.state = p.clone()
	all, err := read()
	p.state, p.flow = saved, goesOn
	return all, err
}

// outer applies the redirections of a list: only those that discard its output.
func (p *parser) outer(s *syntax.Stmt, c context) (context, error) {
	var call Call
	if err := p.redirect(&call, s.Redirs); err != nil {
		return c, err
	}
	if call.Stdin != nil || call.Stdout != nil && !call.Stdout.Discard || call.Stderr != nil && call.Stderr.File != nil {
		return c, refuse(s.Redirs[0].Word, "a redirection of several commands")
	}
	c.discard = c.discard || call.Stdout != nil
	c.errdiscard = c.errdiscard || call.Stderr != nil && call.Stderr.Discard
	return c, nil
}

// binary reads && || and pipelines.
func (p *parser) binary(s *syntax.Stmt, b *syntax.BinaryCmd, rest []*syntax.Stmt, tail bool, c context) ([]Statement, bool, error) {
	switch b.Op {
	case syntax.Pipe:
		call, err := p.pipeline(s)
		if err != nil {
			return nil, false, err
		}
		all, err := p.result(s, call, c)
		return all, false, err
	case syntax.AndStmt, syntax.OrStmt:
	default:
		return nil, false, refuse(s, "|& is not the same in every shell")
	}
	if p.isTest(b.X) {
		return p.shortcut(s, b, rest, tail, c)
	}
	left := c
	left.noexit, left.tail, left.looked = true, false, true
	if b.Op == syntax.OrStmt {
		return p.or(s, b, left, c)
	}
	all, _, err := p.statement(b.X, nil, false, left)
	if err != nil || p.flow != goesOn {
		return all, false, err
	}
	saved := p.state.clone()
	more, _, err := p.statement(b.Y, nil, false, c)
	if err != nil {
		return nil, false, err
	}
	if len(all) > 0 && len(more) > 0 && c.last == ignored {
		return nil, false, refuse(b.Y, "&& in a list whose failure is ignored")
	}
	if len(all) > 0 && p.failing(left) != fatal && (p.flow != goesOn || p.changed(saved)) {
		return nil, false, refuse(b.Y, "it only has an effect if the command before it succeeds")
	}
	return append(all, more...), false, nil
}

// changed reports whether the shell knows anything else than it did.
func (p *parser) changed(before state) bool {
	same := maps.EqualFunc(p.vars, before.vars, sameValue) && maps.Equal(p.exported, before.exported) && maps.Equal(p.functions, before.functions) &&
		p.dir.String() == before.dir.String() && p.umask == before.umask && p.errexit == before.errexit && p.pipefail == before.pipefail &&
		p.nounset == before.nounset && p.noglob == before.noglob && p.allexport == before.allexport
	return !same
}

func sameValue(a, b value) bool {
	return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b)
}

// or reads X || Y, where X is no test. Y may only exit, or do nothing.
func (p *parser) or(s *syntax.Stmt, b *syntax.BinaryCmd, left, c context) ([]Statement, bool, error) {
	end, err := p.handler([]*syntax.Stmt{b.Y}, c)
	if err != nil {
		return nil, false, err
	}
	switch {
	case end == endsNothing:
		left.last, left.looked = ignored, false
	case end == endsFailing && c.exit == ignored:
		return nil, false, refuse(b.Y, "an exit from a shell whose failure is ignored")
	case end == endsFailing:
		left.last = c.exit
	case end == endsOK:
		return nil, false, refuse(b.Y, "a failure that ends the script with status 0")
	default:
		return nil, false, refuse(b.Y, "what is done only after a failure")
	}
	all, _, err := p.statement(b.X, nil, false, left)
	if len(all) == 0 && err == nil && p.flow == goesOn && !alwaysTrue(b.X) {
		return nil, false, refuse(s, "a list whose first command has no effect")
	}
	return all, false, err
}

// alwaysTrue reports whether a statement is an assignment or another that cannot fail.
func alwaysTrue(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		_, ok = s.Cmd.(*syntax.DeclClause)
		return ok
	}
	return len(call.Args) == 0 || slices.Contains([]string{"true", ":", "echo", "set"}, call.Args[0].Lit())
}

// shortcut reads TEST && Y and TEST || Y.
func (p *parser) shortcut(s *syntax.Stmt, b *syntax.BinaryCmd, rest []*syntax.Stmt, tail bool, c context) ([]Statement, bool, error) {
	cond, known, err := p.decided(func() (Cond, *bool, error) { return p.condition(b.X) })
	if err != nil {
		return nil, false, err
	}
	wanted := b.Op == syntax.AndStmt
	if known != nil {
		if *known == wanted {
			return p.statement(b.Y, rest, tail, c)
		}
		if !*known && (c.last == fatal || c.looked) {
			return nil, false, refuse(s, "it always fails")
		}
		return nil, false, nil
	}
	if !wanted {
		cond = negate(cond)
	}
	if wanted && (c.last == fatal || c.looked) {
		// The script ends with its status.
		return nil, false, refuse(s, "the script fails if the condition does not hold")
	}
	return p.branch(s, cond, []*syntax.Stmt{b.Y}, nil, rest, tail, c)
}

// reads reports whether a condition certainly has no effect but its value.
func (c Cond) reads() bool {
	for _, list := range [][]Cond{c.All, c.Any} {
		for _, inner := range list {
			if !inner.reads() {
				return false
			}
		}
	}
	return c.Match == nil && (c.Call == nil || c.Call.Name == "test" || c.Call.Name == "command" || c.Call.Name == "which")
}

// decided reads a condition. One of a number that a loop has counted must have the same value for each.
func (p *parser) decided(read func() (Cond, *bool, error)) (Cond, *bool, error) {
	cond, known, err := read()
	counted := (*countError)(nil)
	if !errors.As(err, &counted) || len(p.vars[counted.name].counts) == 0 {
		return cond, known, err
	}
	defer func() { p.pick = nil }()
	var all *bool
	for _, n := range p.vars[counted.name].counts {
		p.pick = map[string]int{counted.name: n}
		_, known, err := read()
		if err != nil || known == nil || all != nil && *all != *known {
			return cond, nil, counted
		}
		all = known
	}
	return cond, all, nil
}

func negate(c Cond) Cond {
	c.Not = !c.Not
	return c
}

// ifClause reads if … then … else … fi.
func (p *parser) ifClause(clause *syntax.IfClause, rest []*syntax.Stmt, tail bool, c context) ([]Statement, bool, error) {
	var otherwise []*syntax.Stmt
	if e := clause.Else; e != nil {
		if len(e.Cond) == 0 {
			otherwise = e.Then
		} else {
			otherwise = []*syntax.Stmt{{Cmd: e, Position: e.Position}}
		}
	}
	cond, known, err := p.decided(func() (Cond, *bool, error) { return p.conditionList(clause.Cond) })
	if err != nil {
		return nil, false, err
	}
	if known != nil {
		list := otherwise
		if *known {
			list = clause.Then
		}
		if len(list) == 0 {
			return nil, false, nil
		}
		c.tail = tail && len(rest) == 0
		all, err := p.statements(list, c)
		return all, false, err
	}
	return p.branch(clause, cond, clause.Then, otherwise, rest, tail, c)
}

// branch returns what is done if a condition holds and if not. If one branch ends the script, the rest of the list
// belongs to the other.
func (p *parser) branch(n syntax.Node, cond Cond, then, otherwise, rest []*syntax.Stmt, tail bool, c context) ([]Statement, bool, error) {
	if statements, done, err := p.checkedCall(cond, then, otherwise, c); done || err != nil {
		return statements, false, err
	}
	if p.fails(cond, then, otherwise, c) {
		return []Statement{{Loop: &Loop{Pos: at(n.Pos()), Until: negate(cond), Attempts: 1, Fails: true}}}, false, nil
	} else if p.fails(cond, otherwise, then, c) {
		return []Statement{{Loop: &Loop{Pos: at(n.Pos()), Until: cond, Attempts: 1, Fails: true}}}, false, nil
	}
	c.tail = tail
	before := p.clone()
	read := func(list []*syntax.Stmt) (all []Statement, after state, end flow, err error) {
		p.state = before.clone()
		if len(list) > 0 {
			all, err = p.statements(list, c)
		}
		after, end, p.flow = p.state, p.flow, goesOn
		return all, after, end, err
	}
	yes, afterYes, endYes, err := read(then)
	if err != nil {
		return nil, false, err
	}
	no, afterNo, endNo, err := read(otherwise)
	if err != nil {
		return nil, false, err
	}
	result := &If{Pos: at(n.Pos()), Cond: cond, Then: yes, Else: no}
	if endYes != goesOn || endNo != goesOn {
		if !tail || endYes != goesOn && endNo != goesOn && len(rest) > 0 {
			return nil, false, refuse(n, "an exit in a condition")
		}
		p.state = afterNo
		target := &result.Else
		if endYes == goesOn {
			p.state, target = afterYes, &result.Then
		}
		if endYes != goesOn && endNo != goesOn {
			return []Statement{{If: result}}, true, nil
		}
		if len(rest) > 0 {
			more, err := p.statements(rest, *c.list)
			if err != nil {
				return nil, false, err
			}
			*target = append(*target, more...)
		}
		return unlessEmpty(result), true, nil
	}
	p.state = afterYes
	if !p.changed(afterNo) {
		return unlessEmpty(result), false, nil
	}
	if p.dir.String() != afterNo.dir.String() || p.umask != afterNo.umask || p.errexit != afterNo.errexit || p.pipefail != afterNo.pipefail || p.allexport != afterNo.allexport ||
		!maps.Equal(p.functions, afterNo.functions) || !maps.Equal(p.exported, afterNo.exported) {
		return nil, false, refuse(n, "a condition that changes how the script goes on")
	}
	for _, vars := range []map[string]value{afterYes.vars, afterNo.vars} {
		for name := range vars {
			if !sameValue(afterYes.vars[name], afterNo.vars[name]) {
				p.vars[name] = value{why: "it depends on a condition"}
			}
		}
	}
	return unlessEmpty(result), false, nil
}

// unlessEmpty returns the statement of a condition, without it if nothing depends on it.
func unlessEmpty(i *If) []Statement {
	switch empty := len(i.Then) == 0 && len(i.Else) == 0; {
	case empty && i.Cond.reads():
		return nil
	case empty && i.Cond.Call != nil:
		return []Statement{{Call: i.Cond.Call, MayFail: true}}
	}
	return []Statement{{If: i}}
}

// checkedCall reads "if CALL; then …; else exit 1; fi": the call, whose failure ends the script.
func (p *parser) checkedCall(cond Cond, then, otherwise []*syntax.Stmt, c context) ([]Statement, bool, error) {
	if cond.Call == nil || cond.Call.Name == "test" || cond.Call.Name == "command" {
		return nil, false, nil
	}
	if cond.Not {
		then, otherwise = otherwise, then
	}
	if len(otherwise) == 0 {
		return nil, false, nil
	}
	before := p.clone()
	end, err := p.handler(otherwise, c)
	if err != nil || end != endsFailing || c.exit == ignored {
		p.state = before
		return nil, false, nil
	}
	all := []Statement{p.mark(Statement{Call: cond.Call}, c.exit)}
	if len(then) > 0 {
		more, err := p.statements(then, c)
		if err != nil {
			return nil, false, err
		}
		all = append(all, more...)
	}
	return all, true, nil
}

// fails reports whether all that a condition decides is that the script fails, so that it waits for the opposite, in
// one attempt: the kubelet starts it again.
func (p *parser) fails(cond Cond, list, otherwise []*syntax.Stmt, c context) bool {
	file := cond.Call != nil && cond.Call.Name == "test" && len(cond.Call.Args) == 2
	if len(list) == 0 || c.exit != fatal || !file && cond.Match == nil || slices.ContainsFunc(otherwise, func(s *syntax.Stmt) bool { return !p.isLog(s) }) {
		return false
	}
	saved := p.clone()
	end, err := p.handler(list, c)
	p.state = saved
	return err == nil && end == endsFailing
}

func (p *parser) mark(s Statement, f fate) Statement {
	s.Unchecked, s.MayFail = f == unchecked, f == ignored
	return s
}

// result returns the statement of a call, unless it only writes to the log.
func (p *parser) result(n syntax.Node, call *Call, c context) ([]Statement, error) {
	if p.errexit && !c.noexit && c.exit == ignored {
		return nil, refuse(n, "set -e in a shell whose failure is ignored")
	}
	if c.discard && call.Stdout == nil {
		call.Stdout = &Output{Discard: true}
	}
	if c.errdiscard && call.Stderr == nil {
		call.Stderr = &Output{Discard: true}
	}
	return []Statement{p.mark(Statement{Call: call}, p.failing(c))}, nil
}

// ending is what a handler of a failure does.
type ending int

const (
	endsNothing ending = iota // it only writes to the log
	endsFailing
	endsOK
	endsOther
)

// handler returns what statements do that follow a failure.
func (p *parser) handler(list []*syntax.Stmt, c context) (ending, error) {
	slept := false
	for i, s := range list {
		if s.Negated || s.Background {
			return endsOther, nil
		}
		if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(call.Args) == 2 && call.Args[0].Lit() == "sleep" && p.harmless(call.Args[1]) {
			slept = true
			continue
		}
		if i > 0 && exitsWithStatus(s) { // that of the command before, which did not fail
			return endsOK, nil
		}
		switch cmd := s.Cmd.(type) {
		case *syntax.Block:
			if end, err := p.handler(cmd.Stmts, c); err != nil || end != endsNothing {
				return end, err
			}
		case *syntax.BinaryCmd:
			if cmd.Op != syntax.AndStmt {
				return endsOther, nil
			}
			if end, err := p.handler([]*syntax.Stmt{cmd.X, cmd.Y}, c); err != nil || end != endsNothing {
				return end, err
			}
		case *syntax.CallExpr:
			if end, err := p.handlerCall(s, cmd); err != nil || end != endsNothing {
				return end, err
			}
		default:
			return endsOther, nil
		}
	}
	if slept { // which only does not matter before the end
		return endsOther, nil
	}
	return endsNothing, nil
}

func (p *parser) handlerCall(s *syntax.Stmt, cmd *syntax.CallExpr) (ending, error) {
	if len(cmd.Args) == 0 || len(cmd.Assigns) > 0 {
		return endsOther, nil
	}
	switch name := cmd.Args[0].Lit(); {
	case name == "exit":
		if exitsWithStatus(s) {
			return endsFailing, nil
		}
		status, err := strconv.Atoi(cmd.Args[1].Lit())
		switch {
		case err != nil || len(cmd.Args) > 2 || len(s.Redirs) > 0:
			return endsOther, nil
		case status%256 == 0:
			return endsOK, nil
		}
		return endsFailing, nil
	case p.isLog(s):
		return endsNothing, nil
	}
	return endsOther, nil
}
