package shell

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"initbox/internal/lazy"
)

// A variable's name stands between these two runes where its value became part of a script's text.
const pasteStart, pasteEnd = "\ue000", "\ue001"

var pastedName = lazy.Regexp(pasteStart + "([^" + pasteEnd + "]*)" + pasteEnd)

// Paste returns the text that a word is, for [Parse]. In place of a variable whose value is not known, it has the
// variable's name, in a form that Parse finds again.
func Paste(w Word, lookup func(name string) (string, State)) (string, error) {
	var b strings.Builder
	for _, p := range w {
		if strings.Contains(p.Text, pasteStart) || strings.Contains(p.Text, pasteEnd) {
			return "", &Error{Word: "\\ue000", Why: "a character of private use"}
		}
		switch text, state := lookup(p.Env); {
		case p.Env == "" && !p.Glob:
			b.WriteString(p.Text)
		case p.Default != nil || p.Glob:
			return "", &Error{Word: w.String(), Why: "a script that is not known"}
		case state == Literal:
			b.WriteString(text)
		default:
			b.WriteString(pasteStart + p.Env + pasteEnd)
		}
	}
	return b.String(), nil
}

// unpasted returns text for messages.
func unpasted(text string) string { return pastedName().ReplaceAllString(text, "$$($1)") }

// fields collects the words that a word of the script becomes.
type fields struct {
	list []Word
	now  Word
	open bool
}

func (f *fields) add(parts ...Part) {
	f.open = true
	for _, p := range parts {
		last := len(f.now) - 1
		switch {
		case p.Env == "" && p.Text == "":
		case last >= 0 && p.Env == "" && f.now[last].Env == "" && p.Glob == f.now[last].Glob:
			f.now[last].Text += p.Text
		default:
			f.now = append(f.now, p)
		}
	}
}

func (f *fields) end() {
	if f.open {
		f.list = append(f.list, f.now)
	}
	f.now, f.open = nil, false
}

// split adds a text without quotes, whose white space ends words.
func (f *fields) split(text string) {
	for i, piece := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }) {
		if i > 0 || strings.ContainsAny(text[:1], " \t\n") {
			f.end()
		}
		f.add(Part{Text: piece, Glob: isPattern(piece)})
	}
	if text != "" && strings.ContainsAny(text[len(text)-1:], " \t\n") {
		f.end()
	}
}

// isPattern reports whether a text without quotes names files.
func isPattern(text string) bool {
	open := strings.IndexByte(text, '[')
	return strings.ContainsAny(text, "*?") || open >= 0 && strings.IndexByte(text[open:], ']') > 1
}

// expand returns the words that words of the script become.
func (p *parser) expand(list []*syntax.Word) ([]Word, error) {
	var all []Word
	for _, w := range p.braces(list) {
		f := &fields{}
		if err := p.parts(f, w, w.Parts, false, true); err != nil {
			return nil, err
		}
		f.end()
		all = append(all, f.list...)
		if p.words += len(f.list) + len(f.now); p.words > maxWords {
			return nil, refuse(w, "more words than can be checked")
		}
	}
	return all, nil
}

// braces returns the words with those of bash that {A,B} stands for in place of each. Sequences, braces in braces, and
// patterns beside them stay, and are refused.
func (p *parser) braces(list []*syntax.Word) (all []*syntax.Word) {
	for _, w := range list {
		split := &syntax.Word{Parts: slices.Clone(w.Parts)}
		if p.o.Program != "bash" || isPattern(source(w)) || !splitBraces(w) {
			all = append(all, w)
			continue
		}
		syntax.SplitBraces(split)
		words := []*syntax.Word{{}}
		for _, part := range split.Parts {
			elements := []*syntax.Word{{Parts: []syntax.WordPart{part}}}
			if b, ok := part.(*syntax.BraceExp); ok && !b.Sequence && len(words)*len(b.Elems) < maxDepth {
				elements = b.Elems
			}
			var longer []*syntax.Word
			for _, before := range words {
				for _, e := range elements {
					longer = append(longer, &syntax.Word{Parts: slices.Concat(before.Parts, e.Parts)})
				}
			}
			words = longer
		}
		all = append(all, words...)
	}
	return all
}

// one returns the word that a word of the script becomes where the shell splits nothing: in an assignment, after a
// redirection.
func (p *parser) one(w *syntax.Word) (Word, error) {
	if w == nil {
		return Word{}, nil
	}
	f := &fields{}
	if err := p.parts(f, w, w.Parts, false, false); err != nil {
		return nil, err
	}
	if f.now == nil {
		f.now = Word{}
	}
	return f.now, nil
}

// text is like one, and the word must be known.
func (p *parser) text(w *syntax.Word) (string, error) {
	word, err := p.one(w)
	if err != nil {
		return "", err
	}
	text, ok := p.known(word)
	if !ok {
		return "", refuse(w, "its value is not known")
	}
	return text, nil
}

