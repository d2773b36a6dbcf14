package shell

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// looper reads a loop that tries again until something holds.
type looper struct {
	p    *parser
	c    context
	node syntax.Node
	loop *Loop

	probe   *Cond
	probeAt int  // where in an attempt, as all of the numbers called At
	leave   flow // what follows when the probe holds: goesOn after the loop, or the end
	success []Statement
	after   map[string]value // the variables then

	goesOn  string      // the condition of while, if that looks at what the body has set
	last    bool        // nothing follows in an attempt
	flag    func() bool // reports whether the loop ends because of what its body has set; nil for others
	flagged bool

	counter            string
	init, step, stepAt int
	items              int // of a loop over a list; -1 for others
	bounds             []bound
	now                int // counts the parts of an attempt
}

// bound ends a loop when a number has been counted.
type bound struct {
	at    int
	holds func() (bool, error)
	fails bool // the script ends with a failure; else it goes on after the loop
}

const inBody = 1 << 20

const changes = "it changes in the loop"

func (p *parser) loopStatement(n syntax.Node, rest []*syntax.Stmt, tail bool, c context, read func(*looper) error) ([]Statement, bool, error) {
	entry := p.clone()
	l := &looper{p: p, c: c, node: n, items: -1, last: true, loop: &Loop{Pos: at(n.Pos())}}
	inLoop, aborts, outputs, onSleep, outer := p.inLoop, p.aborts, p.outputs, p.onSleep, p.counted
	p.inLoop, p.aborts, p.outputs, p.onSleep, p.counted = true, false, map[*Call]error{}, l.sleep, nil
	err := read(l)
	l.loop.Aborts = p.aborts && !c.noexit
	left := p.outputs
	p.inLoop, p.aborts, p.outputs, p.onSleep = inLoop, aborts, outputs, onSleep
	if counted := (*countError)(nil); errors.As(err, &counted) {
		err = refuse(n, "what depends on the counter "+counted.name)
	}
	for _, unused := range left {
		if err == nil {
			err = unused
		}
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { p.counted = outer }() // finish looks at the bounds once more
	return l.finish(entry, rest, tail)
}

// while reads while and until.
func (l *looper) while(clause *syntax.WhileClause) error {
	p := l.p
	original := p.clone()
	assigned := l.assignments(clause.Do)
	if l.assignments(clause.Cond[len(clause.Cond)-1:]); l.counter != "" {
		assigned[l.counter] = true
	}
	for name := range assigned {
		if name == l.counter {
			p.vars[name] = value{count: true}
		} else {
			p.vars[name] = value{why: changes}
		}
	}
	head := clause.Cond[len(clause.Cond)-1]
	bodyFirst := false
	for name := range assigned {
		bodyFirst = bodyFirst || name != l.counter && mentions(head, name)
	}
	if !bodyFirst {
		if err := l.head(clause); err != nil {
			return err
		}
		l.now = inBody
		return l.body(clause.Do)
	}
	// The condition looks at what the body did. Before the first attempt it must not hold.
	changed := p.state
	p.state = original
	_, known, err := p.condition(head)
	p.state = changed
	if err != nil || known == nil || *known == clause.Until {
		return refuse(head, "whether the loop begins is not known")
	}
	if !clause.Until && len(clause.Cond) == 1 {
		l.goesOn = source(head)
	}
	l.flag = func() bool {
		_, known, err := p.condition(head)
		return err == nil && known != nil && *known == clause.Until
	}
	if err := l.body(clause.Do); err != nil {
		return err
	}
	if l.flagged {
		if p.state = entryOf(original, p.state); l.flag() {
			return refuse(head, "a loop that never runs")
		}
		return nil
	}
	return l.head(clause)
}

// entryOf returns the state at the end of a body, in which what the body has not changed is as it was.
func entryOf(original, now state) state {
	now = now.clone()
	for name, v := range now.vars {
		if before, found := original.vars[name]; found && v.why == changes {
			now.vars[name] = before
		}
	}
	return now
}

// sets returns whether statements do nothing but set variables such that the loop's condition ends it.
func (l *looper) sets(list []*syntax.Stmt) bool {
	if l.flag == nil {
		return false
	}
	p := l.p
	saved := p.state
	defer func() { p.state = saved }()
	p.state = p.clone()
	for _, s := range list {
		cmd, ok := s.Cmd.(*syntax.CallExpr)
		switch {
		case p.isLog(s):
		case !ok || len(cmd.Args) > 0 || len(s.Redirs) > 0 || s.Negated || s.Background:
			return false
		case slices.ContainsFunc(cmd.Assigns, func(a *syntax.Assign) bool { return a.Value == nil || a.Value.Lit() == "" }) || p.assigns(cmd) != nil:
			return false
		}
	}
	return l.flag()
}

// head reads the condition of while and until.
func (l *looper) head(clause *syntax.WhileClause) error {
	p := l.p
	last := len(clause.Cond) - 1
	for _, s := range clause.Cond[:last] {
		if err := l.item(s, nil); err != nil {
			return err
		}
	}
	for _, part := range operandsOf(clause.Cond[last], clause.Until) {
		l.counts(part)
		cond, known, err := p.condition(part)
		if counted := (*countError)(nil); errors.As(err, &counted) {
			l.bound(part, clause.Until, false)
			continue
		}
		switch {
		case err != nil:
			return err
		case known != nil && *known == clause.Until:
			return refuse(part, "a loop that never runs")
		case known != nil:
			continue
		}
		if !clause.Until {
			cond = negate(cond)
		}
		if err := l.found(part, cond, goesOn); err != nil {
			return err
		}
	}
	return nil
}

// operandsOf returns the conditions each of which ends a loop: X and Y of until X || Y, and of while X && Y.
func operandsOf(s *syntax.Stmt, until bool) []*syntax.Stmt {
	b, ok := s.Cmd.(*syntax.BinaryCmd)
	if !ok || s.Negated || len(s.Redirs) > 0 || b.Op != map[bool]syntax.BinCmdOperator{true: syntax.OrStmt, false: syntax.AndStmt}[until] {
		return []*syntax.Stmt{s}
	}
	return append(operandsOf(b.X, until), operandsOf(b.Y, until)...)
}

func mentions(n syntax.Node, name string) (found bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if param, ok := n.(*syntax.ParamExp); ok && param.Param != nil {
			found = found || param.Param.Value == name
		}
		return !found
	})
	return found
}

