// Package jinja renders Jinja templates, with github.com/mitsuhiko/minijinja's
// parser and, where that one differs from Jinja 3, with Jinja's own rules.
//
// Templates see the values by their keys, and Values, Env and Pod, which win over
// values of the same name. Nothing is escaped, whatever a file is called: files
// are configuration. The line end at a template's end is kept, as the programs do
// that render files with Jinja (jinja2-cli, Ansible's template module); jinja2's
// own default drops it. A whole number in the values is an integer.
//
// What is missing is an error wherever it is used, as with jinja2's
// StrictUndefined, even in tests other than "is defined".
package jinja

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"

	"initbox/internal/suggest"
	"initbox/render/engine"
	"initbox/render/helpers"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2"
	"github.com/mitsuhiko/minijinja/minijinja-go/v2/syntax"
	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// jinja is the engine.
type jinja struct {
	data     *engine.Data
	o        engine.Options
	env      *minijinja.Environment
	partials map[string]*notes
	tables
}

// tables are what names in templates stand for.
type tables struct {
	filters, tests, functions, helpers map[string]fn
	strings, dicts, lists, tuples      map[string]fn // methods
	operators                          map[string]operator
}

// New returns an engine for templates that see data. Of o, it heeds Limits and
// MissingZero.
func New(data *engine.Data, o engine.Options) engine.Engine {
	e := &jinja{data: data, o: o, env: minijinja.EmptyEnvironment(), partials: map[string]*notes{}}
	e.tables = tables{
		filters: filters(), tests: tests(), functions: functions(), helpers: map[string]fn{},
		strings: stringMethods(), dicts: dictMethods(), lists: listMethods(), tuples: tupleMethods(),
		operators: operators(),
	}
	for name, f := range helpers.Funcs(data) {
		e.helpers[name] = helper(name, f)
	}
	e.env.SetWhitespace(syntax.WhitespaceConfig{KeepTrailingNewline: true})
	e.env.SetRecursionLimit(o.Depth)
	e.env.AddFilter(blockFilterName, blockFilter)
	// A backstop: the operations count their steps themselves.
	fuel := uint64(max(0, o.Steps)) * 16
	e.env.SetFuel(&fuel)
	return e
}

// blockFilterName is the filter of all {% filter %} blocks, whose first argument
// is the operation: a name that no template can write.
const blockFilterName = "\x00"

func blockFilter(st minijinja.FilterState, v value.Value, args []value.Value, named map[string]value.Value) (value.Value, error) {
	o := args[0].Raw().(*op)
	return o.Call(st.(value.State), append([]value.Value{v}, args[1:]...), named)
}

func (e *jinja) AddPartial(name, text string) (err error) {
	defer recovered(name, &err)
	if err := checkText(name, text); err != nil {
		return err
	}
	if err := e.env.AddTemplate(name, text); err != nil {
		return syntaxError(name, err)
	}
	t, err := e.env.GetTemplate(name)
	if err != nil {
		return err
	}
	e.partials[name], err = e.rewrite(t)
	return err
}

func (e *jinja) Parse(name, text string) (_ engine.Template, err error) {
	defer recovered(name, &err)
	if err := checkText(name, text); err != nil {
		return nil, err
	}
	t, err := e.env.TemplateFromNamedString(name, text)
	if err != nil {
		return nil, syntaxError(name, err)
	}
	n, err := e.rewrite(t)
	if err != nil {
		return nil, err
	}
	return &template{e: e, t: t, notes: n}, nil
}

// recovered makes a panic of the library an error.
func recovered(name string, err *error) {
	if p := recover(); p != nil {
		*err = &engine.Error{Position: engine.Position{File: name}, Text: fmt.Sprintf("the template cannot be read: %v", p)}
	}
}

// syntaxError is one of the library's, whose type has no name outside of it.
func syntaxError(name string, err error) error {
	e := &engine.Error{Position: engine.Position{File: name}, Text: err.Error(), Err: err}
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

// similar names the one of names, or of the functions for Pods, that was
// probably meant.
func (e *jinja) similar(name string, names map[string]fn) string {
	return similarTo(name, append(slices.Collect(maps.Keys(names)), slices.Collect(maps.Keys(e.helpers))...))
}

func similarTo(name string, names []string) string {
	sort.Strings(names)
	if near := suggest.Closest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// template is one that is parsed and rewritten.
type template struct {
	e *jinja
	t *minijinja.Template
	*notes
}

func (t *template) Execute(ctx context.Context, w io.Writer) (err error) {
	r := &run{Context: ctx, e: t.e, told: map[engine.Input]bool{}, at: engine.Position{File: t.t.Name()}}
	out := &output{r: r, w: w}
	defer func() {
		if p := recover(); p != nil {
			err = r.located(fmt.Errorf("the template failed: %v", p))
		}
	}()
	return r.result(t.t.RenderToWriteCtx(r, r.names(), out), out.err)
}

// names are the top-level names. Mappings are looked at when they are used.
func (r *run) names() value.Value {
	d := r.e.data
	m := make(map[string]value.Value, len(d.Values)+3)
	for k, v := range d.Values {
		m[k] = toValue(v)
	}
	m["Values"] = fromDict(&dict{src: d.Values})
	m["Env"] = fromDict(&dict{src: d.Env})
	m["Pod"] = fromDict(&dict{src: d.Pod})
	return value.FromMap(m)
}

// result is what an execution tells: what is missing before what failed, since
// the one often leads to the other.
func (r *run) result(err, written error) error {
	switch {
	case r.Err() != nil && (err != nil || r.err != nil):
		return fmt.Errorf("rendering %s: %w", r.at.File, context.Cause(r.Context))
	case len(r.miss) > 0:
		return &engine.MissingError{Missing: r.miss}
	case r.err != nil:
		return r.err
	case written != nil:
		return r.located(written)
	case err == nil:
		return nil
	}
	e := &engine.Error{Position: r.past, Text: err.Error(), Err: err}
	if e.File == "" { // before the first operation
		e.File = r.at.File
	}
	var failed *minijinja.Error
	if errors.As(err, &failed) {
		e.Text = failed.Message
		switch {
		case failed.Kind == minijinja.ErrOutOfFuel:
			e.Text = errSteps.Error()
		case strings.Contains(failed.Message, "recursion limit"):
			e.Text = errTooDeep.Error()
		}
	}
	return e
}

func (t *template) Inputs() []engine.Input {
	var inputs []engine.Input
	t.e.visit(t.notes, func(n *notes) {
		for _, in := range n.inputs {
			in.Optional = in.Optional || n.tested[in.Name]
			inputs = append(inputs, in)
		}
	})
	return inputs
}

func (t *template) Unsteady() []string {
	names := map[string]bool{}
	t.e.visit(t.notes, func(n *notes) { maps.Copy(names, n.unsteady) })
	return sortedKeys(names)
}

// visit calls f with what is known of a template and of those that it includes,
// once each.
func (e *jinja) visit(n *notes, f func(*notes)) {
	seen := map[*notes]bool{}
	var visit func(*notes)
	visit = func(n *notes) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		f(n)
		for _, name := range n.includes {
			visit(e.partials[name])
		}
	}
	visit(n)
}
