// Package jinja renders Jinja templates, by the rules of Jinja 3: the result is the same, byte for byte, or an error
// with its position.
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
	"regexp"

	"initbox/internal/suggest"
	"initbox/render/engine"
	"initbox/render/helpers"
)

// jinja is the engine.
type jinja struct {
	data     *engine.Data
	o        engine.Options
	partials map[string]*template
	tables
}

// tables are what names in templates stand for.
type tables struct {
	filters, tests, functions     map[string]fn
	strings, dicts, lists, tuples map[string]fn // methods
	numbers                       map[string]fn
}

// New returns an engine for templates that see data. Of o, it heeds Limits and MissingZero.
func New(data *engine.Data, o engine.Options) engine.Engine {
	e := &jinja{data: data, o: o, partials: map[string]*template{}}
	e.tables = tables{
		filters: jinjaFilters(), tests: tests(), functions: functions(),
		strings: stringMethods(), dicts: dictMethods(), lists: listMethods(), numbers: map[string]fn{},
	}
	for _, name := range []string{"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "hex", "imag", "is_integer", "numerator", "real", "to_bytes"} {
		e.numbers[name] = fn{params: "*", do: unsupported("")}
	}
	e.tuples = map[string]fn{"count": e.lists["count"], "index": e.lists["index"]}
	maps.Copy(e.filters, ansibleFilters())
	maps.Copy(e.functions, ansibleFunctions())
	for name, f := range helpers.Funcs(data) {
		e.filters[name] = helper(name, f)
		e.functions[name] = e.filters[name]
	}
	return e
}

func (e *jinja) AddPartial(name, text string) error {
	t, err := e.read(name, text, true)
	if err == nil {
		e.partials[name] = t
	}
	return err
}

func (e *jinja) Parse(name, text string) (engine.Template, error) {
	t, err := e.read(name, text, false)
	if err != nil {
		return nil, err
	}
	return t, nil
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
	if d.Tree != nil {
		r.data["Values"] = &dict{src: d.Tree.Values, order: d.Tree.Keys}
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