// assignments returns the names that a body assigns, and finds the counter among them.
func (l *looper) assignments(body []*syntax.Stmt) map[string]bool {
	names := map[string]bool{}
	count := func(name string, step int) {
		names[name] = true
		if number, known := l.p.knownNumber(name); known && l.counter == "" {
			l.counter, l.init, l.step = name, number, step
		}
	}
	for _, s := range body {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Assign:
				if n.Name != nil {
					names[n.Name.Value] = true
				}
			case *syntax.Stmt:
				if name, step, ok := l.p.increment(n); ok {
					count(name, step)
				}
			case *syntax.ArithmExp:
				if name, step, ok := assignedIn(n.X); ok {
					count(name, step)
				}
			}
			return true
		})
	}
	return names
}

// assignedIn recognizes i+=1, i-=1 and i=i+1, which have the new number as their value.
func assignedIn(x syntax.ArithmExpr) (name string, step int, ok bool) {
	if _, binary := x.(*syntax.BinaryArithm); !binary {
		return "", 0, false
	}
	return incrementOf(x)
}

// counts notes that a test counts the counter before it looks at it: [ "$((i+=1))" -ge 60 ].
func (l *looper) counts(s *syntax.Stmt) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || !l.p.isTest(s) {
		return
	}
	for _, w := range call.Args {
		x, ok := onlyPart(w).(*syntax.ArithmExp)
		if !ok || l.stepAt != 0 { // a second change is not understood
			continue
		}
		if name, _, ok := assignedIn(x.X); ok && name == l.counter {
			l.p.counted = x.X
			l.now++
			l.stepAt = l.now
			l.now++
		}
	}
}

func (p *parser) knownNumber(name string) (int, bool) {
	v, found := p.vars[name]
	if !found || v.word == nil {
		return 0, false
	}
	text, ok := p.known(v.word)
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && strconv.Itoa(n) == text
}

// increment recognizes i=$((i+1)), i=$((i-1)), i=$(expr $i + 1), and of bash ((i++)) and ((i+=1)).
func (p *parser) increment(s *syntax.Stmt) (name string, step int, ok bool) {
	if len(s.Redirs) > 0 || s.Negated || s.Background {
		return "", 0, false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.ArithmCmd:
		name, step, ok = incrementOf(cmd.X)
		return name, step, ok && p.o.Program == "bash"
	case *syntax.CallExpr:
		if len(cmd.Assigns) != 1 || len(cmd.Args) > 0 || cmd.Assigns[0].Value == nil || cmd.Assigns[0].Name == nil || cmd.Assigns[0].Append {
			return "", 0, false
		}
		name = cmd.Assigns[0].Name.Value
		switch part := onlyPart(cmd.Assigns[0].Value).(type) {
		case *syntax.ArithmExp:
			step, ok = sum(part.X, name)
			return name, step, ok
		case *syntax.CmdSubst:
			return expr(part, name)
		}
	}
	return "", 0, false
}

