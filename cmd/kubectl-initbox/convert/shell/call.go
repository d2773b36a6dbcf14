package shell

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"initbox/internal/lazy"
)

// logOnly are commands that print something that is the same or does not matter, and cannot fail.
var logOnly = []string{"echo", "printf", "date", "true", ":", "hostname", "whoami", "id", "pwd", "uname", "env", "printenv", "set -x"}

// isLog reports whether a statement does nothing but write to the log.
func (p *parser) isLog(s *syntax.Stmt) bool {
	if s.Background || s.Negated {
		return false
	}
	if !p.writesNothing(s) {
		return false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.Block:
		return !slices.ContainsFunc(cmd.Stmts, func(s *syntax.Stmt) bool { return !p.isLog(s) })
	case *syntax.BinaryCmd:
		return cmd.Op != syntax.PipeAll && p.isLog(cmd.X) && p.isLog(cmd.Y)
	case *syntax.CallExpr:
		if len(cmd.Args) == 0 || len(cmd.Assigns) > 0 || p.functions[cmd.Args[0].Lit()] != nil || !slices.Contains(logOnly, cmd.Args[0].Lit()) {
			return false
		}
		if name := cmd.Args[0].Lit(); (name == "env" || name == "hostname" || name == "date") && len(cmd.Args) > 1 && !strings.HasPrefix(cmd.Args[1].Lit(), "-") && !plus(cmd.Args[1]) {
			return false // it runs a command, or sets the name or the time
		}
		return !slices.ContainsFunc(cmd.Args, func(w *syntax.Word) bool { return !p.harmless(w) })
	}
	return false
}

// lookOnly are commands that only print what they find, for the log.
var lookOnly = []string{"nslookup", "dig", "host", "getent", "ls", "df", "ps", "netstat", "ss"}

// isLook reports whether a statement does nothing but look and write to the log. It may fail.
func (p *parser) isLook(s *syntax.Stmt) bool {
	if s.Background || s.Negated || !p.writesNothing(s) {
		return false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		return cmd.Op != syntax.PipeAll && (p.isLook(cmd.X) || p.isLog(cmd.X)) && (p.isLook(cmd.Y) || p.isLog(cmd.Y))
	case *syntax.CallExpr:
		return len(cmd.Args) > 0 && len(cmd.Assigns) == 0 && slices.Contains(lookOnly, cmd.Args[0].Lit()) && p.functions[cmd.Args[0].Lit()] == nil &&
			!slices.ContainsFunc(cmd.Args, func(w *syntax.Word) bool { return !p.harmless(w) })
	}
	return false
}

// plus reports whether a word begins with +, as the format of date does.
func plus(w *syntax.Word) bool {
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		return strings.HasPrefix(part.Value, "+")
	case *syntax.SglQuoted:
		return strings.HasPrefix(part.Value, "+")
	case *syntax.DblQuoted:
		return len(part.Parts) > 0 && plus(&syntax.Word{Parts: part.Parts})
	}
	return false
}

// writesNothing reports whether no redirection of a statement writes a file.
func (p *parser) writesNothing(s *syntax.Stmt) bool {
	var call Call
	err := p.redirect(&call, s.Redirs)
	return err == nil && (call.Stdout == nil || call.Stdout.Discard) && (call.Stderr == nil || call.Stderr.File == nil)
}

// isIdleTest reports whether a statement is a test that changes nothing.
func (p *parser) isIdleTest(s *syntax.Stmt) bool {
	idle := p.isTest(s)
	syntax.Walk(s, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Word:
			idle = idle && p.harmless(n)
		case *syntax.Stmt:
			idle = idle && p.writesNothing(n)
		}
		return idle
	})
	return idle
}

// harmless reports whether the expansion of a word changes nothing.
func (p *parser) harmless(w *syntax.Word) bool {
	ok := true
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			for _, s := range n.Stmts {
				ok = ok && p.isLog(s)
			}
			return false
		case *syntax.ParamExp:
			ok = ok && (n.Exp == nil || !slices.Contains([]syntax.ParExpOperator{syntax.AssignUnset, syntax.AssignUnsetOrNull, syntax.ErrorUnset, syntax.ErrorUnsetOrNull}, n.Exp.Op))
		case *syntax.ArithmExp:
			syntax.Walk(n.X, func(n syntax.Node) bool {
				if unary, is := n.(*syntax.UnaryArithm); is && (unary.Op == syntax.Inc || unary.Op == syntax.Dec) {
					ok = false
				}
				if binary, is := n.(*syntax.BinaryArithm); is && strings.HasSuffix(binary.Op.String(), "=") && !slices.Contains([]string{"==", "!=", "<=", ">="}, binary.Op.String()) {
					ok = false
				}
				return true
			})
		case *syntax.ProcSubst, *syntax.ExtGlob:
			ok = false
		}
		return ok
	})
	return ok
}

