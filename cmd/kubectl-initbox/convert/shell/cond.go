package shell

import (
	"cmp"
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// isTest reports whether a statement only compares something: [ … ], [[ … ]], test, and command -v.
func (p *parser) isTest(s *syntax.Stmt) bool {
	switch cmd := s.Cmd.(type) {
	case *syntax.TestClause:
		return true
	case *syntax.CallExpr:
		if len(cmd.Args) == 0 {
			return false
		}
		name := cmd.Args[0].Lit()
		return (name == "[" || name == "test" || name == "command" && len(cmd.Args) > 1 && cmd.Args[1].Lit() == "-v" || name == "which") && p.functions[name] == nil
	case *syntax.BinaryCmd:
		return (cmd.Op == syntax.AndStmt || cmd.Op == syntax.OrStmt) && p.isTest(cmd.X) && p.isTest(cmd.Y)
	}
	return false
}

// conditionList returns the condition that a list of statements is. known is its value if that is certain.
func (p *parser) conditionList(list []*syntax.Stmt) (cond Cond, known *bool, err error) {
	for i, s := range list {
		if i == len(list)-1 {
			return p.condition(s)
		}
		cmd, _ := s.Cmd.(*syntax.CallExpr)
		decl, _ := s.Cmd.(*syntax.DeclClause)
		switch {
		case p.isLog(s):
		case decl != nil && p.inLoop && p.locals != nil && len(s.Redirs) == 0:
			if err := p.declare(decl); err != nil {
				return cond, nil, err
			}
		case cmd != nil && len(cmd.Args) == 0 && len(s.Redirs) == 0 && p.inLoop:
			if err := p.assigns(cmd); err != nil {
				return cond, nil, err
			}
		case cmd != nil && p.inLoop && p.onSleep != nil && len(cmd.Args) == 2 && cmd.Args[0].Lit() == "sleep":
			if err := p.onSleep(s, cmd); err != nil {
				return cond, nil, err
			}
		default:
			return cond, nil, refuse(s, "a command in a condition")
		}
	}
	return cond, nil, &Error{Pos{1, 1}, "…", "an empty condition"}
}

func constant(v bool) (Cond, *bool, error) { return Cond{}, &v, nil }

// condition returns the condition that a statement is.
func (p *parser) condition(s *syntax.Stmt) (Cond, *bool, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return Cond{}, nil, refuse(s, "nested too deeply")
	}
	if s.Background {
		return Cond{}, nil, refuse(s, "a job in the background")
	}
	cond, known, err := p.positive(s)
	if s.Negated {
		cond = negate(cond)
		if known != nil {
			inverted := !*known
			known = &inverted
		}
	}
	return cond, known, err
}

func (p *parser) positive(s *syntax.Stmt) (Cond, *bool, error) {
	switch cmd := s.Cmd.(type) {
	case nil:
		call := &Call{Pos: at(s.Pos()), Name: ":", Path: ":"}
		err := p.redirect(call, s.Redirs)
		return Cond{Call: call}, nil, err
	case *syntax.CallExpr:
		return p.conditionCall(s, cmd)
	case *syntax.BinaryCmd:
		if cmd.Op == syntax.Pipe {
			return p.matched(s)
		}
		if _, err := p.outer(s, context{}); err != nil || cmd.Op == syntax.PipeAll {
			return Cond{}, nil, refuse(s, "a pipeline of this form")
		}
		return p.combined(s, cmd)
	case *syntax.Block, *syntax.Subshell:
		if _, err := p.outer(s, context{}); err != nil {
			return Cond{}, nil, err
		}
		if block, ok := cmd.(*syntax.Block); ok {
			return p.conditionList(block.Stmts)
		}
		saved := p.state
		p.state = p.clone()
		cond, known, err := p.conditionList(cmd.(*syntax.Subshell).Stmts)
		p.state = saved
		return cond, known, err
	case *syntax.TestClause:
		if p.o.Program != "bash" && p.o.Program != "ash" {
			return Cond{}, nil, refuse(s, "[[ is not in every shell")
		}
		return p.testClause(cmd.X)
	case *syntax.IfClause:
		if _, err := p.outer(s, context{}); err != nil {
			return Cond{}, nil, err
		}
		return p.returned(s, cmd)
	}
	return Cond{}, nil, refuse(s, "a condition of this form")
}