func incrementOf(x syntax.ArithmExpr) (string, int, bool) {
	switch x := x.(type) {
	case *syntax.UnaryArithm:
		w, ok := x.X.(*syntax.Word)
		if ok && (x.Op == syntax.Inc || x.Op == syntax.Dec) {
			return w.Lit(), map[syntax.UnAritOperator]int{syntax.Inc: 1, syntax.Dec: -1}[x.Op], w.Lit() != ""
		}
	case *syntax.BinaryArithm:
		w, ok := x.X.(*syntax.Word)
		if !ok || w.Lit() == "" {
			return "", 0, false
		}
		if x.Op == syntax.Assgn {
			step, ok := sum(x.Y, w.Lit())
			return w.Lit(), step, ok
		}
		n, isNumber := constantOf(x.Y)
		if isNumber && (x.Op == syntax.AddAssgn || x.Op == syntax.SubAssgn) {
			return w.Lit(), map[syntax.BinAritOperator]int{syntax.AddAssgn: n, syntax.SubAssgn: -n}[x.Op], true
		}
	}
	return "", 0, false
}

func constantOf(x syntax.ArithmExpr) (int, bool) {
	w, ok := x.(*syntax.Word)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(w.Lit())
	return n, err == nil && n > 0 && strconv.Itoa(n) == w.Lit()
}

// sum returns n of name + n and name - n.
func sum(x syntax.ArithmExpr, name string) (int, bool) {
	b, ok := x.(*syntax.BinaryArithm)
	if !ok || b.Op != syntax.Add && b.Op != syntax.Sub {
		return 0, false
	}
	w, ok := b.X.(*syntax.Word)
	if !ok {
		return 0, false
	}
	param, isParam := onlyPart(w).(*syntax.ParamExp)
	if w.Lit() != name && !(isParam && param.Exp == nil && param.Param != nil && param.Param.Value == name) {
		return 0, false
	}
	n, ok := constantOf(b.Y)
	if b.Op == syntax.Sub {
		n = -n
	}
	return n, ok
}

// expr recognizes $(expr $i + 1).
func expr(sub *syntax.CmdSubst, name string) (string, int, bool) {
	if len(sub.Stmts) != 1 {
		return "", 0, false
	}
	call, ok := sub.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) != 4 || call.Args[0].Lit() != "expr" || len(call.Assigns) > 0 || len(sub.Stmts[0].Redirs) > 0 {
		return "", 0, false
	}
	param, ok := onlyPart(call.Args[1]).(*syntax.ParamExp)
	n, isNumber := constantOf(call.Args[3])
	sign, known := map[string]int{"+": 1, "-": -1}[call.Args[2].Lit()]
	if !ok || !isNumber || !known || param.Param == nil || param.Param.Value != name || param.Exp != nil {
		return "", 0, false
	}
	return name, sign * n, true
}

// found sets what the loop waits for.
func (l *looper) found(n syntax.Node, cond Cond, leave flow) error {
	if l.probe != nil {
		return refuse(n, "a second condition that ends the loop")
	}
	l.probe, l.probeAt, l.leave = &cond, l.now, leave
	l.now++
	return nil
}

// bound adds a bound that ends the loop when a condition of the counter has the value wanted.
func (l *looper) bound(s *syntax.Stmt, wanted, fails bool) {
	p := l.p
	l.bounds = append(l.bounds, bound{at: l.now, fails: fails, holds: func() (bool, error) {
		_, known, err := p.condition(s)
		if err == nil && known == nil {
			err = refuse(s, "a condition of a counter and something else")
		}
		return err == nil && *known == wanted, err
	}})
	l.now++
}

// body reads what is done at each attempt.
func (l *looper) body(list []*syntax.Stmt) error {
	outer := l.last
	defer func() { l.last = outer }()
	for i, s := range list {
		last := i == len(list)-1
		l.last = outer && last
		if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(call.Args) == 1 && call.Args[0].Lit() == "continue" && last && !s.Negated {
			return nil
		}
		var next *syntax.Stmt
		if !last {
			next = list[i+1]
		}
		if err := l.item(s, next); err != nil {
			return err
		}
	}
	return nil
}