// known returns the text of a word whose variables have known values.
func (p *parser) known(w Word) (string, bool) {
	var b strings.Builder
	for _, part := range w {
		if part.Env == "" {
			b.WriteString(part.Text)
			continue
		}
		text, state := p.o.Lookup(part.Env)
		if part.Default != nil && (state == Unset || state == Literal && text == "") {
			var ok bool
			if text, ok = p.known(part.Default); !ok {
				return "", false
			}
		} else if state != Literal && state != Unset {
			return "", false
		}
		b.WriteString(text)
	}
	return b.String(), true
}

func (p *parser) parts(f *fields, w *syntax.Word, parts []syntax.WordPart, quoted, split bool) error {
	for i, part := range parts {
		var err error
		switch part := part.(type) {
		case *syntax.Lit:
			err = p.literal(f, w, part, quoted, split, i == 0 && !quoted)
		case *syntax.SglQuoted:
			if part.Dollar {
				return refuse(part, "$'…' is not the same in every shell")
			}
			p.pastedText(f, part.Value, false)
			f.open = true
		case *syntax.DblQuoted:
			if part.Dollar {
				return refuse(part, `$"…" is not the same in every shell`)
			}
			if onlyAll := len(part.Parts) == 1 && isAll(part.Parts[0]); !onlyAll {
				f.open = true
			}
			err = p.parts(f, w, part.Parts, true, split)
		case *syntax.ParamExp:
			err = p.parameter(f, w, part, quoted, split)
		case *syntax.CmdSubst:
			err = p.substitute(f, part, quoted, split)
		case *syntax.ArithmExp:
			if part.Bracket {
				return refuse(part, "$[ is not the same in every shell")
			}
			var n int
			if n, err = p.arithmetic(part.X); err == nil {
				f.add(Part{Text: strconv.Itoa(n)})
			}
		default:
			return refuse(part, "a word of this form")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isAll reports whether a part is $@.
func isAll(part syntax.WordPart) bool {
	param, ok := part.(*syntax.ParamExp)
	return ok && param.Param != nil && param.Param.Value == "@"
}

// pastedText adds a text in which names of variables may stand.
func (p *parser) pastedText(f *fields, text string, split bool) {
	for text != "" {
		found := pastedName().FindStringSubmatchIndex(text)
		if found == nil {
			f.add(Part{Text: text})
			return
		}
		name := text[found[2]:found[3]]
		if _, state := p.o.Lookup(name); state == Opaque || state == Uncertain {
			p.pasted = append(p.pasted, name)
		}
		f.add(Part{Text: text[:found[0]]}, Part{Env: name, Split: split})
		text = text[found[1]:]
	}
}

func (p *parser) literal(f *fields, w *syntax.Word, lit *syntax.Lit, quoted, split, first bool) error {
	text := lit.Value
	if quoted {
		p.pastedText(f, unescape(text, "$`\"\\\n"), false)
		return nil
	}
	if first && strings.HasPrefix(text, "~") || !split && (strings.Contains(text, "=~") || strings.Contains(text, ":~")) {
		return refuse(w, "~ stands for a home directory")
	}
	if braces := splitBraces(w); braces && split {
		return refuse(w, "braces are not the same in every shell")
	}
	plain := unescape(text, "")
	if split && !p.noglob && isPattern(text) && !strings.Contains(text, "://") {
		if plain != text {
			return refuse(w, "a pattern with quoted characters")
		}
		if pastedName().MatchString(text) {
			return refuse(w, "a pattern with a variable")
		}
		first := strings.IndexAny(text, "*?[")
		dir := strings.LastIndexByte(text[:first], '/') + 1
		f.add(Part{Text: text[:dir]}, Part{Text: text[dir:], Glob: true})
		return nil
	}
	p.pastedText(f, plain, split)
	return nil
}

// splitBraces reports whether a word has braces that bash expands.
func splitBraces(w *syntax.Word) bool {
	copied := &syntax.Word{Parts: append([]syntax.WordPart{}, w.Parts...)}
	syntax.SplitBraces(copied)
	for _, part := range copied.Parts {
		if _, ok := part.(*syntax.BraceExp); ok {
			return true
		}
	}
	return false
}

// unescape removes the backslashes in front of the characters of only, or of all if that is empty.
func unescape(text, only string) string {
	if !strings.Contains(text, "\\") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (only == "" || strings.IndexByte(only, text[i+1]) >= 0) {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// parameter adds the value of $NAME and its like.
func (p *parser) parameter(f *fields, w *syntax.Word, param *syntax.ParamExp, quoted, split bool) error {
	if list := p.elements(param); list != nil && split && len(w.Parts) == 1 {
		return p.eachWord(f, list, quoted)
	}
	if param.Param == nil || param.Excl || param.Length || param.Width || param.Index != nil || param.Slice != nil || param.Repl != nil ||
		param.Names != 0 || len(param.Modifiers) > 0 || param.Flags != nil || param.NestedParam != nil || param.IsSet {
		return refuse(param, "an expansion of this form")
	}
	name := param.Param.Value
	if isAll(param) && param.Exp == nil && split && len(w.Parts) == 1 {
		return p.allParameters(f, param, quoted)
	}
	if param.Exp != nil {
		return p.otherwise(f, w, param, quoted, split)
	}
	v, err := p.variable(param, name)
	if err != nil {
		return err
	}
	p.addValue(f, v, quoted || !split)
	return nil
}

func (p *parser) allParameters(f *fields, n syntax.Node, quoted bool) error {
	if len(p.parameters) == 0 {
		return nil
	}
	return p.eachWord(f, p.parameters[1:], quoted)
}

// elements returns the list that ${NAME[@]} stands for, or nil.
func (p *parser) elements(param *syntax.ParamExp) []Word {
	index, ok := param.Index.(*syntax.Word)
	if !ok || index.Lit() != "@" || param.Param == nil || param.Exp != nil || param.Excl || param.Length || param.Width || param.Slice != nil || param.Repl != nil {
		return nil
	}
	return p.vars[param.Param.Value].list
}

func (p *parser) eachWord(f *fields, list []Word, quoted bool) error {
	for i, w := range list {
		if i > 0 {
			f.end()
		}
		if quoted {
			f.open = true
		}
		p.addValue(f, w, quoted)
	}
	return nil
}

// addValue adds the value of a variable, which is split into words unless quoted.
func (p *parser) addValue(f *fields, v Word, quoted bool) {
	for _, part := range v {
		text, state := "", Uncertain
		if part.Env != "" {
			text, state = p.o.Lookup(part.Env)
		}
		oneWord := state == Literal && text != "" && !strings.ContainsAny(text, " \t\n*?[")
		switch {
		case quoted, oneWord && part.Default == nil:
			part.Split = false
			f.add(part)
		case part.Env == "":
			f.split(part.Text)
		case state == Literal && part.Default == nil:
			f.split(text)
		default:
			part.Split = true
			f.add(part)
		}
	}
}

// otherwise adds ${NAME:-DEFAULT}.
func (p *parser) otherwise(f *fields, w *syntax.Word, param *syntax.ParamExp, quoted, split bool) error {
	name, op := param.Param.Value, param.Exp.Op
	if op != syntax.DefaultUnset && op != syntax.DefaultUnsetOrNull {
		return p.transformed(f, w, param, quoted, split)
	}
	var v Word
	if _, tracked := p.vars[name]; tracked || !variableName().MatchString(name) {
		if !tracked && !isDigits(name) {
			return refuse(param, "an expansion of this form")
		}
		n, _ := strconv.Atoi(name)
		if tracked || n < len(p.parameters) {
			var err error
			if v, err = p.variable(param, name); err != nil {
				return err
			}
		}
		text, known := p.known(v)
		if !known && op == syntax.DefaultUnsetOrNull {
			return refuse(param, "whether its value is empty is not known")
		}
		if known && text == "" && (op == syntax.DefaultUnsetOrNull || !tracked && n >= len(p.parameters)) {
			return p.defaultValue(f, w, param, quoted, split)
		}
		p.addValue(f, v, quoted || !split)
		return nil
	}
	text, state := p.o.Lookup(name)
	switch {
	case state == Unset, state == Literal && text == "" && op == syntax.DefaultUnsetOrNull:
		return p.defaultValue(f, w, param, quoted, split)
	case state == Literal, state == Opaque && op == syntax.DefaultUnset:
		p.addValue(f, Word{{Env: name}}, quoted || !split)
		return nil
	case state == Uncertain && op == syntax.DefaultUnset:
		return refuse(param, "the variable may be empty, which is not unset")
	}
	word, err := p.one(param.Exp.Word)
	if err != nil {
		return err
	}
	f.add(Part{Env: name, Default: word, Split: !quoted && split})
	return nil
}

// defaultValue adds the word of ${NAME:-WORD}, in which quotes mean what they do elsewhere.
func (p *parser) defaultValue(f *fields, w *syntax.Word, param *syntax.ParamExp, quoted, split bool) error {
	if param.Exp.Word == nil {
		return nil
	}
	for _, part := range param.Exp.Word.Parts {
		lit, plain := part.(*syntax.Lit)
		_, single := part.(*syntax.SglQuoted)
		switch {
		case quoted && (single || plain && strings.Contains(lit.Value, "'")):
			return refuse(param, "single quotes in double ones")
		case plain && !quoted && strings.ContainsAny(lit.Value, `\~`):
			return refuse(param, "a default with a backslash or a ~")
		case plain && !quoted && split && !pastedName().MatchString(lit.Value):
			p.addValue(f, Word{{Text: lit.Value}}, false)
			continue
		}
		if err := p.parts(f, w, []syntax.WordPart{part}, quoted, split); err != nil {
			return err
		}
	}
	return nil
}

var variableName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

func isDigits(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// unknownError says that a condition depends on a number that is counted, or one of several.
type countError struct{ name string }

func (e *countError) Error() string { return e.name + " is counted" }

// variable returns the value of $NAME.
func (p *parser) variable(n syntax.Node, name string) (Word, error) {
	if number, err := strconv.Atoi(name); err == nil {
		if number >= len(p.parameters) {
			return nil, refuse(n, "a parameter that is not given")
		}
		return p.parameters[number], nil
	}
	if name == "#" {
		return Word{{Text: strconv.Itoa(max(0, len(p.parameters)-1))}}, nil
	}
	if !variableName().MatchString(name) {
		return nil, refuse(n, "a value that only the running shell knows")
	}
	v, found := p.vars[name]
	switch {
	case !found && strings.Contains(" IFS RANDOM SECONDS LINENO OPTIND PPID PWD OLDPWD ", " "+name+" "):
		return nil, refuse(n, "a value that only the running shell knows")
	case !found:
		switch _, state := p.o.Lookup(name); {
		case state == Unset && p.nounset:
			return nil, refuse(n, "a variable that is not set, with which set -u ends the script")
		case state == Unset:
			return Word{}, nil
		}
		return Word{{Env: name}}, nil
	case v.count || v.counts != nil:
		if number, ok := p.pick[name]; ok {
			return Word{{Text: strconv.Itoa(number)}}, nil
		}
		return nil, &countError{name}
	case v.why != "":
		return nil, refuse(n, "its value is not known: "+v.why)
	case v.either != nil:
		return nil, refuse(n, "its value is not known: it depends on a condition")
	case v.list != nil:
		return nil, refuse(n, "an array as one word")
	case v.output != nil:
		return nil, refuse(n, "the output of a command, "+v.output.Name)
	case v.status != nil:
		return nil, refuse(n, "the status of a command")
	}
	return v.word, nil
}

// substitute adds the output of a command that is known without running it.
func (p *parser) substitute(f *fields, sub *syntax.CmdSubst, quoted, split bool) error {
	w, err := p.substitution(sub)
	if err != nil {
		return err
	}
	p.addValue(f, w, quoted || !split)
	return nil
}

// arithmetic returns the value of an expression of known numbers.
func (p *parser) arithmetic(x syntax.ArithmExpr) (int, error) {
	switch x := x.(type) {
	case *syntax.ParenArithm:
		return p.arithmetic(x.X)
	case *syntax.UnaryArithm:
		n, err := p.arithmetic(x.X)
		if err == nil && x.Op == syntax.Minus && !x.Post {
			return -n, nil
		}
		if err == nil {
			err = refuse(x, "arithmetic of this form")
		}
		return 0, err
	case *syntax.Word:
		return p.number(x)
	case *syntax.BinaryArithm:
		if counter, ok := x.X.(*syntax.Word); ok && p.counted == x {
			return p.number(counter) // which is what it has been set to
		}
		a, err := p.arithmetic(x.X)
		if err != nil {
			return 0, err
		}
		b, err := p.arithmetic(x.Y)
		if err != nil {
			return 0, err
		}
		return calculate(x, a, b)
	}
	return 0, refuse(x, "arithmetic of this form")
}

func (p *parser) number(w *syntax.Word) (int, error) {
	text := ""
	if name := w.Lit(); variableName().MatchString(name) {
		word, err := p.variable(w, name)
		if err != nil {
			return 0, err
		}
		var ok bool
		if text, ok = p.known(word); !ok {
			return 0, refuse(w, "its value is not known")
		}
	} else {
		var err error
		if text, err = p.text(w); err != nil {
			return 0, err
		}
	}
	if !regexp.MustCompile(`^-?(0|[1-9][0-9]{0,8})$`).MatchString(text) {
		return 0, refuse(w, "no number")
	}
	return strconv.Atoi(text)
}

func calculate(x *syntax.BinaryArithm, a, b int) (int, error) {
	switch x.Op {
	case syntax.Add:
		return a + b, nil
	case syntax.Sub:
		return a - b, nil
	case syntax.Mul:
		if a > 1<<20 || b > 1<<20 || a < 0 || b < 0 {
			return 0, refuse(x, "a number that is too large")
		}
		return a * b, nil
	case syntax.Quo:
		if b > 0 && a >= 0 {
			return a / b, nil
		}
	}
	return 0, refuse(x, fmt.Sprintf("arithmetic with %s", x.Op))
}