func (p *parser) conditionCall(s *syntax.Stmt, cmd *syntax.CallExpr) (Cond, *bool, error) {
	if len(cmd.Args) == 0 {
		return Cond{}, nil, refuse(s, "a condition without a command")
	}
	name := cmd.Args[0].Lit()
	if _, variable := onlyPart(cmd.Args[0]).(*syntax.ParamExp); variable && len(cmd.Args) == 1 && len(cmd.Assigns) == 0 && len(s.Redirs) == 0 {
		if text, err := p.text(cmd.Args[0]); err == nil && (text == "true" || text == "false") { // while ! $ready
			return constant(text == "true")
		}
	}
	if sub, ok := cmd.Args[0].Parts[0].(*syntax.CmdSubst); ok && len(cmd.Args) == 1 && len(cmd.Args[0].Parts) == 1 && len(cmd.Assigns) == 0 && len(s.Redirs) == 0 && len(sub.Stmts) == 1 {
		call, err := p.pipeline(sub.Stmts[0]) // until $(curl -sf -o /dev/null …)
		if err == nil {
			call.Substituted = true
		}
		return Cond{Call: call}, nil, err
	}
	body := p.functions[name]
	switch base := path.Base(name); {
	case body != nil:
		return p.conditionFunction(s, cmd, body)
	case p.isLog(s):
		return constant(true)
	case name == "false" && len(s.Redirs) == 0:
		return constant(false)
	case name == "[" || name == "test":
		args := cmd.Args[1:]
		if name == "[" {
			if len(args) == 0 || args[len(args)-1].Lit() != "]" {
				return Cond{}, nil, refuse(s, "a test without a closing bracket")
			}
			args = args[:len(args)-1]
		}
		if len(cmd.Assigns) > 0 {
			return Cond{}, nil, refuse(s, "a variable for a test")
		}
		return p.test(s, args)
	case isShell(base) && len(cmd.Args) > 1 && strings.HasPrefix(cmd.Args[1].Lit(), "-"):
		return p.conditionShell(s, cmd, cmd.Args)
	case base == "timeout" && !p.simpleTimeout(cmd):
		limit, rest, err := p.duration(cmd)
		if err != nil {
			return Cond{}, nil, err
		}
		cond, known, err := p.conditionShell(s, cmd, rest)
		if calls := cond.calls(); len(calls) == 1 && calls[0].Limit == 0 {
			calls[0].Limit = limit
		}
		return cond, known, err
	case base == "timeout":
		call, err := p.limited(s, cmd)
		return Cond{Call: call}, nil, err
	case name == "exec" && len(cmd.Args) == 1 && len(s.Redirs) == 1:
		call := &Call{Pos: at(s.Pos()), Name: ":", Path: ":"}
		r := *s.Redirs[0]
		if _, err := strconv.Atoi(r.N.Value); err != nil {
			return Cond{}, nil, refuse(s, "it changes the shell itself")
		}
		r.N = nil
		err := p.redirect(call, []*syntax.Redirect{&r})
		if err == nil && (call.Stdin == nil || !strings.HasPrefix(call.Stdin.File.String(), "/dev/tcp/")) {
			err = refuse(s, "it changes the shell itself")
		}
		return Cond{Call: call}, nil, err
	case refused[name] != "":
		return Cond{}, nil, refuse(s, refused[name])
	case slices.Contains([]string{"exit", "return", "cd", "set", "export", "umask"}, name):
		return Cond{}, nil, refuse(s, "a command of the shell in a condition")
	}
	call, err := p.simple(s, cmd)
	return Cond{Call: call}, nil, err
}

func (p *parser) conditionFunction(s *syntax.Stmt, cmd *syntax.CallExpr, body *syntax.Stmt) (Cond, *bool, error) {
	if _, err := p.outer(s, context{}); err != nil || len(cmd.Assigns) > 0 {
		return Cond{}, nil, refuse(s, "a function of this form")
	}
	restore, err := p.enter(cmd)
	if err != nil {
		return Cond{}, nil, err
	}
	defer restore()
	errexit := p.errexit
	defer func() { p.errexit = errexit }()
	p.errexit = false // as everywhere in a condition
	return p.condition(body)
}