// refused are commands of the shell itself that are not understood.
var refused = map[string]string{
	"eval": "text that becomes a command", ".": "a file of commands", "source": "a file of commands", "wait": "jobs in the background",
	"read": "it reads a variable", "getopts": "options", "alias": "an alias", "hash": "a command of the shell",
	"break": "it leaves a loop that is not understood", "continue": "it continues a loop that is not understood", "kill": "it ends processes",
	"select": "a command of the shell", "coproc": "a command of the shell", "shopt": "options of bash", "mapfile": "it reads variables", "readarray": "it reads variables",
	"let": "arithmetic of this form", "builtin": "a command of the shell", "enable": "a command of the shell", "times": "a command of the shell", "exec": "it changes the shell itself",
	"type": "a command of the shell", "pushd": "a command of the shell", "popd": "a command of the shell", "dirs": "a command of the shell", "disown": "jobs in the background",
	"suspend": "jobs in the background", "logout": "a command of the shell", "fc": "a command of the shell", "bind": "a command of the shell",
	"caller": "a command of the shell", "complete": "a command of the shell", "compgen": "a command of the shell", "help": "a command of the shell",
	"shift": "other parameters", "unset": "it removes variables", "trap": "what is done at a signal or at the end", "export": "a variable of this form",
	"false": "it always fails", "jobs": "jobs in the background", "bg": "jobs in the background", "fg": "jobs in the background",
}

// call reads a simple command.
func (p *parser) call(s *syntax.Stmt, cmd *syntax.CallExpr, c context) ([]Statement, error) {
	if p.isLog(s) {
		return nil, nil
	}
	if s.Negated {
		return nil, refuse(s, "the negation of a command")
	}
	if len(cmd.Args) == 0 {
		if len(s.Redirs) > 0 {
			return nil, refuse(s, "a redirection without a command")
		}
		return nil, p.assigns(cmd)
	}
	name := cmd.Args[0].Lit()
	if body := p.functions[name]; body != nil {
		return p.callFunction(s, cmd, body, c)
	}
	if name == "ulimit" && !c.tail {
		return nil, refuse(s, "limits of what follows")
	}
	if done, err := p.builtin(s, cmd, name, &c); done || err != nil {
		if name != "cd" || err != nil {
			return nil, err
		}
		return p.result(s, &Call{Pos: at(s.Pos()), Name: name, Path: name, Args: []Word{p.dir}}, c) // which fails without the directory
	}
	switch base := path.Base(name); {
	case base == "timeout":
		return p.timeout(s, cmd, c)
	case isShell(base) && len(cmd.Args) > 1 && strings.HasPrefix(cmd.Args[1].Lit(), "-"):
		return p.shellCommand(s, cmd.Args, c)
	case name == "exec" && len(cmd.Args) > 1 && len(cmd.Assigns) == 0:
		p.flow = exits
		c.last = c.exit
		inner := *cmd
		inner.Args = cmd.Args[1:]
		if strings.HasPrefix(inner.Args[0].Lit(), "-") {
			return nil, refuse(s, "an option of exec")
		}
		return p.call(s, &inner, c)
	}
	if p.isTest(s) {
		_, known, err := p.condition(s)
		if err == nil && (known == nil || !*known) && (p.failing(c) == fatal || c.looked) {
			err = refuse(s, "the script fails if the condition does not hold")
		}
		return nil, err
	}
	call, err := p.simple(s, cmd)
	if err != nil {
		return nil, err
	}
	return p.result(s, call, c)
}

func isShell(name string) bool { return slices.Contains([]string{"sh", "bash", "ash", "dash"}, name) }