func (l *looper) item(s *syntax.Stmt, next *syntax.Stmt) error {
	p := l.p
	if s.Background || s.Negated {
		return refuse(s, "in a loop")
	}
	if name, _, ok := p.increment(s); ok && name == l.counter {
		if l.stepAt != 0 {
			return refuse(s, "a second change of the counter")
		}
		l.now++
		l.stepAt = l.now
		l.now++
		return nil
	}
	if p.isLog(s) || p.isLook(s) && !p.errexit && (next == nil || !looksAtStatus(next)) {
		p.status = nil
		return nil
	}
	if _, err := p.outer(s, context{}); err != nil {
		return err
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.IfClause:
		return l.ifItem(cmd)
	case *syntax.BinaryCmd:
		if cmd.Op == syntax.Pipe {
			return l.probeItem(s, next)
		}
		return l.listItem(s, cmd)
	case *syntax.Block:
		return l.body(cmd.Stmts)
	case *syntax.ForClause:
		return l.each(cmd)
	case *syntax.DeclClause:
		return p.declare(cmd)
	case *syntax.CallExpr:
		switch {
		case len(cmd.Args) == 0:
			return p.assigns(cmd)
		case cmd.Args[0].Lit() == "sleep":
			return l.sleep(s, cmd)
		case refused[cmd.Args[0].Lit()] != "" || cmd.Args[0].Lit() == "exit" || cmd.Args[0].Lit() == "return":
			return refuse(s, "a loop that ends at its first attempt")
		}
		return l.probeItem(s, next)
	}
	return refuse(s, "in a loop")
}

func (l *looper) sleep(s *syntax.Stmt, cmd *syntax.CallExpr) error {
	words, err := l.p.expand(cmd.Args[1:])
	if err != nil {
		return err
	}
	if len(words) != 1 || len(cmd.Assigns) > 0 {
		return refuse(s, "a pause that is not known")
	}
	text, ok := l.p.known(words[0])
	d, isTime := seconds(text)
	if !ok || !isTime {
		return refuse(s, "a pause that is not known")
	}
	l.loop.Pause += d
	l.p.status = nil
	return nil
}

// probeItem reads a command at whose status the next statement looks.
func (l *looper) probeItem(s, next *syntax.Stmt) error {
	p := l.p
	if next == nil || !looksAtStatus(next) {
		return refuse(s, "it runs at each attempt")
	}
	cond, known, err := p.condition(s)
	if err != nil || known != nil {
		if err == nil {
			err = refuse(s, "it runs at each attempt")
		}
		return err
	}
	p.aborts = p.aborts || p.errexit
	p.status = &cond
	return nil
}

// looksAtStatus reports whether a statement depends on $?, so that it is a condition of the command before.
func looksAtStatus(s *syntax.Stmt) bool {
	switch cmd := s.Cmd.(type) {
	case *syntax.IfClause:
		return mentions(cmd.Cond[0], "?")
	case *syntax.BinaryCmd:
		return mentions(cmd.X, "?")
	case *syntax.CallExpr:
		return len(cmd.Args) == 0 && len(cmd.Assigns) == 1 && cmd.Assigns[0].Value != nil && isStatus(cmd.Assigns[0].Value)
	}
	return false
}

// leaving says how a list of statements ends that leaves the loop.
type leaving struct {
	actions []*syntax.Stmt // before
	flow    flow           // goesOn is break
	fails   bool
}

func leaves(list []*syntax.Stmt) (leaving, bool) {
	if len(list) == 0 {
		return leaving{}, false
	}
	if i := slices.IndexFunc(list, ends); i >= 0 { // what follows is not reached
		list = list[:i+1]
	}
	last := list[len(list)-1]
	before := list[:len(list)-1]
	if last.Negated || last.Background || len(last.Redirs) > 0 {
		return leaving{}, false
	}
	switch cmd := last.Cmd.(type) {
	case *syntax.Block:
		inner, ok := leaves(cmd.Stmts)
		inner.actions = append(slices.Clone(before), inner.actions...)
		return inner, ok
	case *syntax.BinaryCmd:
		if cmd.Op != syntax.AndStmt {
			return leaving{}, false
		}
		inner, ok := leaves([]*syntax.Stmt{cmd.Y})
		inner.actions = append(append(slices.Clone(before), cmd.X), inner.actions...)
		return inner, ok && isEcho(cmd.X)
	case *syntax.CallExpr:
		if len(cmd.Args) == 0 || len(cmd.Assigns) > 0 {
			return leaving{}, false
		}
		result := leaving{actions: before}
		status := ""
		if len(cmd.Args) > 1 {
			status = cmd.Args[1].Lit()
		}
		switch name := cmd.Args[0].Lit(); {
		case name == "break" && (len(cmd.Args) == 1 || status == "1"):
			return result, len(cmd.Args) <= 2
		case (name == "exit" || name == "return") && status == "0":
			result.flow = map[string]flow{"exit": exits, "return": returns}[name]
			return result, len(cmd.Args) == 2
		case name == "exit":
			n, err := strconv.Atoi(status)
			result.fails = err == nil && n > 0 && n < 256
			return result, result.fails
		}
	}
	return leaving{}, false
}

// ends reports whether a statement is exit with a status.
func ends(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) == 2 && call.Args[0].Lit() == "exit" && !s.Negated && !s.Background
}

