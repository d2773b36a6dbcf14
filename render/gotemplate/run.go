package gotemplate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"

	"initbox/render/engine"
)

// worker executes templates, one after another. It has text/template's table of functions,
// which is too expensive to build for each file.
type worker struct {
	e        *goEngine
	diagnose bool               // continue after a missing input, and collect all of them
	base     *template.Template // with the partials
	provided map[string]bool    // the functions that base has
	hasAll   bool
	run
}

// run is one execution of a template.
type run struct {
	ctx     context.Context
	file    *unit
	units   []*unit            // of the file, the partials, and the texts of tpl
	set     *template.Template // the templates that can be included now
	texts   map[string]*unit   // of tpl
	root    map[string]any
	dots    []ref // of the templates that are running
	next    ref   // of the template that is about to be
	steps   int64
	checked int64 // steps at the last look at ctx
	made    int64 // bytes of strings and lists
	weighed int64 // made, at the last look at the memory
	missing []engine.Input
}

// main is the name under which a file is executed; no definition can have it.
const mainName = "\x00main"

func newWorker(e *goEngine, diagnose bool) *worker {
	w := &worker{e: e, diagnose: diagnose, provided: map[string]bool{}}
	funcs := template.FuncMap{}
	if diagnose {
		funcs = w.tolerant(w.funcs(func(string) bool { return true }))
		w.hasAll = true
	}
	maps.Copy(funcs, w.internals())
	w.base = template.New("").Funcs(funcs).Option("missingkey=zero")
	if e.strict {
		w.base.Option("missingkey=error")
	}
	for _, p := range e.partials {
		w.provide(p)
		define(w.base, p)
		if p.main != nil {
			w.base.AddParseTree(p.name, p.main)
		}
	}
	return w
}

func define(set *template.Template, u *unit) {
	for _, t := range u.definitions {
		set.AddParseTree(t.Name, t)
	}
}

// execute renders the file to out.
func (w *worker) execute(ctx context.Context, u *unit, out io.Writer) (err error) {
	w.provide(u)
	w.run = run{ctx: ctx, file: u, set: w.base, next: ref{known: true}}
	w.units = append(append(w.units, u), w.e.partials...)
	w.root = map[string]any{
		"Values": w.e.data.Values, "Env": w.e.data.Env, "Pod": w.e.data.Pod,
		"Files":    files{w},
		"Template": map[string]any{"Name": u.name, "BasePath": path.Dir(u.name)},
	}
	if w.mayMutate() {
		w.root["Values"], w.root["Env"], w.root["Pod"] = copyMap(w.e.data.Values), copyMap(w.e.data.Env), copyMap(w.e.data.Pod)
	}
	if u.main == nil {
		return ctx.Err()
	}
	if len(u.definitions) > 0 { // other files must not see them
		if w.set, err = w.base.Clone(); err != nil {
			return w.wrap(err)
		}
		define(w.set, u)
	}
	sink := &sink{w: w, out: out, zero: !w.e.strict}
	err = w.executeTree(mainName, u.main, sink, w.root)
	if err == nil {
		err = sink.flush()
	}
	if sink.err != nil {
		return sink.err
	}
	return w.wrap(err)
}

// mayMutate returns whether the template may change its data.
func (w *worker) mayMutate() bool {
	mutates := w.file.mutates
	if w.file.composes {
		for _, p := range w.e.partials {
			mutates = mutates || p.mutates || p.composes
		}
		// The texts of tpl are unknown before the file runs.
		mutates = mutates || slices.ContainsFunc(w.file.sites, func(s *site) bool { return s.function == "tpl" })
	}
	return mutates
}

// executeTree executes a tree under that name in the current set.
func (w *worker) executeTree(name string, tree *parse.Tree, out io.Writer, dot any) (err error) {
	t, err := w.set.AddParseTree(name, tree)
	if err != nil {
		return err
	}
	return w.executeTemplate(t, out, dot)
}

// executeTemplate is text/template's, with panics as errors.
func (w *worker) executeTemplate(t *template.Template, out io.Writer, dot any) (err error) {
	defer func(depth int) {
		if p := recover(); p != nil {
			err = &engine.Error{Position: engine.Position{File: w.file.name}, Text: fmt.Sprintf("cannot be executed: %v", p)}
		}
		w.dots = w.dots[:min(depth, len(w.dots))]
	}(len(w.dots))
	return t.Execute(out, dot)
}

func (w *worker) site(id int64) *site { return w.units[id>>32].sites[id&0xffffffff] }

// dot returns the ref of the dot of the template that is being executed.
func (w *worker) dot() ref {
	if len(w.dots) == 0 {
		return ref{}
	}
	return w.dots[len(w.dots)-1]
}