// callFunction reads the body of a function where it is called.
func (p *parser) callFunction(s *syntax.Stmt, cmd *syntax.CallExpr, body *syntax.Stmt, c context) ([]Statement, error) {
	if len(cmd.Assigns) > 0 {
		return nil, refuse(s, "a variable in front of a function")
	}
	c, err := p.outer(s, c)
	if err != nil {
		return nil, err
	}
	restore, err := p.enter(cmd)
	if err != nil {
		return nil, err
	}
	defer restore()
	c.tail = false
	all, err := p.statements([]*syntax.Stmt{body}, c)
	if p.flow == returns {
		p.flow = goesOn
	}
	return all, err
}

// enter sets the parameters of a function; the function that it returns restores them, and local variables.
func (p *parser) enter(cmd *syntax.CallExpr) (func(), error) {
	arguments, err := p.expand(cmd.Args[1:])
	if err != nil {
		return nil, err
	}
	parameters, locals := p.parameters, p.locals
	zero := Word{}
	if len(parameters) > 0 {
		zero = parameters[0]
	}
	p.parameters, p.locals = append([]Word{zero}, arguments...), map[string]*value{}
	return func() {
		for name, v := range p.locals {
			if delete(p.vars, name); v != nil {
				p.vars[name] = *v
			}
		}
		p.parameters, p.locals = parameters, locals
	}, nil
}

// builtin runs a command that only changes the state of the shell.
func (p *parser) builtin(s *syntax.Stmt, cmd *syntax.CallExpr, name string, c *context) (bool, error) {
	if name == "exec" && len(cmd.Args) > 1 {
		return false, nil
	}
	if why := refused[name]; why != "" {
		return false, refuse(s, why)
	}
	run, found := map[string]func([]Word, *context) string{
		"set": p.set, "cd": p.cd, "umask": p.setUmask, "exit": p.exit, "return": p.exit,
	}[name]
	if !found {
		return false, nil
	}
	if len(cmd.Assigns) > 0 || len(s.Redirs) > 0 && (name != "cd" || !p.writesNothing(s)) {
		return false, refuse(s, "variables or redirections of a command of the shell")
	}
	if (name == "exit" || name == "return") && (len(cmd.Args) == 1 || isStatus(cmd.Args[1])) {
		p.flow = map[string]flow{"exit": exits, "return": returns}[name]
		return true, nil
	}
	words, err := p.expand(cmd.Args[1:])
	if err != nil {
		return false, err
	}
	if why := run(words, c); why != "" {
		return false, refuse(s, why)
	}
	if name == "return" {
		p.flow = returns
	}
	return true, nil
}

func (p *parser) set(words []Word, _ *context) string {
	for i := 0; i < len(words); i++ {
		flags, ok := words[i].Literal()
		switch {
		case ok && flags == "--":
			p.parameters = append([]Word{{}}, words[i+1:]...)
			return ""
		case !ok || len(flags) < 2 || flags[0] != '-' && flags[0] != '+':
			return "options of the shell that are not known"
		}
		on := flags[0] == '-'
		for _, flag := range flags[1:] {
			option := string(flag)
			if flag == 'o' {
				if i++; i >= len(words) {
					return "options of the shell that are not known"
				}
				option, _ = words[i].Literal()
			}
			if !p.option(option, on) {
				return "an option of the shell that is not known"
			}
		}
	}
	return ""
}

func (p *parser) option(name string, on bool) bool {
	switch name {
	case "e", "errexit":
		p.errexit = on
	case "u", "nounset":
		p.nounset = on
	case "f", "noglob":
		p.noglob = on
	case "pipefail":
		p.pipefail = on
	case "a", "allexport":
		p.allexport = on
	case "x", "xtrace", "v", "verbose", "C", "noclobber", "h":
		return name != "C" && name != "noclobber"
	case "E", "errtrace":
	default:
		return false
	}
	return true
}

func (p *parser) cd(words []Word, _ *context) string {
	if len(words) != 1 || len(words[0]) == 0 || hasGlob(words[0]) {
		return "a directory that is not known"
	}
	dir := words[0]
	text, known := p.known(dir)
	switch {
	case strings.HasPrefix(dir[0].Text, "/") || known && strings.HasPrefix(text, "/"):
	case known && p.dir != nil && text != "-":
		dir = append(slices.Clone(p.dir), append(Word{{Text: "/"}}, dir...)...)
	default:
		return "a directory that is not known"
	}
	p.dir = dir
	return ""
}

