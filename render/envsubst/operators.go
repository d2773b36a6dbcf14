package envsubst

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"initbox/render/engine"
)

// The operators are bash's, as in a here-document (bash's manual, "Shell Parameter Expansion"). It does more than
// drone/envsubst in three things that are left out, or has changed:
//
//   - := does not set the variable.
//   - & in the text of ${VAR/pattern/text} is an ampersand, as before bash 5.2.
//   - An offset or a length is a number. Another arithmetic expression is an error.

// operators lists those that all variables have, and bashOperators those of the variables that the user names; a longer
// one is before its beginning.
var (
	operators     = []string{":-", ":=", ":+", ":?", "-", "=", "+", "?"}
	bashOperators = []string{":", "##", "#", "%%", "%", "//", "/#", "/%", "/", "^^", "^", ",,", ","}
)

// length is the operator of ${#VAR}, which is before the name.
const length = "${#"

// operator returns the operator that text begins with, or "".
func operator(text string, named bool) string {
	has := func(op string) bool { return strings.HasPrefix(text, op) }
	if i := slices.IndexFunc(operators, has); i >= 0 {
		return operators[i]
	}
	if i := slices.IndexFunc(bashOperators, has); named && i >= 0 {
		return bashOperators[i]
	}
	return ""
}

// lengthOf reads ${#VAR} at the beginning of text.
func lengthOf(text string) (reference, bool) {
	rest, ok := strings.CutPrefix(text, length)
	n := nameLen(rest)
	if !ok || n == 0 || !strings.HasPrefix(rest[n:], "}") {
		return reference{}, false
	}
	return reference{name: rest[:n], op: length, size: len(length) + n + 1}, true
}

// quotes returns whether the words after an operator are patterns, in which quotes have a meaning.
func quotes(op string) bool { return op != ":" && slices.Contains(bashOperators, op) }

// split returns the words of an operator: two of a substring or a replacement, if both are there.
func (w *walker) split(op string, all word) ([]word, error) {
	between := ""
	switch {
	case op == ":":
		between = ":"
	case op[0] == '/':
		between = "/"
	}
	n, err := -1, error(nil)
	if between != "" {
		n, err = w.until(all.text, between, quotes(op), all.at)
	}
	if err != nil || n < 0 {
		return []word{all}, err
	}
	return []word{{all.text[:n], all.at}, {all.text[n+1:], all.at + n + 1}}, nil
}

