package gotemplate

import (
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"text/template/parse"
	"unicode/utf8"

	"initbox/render/engine"
)

// The parser's errors have only a line, of the place where it gave up. If something is not closed, that is often the
// end of the file. The position is found here, with the scanner that also bounds the blocks.

// span is an action in a text, with its delimiters.
type span struct {
	at, end int    // -1 if it is not closed
	word    string // the first one in it, if it is one
}

// actions returns the actions of a text. Only the last one may be open.
func actions(text, left, right string) []span {
	var all []span
	for at := 0; ; {
		i := strings.Index(text[at:], left)
		if i < 0 {
			return all
		}
		a := span{at: at + i, end: -1}
		inside := a.at + len(left)
		word, _, length := tag(text[inside:], right)
		a.word = word
		n := strings.Index(text[inside+length:], right) // after a comment not at once
		if n < 0 {
			return append(all, a)
		}
		a.end = inside + length + n + len(right)
		all, at = append(all, a), a.end
	}
}

// syntaxError returns the parser's error with its position.
func (u *unit) syntaxError(err error, left string) *engine.Error {
	text, line := parserMessage(err, u.name)
	e := &engine.Error{Text: text, Err: err}
	all := actions(u.text, left, u.right)
	closed := len(all)
	if closed > 0 && all[closed-1].end < 0 {
		closed--
	}
	from, to := u.around(line, all[:closed])
	wrong := from + sort.Search(to-from, func(i int) bool { // the first action that makes the text before it wrong
		tree := parse.New(u.name)
		tree.Mode = parse.SkipFuncCheck
		_, err := tree.Parse(u.text[:all[from+i].end], left, u.right, map[string]*parse.Tree{})
		return err != nil && !strings.Contains(err.Error(), endOfText)
	})
	if wrong == to {
		wrong = closed
	}
	switch {
	case wrong < len(all):
		e.Position = u.position(u.explain(e, all[wrong], left))
	case strings.Contains(e.Text, endOfText):
		a := unclosedBlock(all)
		e.Position = u.position(a.at)
		e.Text, e.Fix = left+a.word+u.right+" is not closed", "end each if, range, with, define and block with "+left+"end"+u.right
	default:
		e.Position = engine.Position{File: u.name, Line: line}
	}
	return e
}

// endOfText is in the parser's error for a block that is not closed.
const endOfText = "unexpected EOF"

// around returns which actions are at a line, with the one before them: the parser gives up in one of them.
func (u *unit) around(line int, all []span) (from, to int) {
	begin := 0
	for range line - 1 {
		begin += 1 + strings.IndexByte(u.text[begin:], '\n')
	}
	end := len(u.text)
	if n := strings.IndexByte(u.text[begin:], '\n'); n >= 0 {
		end = begin + n
	}
	from = sort.Search(len(all), func(i int) bool { return all[i].end > begin })
	to = sort.Search(len(all), func(i int) bool { return all[i].at > end })
	return max(0, from-1), max(from, to)
}

// parserMessage returns the message of the parser without positions, and its line.
func parserMessage(err error, name string) (text string, line int) {
	text = strings.TrimPrefix(err.Error(), "template: ")
	if rest, ok := strings.CutPrefix(text, name+":"); ok {
		if number, m, ok := strings.Cut(rest, ": "); ok {
			line, _ = strconv.Atoi(number)
			text = strings.TrimPrefix(m, "template: ")
		}
	}
	text, _, _ = strings.Cut(text, " in action started at ")
	return text, line
}

// unclosedBlock returns the last action that opens a block which is not closed.
func unclosedBlock(all []span) span {
	var open []span
	for _, a := range all {
		switch a.word {
		case "if", "range", "with", "block", "define":
			open = append(open, a)
		case "end":
			open = open[:max(0, len(open)-1)]
		}
	}
	if len(open) == 0 {
		return span{}
	}
	return open[len(open)-1]
}

// explain rewrites the message of an error in an action, and returns where it is.
func (u *unit) explain(e *engine.Error, a span, left string) int {
	inside := a.at + len(left)
	text := u.text[inside:]
	if a.end >= 0 {
		text = u.text[inside : a.end-len(u.right)]
	}
	begin := inside + len(text) - len(strings.TrimLeft(strings.TrimPrefix(text, "-"), " \t\r\n"))
	switch quote := unclosedQuote(text); {
	case quote >= 0 && (a.end < 0 || strings.HasPrefix(e.Text, "unterminated")):
		e.Text, e.Fix = "a text in quotes is not closed", "end it with "+text[quote:quote+1]
		return inside + quote
	case strings.HasPrefix(text, "/*") || strings.HasPrefix(text, "- /*"):
		e.Text, e.Fix = "the comment is not closed", "end it with */"+u.right
		return a.at
	case strings.HasPrefix(u.text[begin:], "/*"):
		e.Text, e.Fix = "a comment does not begin so", "leave out the space before it: "+left+"/* … */"+u.right
		return begin
	case a.end < 0 || outside(text, left, false) >= 0:
		e.Text, e.Fix = "the action is not closed", "end it with "+u.right
		return a.at
	case strings.Contains(e.Text, "paren"):
		if i := unbalanced(text); i >= 0 {
			begin = inside + i
		}
		return begin
	}
	token, i := u.token(e.Text, text)
	if i >= 0 {
		begin = inside + i
	}
	e.Fix = u.advice(e.Text, token, u.text[inside:begin], u.text[begin:])
	return begin
}