func (p *parser) conditionShell(s *syntax.Stmt, cmd *syntax.CallExpr, args []*syntax.Word) (Cond, *bool, error) {
	if _, err := p.outer(s, context{}); err != nil || len(cmd.Assigns) > 0 {
		return Cond{}, nil, refuse(s, "a shell of this form")
	}
	file, inner, err := p.nested(s, args)
	if err != nil {
		return Cond{}, nil, err
	}
	cond, known, err := inner.conditionList(file.Stmts)
	p.words, p.pasted = inner.words, append(p.pasted, inner.pasted...)
	return cond, known, err
}

// combined reads X && Y and X || Y.
func (p *parser) combined(s *syntax.Stmt, b *syntax.BinaryCmd) (Cond, *bool, error) {
	left, known, err := p.condition(b.X)
	if err != nil {
		return Cond{}, nil, err
	}
	and := b.Op == syntax.AndStmt
	if known != nil {
		if *known == and {
			return p.condition(b.Y)
		}
		return constant(!and)
	}
	right, known, err := p.condition(b.Y)
	if err != nil {
		return Cond{}, nil, err
	}
	switch {
	case known != nil && *known == and:
		return left, nil, nil
	case known != nil:
		return Cond{}, nil, refuse(s, "a condition whose first part does not matter")
	case and:
		return Cond{All: []Cond{left, right}}, nil, nil
	}
	return Cond{Any: []Cond{left, right}}, nil, nil
}

// matched reads a pipeline: … | grep TEXT is a [Match].
func (p *parser) matched(s *syntax.Stmt) (Cond, *bool, error) {
	negated := *s
	negated.Negated = false
	call, err := p.pipeline(&negated)
	if err != nil {
		return Cond{}, nil, err
	}
	before := call
	for before.Pipe.Pipe != nil {
		before = before.Pipe
	}
	grep := before.Pipe
	op, pattern, ok := grepOf(grep)
	if !ok || p.pipefail {
		return Cond{Call: call}, nil, nil
	}
	before.Pipe = nil
	return Cond{Match: &Match{Call: call, Op: op, Pattern: pattern}}, nil, nil
}

// grepOf returns what grep looks for, if its flags are understood.
func grepOf(call *Call) (op string, pattern Word, ok bool) {
	op = map[string]string{"grep": "grep", "egrep": "grep -E", "fgrep": "grep -F"}[call.Name]
	if op == "" || len(call.Set) > 0 || call.Stdin != nil || call.Stdout != nil && !call.Stdout.Discard {
		return "", nil, false
	}
	args := call.Args
	for len(args) > 0 {
		flags, literal := args[0].Literal()
		if !literal || !strings.HasPrefix(flags, "-") || len(flags) < 2 {
			break
		}
		if args = args[1:]; flags == "-e" {
			break
		}
		if flags == "--" {
			break
		}
		if flags == "--quiet" || flags == "--silent" {
			continue
		}
		for _, flag := range flags[1:] {
			switch flag {
			case 'q', 's':
			case 'E':
				op = "grep -E"
			case 'F':
				op = "grep -F"
			default:
				return "", nil, false
			}
		}
	}
	if len(args) != 1 || hasGlob(args[0]) {
		return "", nil, false
	}
	return op, args[0], true
}

