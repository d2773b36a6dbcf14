// Package jinja renders Jinja templates. The parser of github.com/mitsuhiko/minijinja
// reads them; this package evaluates them, by the rules of Jinja 3.
//
// Templates see the values by their keys, and Values, Env and Pod, which win over values of the same name. Nothing is
// escaped, whatever a file is called: files are configuration. The line end at a template's end is kept, as the
// programs do that render files with Jinja (jinja2-cli, Ansible's template module); jinja2's own default drops it. A
// whole number in the values is an integer.
//
// A missing value is an error wherever it is used, as with jinja2's
// StrictUndefined, even in tests other than "is defined".
//
// Make an engine for the data, add the templates that others include, then parse and execute:
//
//	e := jinja.New(&engine.Data{Values: values}, engine.Options{Limits: engine.DefaultLimits})
//	err := e.AddPartial("macros.j2", macros)
//	t, err := e.Parse("app.conf.j2", text)
//	err = t.Execute(ctx, w)
package jinja

import (
	"context"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"strings"

	"initbox/internal/suggest"
	"initbox/render/engine"
	"initbox/render/helpers"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2"
	"github.com/mitsuhiko/minijinja/minijinja-go/v2/syntax"
)

// jinja is the engine.
type jinja struct {
	data     *engine.Data
	o        engine.Options
	parser   *minijinja.Environment
	partials map[string]*template
	tables
}

// tables are what names in templates stand for.
type tables struct {
	filters, tests, functions     map[string]fn
	strings, dicts, lists, tuples map[string]fn // methods
}

// New returns an engine for templates that see data. Of o, it heeds Limits and MissingZero.
func New(data *engine.Data, o engine.Options) engine.Engine {
	e := &jinja{data: data, o: o, parser: minijinja.EmptyEnvironment(), partials: map[string]*template{}}
	e.tables = tables{
		filters: jinjaFilters(), tests: tests(), functions: functions(),
		strings: stringMethods(), dicts: dictMethods(), lists: listMethods(),
	}
	e.tuples = map[string]fn{"count": e.lists["count"], "index": e.lists["index"]}
	maps.Copy(e.filters, ansibleFilters())
	for name, f := range helpers.Funcs(data) {
		e.filters[name] = helper(name, f)
		e.functions[name] = e.filters[name]
	}
	e.parser.SetWhitespace(syntax.WhitespaceConfig{KeepTrailingNewline: true})
	return e
}

func (e *jinja) AddPartial(name, text string) error {
	t, err := e.parse(name, text, true)
	if err == nil {
		e.partials[name] = t
	}
	return err
}

func (e *jinja) Parse(name, text string) (engine.Template, error) {
	t, err := e.parse(name, text, false)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (e *jinja) parse(name, text string, partial bool) (_ *template, err error) {
	defer recovered(name, &err)
	if err := checkText(name, text); err != nil {
		return nil, err
	}
	t, err := e.parser.TemplateFromNamedString(name, text)
	if err != nil {
		return nil, syntaxError(name, err)
	}
	return e.read(t, partial)
}

// recovered turns a panic, of the reader or of the library, into an error.
func recovered(name string, err *error) {
	switch p := recover().(type) {
	case nil:
	case *engine.Error:
		*err = p
	default:
		*err = &engine.Error{Position: position{File: name}, Text: fmt.Sprintf("the template cannot be read: %v", p)}
	}
}

// syntaxError converts an error of the library, whose type is internal to it.
func syntaxError(name string, err error) error {
	e := &engine.Error{Position: position{File: name}, Text: err.Error(), Err: err}
	if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
		if text := v.FieldByName("Detail"); text.Kind() == reflect.String {
			e.Text = text.String()
		}
		if line := v.FieldByName("Line"); line.CanUint() {
			e.Line = int(line.Uint())
		}
		var line, column int // of an error of its lexer
		if n, _ := fmt.Sscanf(e.Text, "syntax error at line %d, col %d:", &line, &column); n == 2 {
			e.Line, e.Column = line, column+1
			_, e.Text, _ = strings.Cut(e.Text, ": ")
		}
	}
	return e
}

