package gotemplate

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"initbox/render/engine"
)

// gap is what a worker that diagnoses uses instead of a missing value: an empty list, which is false, and over which
// range and with do nothing. The missing input is stored beyond its length; see newGap.
type gap []absence

type absence struct {
	input    engine.Input
	reported bool
}

func newGap(input engine.Input, reported bool) gap {
	return append(make(gap, 0, 1), absence{input, reported})[:0]
}

func (g gap) absence() *absence { return &g[:1][0] }

// nothing is a gap that is not reported, because its cause has been.
func nothing() gap { return newGap(engine.Input{}, true) }

// report adds a missing input, each position once.
func (w *worker) report(in engine.Input) {
	const plenty = 1000
	if len(w.missing) < plenty && !slices.Contains(w.missing, in) {
		w.missing = append(w.missing, in)
	}
}

// use reports a missing value when it is needed.
func (w *worker) use(v any) (isGap bool) {
	g, ok := v.(gap)
	if !ok {
		return false
	}
	if a := g.absence(); !a.reported {
		a.reported = true
		w.report(a.input)
	}
	return true
}

// miss returns the value of a missing input: nil where that is enough, an error for the
// first one, and a gap when looking for the others.
func (w *worker) miss(s *site, name, why string) (any, error) {
	if !w.diagnose && s.optional && !s.chosen { // often, and a position costs the length of the template
		return nil, nil
	}
	in := engine.Input{Position: s.position(), Name: name, Why: why}
	switch {
	case !w.diagnose && s.chosen:
		return newGap(in, false), nil
	case !w.diagnose:
		return nil, &missError{in}
	case s.optional:
		return newGap(in, false), nil
	}
	g := newGap(in, true)
	w.report(in)
	return g, nil
}

// instead returns the error, or a gap with which a diagnosis continues.
func (w *worker) instead(err error) (any, error) {
	if w.diagnose && !w.fatal(err) {
		return nothing(), nil
	}
	return nil, err
}

// fatal returns whether the error ends even a diagnosis, as an exceeded bound does.
func (w *worker) fatal(err error) bool {
	stop := (*stopError)(nil)
	return errors.As(err, &stop) || w.steps > w.e.options.Steps || len(w.dots) >= w.e.options.Depth
}

// name returns what the user calls the value of the site, with more keys.
func (w *worker) name(s *site, keys ...string) string {
	if name := s.ref.in(w.dot()).child(keys...).name(); name != "" {
		return name
	}
	return s.text()
}

// origin is the ref of what the site gives to a template as its dot. Only diagnoses need it.
func (w *worker) origin(s *site, dot any) ref {
	if !w.diagnose {
		return ref{}
	}
	w.use(dot)
	return s.ref.in(w.dot())
}

// called is the function _dot: the dot of {{template}}.
func (w *worker) called(id int64, dot any) any {
	w.next = w.origin(w.site(id), dot)
	return dot
}

// chain is the function _chain.
func (w *worker) chain(id int64, value any) (any, error) {
	s := w.site(id)
	if _, ok := value.(gap); ok {
		if !s.optional {
			w.use(value)
		}
		return value, nil
	}
	for i, key := range s.keys {
		var ok bool
		if m, isMap := value.(map[string]any); isMap { // most are
			value, ok = m[key]
		} else {
			var err error
			if value, ok, err = field(value, key); err != nil {
				return w.instead(&engine.Error{Position: s.position(), Text: fmt.Sprintf("%s: %v", w.name(s), err)})
			}
		}
		if !ok {
			return w.miss(s, w.name(s), foreign(s, i))
		}
	}
	if s.print {
		return w.checkPrint(s, value)
	}
	return value, nil
}

// foreign explains why a name that Helm provides does not exist in render.
func foreign(s *site, i int) string {
	if i == 0 && s.ref.known && len(s.ref.keys) == len(s.keys) {
		switch s.keys[0] {
		case "Release", "Chart", "Capabilities", "Subcharts":
			return "Helm has it, render does not: make it a value, and write .Values." + strings.Join(s.keys, ".")
		}
	}
	return ""
}