// testClause reads [[ … ]].
func (p *parser) testClause(x syntax.TestExpr) (Cond, *bool, error) {
	switch x := x.(type) {
	case *syntax.ParenTest:
		return p.testClause(x.X)
	case *syntax.Word:
		return p.compareOp(x, "-n", []*syntax.Word{x})
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			cond, known, err := p.testClause(x.X)
			if known != nil {
				inverted := !*known
				known = &inverted
			}
			return negate(cond), known, err
		}
		word, ok := x.X.(*syntax.Word)
		if !ok {
			return Cond{}, nil, refuse(x, "a test of this form")
		}
		return p.compareOp(x, x.Op.String(), []*syntax.Word{word})
	case *syntax.BinaryTest:
		if x.Op == syntax.AndTest || x.Op == syntax.OrTest {
			left, knownLeft, err := p.testClause(x.X)
			if err != nil {
				return Cond{}, nil, err
			}
			right, knownRight, err := p.testClause(x.Y)
			return join(x.Op == syntax.AndTest, left, right, knownLeft, knownRight, err)
		}
		left, ok1 := x.X.(*syntax.Word)
		right, ok2 := x.Y.(*syntax.Word)
		op := x.Op.String()
		if !ok1 || !ok2 || x.Op == syntax.TsReMatch || isPattern(right.Lit()) {
			return Cond{}, nil, refuse(x, "a pattern in a test")
		}
		if _, literal := onlyPart(right).(*syntax.Lit); !literal && (op == "=" || op == "==" || op == "!=") {
			if _, quoted := right.Parts[0].(*syntax.DblQuoted); !quoted || len(right.Parts) > 1 {
				if _, single := right.Parts[0].(*syntax.SglQuoted); !single || len(right.Parts) > 1 {
					return Cond{}, nil, refuse(x, "a pattern in a test")
				}
			}
		}
		return p.compareOp(x, op, []*syntax.Word{left, right})
	}
	return Cond{}, nil, refuse(x, "a test of this form")
}

// join combines two conditions without effects.
func join(and bool, left, right Cond, knownLeft, knownRight *bool, err error) (Cond, *bool, error) {
	switch {
	case err != nil:
		return Cond{}, nil, err
	case knownLeft != nil && *knownLeft != and:
		return left, knownLeft, nil
	case knownRight != nil && *knownRight != and:
		return right, knownRight, nil
	case knownLeft != nil:
		return right, knownRight, nil
	case knownRight != nil:
		return left, nil, nil
	case and:
		return Cond{All: []Cond{left, right}}, nil, nil
	}
	return Cond{Any: []Cond{left, right}}, nil, nil
}

// test reads the arguments of test.
func (p *parser) test(n syntax.Node, args []*syntax.Word) (Cond, *bool, error) {
	if len(args) > 1 && args[0].Lit() == "!" && len(args) != 3 || len(args) == 3 && args[0].Lit() == "!" && strings.HasPrefix(args[1].Lit(), "-") {
		cond, known, err := p.test(n, args[1:])
		if known != nil {
			inverted := !*known
			known = &inverted
		}
		return negate(cond), known, err
	}
	if len(args) > 3 {
		for _, and := range []bool{false, true} { // -a binds tighter than -o
			op := map[bool]string{false: "-o", true: "-a"}[and]
			i := slices.IndexFunc(args, func(w *syntax.Word) bool { return w.Lit() == op })
			if i <= 0 || i == len(args)-1 {
				continue
			}
			left, knownLeft, err := p.test(n, args[:i])
			if err != nil {
				return Cond{}, nil, err
			}
			right, knownRight, err := p.test(n, args[i+1:])
			return join(and, left, right, knownLeft, knownRight, err)
		}
		return Cond{}, nil, refuse(n, "a test of this form")
	}
	switch len(args) {
	case 0:
		return constant(false)
	case 1:
		return p.compareOp(n, "-n", args)
	case 2:
		return p.compareOp(n, args[0].Lit(), args[1:])
	}
	return p.compareOp(n, args[1].Lit(), []*syntax.Word{args[0], args[2]})
}

var (
	textOps   = []string{"=", "==", "!=", "-n", "-z"}
	numberOps = []string{"-eq", "-ne", "-gt", "-ge", "-lt", "-le"}
	fileOps   = []string{"-f", "-d", "-e", "-s", "-r", "-w", "-x", "-h", "-L", "-S", "-b", "-c", "-p"}
)

