// Package envsubst replaces $VAR and ${VAR} in text, as GNU envsubst does byte
// for byte, and a few of the shell's other forms:
//
//	${VAR:-text} ${VAR:=text}  text if VAR is unset or empty; without the colon,
//	${VAR-text} ${VAR=text}    if it is unset
//	${VAR:+text} ${VAR+text}   text if VAR is set (and not empty), else nothing
//	${VAR:?text} ${VAR?text}   fail with text if VAR is unset (or empty)
//
// The text may contain such forms too; \} in it is a brace that does not end it. A $ that does not begin one of these
// forms stays, and with [engine.Options].Vars so do all names that are not listed: nginx's $host, a script's $1,
// ${x[0]}. As in GNU envsubst, there is no escape.
//
// For the names that are listed there, which cannot be another program's, bash's forms work too: ${#VAR},
// ${VAR:offset:length}, ${VAR#pattern}, ${VAR/pattern/text}, ${VAR^^} and the like; see operators.go. One that is not
// closed is an error.
//
// A name refers to a scalar among the top-level keys of the values, or else to an environment
// variable. An empty one is set; null is not.
package envsubst

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"initbox/render/engine"
)

// New returns an engine for templates that see data. It uses Limits, MissingZero and Vars of
// o. It ignores partials: templates of this language cannot include them.
func New(data *engine.Data, o engine.Options) engine.Engine {
	e := &envsubst{data: data, o: o}
	if o.Vars != nil {
		e.only = make(map[string]bool, len(o.Vars))
		for _, v := range o.Vars {
			e.only[v] = true
		}
	}
	return e
}

// ParseVars reads a list of variables: as GNU envsubst's argument, in which everything but $VAR and ${VAR} is ignored,
// or as names between commas or spaces. It is never nil: an empty list allows no variable.
func ParseVars(list string) ([]string, error) {
	vars := []string{}
	if strings.Contains(list, "$") {
		for i := strings.IndexByte(list, '$'); i >= 0; i = strings.IndexByte(list, '$') {
			r, ok := plain(list[i:])
			if ok {
				vars = append(vars, r.name)
			}
			list = list[i+max(1, r.size):]
		}
		return vars, nil
	}
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \t\n", r) }) {
		if nameLen(name) != len(name) {
			return nil, fmt.Errorf("%q is not the name of a variable", name)
		}
		vars = append(vars, name)
	}
	return vars, nil
}

type envsubst struct {
	data *engine.Data
	o    engine.Options
	only map[string]bool
}

func (e *envsubst) AddPartial(name, text string) error { return nil }

func (e *envsubst) Parse(name, text string) (engine.Template, error) {
	w := walker{e: e, places: places{name: name, text: text}, literal: func(string) error { return nil }}
	w.variable = w.inside
	return &template{e, name, text}, w.walk(text, 0, false)
}

// template is only its text: to parse a reference is as quick as to look it up,
// and a tree of them would take more memory than a large text.
type template struct {
	e          *envsubst
	name, text string
}

func (t *template) Inputs() []engine.Input {
	var inputs []engine.Input
	w := walker{e: t.e, places: places{name: t.name, text: t.text}, literal: func(string) error { return nil }}
	w.variable = func(r reference) error {
		optional := r.op != "" && strings.Contains(":-:=:+", r.op) && r.op != ":"
		inputs = append(inputs, engine.Input{Position: w.at(r.offset), Name: "$" + r.name, Optional: optional})
		return w.inside(r)
	}
	w.walk(t.text, 0, false) // which Parse has seen to succeed
	return inputs
}

func (t *template) Unsteady() []string { return nil }

func (t *template) Execute(ctx context.Context, w io.Writer) error {
	x := &execution{ctx: ctx, w: w}
	x.walker = walker{e: t.e, places: places{name: t.name, text: t.text}, literal: x.write, variable: x.expand}
	err := x.walk(t.text, 0, false)
	if err == nil {
		err = x.flush()
	}
	var failed *engine.Error
	switch {
	case err == nil && len(x.missing) == 0 && len(x.failed) == 0:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("rendering %s: %w", t.name, context.Cause(ctx))
	case errors.As(err, &failed):
		return err
	case err != nil:
		return &engine.Error{Position: engine.Position{File: t.name}, Text: err.Error(), Err: err}
	case len(x.missing) > 0:
		x.failed = append([]error{&engine.MissingError{Missing: x.missing}}, x.failed...)
	}
	if len(x.failed) == 1 {
		return x.failed[0]
	}
	return errors.Join(x.failed...)
}