func hasGlob(w Word) bool { return slices.ContainsFunc(w, func(p Part) bool { return p.Glob }) }

func (p *parser) setUmask(words []Word, _ *context) string {
	if len(words) != 1 {
		return "a mask that is not known"
	}
	text, _ := words[0].Literal()
	if _, err := strconv.ParseUint(text, 8, 9); err != nil {
		return "a mask that is not known"
	}
	p.umask = text
	return ""
}

func (p *parser) exit(words []Word, _ *context) string {
	text, ok := "", false
	if len(words) == 1 {
		text, ok = p.known(words[0])
	}
	if n, err := strconv.Atoi(text); !ok || err != nil || n != 0 {
		return "it ends the script with a failure"
	}
	p.flow = exits
	return ""
}

// declare reads export, local, readonly, declare and typeset.
func (p *parser) declare(d *syntax.DeclClause) error {
	kind := d.Variant.Value
	if kind != "export" && kind != "readonly" && kind != "local" && p.o.Program != "bash" {
		return refuse(d, "not every shell knows it")
	}
	if kind == "local" && p.locals == nil {
		return refuse(d, "outside of a function, where it ends the script in some shells")
	}
	for _, a := range d.Args {
		if a.Name == nil || a.Array != nil || a.Index != nil || a.Append {
			return refuse(d, "a variable of this form")
		}
		name := a.Name.Value
		if kind == "local" && p.locals != nil {
			if _, saved := p.locals[name]; !saved {
				p.locals[name] = nil
				if v, found := p.vars[name]; found {
					p.locals[name] = &v
				}
			}
		}
		if !a.Naked {
			if err := p.assign(a); err != nil {
				return err
			}
		} else if kind == "local" {
			p.vars[name] = value{word: Word{}}
		}
		if kind == "export" {
			if _, tracked := p.vars[name]; tracked {
				p.exported[name] = true
			}
		}
	}
	return nil
}

func (p *parser) assigns(cmd *syntax.CallExpr) error {
	for _, a := range cmd.Assigns {
		if err := p.assign(a); err != nil {
			return err
		}
	}
	return nil
}

// special are variables that change what the shell itself does.
var special = []string{"PATH", "IFS", "HOME", "CDPATH", "ENV", "BASH_ENV", "PWD", "OLDPWD", "LD_PRELOAD", "LD_LIBRARY_PATH", "GLOBIGNORE", "POSIXLY_CORRECT", "SHELLOPTS", "BASHOPTS", "UID", "EUID", "PPID", "RANDOM", "SECONDS", "OPTIND", "TMPDIR"}

// homeless are commands that do not look at HOME.
var homeless = []string{"cat", "chgrp", "chmod", "chown", "cp", "cut", "echo", "grep", "head", "ln", "ls", "mkdir", "mv", "nc", "printf", "rm", "sed", "sleep", "tee", "touch", "tr"}

// read by the commands that scripts call, so that an assignment may change what they do even if the script does not
// export the variable: the image may have set it.
var readByTools = lazy.Regexp(`^(PG|MYSQL|MARIADB|REDIS|CURL|WGET|GIT|SSL|KUBE|JAVA|ETCD|VAULT|CONSUL|AWS|GOOGLE|AZURE|KAFKA|CQL|MONGO|RABBIT|https?_|HTTPS?_|no_|NO_|ALL_|TAR|GZIP|POSIX|LC_|LANG|TZ)`)

func (p *parser) assign(a *syntax.Assign) error {
	if a.Append || a.Index != nil || a.Array != nil && p.o.Program != "bash" || a.Naked || a.Name == nil {
		return refuse(a, "a variable of this form")
	}
	name := a.Name.Value
	if slices.Contains(special, name) && name != "HOME" {
		return refuse(a, "a variable that changes what the shell does")
	}
	v, err := p.assigned(a)
	if err != nil {
		return err
	}
	if length(v.word) > maxValue {
		return refuse(a, "a text that is too long to be read")
	}
	p.vars[name] = v
	switch _, state := p.o.Lookup(name); {
	case p.allexport, name == "HOME", state == Literal, state == Opaque, state == Uncertain && readByTools().MatchString(name):
		p.exported[name] = true
	}
	return nil
}

func length(w Word) (n int) {
	for _, p := range w {
		n += len(p.Text) + 10 + length(p.Default)
	}
	return n
}