func isEcho(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && (call.Args[0].Lit() == "echo" || call.Args[0].Lit() == "printf") && !s.Negated
}

func (l *looper) allLog(list []*syntax.Stmt) bool {
	return !slices.ContainsFunc(list, func(s *syntax.Stmt) bool { return !l.p.isLog(s) })
}

// ifItem reads an if in a loop.
func (l *looper) ifItem(clause *syntax.IfClause) error {
	p := l.p
	var otherwise []*syntax.Stmt
	if e := clause.Else; e != nil {
		otherwise = e.Then
		if len(e.Cond) > 0 {
			otherwise = []*syntax.Stmt{{Cmd: e, Position: e.Position}}
		}
	}
	if len(clause.Cond) == 1 && p.isIdleTest(clause.Cond[0]) && l.allLog(clause.Then) && l.allLog(otherwise) && !mentions(clause.Cond[0], "?") {
		return nil
	}
	if len(clause.Cond) == 1 && len(otherwise) == 0 && l.last && l.goesOn != "" && source(clause.Cond[0]) == l.goesOn {
		return l.body(clause.Then) // else the loop ends here
	}
	if len(clause.Cond) == 1 {
		l.counts(clause.Cond[0])
	}
	cond, known, err := p.conditionList(clause.Cond)
	if counted := (*countError)(nil); errors.As(err, &counted) && len(clause.Cond) == 1 {
		how, ok := leaves(clause.Then)
		if other, leaving := leaves(otherwise); !ok && leaving && other.flow == goesOn && l.allLog(other.actions) {
			l.bound(clause.Cond[0], false, other.fails)
			return l.body(clause.Then)
		}
		if !ok || how.flow != goesOn || !l.allLog(how.actions) {
			return refuse(clause.Cond[0], "what is done after some attempts")
		}
		l.bound(clause.Cond[0], true, how.fails)
		return l.body(otherwise)
	}
	if err != nil {
		return err
	}
	if known != nil {
		if *known {
			return l.body(clause.Then)
		}
		return l.body(otherwise)
	}
	if l.flag == nil && p.sets(cond, clause.Then, otherwise) {
		for _, call := range cond.calls() { // which must be part of what the loop waits for
			p.outputs[call] = refuse(clause, "a condition that does not end the loop")
		}
		return nil
	}
	return l.either(clause, cond, clause.Then, otherwise)
}

// each reads a loop over known words in an attempt: what it does for each of them.
func (l *looper) each(clause *syntax.ForClause) error {
	p := l.p
	iter, ok := clause.Loop.(*syntax.WordIter)
	if !ok || clause.Select || clause.Braces || !iter.InPos.IsValid() || hasLeave(clause.Do) || slices.Contains(special, iter.Name.Value) || p.allexport {
		return refuse(clause, "a loop of this form")
	}
	items, err := p.items(iter.Items)
	if err != nil {
		return err
	}
	last := l.last
	defer func() { l.last = last }()
	for _, item := range items {
		if l.last = false; hasGlob(item) || p.perhapsSeveral(item) {
			return refuse(iter.Items[0], "a list that is not known")
		}
		p.vars[iter.Name.Value] = value{word: item}
		if err := l.body(clause.Do); err != nil {
			return err
		}
	}
	return nil
}

// sets reads branches that do nothing but set variables and write to the log. It returns false for others.
func (p *parser) sets(cond Cond, then, otherwise []*syntax.Stmt) bool {
	before, set := p.clone(), false
	branch := func(list []*syntax.Stmt) (vars map[string]value, ok bool) {
		p.state = before.clone()
		for _, s := range list {
			cmd, is := s.Cmd.(*syntax.CallExpr)
			if p.isLog(s) {
				continue
			}
			if !is || len(cmd.Args) > 0 || len(s.Redirs) > 0 || s.Negated || s.Background {
				return nil, false
			}
			for _, a := range cmd.Assigns {
				if set = true; a.Name == nil || a.Value == nil || !p.harmless(a.Value) {
					return nil, false
				}
				if p.assign(a) != nil {
					p.vars[a.Name.Value] = value{why: changes}
				}
			}
		}
		return p.vars, maps.Equal(p.exported, before.exported)
	}
	yes, ok1 := branch(then)
	no, ok2 := branch(otherwise)
	p.state = before
	if !ok1 || !ok2 || !set {
		return false
	}
	p.status = nil
	for name, v := range yes {
		if p.vars[name] = v; !sameValue(v, no[name]) {
			p.vars[name] = value{either: &either{cond, v, no[name]}}
		}
	}
	for name, w := range no {
		if _, found := yes[name]; !found {
			p.vars[name] = value{either: &either{cond, value{why: changes}, w}}
		}
	}
	return true
}