// syntax are regular expressions for the parser's messages, and for what the author of a template may have meant.
var syntax = sync.OnceValue(func() (p struct{ token, call *regexp.Regexp }) {
	p.token = regexp.MustCompile(`(?:unexpected|variable|syntax:) ["<](.*?)(?:"\.\.\.)?[">]|bad character \S+ '(.)'`)
	p.call = regexp.MustCompile(`([\w.]+)$`)
	return p
})

// token returns what a message says is wrong, and where it is in an action, or -1.
func (u *unit) token(message, text string) (string, int) {
	m := syntax().token.FindStringSubmatch(message)
	if m == nil {
		return "", -1
	}
	token := m[1] + m[2]
	if unquoted, err := strconv.Unquote(`"` + token + `"`); err == nil {
		token = unquoted
	}
	return token, outside(text, token, token == ".")
}

// advice returns a hint about a token that does not belong there, with the action's text before it and after it.
func (u *unit) advice(message, token, before, after string) string {
	if strings.Contains(message, "unexpected {{end}}") {
		return "there are more {{end}} than blocks"
	}
	if strings.Contains(message, "undefined variable") {
		return `declare it where it is seen: {{$name := "value"}}`
	}
	switch token {
	case "-":
		return `a name with a dash needs index: {{index .Values "the-name"}}`
	case "(":
		function := syntax().call.FindString(before)
		argument, ok := argumentOf(after)
		if ok && isGetenv(function) {
			return "write " + environment(argument)
		}
		return "the arguments of a function are not in parentheses: {{" + function + ` "value"}}`
	case "[":
		return `an element needs index: {{index .Values "name" 0}}`
	case ",":
		return "arguments are separated by spaces"
	case "=", "&", "|", "?", "+", "*", "<", ">", "!":
		return "operators are functions: eq, ne, lt, gt, and, or, not, ternary, add, mul, as in {{if eq .Values.name 1}}"
	case "define":
		return "define cannot be in another block; is an {{end}} missing before it?"
	}
	return ""
}

// isGetenv returns whether a function is, in other programs, one that reads a variable of the environment.
func isGetenv(name string) bool {
	return name != "expandenv" && strings.HasSuffix(strings.ToLower(name), "env")
}

// argumentOf returns the argument of a call as in other languages, ("NAME").
func argumentOf(call string) (string, bool) {
	quoted := strings.TrimLeft(strings.TrimPrefix(call, "("), " ")
	if quoted == "" || literal(quoted) < 2 {
		return "", false
	}
	text := quoted[:literal(quoted)]
	return text[1 : len(text)-1], true
}

// unclosedQuote returns where a quoted text begins that does not end on its line, or -1.
func unclosedQuote(text string) int {
	for i := 0; i < len(text); {
		n := literal(text[i:])
		quote := text[i]
		if n > 1 || n == 1 && strings.IndexByte("\"'`", quote) >= 0 {
			whole := text[i : i+n]
			if n == 1 || whole[n-1] != quote || quote != '`' && strings.Contains(whole, "\n") {
				return i
			}
		}
		i += n
	}
	return -1
}

// outside returns where a word is in a text, but not in quotes: the first one, or the last.
func outside(text, word string, last bool) int {
	found := -1
	for i := 0; i < len(text) && word != ""; i += literal(text[i:]) {
		if strings.HasPrefix(text[i:], word) && !(word == "-" && (i == 0 || !isName(text[i-1]))) {
			if found = i; !last {
				break
			}
		}
	}
	return found
}

func isName(c byte) bool {
	return c == '_' || c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// unbalanced returns where the first parenthesis without a partner is, or -1.
func unbalanced(text string) int {
	var open []int
	for i := 0; i < len(text); i += literal(text[i:]) {
		switch text[i] {
		case '(':
			open = append(open, i)
		case ')':
			if len(open) == 0 {
				return i
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 {
		return -1
	}
	return open[len(open)-1]
}