// field returns the same as text/template for value.key: the result of a method, a field, or an element of a map.
func field(value any, key string) (result any, ok bool, err error) {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return nil, false, nil
	}
	if method := v.MethodByName(key); method.IsValid() {
		result, err := callFunction(method, nil)
		return result, true, err
	}
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v = v.Elem(); !v.IsValid() {
			return nil, false, nil
		}
	}
	switch v.Kind() {
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			element := v.MapIndex(reflect.ValueOf(key).Convert(v.Type().Key()))
			if !element.IsValid() {
				return nil, false, nil
			}
			return element.Interface(), true, nil
		}
	case reflect.Struct:
		if f, ok := v.Type().FieldByName(key); ok && f.IsExported() {
			element, err := v.FieldByIndexErr(f.Index)
			if err != nil {
				return nil, false, nil
			}
			return element.Interface(), true, nil
		}
	}
	return nil, false, fmt.Errorf("there is no %s in %s", key, kindOf(value))
}

// index is the function _index: text/template's index, but strict.
func (w *worker) index(id int64, args ...any) (any, error) {
	s := w.site(id)
	if len(args) == 0 {
		return nil, wrongCount("index", 1, 0)
	}
	if g, ok := args[0].(gap); ok {
		if !s.optional {
			w.use(g)
		}
		return g, nil
	}
	value, keys := args[0], make([]string, 0, len(args)-1)
	for _, key := range args[1:] {
		if w.use(key) {
			return nothing(), nil
		}
		var ok bool
		var err error
		if keys = append(keys, keyName(key)); value == nil {
			return w.miss(s, w.name(s, keys...), "")
		}
		if value, ok, err = element(value, key); err != nil {
			return w.instead(&engine.Error{Position: s.position(), Text: fmt.Sprintf("index: %v", err)})
		}
		if !ok {
			return w.miss(s, w.name(s, keys...), "")
		}
	}
	return value, nil
}

// keyName returns a key in the form of refs.
func keyName(key any) string {
	switch key := key.(type) {
	case string:
		return key
	case int, int64, bool:
		return fmt.Sprintf("[%v]", key)
	}
	return "[?]"
}

// element returns the element of a map by key, or of a list or a string by index.
func element(value, key any) (any, bool, error) {
	v, k := reflect.Indirect(reflect.ValueOf(value)), reflect.ValueOf(key)
	switch v.Kind() {
	case reflect.Map:
		if !k.IsValid() || !k.Type().ConvertibleTo(v.Type().Key()) || (k.Kind() == reflect.String) != (v.Type().Key().Kind() == reflect.String) && v.Type().Key().Kind() != reflect.Interface {
			return nil, false, fmt.Errorf("a map cannot be indexed with %s", kindOf(key))
		}
		element := v.MapIndex(k.Convert(v.Type().Key()))
		if !element.IsValid() {
			return nil, false, nil
		}
		return element.Interface(), true, nil
	case reflect.Slice, reflect.Array, reflect.String:
		if !k.CanInt() {
			return nil, false, fmt.Errorf("a list cannot be indexed with %s", kindOf(key))
		}
		if i := k.Int(); i < 0 || i >= int64(v.Len()) {
			return nil, false, nil
		}
		return v.Index(int(k.Int())).Interface(), true, nil
	}
	return nil, false, fmt.Errorf("%s cannot be indexed", kindOf(value))
}

// method is the function _method: a chain with arguments.
func (w *worker) method(id int64, value any, args ...any) (any, error) {
	s := w.site(id)
	if w.use(value) {
		return value, nil
	}
	for _, a := range args {
		if w.use(a) {
			return nothing(), nil
		}
	}
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return w.miss(s, w.name(s), "")
	}
	m := v.MethodByName(s.function)
	if !m.IsValid() {
		return w.instead(&engine.Error{Position: s.position(), Text: fmt.Sprintf("%s has arguments, but is not a function", s.text())})
	}
	result, err := callFunction(m, args)
	if missing := (*fileMissing)(nil); errors.As(err, &missing) {
		return w.miss(s, fmt.Sprintf(".Files.%s %q", s.function, missing.name), "")
	}
	if err != nil {
		return w.instead(&engine.Error{Position: s.position(), Text: fmt.Sprintf("%s: %v", s.function, err), Err: err})
	}
	return result, nil
}