// either reads what is done if a condition holds, and if not. One of them leaves the loop.
func (l *looper) either(n syntax.Node, cond Cond, then, otherwise []*syntax.Stmt) error {
	how, ok := leaves(then)
	if !ok && l.sets(then) {
		how, ok, l.flagged = leaving{actions: then}, true, true
	}
	if !ok {
		if how, ok = leaves(otherwise); !ok {
			return refuse(n, "a condition that does not end the loop")
		}
		cond, then, otherwise = negate(cond), otherwise, then
	}
	if how.fails {
		return refuse(n, "a condition that makes the script fail")
	}
	if err := l.found(n, cond, how.flow); err != nil {
		return err
	}
	if err := l.succeed(how.actions); err != nil {
		return err
	}
	return l.body(otherwise)
}

// succeed reads what is done once, when the loop has waited successfully.
func (l *looper) succeed(actions []*syntax.Stmt) error {
	p := l.p
	saved := p.clone()
	if len(actions) > 0 {
		inLoop := p.inLoop
		p.inLoop = false
		c := l.c
		c.last, c.tail = max(unchecked, c.last), false
		var err error
		l.success, err = p.statements(actions, c)
		p.inLoop = inLoop
		if err != nil || p.flow != goesOn {
			if err == nil {
				err = refuse(actions[0], "in a loop")
			}
			return err
		}
	}
	l.after = p.vars
	p.vars = nil
	if p.state.vars = saved.vars; p.changed(saved) {
		return refuse(l.node, "a loop that changes how the script goes on")
	}
	p.state = saved
	return nil
}

// listItem reads COND && break, and the like.
func (l *looper) listItem(s *syntax.Stmt, b *syntax.BinaryCmd) error {
	p := l.p
	if b.Op != syntax.AndStmt && b.Op != syntax.OrStmt {
		return refuse(s, "in a loop")
	}
	if inner, ok := b.X.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.OrStmt && inner.Op == syntax.AndStmt && !b.X.Negated {
		// COND && break || sleep 1
		if _, leaving := leaves([]*syntax.Stmt{inner.Y}); leaving {
			if err := l.listItem(b.X, inner); err != nil {
				return err
			}
			return l.body([]*syntax.Stmt{b.Y})
		}
	}
	if call, isCall := b.X.Cmd.(*syntax.CallExpr); isCall && b.Op == syntax.AndStmt && len(call.Args) > 0 && (call.Args[0].Lit() == "sleep" || p.isLog(b.X)) {
		return l.body([]*syntax.Stmt{b.X, b.Y}) // which do not fail
	}
	how, ok := leaves([]*syntax.Stmt{b.Y})
	if !ok {
		if p.isIdleTest(b.X) && p.isLog(b.Y) && !mentions(b.X, "?") {
			return nil
		}
		return refuse(s, "in a loop")
	}
	l.counts(b.X)
	cond, known, err := p.condition(b.X)
	wanted := b.Op == syntax.AndStmt
	if counted := (*countError)(nil); errors.As(err, &counted) {
		if how.flow != goesOn || !l.allLog(how.actions) {
			return refuse(b.X, "what is done after some attempts")
		}
		l.bound(b.X, wanted, how.fails)
		return nil
	}
	switch {
	case err != nil:
		return err
	case known != nil && *known == wanted:
		return refuse(s, "a loop that ends at its first attempt")
	case known != nil:
		return nil
	}
	if !wanted {
		cond = negate(cond)
	}
	return l.either(s, cond, []*syntax.Stmt{b.Y}, nil)
}