// inside visits the references among the words of r.
func (w *walker) inside(r reference) error {
	for _, word := range r.words {
		if !quotes(r.op) {
			if err := w.walk(word.text, word.at, true); err != nil {
				return err
			}
			continue
		}
		err := w.parts(word, func(p part) error {
			if p.ref == nil {
				return nil
			}
			return w.variable(*p.ref)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// part is a piece of a pattern, or of the text that replaces it: text without quotes, or a reference.
type part struct {
	text   string
	ref    *reference
	quoted bool
}

// parts calls visit for the parts of a word.
func (w *walker) parts(wd word, visit func(part) error) error {
	if w.depth++; w.depth > w.e.o.Depth {
		return &engine.Error{Position: w.at(wd.at), Text: fmt.Sprintf("more than %d variables are nested", w.e.o.Depth)}
	}
	defer func() { w.depth-- }()
	quoted := false // in double quotes
	for i := 0; i < len(wd.text); {
		rest := wd.text[i:]
		p, size := part{text: rest[:1], quoted: quoted}, 1
		switch c := rest[0]; {
		case c == '"':
			quoted = !quoted
			p.text = ""
		case c == '\'' && !quoted && strings.Contains(rest[1:], "'"): // it may have no partner in a ${…} that stays
			size = 2 + strings.IndexByte(rest[1:], '\'')
			p = part{text: rest[1 : size-1], quoted: true}
		case c == '\\' && len(rest) > 1 && (!quoted || strings.IndexByte("$`\"\\", rest[1]) >= 0):
			p, size = part{text: rest[1:2], quoted: true}, 2
		case c == '$':
			r, ok, err := w.reference(rest, wd.at+i)
			if err != nil {
				return err
			}
			if ok {
				p, size = part{ref: &r, quoted: quoted}, r.size
			}
		default:
			if n := strings.IndexAny(rest[1:], `"'\$`); n >= 0 {
				size += n
			} else {
				size = len(rest)
			}
			p.text = rest[:size]
		}
		if err := visit(p); err != nil {
			return err
		}
		i += size
	}
	return nil
}

// unquoted returns a word with its references expanded and its quotes removed. With escape, what was quoted is escaped
// for [glob].
func (x *execution) unquoted(wd word, escape bool) (string, error) {
	var b strings.Builder
	err := x.parts(wd, func(p part) (err error) {
		if p.ref != nil {
			if p.text, err = x.captured(func(m *execution) error { return m.expand(*p.ref) }); err != nil {
				return err
			}
		}
		if escape && p.quoted {
			p.text = special().ReplaceAllString(p.text, `\$0`)
		}
		if int64(b.Len()+len(p.text)) > x.e.o.Bytes {
			return fmt.Errorf("a pattern is longer than %d bytes", x.e.o.Bytes)
		}
		b.WriteString(p.text)
		return nil
	})
	return b.String(), err
}

// operate writes what an operator makes of a value.
func (x *execution) operate(r reference, v string) error {
	switch r.op {
	case "":
		return x.write(v)
	case length:
		return x.write(strconv.Itoa(utf8.RuneCountInString(v)))
	case ":":
		return x.substring(r, v)
	}
	pattern, err := x.unquoted(r.words[0], true)
	if err != nil {
		return err
	}
	if err := x.ctx.Err(); err != nil {
		return err
	}
	if r.op[0] == '#' || r.op[0] == '%' {
		return x.cut(r, v, pattern)
	}
	return x.rewrite(r, v, pattern)
}

// cut writes v without what the pattern matches at its beginning or its end.
func (x *execution) cut(r reference, v, pattern string) error {
	before, after := `^`, ``
	switch r.op {
	case "%":
		before, after = `^.*`, `$` // the .* takes as much as it can
	case "%%":
		before, after = ``, `$`
	}
	re, err := glob(pattern, before, after, r.op == "#")
	if err != nil {
		return x.wrong(r, err)
	}
	switch m := re.FindStringSubmatchIndex(v); {
	case m == nil:
		return x.write(v)
	case r.op[0] == '#':
		return x.write(v[m[3]:])
	default:
		return x.write(v[:m[2]])
	}
}

// rewrite writes v with other characters, for the operators / and ^ and the like.
func (x *execution) rewrite(r reference, v, pattern string) error {
	before, after, text := "", "", ""
	switch r.op {
	case "/#":
		before = `^`
	case "/%":
		after = `$`
	case "/", "//":
		if pattern == "" {
			return x.write(v)
		}
	default:
		if before, after = `^`, `$`; pattern == "" {
			pattern = "?"
		}
	}
	re, err := glob(pattern, before, after, false)
	if err != nil {
		return x.wrong(r, err)
	}
	if r.op[0] != '/' {
		return x.changeCase(r.op, v, re)
	}
	if len(r.words) > 1 {
		if text, err = x.unquoted(r.words[1], false); err != nil {
			return err
		}
	}
	for {
		m := re.FindStringIndex(v)
		if m == nil {
			return x.write(v)
		}
		for _, s := range []string{v[:m[0]], text} {
			if err := x.write(s); err != nil {
				return err
			}
		}
		if v = v[m[1]:]; r.op != "//" || v == "" {
			return x.write(v)
		}
	}
}

// changeCase writes v with those characters that re matches in upper or lower case: all of them, or only the first one.
func (x *execution) changeCase(op, v string, re *regexp.Regexp) error {
	change := unicode.ToUpper
	if op[0] == ',' {
		change = unicode.ToLower
	}
	for v != "" {
		c, size := utf8.DecodeRuneInString(v)
		s := v[:size]
		if c != utf8.RuneError && re.MatchString(s) {
			s = string(change(c))
		}
		if err := x.write(s); err != nil {
			return err
		}
		if v = v[size:]; len(op) == 1 {
			return x.write(v)
		}
	}
	return nil
}

// substring writes the characters of v from an offset on, perhaps up to a length. Negative numbers count from the end.
func (x *execution) substring(r reference, v string) error {
	count := utf8.RuneCountInString(v)
	numbers := []int{0, count}
	for i, wd := range r.words {
		text, err := x.captured(func(m *execution) error { return m.walk(wd.text, wd.at, true) })
		if err != nil {
			return err
		}
		if text == "" && len(r.words) > 1 { // as 0 in ${VAR::3}
			text = "0"
		}
		if numbers[i], err = number(text); err != nil {
			return x.wrong(r, err)
		}
	}
	from, to := numbers[0], count
	if from < 0 {
		from += count
	}
	if from < 0 || from > count {
		return nil
	}
	switch n := numbers[1]; {
	case n < 0 && count+n < from:
		return x.wrong(r, fmt.Errorf("its end is before its beginning"))
	case n < 0:
		to += n
	case n < count-from:
		to = from + n
	}
	begin := skip(v, from)
	return x.write(v[begin : begin+skip(v[begin:], to-from)])
}

// number reads an offset or a length: the parentheses of (-3) keep it apart from the operator :-.
func number(text string) (int, error) {
	trimmed := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(trimmed, "("); ok && strings.HasSuffix(inner, ")") {
		trimmed = strings.TrimSpace(strings.TrimSuffix(inner, ")"))
	}
	n, err := strconv.Atoi(trimmed)
	if err != nil {
		return 0, fmt.Errorf("offset and length are whole numbers, not %q", text)
	}
	return n, nil
}

// skip returns the size of the first n characters of s.
func skip(s string, n int) int {
	size := 0
	for ; n > 0; n-- {
		_, width := utf8.DecodeRuneInString(s[size:])
		size += width
	}
	return size
}

// wrong returns an error of a reference.
func (x *execution) wrong(r reference, err error) error {
	return &engine.Error{Position: x.at(r.offset), Text: "${" + r.name + r.op + "…}: " + err.Error()}
}