// execution is one run: it writes until an input is missing, and then looks for other missing inputs.
type execution struct {
	walker
	ctx     context.Context
	w       io.Writer
	buf     []byte // small pieces, to be written together
	written int64
	missing []engine.Input
	failed  []error // of ${VAR:?text}
}

// piece is how much is written together.
const piece = 32 << 10

func (x *execution) write(s string) error {
	if len(x.missing)+len(x.failed) > 0 {
		return nil
	}
	if x.written += int64(len(s)); x.written > x.e.o.Bytes {
		return fmt.Errorf("the output is larger than %d bytes", x.e.o.Bytes)
	}
	for len(s) > 0 {
		n := min(len(s), piece-len(x.buf))
		x.buf = append(x.buf, s[:n]...)
		s = s[n:]
		if len(x.buf) == piece {
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *execution) flush() error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	_, err := x.w.Write(x.buf)
	x.buf = x.buf[:0]
	return err
}

// expand writes the expansion of a reference.
func (x *execution) expand(r reference) error {
	v, set := x.e.lookup(r.name)
	there := set && (v != "" || !strings.HasPrefix(r.op, ":"))
	switch r.op {
	case "-", "=", ":-", ":=":
		if !there {
			return x.walk(r.words[0].text, r.words[0].at, true)
		}
		return x.write(v)
	case "+", ":+":
		if there {
			return x.walk(r.words[0].text, r.words[0].at, true)
		}
		return nil
	case "?", ":?":
		if !there {
			return x.fail(r)
		}
		return x.write(v)
	}
	if !set && !x.e.o.MissingZero {
		x.missing = append(x.missing, engine.Input{Position: x.at(r.offset), Name: "$" + r.name})
	}
	return x.operate(r, v)
}

// fail records the failure of ${VAR:?text}, with the text.
func (x *execution) fail(r reference) error {
	text, err := x.captured(func(m *execution) error { return m.walk(r.words[0].text, r.words[0].at, true) })
	if err != nil {
		return err
	}
	if text == "" {
		text = " is not set, or empty"
	} else {
		text = ": " + text
	}
	x.failed = append(x.failed, &engine.Error{Position: x.at(r.offset), Text: "$" + r.name + text})
	return nil
}

// captured returns what f writes to another execution, whose failures are those of x.
func (x *execution) captured(f func(m *execution) error) (string, error) {
	var b strings.Builder
	m := &execution{ctx: x.ctx, w: &b}
	m.walker = walker{e: x.e, depth: x.depth, places: x.places, literal: m.write, variable: m.expand}
	err := f(m)
	if err == nil {
		err = m.flush()
	}
	x.missing, x.failed = append(x.missing, m.missing...), append(x.failed, m.failed...)
	return b.String(), err
}

// lookup returns a variable's value, and whether it is set.
func (e *envsubst) lookup(name string) (string, bool) {
	if s, ok := scalar(e.data.Values[name]); ok {
		return s, true
	}
	return scalar(e.data.Env[name])
}

func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case json.Number:
		return v.String(), true
	case fmt.Stringer: // a TOML date
		return v.String(), true
	}
	return "", false
}

// walker finds the references in a text, and reports them and the text between them.
type walker struct {
	e *envsubst
	places
	depth    int
	literal  func(string) error
	variable func(reference) error
}

// reference is a $VAR or a ${…}.
type reference struct {
	name   string
	op     string // as :- or empty
	words  []word // what follows the operator
	offset int    // where it begins in the template
	size   int
}

// word is a part of a reference, in which there may be others.
type word struct {
	text string
	at   int // its offset in the template
}