// assigned returns the value that a variable gets.
func (p *parser) assigned(a *syntax.Assign) (value, error) {
	if a.Array != nil {
		return p.array(a.Array)
	}
	if a.Value == nil {
		return value{word: Word{}}, nil
	}
	if isStatus(a.Value) {
		if p.status == nil {
			return value{}, refuse(a, "the status of a command that is not known")
		}
		v := value{status: p.status}
		p.status = nil
		p.statusUsed = true
		return v, nil
	}
	sub, _ := onlyPart(a.Value).(*syntax.CmdSubst)
	if sub == nil {
		w, err := p.one(a.Value)
		return value{word: w}, err
	}
	if w, err := p.substitution(sub); err == nil && !(p.inLoop && strings.HasPrefix(w[0].Env, FileText)) { // where set -e may end it
		return value{word: w}, nil
	}
	if !slices.ContainsFunc(sub.Stmts, func(s *syntax.Stmt) bool { return !p.isLog(s) }) {
		return value{why: "what a command prints"}, nil
	}
	call, err := p.output(sub)
	if !p.inLoop && (err != nil || !slices.Contains(asking, call.Name)) {
		err = refuse(a.Value, "the output of a command")
	}
	if err != nil {
		return value{}, err
	}
	p.aborts = p.aborts || p.errexit && p.inLoop
	p.outputs[call] = refuse(sub, "the output of a command")
	return value{output: call}, nil
}

// asking are commands that ask servers, so that what they print does not depend on what the script does meanwhile.
var asking = []string{"kubectl", "curl", "wget", "psql", "mysql", "redis-cli", "nslookup", "dig"}

// array returns the value of (A B …).
func (p *parser) array(x *syntax.ArrayExpr) (value, error) {
	words := make([]*syntax.Word, 0, len(x.Elems))
	for _, e := range x.Elems {
		if e.Index != nil || e.Value == nil {
			return value{}, refuse(x, "an array with indices")
		}
		words = append(words, e.Value)
	}
	list, err := p.expand(words)
	if err == nil && (len(list) == 0 || slices.ContainsFunc(list, hasGlob)) {
		err = refuse(x, "an array whose elements are not known")
	}
	return value{list: list}, err
}

// onlyPart returns the only part of a word, without quotes, or nil.
func onlyPart(w *syntax.Word) syntax.WordPart {
	if len(w.Parts) != 1 {
		return nil
	}
	if quoted, ok := w.Parts[0].(*syntax.DblQuoted); ok {
		return onlyPart(&syntax.Word{Parts: quoted.Parts})
	}
	return w.Parts[0]
}

// output returns the command in $( … ).
func (p *parser) output(sub *syntax.CmdSubst) (*Call, error) {
	if len(sub.Stmts) != 1 {
		return nil, refuse(sub, "the output of several commands")
	}
	s := sub.Stmts[0]
	if binary, ok := s.Cmd.(*syntax.BinaryCmd); ok && binary.Op == syntax.OrStmt && p.isLog(binary.Y) {
		return nil, refuse(sub, "the output of several commands")
	}
	return p.pipeline(s)
}

// pipeline reads the commands of a | b | c.
func (p *parser) pipeline(s *syntax.Stmt) (*Call, error) {
	if s.Background || s.Negated {
		return nil, refuse(s, "a pipeline of this form")
	}
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.Pipe && len(s.Redirs) == 0 {
		left, err := p.pipeline(b.X)
		if err != nil {
			return nil, err
		}
		right, err := p.pipeline(b.Y)
		if err != nil {
			return nil, err
		}
		last := left
		for ; last.Pipe != nil; last = last.Pipe {
			last.Pipefail = p.pipefail
		}
		last.Pipe, last.Pipefail = right, p.pipefail
		if last.Stdout == nil && slices.ContainsFunc(b.X.Redirs, func(r *syntax.Redirect) bool { return r.Op == syntax.DplOut && r.N != nil && r.N.Value == "2" }) {
			last.Stderr = &Output{}
		}
		return left, nil
	}
	cmd, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(cmd.Args) == 0 {
		return nil, refuse(s, "not a simple command")
	}
	name := cmd.Args[0].Lit()
	if _, function := p.functions[name]; function || refused[name] != "" || isShell(path.Base(name)) || path.Base(name) == "timeout" && !p.simpleTimeout(cmd) {
		return nil, refuse(s, "a pipeline of this form")
	}
	if path.Base(name) == "timeout" {
		return p.limited(s, cmd)
	}
	return p.simple(s, cmd)
}

