package jinja

import (
	"fmt"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"initbox/internal/lazy"
	"initbox/render/engine"
)

// kind is the kind of a token. That of an operator is its text.
type kind string

const (
	kindText     kind = "text"
	kindOutput   kind = "{{"
	kindTag      kind = "{%"
	kindEnd      kind = "the end of the tag"
	kindName     kind = "a name"
	kindString   kind = "a string"
	kindNumber   kind = "a number"
	kindFinished kind = "the end of the template"
	kindWrong    kind = "an error" // that the reader reports when it gets there
)

// token is a piece of a template.
type token struct {
	kind   kind
	text   string
	value  any // of a number, or the error
	offset int
}

func (t token) is(k kind, text string) bool { return t.kind == k && t.text == text }

// String is the token as messages name it.
func (t token) String() string {
	switch t.kind {
	case kindName, kindNumber, kindEnd:
		return t.text
	}
	return string(t.kind)
}

// source is the text of a template. Jinja converts its line ends, and so they are the same everywhere in the result.
type source struct {
	file, text string
	lines      []int // where each begins
	known      int   // an offset, whose position is knownAt, from which others are counted
	knownAt    position
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func newSource(file, text string) *source {
	s := &source{file: file, text: lineEnds.Replace(text), lines: []int{0}}
	for i := range len(s.text) {
		if s.text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// at is the position of an offset. Columns count characters.
func (s *source) at(offset int) position {
	line := sort.SearchInts(s.lines, offset+1)
	if s.knownAt.Line != line || offset < s.known {
		s.known, s.knownAt = s.lines[line-1], position{File: s.file, Line: line, Column: 1}
	}
	s.knownAt.Column += utf8.RuneCountInString(s.text[s.known:offset])
	s.known = offset
	return s.knownAt
}

// wrong is the error of what is found at an offset in the last tag of tokens. Where the cause is that this tag, or a
// string in it, is not closed, the error is there.
func (s *source) wrong(tokens []token, offset int, text, fix string) *engine.Error {
	for i := len(tokens) - 1; i >= 0; i-- {
		t := tokens[i]
		if t.kind == kindString && strings.Contains(t.text, "\n") && (strings.Contains(t.text, "}}") || strings.Contains(t.text, "%}")) {
			return &engine.Error{Position: s.at(t.offset), Text: "the string is not closed"}
		}
		if t.kind != kindOutput && t.kind != kindTag {
			continue
		}
		closing := map[kind]string{kindOutput: "}}", kindTag: "%}"}[t.kind]
		rest, _, closed := strings.Cut(s.text[t.offset+2:], closing)
		if !closed || strings.Contains(rest, "{{") || strings.Contains(rest, "{%") || strings.Contains(rest, "{#") {
			return &engine.Error{Position: s.at(t.offset), Text: string(t.kind) + " is not closed", Fix: "end it with " + closing}
		}
		break
	}
	return &engine.Error{Position: s.at(offset), Text: text, Fix: fix}
}

// lexer splits a template into tokens.
type lexer struct {
	*source
	next   int // offset of what is not read yet
	tokens []token
	open   []byte // brackets
}

// tokens returns the tokens of s. The last one is of kind kindFinished or kindWrong.
func (s *source) tokens() []token {
	l := &lexer{source: s}
	for l.next < len(s.text) && l.outside() {
	}
	if n := len(l.tokens); n == 0 || l.tokens[n-1].kind != kindWrong {
		l.add(kindFinished, "")
	}
	return l.tokens
}

func (l *lexer) add(k kind, text string) {
	l.tokens = append(l.tokens, token{kind: k, text: text, offset: l.next})
	l.next += len(text)
}

// fail ends the tokens with an error.
func (l *lexer) fail(offset int, text, fix string, args ...any) bool {
	err := l.wrong(l.tokens, offset, fmt.Sprintf(text, args...), fix)
	l.tokens = append(l.tokens, token{kind: kindWrong, value: err, offset: offset})
	return false
}

func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= '\x1c' && r <= '\x1f' } // as in Python

func trimLeft(s string) string { return strings.TrimLeftFunc(s, isSpace) }

// opening returns where the next tag or comment begins, or the end.
func (l *lexer) opening() int {
	for i := l.next; ; i++ {
		brace := strings.IndexByte(l.text[i:], '{')
		if brace < 0 || i+brace+1 >= len(l.text) {
			return len(l.text)
		}
		if i += brace; strings.IndexByte("{%#", l.text[i+1]) >= 0 {
			return i
		}
	}
}

// outside reads text up to a tag or a comment, and that. It returns false at an error.
func (l *lexer) outside() bool {
	start := l.opening()
	text := l.text[l.next:start]
	if start == len(l.text) {
		l.add(kindText, text)
		return true
	}
	tag := l.text[start : start+2]
	body, sign := start+2, byte(0)
	if body < len(l.text) && (l.text[body] == '-' || l.text[body] == '+') {
		sign = l.text[body]
		body++
	}
	if sign == '-' {
		text = strings.TrimRightFunc(text, isSpace)
	}
	l.add(kindText, text)
	l.next = body
	switch {
	case tag == "{#":
		return l.comment(start)
	case tag == "{%" && rawPattern().MatchString(l.text[body:]):
		l.next += len(rawPattern().FindString(l.text[body:]))
		return l.raw(start)
	}
	l.tokens = append(l.tokens, token{kind: kind(tag), offset: start})
	return l.inside(start, map[string]string{"{{": "}}", "{%": "%}"}[tag])
}

var (
	rawPattern    = lazy.Regexp(`^[\s\x1c-\x1f]*raw[\s\x1c-\x1f]*(?:-%}[\s\x1c-\x1f]*|%})`)
	endRawPattern = lazy.Regexp(`{%([-+]?)[\s\x1c-\x1f]*endraw[\s\x1c-\x1f]*(?:-%}[\s\x1c-\x1f]*|\+?%})`)
	floatPattern  = lazy.Regexp(`^(?i)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[-+]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)`)
	intPattern    = lazy.Regexp(`^(?i)(?:0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*)`)
	stringPattern = lazy.Regexp(`^(?s)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`)
	namePattern   = lazy.Regexp(`^[\pL\pN_]+`)
)

func (l *lexer) comment(start int) bool {
	end := strings.Index(l.text[l.next:], "#}")
	if end < 0 {
		return l.fail(start, "the comment {# is not closed", "end it with #}")
	}
	strips := end > 0 && l.text[l.next+end-1] == '-'
	if l.next += end + len("#}"); strips {
		l.next = len(l.text) - len(trimLeft(l.text[l.next:]))
	}
	return true
}

// raw reads what {% raw %} keeps as it is.
func (l *lexer) raw(start int) bool {
	m := endRawPattern().FindStringSubmatchIndex(l.text[l.next:])
	if m == nil {
		return l.fail(start, "{%% raw %%} is not closed: there is no {%% endraw %%}", "")
	}
	text, end := l.text[l.next:l.next+m[0]], l.next+m[1]
	if m[2] < m[3] && l.text[l.next+m[2]] == '-' {
		text = strings.TrimRightFunc(text, isSpace)
	}
	l.add(kindText, text)
	l.next = end
	return true
}

// inside reads a tag up to its end.
func (l *lexer) inside(start int, closing string) bool {
	l.open = nil
	for {
		l.next = len(l.text) - len(trimLeft(l.text[l.next:]))
		rest := l.text[l.next:]
		if len(l.open) == 0 {
			if end, ok := endOf(rest, closing); ok {
				l.add(kindEnd, closing)
				l.next += len(end) - len(closing)
				return true
			}
		}
		if rest == "" {
			return l.fail(start, "%s is not closed", "end it with "+closing, l.text[start:start+2])
		}
		if !l.piece(rest) {
			return false
		}
	}
}

// endOf returns the end of a tag that s begins with, and the space that it strips.
func endOf(s, closing string) (string, bool) {
	if after, ok := strings.CutPrefix(s, "-"+closing); ok {
		return s[:len(s)-len(trimLeft(after))], true
	}
	if strings.HasPrefix(s, "+%}") && closing == "%}" {
		return s[:3], true
	}
	return closing, strings.HasPrefix(s, closing)
}

// operators, the long ones first.
var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// piece reads one token in a tag.
func (l *lexer) piece(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case r >= '0' && r <= '9':
		return l.number(rest)
	case unicode.IsLetter(r) || r == '_':
		l.add(kindName, namePattern().FindString(rest))
		return true
	case r == '"' || r == '\'':
		text := stringPattern().FindString(rest)
		if text == "" {
			return l.fail(l.next, "the string is not closed", "")
		}
		l.add(kindString, text)
		return true
	}
	for _, o := range operators {
		if strings.HasPrefix(rest, o) {
			if !l.balanced(o) {
				return false
			}
			l.add(kind(o), o)
			return true
		}
	}
	return l.fail(l.next, "unexpected character %q", "", r)
}

// balanced keeps account of brackets.
func (l *lexer) balanced(operator string) bool {
	switch operator {
	case "(":
		l.open = append(l.open, ')')
	case "[", "{":
		l.open = append(l.open, operator[0]+2)
	case ")", "]", "}":
		n := len(l.open) - 1
		if n < 0 {
			return l.fail(l.next, "unexpected %s", "", operator)
		}
		if l.open[n] != operator[0] {
			return l.fail(l.next, "unexpected %s, expected %c", "", operator, l.open[n])
		}
		l.open = l.open[:n]
	}
	return true
}

func (l *lexer) number(rest string) bool {
	afterDot := l.next > 0 && l.text[l.next-1] == '.'
	if text := floatPattern().FindString(rest); text != "" && !afterDot {
		l.add(kindNumber, text)
		f, _ := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64) // infinite if it is too large
		l.tokens[len(l.tokens)-1].value = f
		return true
	}
	text := intPattern().FindString(rest)
	i, ok := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 0)
	if !ok || len(text) > maxDigits {
		return l.fail(l.next, "the number is too long", "")
	}
	l.add(kindNumber, text)
	l.tokens[len(l.tokens)-1].value = fromBig(i)
	return true
}