// walk goes through text, which begins at offset of the template. In the word of a reference, \} is a brace.
func (w *walker) walk(text string, offset int, word bool) error {
	if w.depth++; w.depth > w.e.o.Depth {
		return &engine.Error{Position: w.at(offset), Text: fmt.Sprintf("more than %d variables are nested", w.e.o.Depth)}
	}
	defer func() { w.depth-- }()
	begin := 0 // of text not yet passed on
	for i := 0; ; {
		n := strings.IndexByte(text[i:], '$')
		if word {
			n = strings.IndexAny(text[i:], `$\`)
		}
		if n < 0 {
			return w.literal(text[begin:])
		}
		i += n
		if text[i] == '\\' {
			if strings.HasPrefix(text[i:], `\}`) {
				if err := w.literal(text[begin:i]); err != nil {
					return err
				}
				begin = i + 1
				i++
			}
			i++
			continue
		}
		r, ok, err := w.reference(text[i:], offset+i)
		if err != nil {
			return err
		}
		if !ok {
			i++
			continue
		}
		if err := w.literal(text[begin:i]); err != nil {
			return err
		}
		if err := w.variable(r); err != nil {
			return err
		}
		i += r.size
		begin = i
	}
}

// reference reads the reference that begins at text's $.
func (w *walker) reference(text string, offset int) (r reference, ok bool, err error) {
	r, ok = plain(text)
	if r.name == "" && w.e.only != nil {
		r, ok = lengthOf(text)
	}
	if r.name == "" || w.e.only != nil && !w.e.only[r.name] {
		return r, false, nil
	}
	r.offset = offset
	if ok {
		return r, true, nil
	}
	if r.op = operator(text[r.size:], w.e.only != nil); r.op == "" {
		return r, false, nil
	}
	begin := r.size + len(r.op)
	size, err := w.until(text[begin:], "}", quotes(r.op), offset)
	if err == nil && size < 0 && w.e.only != nil {
		err = &engine.Error{Position: w.at(offset), Text: "${" + r.name + r.op + " is not closed", Fix: "end it with }"}
	}
	if err != nil || size < 0 {
		return r, false, err
	}
	if r.words, err = w.split(r.op, word{text[begin : begin+size], offset + begin}); err != nil {
		return r, false, err
	}
	r.size = begin + size + 1
	return r, true, nil
}

// plain reads $VAR or ${VAR} at the beginning of text. If it returns false, r may still have
// the name after "${", with the size of both.
func plain(text string) (r reference, ok bool) {
	if strings.HasPrefix(text, "${") {
		n := nameLen(text[2:])
		r = reference{name: text[2 : 2+n], size: 2 + n}
		if n == 0 || !strings.HasPrefix(text[2+n:], "}") {
			return r, false
		}
		r.size++
		return r, true
	}
	n := nameLen(text[1:])
	return reference{name: text[1 : 1+n], size: 1 + n}, n > 0
}

// until returns the index of the first of the stops in text that is not escaped, or in a ${…} in it, or with quotes in
// single or double quotes; or -1.
func (w *walker) until(text, stops string, quotes bool, offset int) (int, error) {
	open := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case open == 0 && strings.IndexByte(stops, c) >= 0:
			return i, nil
		case c == '}':
			open = max(0, open-1)
		case strings.HasPrefix(text[i:], "${"):
			i++
			if open++; open >= w.e.o.Depth {
				return 0, &engine.Error{Position: w.at(offset), Text: fmt.Sprintf("more than %d variables are nested, or not closed", w.e.o.Depth)}
			}
		case quotes && open == 0 && (c == '\'' || c == '"'):
			n := strings.IndexByte(text[i+1:], c)
			if c == '"' {
				var err error
				if n, err = w.until(text[i+1:], `"`, false, offset); err != nil {
					return 0, err
				}
			}
			if n < 0 {
				return -1, nil
			}
			i += n + 1
		}
	}
	return -1, nil
}

// nameLen returns the length of the name that text begins with.
func nameLen(text string) int {
	n := 0
	for n < len(text) && (text[n] == '_' || text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z' || n > 0 && text[n] >= '0' && text[n] <= '9') {
		n++
	}
	return n
}

// places counts lines and characters: forward, unless an earlier position is requested.
type places struct {
	name, text           string
	offset, line, column int // from 0
}

func (p *places) at(offset int) engine.Position {
	if offset < p.offset {
		p.offset, p.line, p.column = 0, 0, 0
	}
	passed := p.text[p.offset:offset]
	p.line += strings.Count(passed, "\n")
	if i := strings.LastIndexByte(passed, '\n'); i >= 0 {
		p.column = 0
		passed = passed[i+1:]
	}
	p.column += utf8.RuneCountInString(passed)
	p.offset = offset
	return engine.Position{File: p.name, Line: p.line + 1, Column: p.column + 1}
}