// simple returns the call of a simple command.
func (p *parser) simple(s *syntax.Stmt, cmd *syntax.CallExpr) (*Call, error) {
	words, err := p.expand(cmd.Args)
	if err != nil {
		return nil, err
	}
	call := &Call{Pos: at(s.Pos()), Dir: p.dir, Umask: p.umask}
	for _, a := range cmd.Assigns {
		if a.Append || a.Array != nil || a.Index != nil || slices.Contains(special, a.Name.Value) {
			return nil, refuse(a, "a variable of this form")
		}
		w, err := p.one(a.Value)
		if err != nil {
			return nil, err
		}
		call.Set = append(call.Set, Assignment{a.Name.Value, w})
	}
	if len(words) == 0 {
		return nil, refuse(s, "a command that is not known")
	}
	if len(words) > 1 && words[0].String() == "command" && !strings.HasPrefix(words[1].String(), "-") {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil, refuse(s, "a command that is not known")
	}
	name, ok := words[0].Literal()
	if !ok || name == "" || refused[name] != "" && name != "exec" {
		return nil, refuse(cmd, "a command that is not known")
	}
	for _, exported := range sorted(p.exported) {
		if exported == "HOME" && slices.Contains(homeless, path.Base(name)) {
			continue
		} else if exported == "HOME" {
			return nil, refuse(s, "HOME is set, and what it reads there is not known")
		}
		if slices.ContainsFunc(call.Set, func(a Assignment) bool { return a.Name == exported }) {
			continue
		}
		v := p.vars[exported]
		if v.why != "" || v.either != nil || v.output != nil || v.status != nil || v.counts != nil || v.count || v.list != nil {
			return nil, refuse(s, "the value of the variable "+exported+", which it may read, is not known")
		}
		call.Set = append(call.Set, Assignment{exported, v.word})
	}
	call.Name, call.Path, call.Args = path.Base(name), name, words[1:]
	return call, p.redirect(call, s.Redirs)
}