// wrap rewrites the error of an execution for the user, with the innermost position, not that
// of the including templates.
func (w *worker) wrap(err error) error {
	if err == nil {
		return nil
	}
	if stop := (*stopError)(nil); errors.As(err, &stop) {
		return fmt.Errorf("%s: stopped: %w", w.file.name, stop.cause)
	}
	if miss := (*missError)(nil); errors.As(err, &miss) {
		return miss
	}
	var own *engine.Error
	if errors.As(err, &own) && own.File != "" {
		return own
	}
	placed := &engine.Error{Position: engine.Position{File: w.file.name}, Text: err.Error(), Err: err}
	if m := patterns().execution.FindStringSubmatch(err.Error()); m != nil {
		placed.File, placed.Text = m[1], m[4]
		placed.Line, _ = strconv.Atoi(m[2])
		placed.Column, _ = strconv.Atoi(m[3])
		placed.Column = w.column(placed.Position)
	}
	if m := patterns().calling.FindStringSubmatch(placed.Text); m != nil && !strings.HasPrefix(m[1], "_") {
		placed.Function = m[1]
	}
	if own != nil {
		placed.Text, placed.Fix, placed.Err = own.Text, own.Fix, own.Err
	} else {
		placed.Text, placed.Fix = plain(placed.Text)
	}
	return placed
}