// finish returns the statements of the loop.
func (l *looper) finish(entry state, rest []*syntax.Stmt, tail bool) ([]Statement, bool, error) {
	p := l.p
	if l.probe == nil {
		return nil, false, refuse(l.node, "a loop that does not wait for anything that is known")
	}
	if l.loop.Aborts && l.c.exit != fatal {
		return nil, false, refuse(l.node, "a loop that set -e ends, after which the script goes on")
	}
	l.loop.Until = *l.probe
	number, fails, err := l.attempts()
	if err != nil {
		return nil, false, err
	}
	if l.loop.Attempts == 0 && len(l.bounds) > 0 {
		return nil, false, refuse(l.node, "a loop that makes no attempt")
	}
	if fails && l.c.exit == ignored {
		return nil, false, refuse(l.node, "an exit from a shell whose failure is ignored")
	}
	bounded := l.loop.Attempts > 0
	l.loop.Fails = fails && l.c.exit == fatal
	atBound := entry.clone()
	after := l.after
	if after == nil {
		after = p.vars
	}
	for name, v := range after {
		if before, found := entry.vars[name]; !found || !sameValue(before, v) {
			atBound.vars[name] = value{why: changes}
			if l.after == nil || v.output != nil || v.status != nil || v.either != nil || v.why != "" {
				after[name] = value{why: changes}
			}
			if l.after != nil && found && p.vars[name].why == changes { // only set where the loop succeeds
				atBound.vars[name] = before
			}
		}
	}
	if l.counter != "" {
		after[l.counter] = value{why: "it is counted by a loop"}
		if bounded {
			v := value{counts: []int{}}
			for i := range min(l.loop.Attempts, 2000) {
				n := l.init + l.step*i
				if l.stepAt > 0 && l.stepAt < l.probeAt {
					n += l.step
				}
				if n != number { // else it was ready just when the loop gave up
					v.counts = append(v.counts, n)
				}
			}
			after[l.counter], atBound.vars[l.counter] = v, value{word: Word{{Text: strconv.Itoa(number)}}}
		}
	}
	p.state = entry
	p.vars = after
	if bounded && !fails && l.c.exit != ignored && p.failsIn(atBound, rest) {
		l.loop.Fails = l.c.exit == fatal
		fails = true
	}
	if bounded && !fails && len(l.success) > 0 {
		return nil, false, refuse(l.node, "what is done only if the loop succeeds")
	}
	if l.leave != goesOn {
		if bounded && !fails {
			if err := l.onlyLog(atBound, rest, tail); err != nil {
				return nil, false, err
			}
		}
		p.flow = l.leave
	}
	wait := Statement{Loop: l.loop, MayFail: bounded && !fails && l.p.failing(l.c) == ignored} // for … done || true
	return append([]Statement{wait}, l.success...), false, nil
}

// onlyLog returns an error if something is done after a loop that the end of the script follows if it succeeds.
func (l *looper) onlyLog(atBound state, rest []*syntax.Stmt, tail bool) error {
	if !tail {
		return refuse(l.node, "what follows is only done if the loop does not succeed")
	}
	for _, s := range rest {
		if !l.p.isLog(s) {
			return refuse(s, "it is only done if the loop before does not succeed")
		}
	}
	return nil
}

// attempts sets the bound of the loop. It returns the counter's value then, and whether the script fails.
func (l *looper) attempts() (number int, fails bool, err error) {
	p := l.p
	if l.items >= 0 {
		l.loop.Attempts = l.items
		number = l.init + l.step*(l.items-1)
	}
	defer func() { p.pick = nil }()
	for _, b := range l.bounds {
		if l.counter == "" || l.items < 0 && l.stepAt == 0 {
			return 0, false, refuse(l.node, "a counter that is not counted")
		}
		for k := 0; ; k++ {
			if k > 100000 {
				return 0, false, refuse(l.node, "a bound that is not reached")
			}
			value := l.init + l.step*k
			if l.items < 0 && l.stepAt < b.at {
				value += l.step
			}
			p.pick = map[string]int{l.counter: value}
			holds, err := b.holds()
			if err != nil {
				return 0, false, err
			}
			n := k
			if l.probe != nil && l.probeAt < b.at {
				n++
			}
			if l.loop.Attempts > 0 && n > l.loop.Attempts {
				break
			}
			if holds {
				if n == 0 {
					return 0, false, refuse(l.node, "a loop that makes no attempt")
				}
				l.loop.Attempts, number, fails = n, value, b.fails
				break
			}
		}
	}
	return number, fails, nil
}

// failsIn reports whether the script ends with a failure when a loop has ended without success.
func (p *parser) failsIn(atBound state, rest []*syntax.Stmt) bool {
	saved, flow, pick := p.state, p.flow, p.pick
	defer func() { p.state, p.flow, p.pick = saved, flow, pick }()
	p.state = atBound.clone()
	for _, s := range rest {
		if p.isLog(s) {
			continue
		}
		var then []*syntax.Stmt
		switch cmd := s.Cmd.(type) {
		case *syntax.CallExpr:
			then = []*syntax.Stmt{s}
		case *syntax.IfClause:
			_, known, err := p.conditionList(cmd.Cond)
			if err != nil || known == nil {
				return false
			}
			if *known {
				then = cmd.Then
			} else if cmd.Else != nil && len(cmd.Else.Cond) == 0 {
				then = cmd.Else.Then
			}
		case *syntax.BinaryCmd:
			if cmd.Op != syntax.AndStmt && cmd.Op != syntax.OrStmt || !p.isTest(cmd.X) {
				return false
			}
			_, known, err := p.condition(cmd.X)
			if err != nil || known == nil {
				return false
			}
			if *known == (cmd.Op == syntax.AndStmt) {
				then = []*syntax.Stmt{cmd.Y}
			}
		default:
			return false
		}
		switch end, err := p.handler(then, context{}); {
		case err != nil || end == endsOther || end == endsOK:
			return false
		case end == endsFailing:
			return true
		}
	}
	return false
}

