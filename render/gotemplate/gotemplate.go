// Package gotemplate is render's engine of Go templates: text/template with the functions of sprig and Helm, so that a
// chart's template renders to the same bytes. It adds strictness (a missing input never gets into a file as "<no
// value>"), bounds (a template can neither hang a Pod nor exhaust its memory), and errors that name the missing input
// and its position in the text.
//
//	engine := gotemplate.New(data, engine.Options{Limits: engine.DefaultLimits})
//	template, err := engine.Parse("app.conf", text)
//	...
//	err = template.Execute(ctx, out)
//
// It rewrites the tree that text/template/parse makes of a template: each chain of fields becomes a call of one of
// our functions, which knows the position, and each loop and template gets a call that counts steps. See rewrite.go.
package gotemplate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"

	"initbox/render/engine"
	"initbox/render/helpers"
)

// New returns an engine for templates that see data. It defers expensive work to the first Parse.
func New(data *engine.Data, o engine.Options) engine.Engine {
	if hasBig(data.Values) {
		exact := *data
		exact.Values = wholes{}.convert(data.Values).(map[string]any)
		data = &exact
	}
	e := &goEngine{data: data, options: o, strict: !o.MissingZero}
	e.options.Bytes = cmp.Or(o.Bytes, engine.DefaultLimits.Bytes)
	e.options.Depth = cmp.Or(o.Depth, engine.DefaultLimits.Depth)
	e.options.Steps = cmp.Or(o.Steps, engine.DefaultLimits.Steps)
	e.library = sync.OnceValue(func() map[string]any {
		funcs := libraryFuncs()
		maps.Copy(funcs, helpers.Funcs(data))
		return funcs
	})
	e.functions = e.library
	e.bounded = sync.OnceValue(func() map[string]any {
		funcs := (&worker{e: e}).boundedFuncs(e.library(), func(string) bool { return false })
		maps.DeleteFunc(funcs, func(name string, _ any) bool { return slices.Contains(builtins, name) })
		return funcs
	})
	if o.Compat == dockerize {
		e.functions = sync.OnceValue(func() map[string]any {
			funcs := maps.Clone(e.library())
			maps.Copy(funcs, dockerizeFuncs(data))
			return funcs
		})
	}
	return e
}

// goEngine implements [engine.Engine].
type goEngine struct {
	data      *engine.Data
	options   engine.Options
	strict    bool
	library   func() map[string]any // the functions that do not depend on a run; see worker.funcs for the others
	functions func() map[string]any // those and the ones of Compat, as templates see them
	bounded   func() map[string]any // those of workers, for their names and types
	partials  []*unit

	mu        sync.Mutex
	idle      []*worker
	diagnoser []*worker // idle ones that look for all missing inputs
}

// function returns the function that templates call by a name, for its type; nil for a builtin and an unknown one.
func (e *goEngine) function(name string) any {
	if f := e.functions()[name]; f != nil {
		return f
	}
	return e.bounded()[name]
}

// AddPartial makes the text, under its name, and the templates that it defines available to all others, as Helm does.
func (e *goEngine) AddPartial(name, text string) error {
	u, err := e.parse(name, text, int64(len(e.partials)+1))
	if err != nil {
		return err
	}
	e.partials = append(e.partials, u)
	return nil
}

// Parse reads a template.
func (e *goEngine) Parse(name, text string) (engine.Template, error) {
	u, err := e.parse(name, text, 0)
	if err != nil {
		return nil, err
	}
	return &parsed{e, u}, nil
}

// parsed implements [engine.Template].
type parsed struct {
	e *goEngine
	u *unit
}

// Execute renders the template. If an input is missing, it executes the template again to
// find the other missing inputs.
func (t *parsed) Execute(ctx context.Context, out io.Writer) error {
	w := t.e.take(false)
	err := w.execute(ctx, t.u, out)
	t.e.release(w)
	if miss := (*missError)(nil); errors.As(err, &miss) {
		d := t.e.take(true)
		defer t.e.release(d)
		if err := d.execute(ctx, t.u, io.Discard); err != nil && ctx.Err() != nil {
			return err
		}
		if len(d.missing) == 0 { // it depends on chance
			d.report(miss.input)
		}
		return &engine.MissingError{Missing: slices.Clone(d.missing)}
	}
	return err
}

// take returns an idle worker. Workers are kept, because they have made the functions that templates use.
func (e *goEngine) take(diagnose bool) *worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := &e.idle
	if diagnose {
		idle = &e.diagnoser
	}
	if n := len(*idle); n > 0 {
		w := (*idle)[n-1]
		*idle = (*idle)[:n-1]
		return w
	}
	return newWorker(e, diagnose)
}

func (e *goEngine) release(w *worker) {
	w.run = run{} // holds what the template made
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.diagnose {
		e.diagnoser = append(e.diagnoser, w)
	} else {
		e.idle = append(e.idle, w)
	}
}
