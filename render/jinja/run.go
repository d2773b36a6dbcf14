package jinja

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"initbox/render/engine"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// run is one execution of a template. It is the context that the library hands
// to every operation, which is how those find it.
type run struct {
	context.Context
	e    *jinja
	at   engine.Position // of the operation at work
	past engine.Position // of the last one, for errors of the library
	err  error           // the first, with its place: the library's wrapping loses both
	miss []engine.Input
	told map[engine.Input]bool

	regexes map[string]*regexp.Regexp
	last    map[*op]compared // of loop.changed

	steps, built, written int64
}

// room is how much all strings that an execution builds may take together, as a
// multiple of what one may: a bound for memory that leaves room for text that is
// put together piece by piece.
const room = 16

var errSteps = errors.New("the template does not end: it took too many steps")

// step counts n operations, and notices the end of the context.
func (r *run) step(n int) error {
	before := r.steps
	r.steps += int64(n)
	if r.steps > r.e.o.Steps {
		return errSteps
	}
	if before>>8 != r.steps>>8 {
		return r.Err()
	}
	return nil
}

// grow counts a string, or a list's items, of n bytes before it is built.
func (r *run) grow(n int64) error {
	if n < 0 || n > r.e.o.Bytes {
		return fmt.Errorf("the result of this step would be larger than %d bytes", r.e.o.Bytes)
	}
	if n > 64 {
		r.built += n
	}
	if r.built > room*r.e.o.Bytes {
		return errors.New("the template builds too much text on the way")
	}
	return nil
}

// itemSize is about what an item of a list takes, in bytes.
const itemSize = 16

func (r *run) growItems(n, times int64) error {
	if times > 0 && n > r.e.o.Bytes/itemSize/times {
		return r.grow(-1)
	}
	if err := r.step(int(n * times / 8)); err != nil {
		return err
	}
	return r.grow(n * times * itemSize)
}

// sized is the check of a string that is there already.
func (r *run) sized(s string, err error) (value.Value, error) {
	if err == nil {
		err = r.grow(int64(len(s)))
	}
	return newString(s), err
}

// emit counts text that is written, be it to the output or, in a macro or a
// block, to a string.
func (r *run) emit(n int) error {
	r.written += int64(n)
	if r.written > 2*r.e.o.Bytes {
		return fmt.Errorf("the output is larger than %d bytes", r.e.o.Bytes)
	}
	return nil
}

// missing is what is not there. It may be passed around, tested with "is
// defined" and given a default; any other use tells that it is missing. The
// template goes on then, without output, to find what else is.
type missing struct {
	r    *run
	name string
	at   engine.Position
}

func (m *missing) tell() {
	if m.r.e.o.MissingZero {
		return
	}
	in := engine.Input{Position: m.at, Name: m.name}
	if !m.r.told[in] {
		m.r.told[in] = true
		m.r.miss = append(m.r.miss, in)
	}
}

func (m *missing) GetAttr(string) value.Value   { m.tell(); return value.FromObject(m) }
func (m *missing) ObjectRepr() value.ObjectRepr { return value.ObjectReprPlain }
func (m *missing) ObjectIsTrue() bool           { m.tell(); return false }
func (m *missing) Iter() []value.Value          { m.tell(); return []value.Value{} }
func (m *missing) String() string               { m.tell(); return "" }
func (m *missing) Call(value.State, []value.Value, map[string]value.Value) (value.Value, error) {
	m.tell()
	return value.FromObject(m), nil
}

func isMissing(v value.Value) bool {
	_, ok := v.Raw().(*missing)
	return ok || v.IsUndefined()
}

// missed makes a missing value of an input's name.
func (r *run) missed(name string) value.Value {
	return value.FromObject(&missing{r: r, name: name, at: r.at})
}

// output is where the template's text goes: nowhere once something is missing.
type output struct {
	r   *run
	w   io.Writer
	n   int64
	err error
}

func (o *output) Write(p []byte) (int, error) {
	if len(o.r.miss) > 0 {
		return len(p), nil
	}
	if o.n += int64(len(p)); o.n > o.r.e.o.Bytes {
		o.err = fmt.Errorf("the output is larger than %d bytes", o.r.e.o.Bytes)
		return 0, o.err
	}
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}

func (o *output) WriteString(s string) (int, error) {
	if len(o.r.miss) > 0 {
		return len(s), nil
	}
	if w, ok := o.w.(io.StringWriter); ok && o.n+int64(len(s)) <= o.r.e.o.Bytes {
		o.n += int64(len(s))
		n, err := w.WriteString(s)
		o.err = err
		return n, err
	}
	return o.Write([]byte(s))
}