// column returns the column of a position whose column is text/template's: that is the number of bytes before it.
func (w *worker) column(at engine.Position) int {
	i := slices.IndexFunc(w.units, func(u *unit) bool { return u.name == at.File })
	if i < 0 {
		return at.Column + 1
	}
	rest := w.units[i].text
	for range at.Line - 1 {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return 1 + utf8.RuneCountInString(rest[:min(at.Column, len(rest))])
}

// stopError is the end of the context.
type stopError struct{ cause error }

func (e *stopError) Error() string { return e.cause.Error() }

// missError is an input that is missing.
type missError struct{ input engine.Input }

func (e *missError) Error() string { return e.input.Name + " is missing" }

// Bounds.

// enter begins the execution of a template, leave ends it.
func (w *worker) enter() (string, error) {
	if len(w.dots) >= w.e.options.Depth {
		return "", &engine.Error{Text: fmt.Sprintf("templates include each other deeper than %d", w.e.options.Depth), Fix: "is there one that includes itself?"}
	}
	w.dots = append(w.dots, w.next)
	w.next = ref{}
	return "", w.charge(1)
}

func (w *worker) leave() string {
	w.dots = w.dots[:len(w.dots)-1]
	return ""
}

func (w *worker) tick() (string, error) { return "", w.charge(1) }

// charge counts steps, and checks the context from time to time.
func (w *worker) charge(n int64) error {
	w.steps += n
	if w.steps > w.e.options.Steps {
		return &engine.Error{Text: fmt.Sprintf("the template does not end within %d steps", w.e.options.Steps), Fix: "does a loop have too many iterations?"}
	}
	if w.steps-w.checked >= 256 {
		w.checked = w.steps
		if w.ctx.Err() != nil {
			return &stopError{context.Cause(w.ctx)}
		}
	}
	return nil
}

// allow checks a size before a value of that size is made.
func (w *worker) allow(bytes int64) error {
	if bytes < 0 || bytes > w.e.options.Bytes {
		return &engine.Error{Text: fmt.Sprintf("makes more than %d bytes", w.e.options.Bytes)}
	}
	return nil
}

// wasteful is how many bytes a template may allocate before the worker checks how many are still in use. hopeless is
// how many may be in use including garbage, which is at most half of them.
const (
	wasteful = 256 << 20
	hopeless = 1 << 30
)

// grow counts allocated bytes. Each string is bounded, but a template can keep many of them;
// most templates keep none of their intermediate strings.
func (w *worker) grow(bytes int) error {
	w.made += int64(bytes)
	if err := w.allow(int64(bytes)); err != nil {
		return err
	}
	if w.made-w.weighed > wasteful {
		w.weighed = w.made
		var memory runtime.MemStats
		if runtime.ReadMemStats(&memory); memory.HeapAlloc > hopeless {
			return &engine.Error{Text: fmt.Sprintf("takes more than %d bytes of memory", hopeless)}
		}
	}
	return w.charge(int64(bytes) >> 12)
}

// Functions that execute other templates.

// include returns the result of the template of that name.
func (w *worker) include(s *site, name string, dot []any) (any, error) {
	t := w.set.Lookup(name)
	if t == nil || t.Tree == nil {
		return w.instead(&engine.Error{Position: s.position(), Text: fmt.Sprintf("there is no template %q", name), Fix: w.similar(name)})
	}
	var buffer textBuffer
	buffer.w = w
	w.next = w.origin(s, dot[0])
	err := w.executeTemplate(t, &buffer, dot[0])
	return w.outcome(buffer.String(), err)
}

// tpl returns the result of a text.
func (w *worker) tpl(s *site, text string, dot []any) (any, error) {
	u, err := w.text(s, text)
	if err != nil {
		return w.instead(within(s, err))
	}
	if u.main == nil {
		return "", nil
	}
	if len(u.definitions) > 0 {
		set, err := w.set.Clone()
		if err != nil {
			return nil, err
		}
		defer func(outer *template.Template) { w.set = outer }(w.set)
		w.set = set
		define(set, u)
	}
	var buffer textBuffer
	buffer.w = w
	w.next = w.origin(s, dot[0])
	err = w.executeTree(textName+strconv.Itoa(len(w.dots)), u.main, &buffer, dot[0])
	result := buffer.Bytes()
	if !w.e.strict {
		result = bytes.ReplaceAll(result, []byte(noValue), nil)
	}
	return w.outcome(string(result), within(s, w.wrap(err)))
}

// textName is the name of the texts of tpl, which have no file.
const textName = "\x00tpl"

// within moves an error in a text of tpl to the position of tpl.
func within(s *site, err error) error {
	if e := (*engine.Error)(nil); errors.As(err, &e) && e.File == textName {
		at := ""
		if e.Line > 0 {
			at = strings.TrimPrefix(e.Position.String(), textName+":") + ": "
		}
		return &engine.Error{Position: s.position(), Text: "in the text given to tpl: " + at + e.Text, Fix: e.Fix, Err: e.Err, Function: "tpl"}
	}
	return err
}

// text parses a text for tpl, once for each run.
func (w *worker) text(s *site, text string) (*unit, error) {
	if u, ok := w.texts[text]; ok {
		return u, nil
	}
	if err := w.grow(len(text)); err != nil {
		return nil, err
	}
	if err := w.charge(int64(len(text))/16 + 16); err != nil {
		return nil, err
	}
	if w.e.data.Text != nil {
		w.e.data.Text(text)
	}
	u, err := w.e.parse(textName, text, int64(len(w.units)))
	if err != nil {
		return nil, err
	}
	u.given = s
	if w.texts == nil {
		w.texts = map[string]*unit{}
	}
	w.texts[text] = u
	w.units = append(w.units, u)
	return u, nil
}

// outcome is the result of a template executed by another.
func (w *worker) outcome(result string, err error) (any, error) {
	if err != nil {
		return w.instead(w.wrap(err))
	}
	return result, w.grow(len(result))
}

// noValue is what text/template prints for nil. Helm removes it.
const noValue = "<no value>"

// textBuffer collects what a template writes, up to the limit.
type textBuffer struct {
	bytes.Buffer
	w *worker
}

func (b *textBuffer) Write(p []byte) (int, error) {
	if err := b.w.allow(int64(b.Len() + len(p))); err != nil {
		return 0, err
	}
	return b.Buffer.Write(p)
}

// sink receives the template's own result. It buffers, because the pieces are small and out may be a file.
type sink struct {
	w       *worker
	out     io.Writer
	zero    bool // remove noValue
	pending []byte
	written int64
	err     error // of out
}

const sinkSize = 32 << 10

func (s *sink) Write(p []byte) (int, error) {
	s.written += int64(len(p))
	if err := s.w.allow(s.written); err != nil {
		return 0, err
	}
	s.pending = append(s.pending, p...)
	if len(s.pending) < sinkSize {
		return len(p), nil
	}
	ready, rest := s.pending, 0
	if s.zero { // remove each occurrence once; text that becomes one by removing stays
		rest = beginning(s.pending, noValue)
		ready = bytes.ReplaceAll(s.pending[:len(s.pending)-rest], []byte(noValue), nil)
	}
	if err := s.send(ready); err != nil {
		return 0, err
	}
	s.pending = append(s.pending[:0], s.pending[len(s.pending)-rest:]...)
	return len(p), nil
}

// beginning returns how many bytes at the end of text are the beginning of the word.
func beginning(text []byte, word string) int {
	for n := min(len(word)-1, len(text)); n > 0; n-- {
		if string(text[len(text)-n:]) == word[:n] {
			return n
		}
	}
	return 0
}

func (s *sink) flush() error {
	if s.zero {
		s.pending = bytes.ReplaceAll(s.pending, []byte(noValue), nil)
	}
	return s.send(s.pending)
}

func (s *sink) send(p []byte) error {
	if len(p) > 0 && s.err == nil {
		_, s.err = s.out.Write(p)
	}
	return s.err
}