func sorted(set map[string]bool) []string {
	var list []string
	for name := range set {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// redirect applies redirections, in their order.
func (p *parser) redirect(call *Call, list []*syntax.Redirect) error {
	for _, r := range list {
		if err := p.redirectOne(call, r); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) redirectOne(call *Call, r *syntax.Redirect) error {
	n := ""
	if r.N != nil {
		n = r.N.Value
	}
	both := r.Op == syntax.RdrAll || r.Op == syntax.AppAll
	toFile := func(o *Output) bool { return o != nil && o.File != nil } // which the shell has made, or emptied
	if before := n != "2" && toFile(call.Stdout) || (both || n == "2") && toFile(call.Stderr); before && strings.Contains(r.Op.String(), ">") {
		return refuse(r.Word, "a redirection after one to a file")
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		return p.document(call, r, n)
	case syntax.WordHdoc: // its text may be a password
		return &Error{at(r.Pos()), "<<<", "it is not the same in every shell"}
	case syntax.DplOut:
		return p.duplicate(call, r, n)
	case syntax.RdrIn:
		w, err := p.one(r.Word)
		if err != nil {
			return err
		}
		if n != "" && n != "0" || hasGlob(w) {
			return refuse(r.Word, "a redirection of this form")
		}
		call.Stdin = &Input{File: w}
		if w.String() == "/dev/null" {
			call.Stdin = nil
		}
		return p.networkFile(r, w)
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
	case syntax.RdrInOut:
		w, err := p.one(r.Word)
		if err != nil || !strings.HasPrefix(w.String(), "/dev/tcp/") {
			return refuse(r.Word, "a redirection of this form")
		}
		call.Stdin = &Input{File: w}
		return p.networkFile(r, w)
	default:
		return refuse(r.Word, "a redirection of this form")
	}
	if both && p.o.Program != "bash" {
		return refuse(r.Word, "&> is not the same in every shell")
	}
	w, err := p.one(r.Word)
	if err != nil {
		return err
	}
	out := &Output{File: w, Append: r.Op == syntax.AppOut || r.Op == syntax.AppAll}
	switch text := w.String(); {
	case text == "/dev/null":
		out = &Output{Discard: true}
	case slices.Contains([]string{"/dev/stdout", "/dev/stderr", "/proc/1/fd/1", "/proc/1/fd/2", "/dev/tty", "/dev/console"}, text):
		out = nil
	case text == "":
		return refuse(r.Word, "a redirection of this form")
	}
	switch {
	case both:
		call.Stdout, call.Stderr = out, out
	case n == "" || n == "1":
		call.Stdout = out
	case n == "2":
		call.Stderr = out
	default:
		return refuse(r.Word, "a redirection of this form")
	}
	return p.networkFile(r, w)
}

// networkFile refuses /dev/tcp where it is a file.
func (p *parser) networkFile(r *syntax.Redirect, w Word) error {
	if (strings.HasPrefix(w.String(), "/dev/tcp/") || strings.HasPrefix(w.String(), "/dev/udp/")) && p.o.Program != "bash" {
		return refuse(r.Word, "only bash connects there")
	}
	return nil
}

func (p *parser) document(call *Call, r *syntax.Redirect, n string) error {
	if n != "" && n != "0" {
		return refuse(r.Word, "a redirection of this form")
	}
	f := &fields{open: true}
	quoted := false
	for _, part := range r.Word.Parts {
		lit, ok := part.(*syntax.Lit)
		quoted = quoted || !ok || strings.Contains(lit.Value, "\\")
	}
	if r.Hdoc != nil {
		for _, part := range r.Hdoc.Parts {
			if lit, ok := part.(*syntax.Lit); ok {
				text := lit.Value
				if r.Op == syntax.DashHdoc {
					text = regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "")
				}
				if !quoted {
					text = unescape(text, "$`\\\n")
				}
				p.pastedText(f, text, false)
				continue
			}
			if err := p.parts(f, r.Hdoc, []syntax.WordPart{part}, true, false); err != nil {
				return err
			}
		}
	}
	text := f.now
	if text == nil {
		text = Word{}
	}
	call.Stdin = &Input{Text: text}
	return nil
}

// duplicate applies 2>&1 and >&2.
func (p *parser) duplicate(call *Call, r *syntax.Redirect, n string) error {
	joined := func(o *Output) *Output {
		if o == nil || o.Discard {
			return o
		}
		return &Output{}
	}
	switch target := r.Word.Lit(); {
	case n == "2" && target == "1":
		call.Stderr = joined(call.Stdout)
	case (n == "" || n == "1") && target == "2":
		call.Stdout = joined(call.Stderr)
	default:
		return refuse(r.Word, "a redirection of this form")
	}
	return nil
}

// simpleTimeout reports whether the command that timeout runs is not a shell.
func (p *parser) simpleTimeout(cmd *syntax.CallExpr) bool {
	_, rest, err := p.duration(cmd)
	return err == nil && len(rest) > 0 && !isShell(path.Base(rest[0].Lit()))
}

// duration returns the time of timeout, and the command that it runs.
func (p *parser) duration(cmd *syntax.CallExpr) (time.Duration, []*syntax.Word, error) {
	args := cmd.Args[1:]
	for len(args) > 1 {
		flag := args[0].Lit()
		switch {
		case flag == "-t": // of old versions of BusyBox
			args = args[1:]
			continue
		case flag == "-s" || flag == "-k" || flag == "--signal":
			args = args[2:]
			continue
		case strings.HasPrefix(flag, "--signal=") || strings.HasPrefix(flag, "--kill-after=") || flag == "--foreground" || flag == "-f":
			args = args[1:]
			continue
		}
		break
	}
	if len(args) < 2 {
		return 0, nil, refuse(cmd, "a timeout of this form")
	}
	text, err := p.text(args[0])
	if err != nil {
		return 0, nil, err
	}
	limit, ok := seconds(text)
	if !ok || limit <= 0 || strings.HasPrefix(args[1].Lit(), "-") {
		return 0, nil, refuse(cmd, "a timeout of this form")
	}
	return limit, args[1:], nil
}

// seconds returns the duration of sleep and timeout: 5, 0.5, 5s, 2m, 1h.
func seconds(text string) (time.Duration, bool) {
	unit := time.Second
	for suffix, d := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour} {
		if number, found := strings.CutSuffix(text, suffix); found {
			text, unit = number, d
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 1e6 || !regexp.MustCompile(`^[0-9.]+$`).MatchString(text) {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}

// limited returns the call of timeout N COMMAND.
func (p *parser) limited(s *syntax.Stmt, cmd *syntax.CallExpr) (*Call, error) {
	limit, rest, err := p.duration(cmd)
	if err != nil {
		return nil, err
	}
	inner := *cmd
	inner.Args = rest
	call, err := p.simple(s, &inner)
	if err == nil {
		call.Limit = limit
	}
	return call, err
}

// timeout reads timeout N COMMAND, where COMMAND may be a shell with a loop.
func (p *parser) timeout(s *syntax.Stmt, cmd *syntax.CallExpr, c context) ([]Statement, error) {
	limit, rest, err := p.duration(cmd)
	if err != nil {
		return nil, err
	}
	if !isShell(path.Base(rest[0].Lit())) {
		call, err := p.limited(s, cmd)
		if err != nil {
			return nil, err
		}
		return p.result(s, call, c)
	}
	all, err := p.shellCommand(s, rest, c)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 || all[0].Loop == nil || all[0].Loop.Timeout != 0 {
		return nil, refuse(cmd, "a timeout for what is not one loop")
	}
	loop := all[0].Loop
	if loop.Attempts != 0 {
		return nil, refuse(cmd, "a timeout for a loop that has a bound of its own")
	}
	loop.Timeout, loop.Fails = limit, p.failing(c) == fatal
	return []Statement{p.mark(all[0], p.failing(c))}, nil
}

// nested returns the script of sh -c TEXT, and a parser for it.
func (p *parser) nested(s *syntax.Stmt, args []*syntax.Word) (*syntax.File, *parser, error) {
	inner := &parser{o: p.o, steps: p.steps, statementN: p.statementN, depth: p.depth + 1, words: p.words, inLoop: p.inLoop, outputs: p.outputs}
	inner.state = state{vars: map[string]value{}, exported: map[string]bool{}, functions: map[string]*syntax.Stmt{}, dir: p.dir, umask: p.umask}
	for name := range p.exported {
		inner.vars[name], inner.exported[name] = p.vars[name], true
	}
	if inner.o.Program = path.Base(args[0].Lit()); inner.o.Program == "dash" || p.o.Program == "ash" && inner.o.Program == "sh" {
		inner.o.Program = map[string]string{"dash": "sh", "sh": "ash"}[inner.o.Program]
	}
	words, err := p.expand(args[1:])
	if err != nil {
		return nil, nil, err
	}
	for len(words) > 0 {
		flags, _ := words[0].Literal()
		words = words[1:]
		if !strings.HasPrefix(flags, "-") || flags == "--" {
			return nil, nil, refuse(s, "a script in a file")
		}
		isText := false
		for _, flag := range flags[1:] {
			option := string(flag)
			if flag == 'c' {
				isText = true
				continue
			}
			if flag == 'o' && len(words) > 0 {
				option, _ = words[0].Literal()
				words = words[1:]
			}
			if !inner.option(option, true) {
				return nil, nil, refuse(s, "an option of the shell that is not known")
			}
		}
		if isText {
			break
		}
	}
	if len(words) == 0 || inner.depth > maxDepth {
		return nil, nil, refuse(s, "not the text of a script")
	}
	text, err := Paste(words[0], p.o.Lookup)
	if err != nil {
		return nil, nil, err
	}
	inner.o.Parameters, inner.parameters = words[1:], words[1:]
	file, err := inner.file(text)
	return file, inner, err
}

// shellCommand reads sh -c TEXT.
func (p *parser) shellCommand(s *syntax.Stmt, args []*syntax.Word, c context) ([]Statement, error) {
	if cmd := s.Cmd.(*syntax.CallExpr); len(cmd.Assigns) > 0 {
		return nil, refuse(s, "a variable for a shell")
	}
	c, err := p.outer(s, c)
	if err != nil {
		return nil, err
	}
	file, inner, err := p.nested(s, args)
	if err != nil {
		return nil, err
	}
	c = p.inSubshell(c)
	c.noexit = false
	all, err := inner.statements(file.Stmts, c)
	p.statementN, p.words, p.pasted = inner.statementN, inner.words, append(p.pasted, inner.pasted...)
	return all, err
}