func (p *parser) compareOp(n syntax.Node, op string, operands []*syntax.Word) (Cond, *bool, error) {
	unary := len(operands) == 1
	isText, isNumber := slices.Contains(textOps, op) && unary == strings.HasPrefix(op, "-"), slices.Contains(numberOps, op) && !unary
	switch {
	case !isText && !isNumber && !(slices.Contains(fileOps, op) && unary):
		return Cond{}, nil, refuse(n, "a test of this form")
	case op == "==" && p.o.Program != "bash" && p.o.Program != "ash":
		return Cond{}, nil, refuse(n, "== is not the same in every shell")
	case op == "==":
		op = "="
	}
	if isText || isNumber {
		if cond, done, err := p.compareCommand(op, operands); done || err != nil {
			return cond, nil, err
		}
	}
	words, err := p.operands(n, operands)
	if err != nil {
		return Cond{}, nil, err
	}
	if isText || isNumber {
		var texts []string
		for _, w := range words {
			text, ok := p.known(w)
			if !ok {
				break
			}
			texts = append(texts, text)
		}
		if len(texts) == len(words) {
			result, ok := evaluate(op, texts)
			if !ok {
				return Cond{}, nil, refuse(n, "a comparison of something that is not a number")
			}
			return constant(result)
		}
	}
	if (op == "-d" || op == "-e") && p.o.Directory != nil && !p.inLoop {
		if text, ok := p.known(words[0]); ok && !hasGlob(words[0]) && p.o.Directory(text) {
			return constant(true)
		}
	}
	call := &Call{Pos: at(n.Pos()), Name: "test", Path: "[", Dir: p.dir}
	if unary {
		call.Args = []Word{{{Text: op}}, words[0]}
	} else {
		call.Args = []Word{words[0], {{Text: op}}, words[1]}
	}
	return Cond{Call: call}, nil, nil
}

// operands returns one word for each operand.
func (p *parser) operands(n syntax.Node, operands []*syntax.Word) ([]Word, error) {
	_, bash := n.(syntax.TestExpr)
	var words []Word
	for _, operand := range operands {
		if bash {
			w, err := p.one(operand)
			if err != nil {
				return nil, err
			}
			words = append(words, w)
			continue
		}
		list, err := p.expand([]*syntax.Word{operand})
		if err != nil {
			return nil, err
		}
		if len(list) != 1 {
			return nil, refuse(operand, "not one word")
		}
		words = append(words, list[0])
	}
	return words, nil
}

// evaluate returns the value of a comparison of known texts.
func evaluate(op string, texts []string) (result, ok bool) {
	switch op {
	case "-n":
		return texts[0] != "", true
	case "-z":
		return texts[0] == "", true
	case "=":
		return texts[0] == texts[1], true
	case "!=":
		return texts[0] != texts[1], true
	}
	number := regexp.MustCompile(`^-?[0-9]{1,9}$`)
	if !number.MatchString(texts[0]) || !number.MatchString(texts[1]) {
		return false, false
	}
	a, _ := strconv.Atoi(texts[0])
	b, _ := strconv.Atoi(texts[1])
	switch op {
	case "-eq":
		return a == b, true
	case "-ne":
		return a != b, true
	case "-gt":
		return a > b, true
	case "-ge":
		return a >= b, true
	case "-lt":
		return a < b, true
	}
	return a <= b, true
}

// compareEither returns the condition that a comparison is of a variable that a condition has set.
func (p *parser) compareEither(n syntax.Node, v value, op string, pattern Word) (Cond, *bool, error) {
	if v.either == nil {
		a, ok1 := p.known(v.word)
		b, ok2 := p.known(pattern)
		result, ok := evaluate(op, []string{a, b})
		if !ok || !ok1 || !ok2 || v.word == nil {
			return Cond{}, nil, refuse(n, "its value is not known: it depends on a condition")
		}
		return constant(result)
	}
	yes, knownYes, err := p.compareEither(n, v.either.yes, op, pattern)
	if err != nil {
		return Cond{}, nil, err
	}
	no, knownNo, err := p.compareEither(n, v.either.no, op, pattern)
	switch cond := v.either.cond; {
	case err != nil:
		return Cond{}, nil, err
	case knownYes != nil && knownNo != nil && *knownYes == *knownNo:
		return Cond{}, knownYes, nil
	case knownYes != nil && knownNo != nil && *knownYes:
		return cond, nil, nil
	case knownYes != nil && knownNo != nil:
		return negate(cond), nil, nil
	case knownNo != nil && *knownNo:
		return Cond{Any: []Cond{yes, negate(cond)}}, nil, nil
	case knownNo != nil:
		return Cond{All: []Cond{yes, cond}}, nil, nil
	case knownYes != nil && *knownYes:
		return Cond{Any: []Cond{no, cond}}, nil, nil
	case knownYes != nil:
		return Cond{All: []Cond{no, negate(cond)}}, nil, nil
	}
	return Cond{}, nil, refuse(n, "a value of this form")
}