// similarTo suggests the name, of those in table, that was probably meant.
func similarTo[T any](name string, table map[string]T) string {
	if near := suggest.Closest(name, sortedKeys(table)); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// template is one that is parsed.
type template struct {
	e      *jinja
	name   string
	body   []stmt
	blocks map[string]*block

	inputs   []engine.Input
	tested   map[string]bool // inputs that are tested with "is defined"
	unsteady map[string]bool
	includes []string // templates that are included, imported or extended
}

func (t *template) Execute(ctx context.Context, w io.Writer) (err error) {
	d := t.e.data
	r := &run{
		Context: ctx, e: t.e, at: position{File: t.name}, reported: map[engine.Input]bool{}, regexes: map[string]*regexp.Regexp{},
		data: map[string]*dict{"Values": {src: d.Values}, "Env": {src: d.Env}, "Pod": {src: d.Pod}},
	}
	defer func() {
		if p := recover(); p != nil {
			err = r.failed(p)
		}
		if len(r.miss) > 0 && (err == nil || r.Err() == nil) {
			err = &engine.MissingError{Missing: r.miss} // first: what failed may follow from it
		}
	}()
	context := t.context(nil)
	context.data = true
	r.render(t, context, &sink{r: r, w: w})
	return nil
}

// failed is the error of an execution that ended in the panic p.
func (r *run) failed(p any) error {
	f, ok := p.(failure)
	switch {
	case r.Err() != nil:
		return fmt.Errorf("rendering %s: %w", r.at.File, context.Cause(r.Context))
	case !ok:
		return r.located(fmt.Errorf("the template failed: %v", p))
	}
	return r.located(f.error)
}

func (t *template) Inputs() []engine.Input {
	var inputs []engine.Input
	t.e.visit(t, map[*template]bool{}, func(n *template) {
		for _, in := range n.inputs {
			in.Optional = in.Optional || n.tested[in.Name]
			inputs = append(inputs, in)
		}
	})
	return inputs
}

func (t *template) Unsteady() []string {
	names := map[string]bool{}
	t.e.visit(t, map[*template]bool{}, func(n *template) { maps.Copy(names, n.unsteady) })
	return sortedKeys(names)
}

// visit calls f with t and each template that it includes, except those that were seen before.
func (e *jinja) visit(t *template, seen map[*template]bool, f func(*template)) {
	if t == nil || seen[t] {
		return
	}
	seen[t] = true
	f(t)
	for _, name := range t.includes {
		e.visit(e.partials[name], seen, f)
	}
}

// checkText bounds what the library's parser does not: it recurses for the signs and negations before an expression,
// and for elif, and at each tag it looks for the next of each kind, to the end of the text if none follows.
func checkText(name, text string) error {
	tags := strings.Count(text, "{{") + strings.Count(text, "{%") + strings.Count(text, "{#")
	if tags*len(text) > maxLooks {
		text := fmt.Sprintf("the template is too large: %d tags in %d bytes", tags, len(text))
		return &engine.Error{Position: position{File: name}, Text: text, Fix: "split it, or use a loop"}
	}
	run, i := 0, 0
	for ; i < len(text) && run <= maxPrefixes; i++ {
		switch {
		case text[i] == '-' || text[i] == '+':
			run++
		case strings.HasPrefix(text[i:], "not"):
			run++
			i += 2
		case strings.IndexByte(" \t\r\n(", text[i]) < 0:
			run = 0
		}
	}
	if run > maxPrefixes || strings.Count(text, "elif") > maxPrefixes {
		return &engine.Error{Position: position{File: name, Line: 1 + strings.Count(text[:min(i, len(text))], "\n")}, Text: "too many signs, negations or elifs"}
	}
	return nil
}