// forClause reads for NAME in …: a loop that tries again, or one that is unrolled.
func (p *parser) forClause(clause *syntax.ForClause, rest []*syntax.Stmt, tail bool, c context) ([]Statement, bool, error) {
	iter, ok := clause.Loop.(*syntax.WordIter)
	if !ok || clause.Select || clause.Braces {
		return nil, false, refuse(clause, "a loop of this form")
	}
	if !iter.InPos.IsValid() {
		return nil, false, refuse(clause, "a loop over the parameters")
	}
	items, err := p.items(iter.Items)
	if err != nil {
		return nil, false, err
	}
	name := iter.Name.Value
	if slices.Contains(special, name) {
		return nil, false, refuse(clause, "a variable that changes what the shell does")
	}
	if len(items) == 0 {
		return nil, false, nil
	}
	if slices.ContainsFunc(items, p.perhapsSeveral) {
		return nil, false, refuse(iter.Items[0], "a list in a variable whose value is not known")
	}
	if p.allexport {
		return nil, false, refuse(clause, "a loop variable that is exported")
	}
	if hasGlob(items[0]) {
		if list := p.filesLoop(clause, iter); len(list) > 0 {
			p.vars[name] = value{why: "a file of a loop"}
			c.tail = false
			statements, err := p.statements(list, c)
			return statements, false, err
		}
	}
	if hasLeave(clause.Do) {
		return p.loopStatement(clause, rest, tail, c, func(l *looper) error {
			l.items = len(items)
			p.vars[name] = value{why: changes}
			if first, step, ok := progression(items); ok {
				l.counter, l.init, l.step = name, first, step
				p.vars[name] = value{count: true}
			}
			for other := range l.assignments(clause.Do) {
				p.vars[other] = value{why: changes}
			}
			if l.counter != name && l.counter != "" {
				return refuse(clause, "a loop that counts twice")
			}
			l.now = inBody
			return l.body(clause.Do)
		})
	}
	var all []Statement
	for i, item := range items {
		p.vars[name] = value{word: item}
		inner := c
		if inner.tail = false; i < len(items)-1 {
			inner.last = max(unchecked, c.last)
		}
		if hasGlob(item) {
			return nil, false, refuse(clause, "a loop over files")
		}
		statements, err := p.statements(clause.Do, inner)
		if err != nil {
			return nil, false, err
		}
		if all = append(all, statements...); p.statementN > maxStatements || p.flow != goesOn {
			return all, false, refuse(clause, "more statements than can be checked")
		}
	}
	return all, false, nil
}

// perhapsSeveral reports whether a word may be several ones, or none: the value of a variable without quotes that only
// the cluster knows.
func (p *parser) perhapsSeveral(w Word) bool {
	return slices.ContainsFunc(w, func(part Part) bool {
		_, state := p.o.Lookup(part.Env)
		return part.Env != "" && part.Split && state != Literal
	})
}

// items returns the words of a list, with braces such as {1..60} where bash reads them.
func (p *parser) items(list []*syntax.Word) ([]Word, error) {
	if len(list) == 1 && p.o.Program == "bash" {
		text := list[0].Lit()
		first, last, found := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"), "..")
		if found && strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") {
			text, ok := seq([]string{first, last}, nil)
			if !ok || text == "" || len(text) > maxText {
				return nil, refuse(list[0], "braces of this form")
			}
			f := &fields{}
			f.split(text)
			return f.list, nil
		}
	}
	return p.expand(list)
}

// hasLeave reports whether a body leaves its loop, or its script.
func hasLeave(body []*syntax.Stmt) bool {
	found := false
	for _, s := range body {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.WhileClause, *syntax.ForClause, *syntax.FuncDecl, *syntax.CmdSubst:
				return false
			case *syntax.CallExpr:
				found = found || len(n.Args) > 0 && slices.Contains([]string{"break", "continue", "exit", "return"}, n.Args[0].Lit())
			}
			return !found
		})
	}
	return found
}

// progression returns the first number and the step of a list of numbers.
func progression(items []Word) (first, step int, ok bool) {
	step = 1
	for i, item := range items {
		text, literal := item.Literal()
		n, err := strconv.Atoi(text)
		if !literal || err != nil || strconv.Itoa(n) != text {
			return 0, 0, false
		}
		switch {
		case i == 0:
			first = n
		case i == 1:
			step = n - first
		case n != first+step*i:
			return 0, 0, false
		}
	}
	return first, step, true
}