// calls returns the calls of a condition, without tests.
func (c Cond) calls() (all []*Call) {
	if c.Call != nil && c.Call.Name != "test" {
		all = append(all, c.Call)
	}
	if c.Match != nil {
		all = append(all, c.Match.Call)
	}
	for _, inner := range slices.Concat(c.All, c.Any) {
		all = append(all, inner.calls()...)
	}
	return all
}

// returned reads an if whose branches only return a status: the condition, or its opposite.
func (p *parser) returned(s *syntax.Stmt, clause *syntax.IfClause) (Cond, *bool, error) {
	refused := refuse(s, "a condition of this form")
	if p.locals == nil || clause.Else == nil || len(clause.Else.Cond) > 0 {
		return Cond{}, nil, refused
	}
	yes, ok1 := p.returns(clause.Then)
	no, ok2 := p.returns(clause.Else.Then)
	cond, known, err := p.conditionList(clause.Cond)
	if err == nil && (!ok1 || !ok2 || yes == no || known != nil) {
		err = refused
	}
	if no {
		cond = negate(cond)
	}
	return cond, nil, err
}

// returns returns the status with which statements return from a function that do nothing else but write to the log.
func (p *parser) returns(list []*syntax.Stmt) (ok, understood bool) {
	for i, s := range list {
		call, is := s.Cmd.(*syntax.CallExpr)
		if i == len(list)-1 && is && len(call.Args) == 2 && call.Args[0].Lit() == "return" && len(s.Redirs) == 0 && !s.Negated {
			status, err := strconv.Atoi(call.Args[1].Lit())
			return status == 0, err == nil && status >= 0 && status < 256
		}
		if !p.isLog(s) {
			break
		}
	}
	return false, false
}

// compareCommand reads a comparison with the status of a command ($?), or with what one prints.
func (p *parser) compareCommand(op string, operands []*syntax.Word) (Cond, bool, error) {
	var status *Cond
	var output *Call
	var either *value
	left := onlyPart(operands[0])
	switch part := left.(type) {
	case *syntax.ParamExp:
		v := p.vars[part.Param.Value]
		if part.Exp == nil && !part.Length && part.Slice == nil && part.Repl == nil && !part.Excl && part.Index == nil {
			if status, output = v.status, v.output; v.either != nil {
				either = &v
			}
		}
		if isStatus(operands[0]) {
			if p.status == nil {
				return Cond{}, false, refuse(operands[0], "the status of a command that is not known")
			}
			status, p.statusUsed = p.status, true
		}
	case *syntax.CmdSubst:
		if _, err := p.substituted(part); err == nil {
			return Cond{}, false, nil
		} else if errors.As(err, new(*countError)) {
			return Cond{}, false, err
		}
		var err error
		if output, err = p.output(part); err != nil {
			return Cond{}, false, err
		}
	}
	if either == nil && status == nil && output == nil {
		return Cond{}, false, nil
	}
	var pattern Word
	if len(operands) == 2 {
		list, err := p.operands(operands[1], operands[1:])
		if err != nil {
			return Cond{}, false, err
		}
		pattern = list[0]
	}
	if either != nil {
		cond, known, err := p.compareEither(operands[0], *either, op, pattern)
		if err == nil && known != nil {
			err = refuse(operands[0], "it is the same whatever the condition")
		}
		for _, call := range cond.calls() {
			delete(p.outputs, call)
		}
		return cond, err == nil, err
	}
	if status != nil {
		text, _ := pattern.Literal()
		if text != "0" || !slices.Contains([]string{"=", "!=", "-eq", "-ne", "-gt"}, op) {
			return Cond{}, false, refuse(operands[0], "a status other than 0")
		}
		cond := *status
		if op != "=" && op != "-eq" {
			cond = negate(cond)
		}
		return cond, true, nil
	}
	delete(p.outputs, output)
	if text, ok := pattern.Literal(); ok && text == "" && len(operands) == 2 {
		op = cmp.Or(map[string]string{"=": "-z", "!=": "-n"}[op], op)
	}
	return Cond{Match: &Match{Call: output, Op: op, Pattern: pattern}}, true, nil
}