// taking returns a function of templates that takes n arguments, of which the first is a text.
func (w *worker) taking(n int, name, what string, f func(s *site, text string, rest []any) (any, error)) func(id int64, args ...any) (any, error) {
	return func(id int64, args ...any) (any, error) {
		if len(args) != n {
			return nil, wrongCount(name, n, len(args))
		}
		if w.use(args[0]) {
			return args[0], nil
		}
		text, ok := args[0].(string)
		if !ok {
			return w.instead(wrongType(name, what, args[0]))
		}
		return f(w.site(id), text, args[1:])
	}
}

// env is the function _env.
func (w *worker) env(s *site, name string, _ []any) (any, error) {
	if value, ok := w.e.data.Env[name]; ok {
		return value, nil
	}
	return w.miss(s, environment(name), "")
}

func environment(variable string) string {
	return ref{known: true, keys: []string{"Env", variable}}.name()
}

// expandenv is the function _expandenv.
func (w *worker) expandenv(s *site, text string, _ []any) (result any, err error) {
	missing := []string{}
	expanded, tooLong := w.expand(text, &missing)
	if tooLong != nil {
		return w.instead(tooLong)
	}
	for _, name := range missing {
		if result, err = w.miss(s, environment(name), ""); err != nil {
			return nil, err
		}
	}
	if len(missing) > 0 {
		return result, nil
	}
	return expanded, nil
}

// expand replaces $NAME and ${NAME} by the values of .Env.
func (w *worker) expand(text string, missing *[]string) (string, error) {
	size := int64(len(text))
	value := func(name string) string {
		v, ok := w.e.data.Env[name].(string)
		if !ok {
			*missing = append(*missing, name)
		}
		size += int64(len(v))
		return v
	}
	os.Expand(text, func(name string) string { value(name); return "" })
	if err := w.allow(size); err != nil {
		return "", err
	}
	*missing = (*missing)[:0]
	result := os.Expand(text, value)
	return result, w.grow(len(result))
}

// required is the function _required: Helm's, whose message is the error.
func (w *worker) required(id int64, args ...any) (any, error) {
	if len(args) != 2 {
		return nil, wrongCount("required", 2, len(args))
	}
	s, value := w.site(id), args[1]
	message, ok := args[0].(string)
	if !ok && !w.use(args[0]) {
		return w.instead(wrongType("required", "a message", args[0]))
	}
	_, missing := value.(gap)
	if !missing && value != nil && value != "" {
		return value, nil
	}
	if !w.e.strict {
		return nil, &engine.Error{Position: s.position(), Text: message}
	}
	in := engine.Input{Position: s.position(), Name: s.ref.in(w.dot()).name(), Why: message}
	if in.Name == "" {
		in.Name = s.text()
	}
	if missing && value.(gap).absence().reported {
		return value, nil
	}
	if !w.diagnose {
		return nil, &missError{in}
	}
	w.report(in)
	return nothing(), nil
}

// print is the function _print.
func (w *worker) print(id int64, value any) (any, error) { return w.checkPrint(w.site(id), value) }

// checkPrint returns the value if it can be printed.
func (w *worker) checkPrint(s *site, value any) (any, error) {
	switch value.(type) {
	case string, int, bool, float64, int64:
		return value, nil
	case gap:
		w.use(value)
		return "", nil
	case nil:
		if !w.e.strict {
			return nil, nil
		}
		return w.miss(&site{source: s.source, pos: s.pos}, w.name(s), "it is null")
	}
	_, err := w.measure(value)
	return value, err
}
