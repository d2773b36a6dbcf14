package jinja

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"initbox/render/engine"
)

// run is one execution of a template.
type run struct {
	context.Context
	e        *jinja
	at       position         // of the operation at work
	doing    string           // its name, such as that of a filter
	data     map[string]*dict // Values, Env and Pod
	miss     []engine.Input
	reported map[engine.Input]bool
	regexes  map[string]*regexp.Regexp

	depth                 int
	steps, built, written int64
}

// The bounds on templates. Those on an execution as a whole are engine.Limits.
const (
	maxDepth  = 1_000 // nested expressions and tags, and with them the stack
	maxDigits = 4300  // of whole numbers, as in Python, which bounds only their text

	room          = 16      // Limits.Bytes for all strings that are built: text may be built piece by piece
	itemSize      = 16      // about the bytes that an item of a list takes
	maxText       = 1 << 20 // bytes of the text of a list or a mapping, which may hold the same value many times over
	maxNesting    = 200     // values in values: a list can be appended to itself
	maxCharacters = 1 << 20 // of a string as a list: each takes 40 bytes
	maxMatches    = 1 << 20 // of a regular expression: each takes a hundred bytes and more
)

var (
	errTooDeep  = errors.New("templates, macros or blocks call each other too deeply")
	errSteps    = errors.New("the template does not end: it took too many steps")
	errSize     = errors.New("the value is too large to print or compare") // it would take too long
	errNesting  = errors.New("the value contains itself, or is nested too deeply")
	errMatches  = fmt.Errorf("the regular expression matches more than %d times", maxMatches)
	errTooLarge = fmt.Errorf("the number is too large: it would have more than %d digits", maxDigits)
)

// step counts n operations, and ends the execution with its context.
func (r *run) step(n int) {
	before := r.steps
	r.steps += int64(n)
	require(r.steps <= r.e.o.Steps, errSteps)
	if before>>8 != r.steps>>8 {
		check(r.Err())
	}
}

// grow counts n bytes of a string, or of a list's items, before they are built.
func (r *run) grow(n int64) {
	if n < 0 || n > r.e.o.Bytes {
		failf("the result of this step would be larger than %d bytes", r.e.o.Bytes)
	}
	if n > 64 {
		r.built += n
	}
	failIf(r.built > room*r.e.o.Bytes, "the template builds too much intermediate text")
}

func (r *run) growItems(n, times int64) {
	if times > 0 && n > r.e.o.Bytes/itemSize/times {
		r.grow(-1)
	}
	r.step(size(n * times / 8))
	r.grow(n * times * itemSize)
}

// sized counts a string, or a safe one, that exists already.
func (r *run) sized(s any) any {
	r.grow(int64(len(str(s))))
	return s
}

// emit counts text that is written, to the output or, in a macro or a block, to a string.
func (r *run) emit(n int) {
	if r.written += int64(n); r.written > 2*r.e.o.Bytes {
		failf("the output is larger than %d bytes", r.e.o.Bytes)
	}
}

// missing is a value that is not there. It may be passed around, tested with "is defined" and given a default; any
// other use reports it. The template goes on then, without output, to find what else is missing.
type missing struct {
	r    *run
	name string
	at   position
	why  string
}

func (m *missing) report() {
	if m.r.e.o.MissingZero {
		return
	}
	in := engine.Input{Position: m.at, Name: m.name, Why: m.why}
	if !m.r.reported[in] {
		m.r.reported[in] = true
		m.r.miss = append(m.r.miss, in)
	}
}

func (m *missing) attr(string) (any, bool) { m.report(); return m, true }
func (m *missing) call(*call) any          { m.report(); return m }

func isMissing(v any) bool { return v == nil || is[*missing](v) }

// missed returns a missing value with the name of an input.
func (r *run) missed(name string) any { return &missing{r: r, name: name, at: r.at} }

// sink is where the template's text goes: nowhere once something is missing.
type sink struct {
	r *run
	w io.Writer
	n int64
}

func (o *sink) WriteString(s string) (int, error) {
	if len(o.r.miss) > 0 {
		return len(s), nil
	}
	if o.n += int64(len(s)); o.n > o.r.e.o.Bytes {
		return 0, fmt.Errorf("the output is larger than %d bytes", o.r.e.o.Bytes)
	}
	return io.WriteString(o.w, s)
}