// escapes are those of strings that stand for one character.
var escapes = map[byte]string{'\n': "", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v"}

var codePattern = lazy.Regexp(`^(?:[0-7]{1,3}|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8})`)

// unquoted returns the value of a string in quotes, or what is wrong with it. Jinja reads the escapes of Python.
func unquoted(quoted string) (value, wrong string) {
	var b strings.Builder
	s := quoted[1 : len(quoted)-1]
	for s != "" {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if s = after; !found {
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		code := codePattern().FindString(s)
		if plain, ok := escapes[s[0]]; ok {
			b.WriteString(plain)
			s = s[1:]
			continue
		}
		switch {
		case code != "":
			base := 16
			if code[0] <= '7' {
				base = 8
			}
			n, _ := strconv.ParseInt(strings.TrimLeft(code, "xuU"), base, 64)
			if n > unicode.MaxRune || !utf8.ValidRune(rune(n)) {
				return "", "the escape is no character"
			}
			b.WriteRune(rune(n))
			s = s[len(code):]
		case strings.IndexByte("xuUN", s[0]) >= 0:
			return "", "unknown escape in a string"
		case r >= utf8.RuneSelf:
			b.WriteString(`\` + strings.TrimPrefix(escapedRune(r), `\`)) // as Python reads it
			s = s[size:]
		default:
			b.WriteByte('\\') // which stays
		}
	}
	return b.String(), ""
}

// escapedRune is a character as Python escapes it.
func escapedRune(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
