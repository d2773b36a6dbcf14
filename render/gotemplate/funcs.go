package gotemplate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"text/template"

	"initbox/render/sprig"
)

// libraryFuncs returns the functions that need no worker: Helm's, and sprig's except those
// that read from the machine. Their results are not bounded yet.
func libraryFuncs() map[string]any {
	funcs := sprig.Functions()
	maps.Copy(funcs, map[string]any{
		"toYaml":        toYAML,
		"mustToYaml":    mustToYAML,
		"toYamlPretty":  toYAMLPretty,
		"fromYaml":      fromYAML,
		"fromYamlArray": fromYAMLArray,
		"toToml":        toTOML,
		"mustToToml":    mustToTOML,
		"fromToml":      fromTOML,
		"toJson":        toJSON,
		"fromJson":      fromJSON,
		"fromJsonArray": fromJSONArray,
		"fail":          fail,
		"keys":          keys,
		"values":        values,
		"dig":           dig,
		"uniq":          uniq,
		"mustUniq":      uniq,
	})
	maps.Copy(funcs, moreFuncs())
	return funcs
}

// provide makes the functions that a template uses: to make all 250 takes longer than to render a small file. A text of
// tpl may use any.
func (w *worker) provide(u *unit) {
	missing := func(name string) bool { return !w.provided[name] && (u.callsTpl || slices.Contains(u.functions, name)) }
	if w.hasAll || !u.callsTpl && !slices.ContainsFunc(u.functions, missing) {
		return
	}
	funcs := w.funcs(missing)
	w.base.Funcs(funcs)
	for name := range funcs {
		w.provided[name] = true
	}
	for _, name := range u.functions {
		w.provided[name] = true // the builtins, too
	}
	w.hasAll = u.callsTpl
}

// funcs returns those wanted of the functions that templates call by their own names.
func (w *worker) funcs(wanted func(name string) bool) template.FuncMap {
	library := w.e.library()
	funcs := template.FuncMap{}
	for name, f := range library {
		if wanted(name) {
			funcs[name] = w.bound(name, f)
		}
	}
	maps.Copy(funcs, w.boundedFuncs(library, wanted))
	if w.e.options.Compat == dockerize {
		for name, f := range dockerizeFuncs(w.e.data) {
			funcs[name] = w.bound(name, f)
		}
	}
	maps.Copy(funcs, template.FuncMap{
		"lookup":        lookup,
		"resolve":       w.lookupHost,
		"resolveSRV":    w.lookupService,
		"getHostByName": func(host string) (string, error) { return first(w.lookupHost(host)) },
		"env":           func(name string) string { value, _ := w.e.data.Env[name].(string); return value },
		"expandenv":     func(text string) (string, error) { return w.expand(text, new([]string)) },
	})
	maps.DeleteFunc(funcs, func(name string, _ any) bool { return !wanted(name) })
	return funcs
}

func first(list []string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return list[0], nil
}

// internals returns the functions that rewrite puts into trees.
func (w *worker) internals() template.FuncMap {
	include, tpl := w.taking(2, "include", "the name of a template", w.include), w.taking(2, "tpl", "a text", w.tpl)
	return template.FuncMap{
		"_chain":     w.chain,
		"_method":    w.method,
		"_index":     w.index,
		"_env":       w.taking(1, "env", "the name of a variable", w.env),
		"_expandenv": w.taking(1, "expandenv", "a text", w.expandenv),
		"_include":   include,
		"_tpl":       tpl,
		"_required":  w.required,
		"_choose":    w.choose,
		"_print":     w.print,
		"_dot":       w.called,
		"_enter":     w.enter,
		"_leave":     w.leave,
		"_tick":      w.tick,

		// Their names must be there for those trees that were not rewritten.
		"include": include, "tpl": tpl, "required": w.required,
	}
}

// printable returns whether every result of a function can be printed directly.
func printable(f any) bool {
	if f == nil {
		return false
	}
	switch kind := reflect.TypeOf(f).Out(0).Kind(); {
	case kind >= reflect.Bool && kind <= reflect.Complex128, kind == reflect.String:
		return true
	}
	return false
}

// bound returns a function whose result is counted, by its type. The results of functions
// that are not in boundedFuncs are not much longer than their arguments.
func (w *worker) bound(name string, f any) any {
	if cost := slowness(name); cost > 0 {
		return w.limited(f, cost, w.measureArguments)
	}
	if limit, is := calculates(name); is {
		return w.limited(f, 0, calculable(limit))
	}
	switch f := f.(type) {
	case func(string) string:
		return func(a string) (string, error) { return w.text1(f(a)) }
	case func(string, string) string:
		return func(a, b string) (string, error) { return w.text1(f(a, b)) }
	case func(int, string) string:
		return func(a int, b string) (string, error) { return w.text1(f(a, b)) }
	case func(any) string:
		return func(a any) (string, error) {
			if name != "typeOf" && name != "kindOf" {
				if _, err := w.measure(a); err != nil {
					return "", err
				}
			}
			return w.text1(f(a))
		}
	case func(any) (string, error):
		return func(a any) (string, error) {
			if _, err := w.measure(a); err != nil {
				return "", err
			}
			return w.text2(f(a))
		}
	case func(...any) string:
		return func(a ...any) (string, error) {
			if _, err := w.measure(a...); err != nil {
				return "", err
			}
			return w.text1(f(a...))
		}
	case func(string) (string, error):
		return func(a string) (string, error) { return w.text2(f(a)) }
	case func(any) []any:
		return func(a any) ([]any, error) { return w.list1(f(a)) }
	case func(any) ([]any, error):
		return func(a any) ([]any, error) { return w.list2(f(a)) }
	case func(any, any) []any:
		return func(a, b any) ([]any, error) { return w.list1(f(a, b)) }
	case func(any, any) ([]any, error):
		return func(a, b any) ([]any, error) { return w.list2(f(a, b)) }
	case func(any, ...any) []any:
		return func(a any, b ...any) ([]any, error) { return w.list1(f(a, b...)) }
	case func(any, ...any) ([]any, error):
		return func(a any, b ...any) ([]any, error) { return w.list2(f(a, b...)) }
	}
	if isShallow(name) || !takesAny(reflect.TypeOf(f)) {
		return f
	}
	return w.limited(f, 0, w.measureArguments)
}

// isShallow returns whether a function reads no elements of its maps and lists, or only those
// of the first level. Others may print their arguments, if only in an error that is dropped.
func isShallow(name string) bool {
	switch name {
	case "default", "empty", "coalesce", "all", "any", "ternary", "list", "tuple", "get", "set", "dig", "hasKey",
		"kindOf", "kindIs", "typeOf", "typeIs", "typeIsLike", "contains",
		"first", "mustFirst", "last", "mustLast", "slice", "mustSlice", "concat":
		return true
	}
	return false
}

func takesAny(t reflect.Type) bool {
	for i := range t.NumIn() {
		if in := t.In(i); in.Kind() == reflect.Interface || in.Kind() == reflect.Slice && in.Elem().Kind() == reflect.Interface {
			return true
		}
	}
	return false
}

func (w *worker) text1(s string) (string, error) { return s, w.grow(len(s)) }

func (w *worker) text2(s string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return s, w.grow(len(s))
}

func (w *worker) list1(l []any) ([]any, error) { return l, w.madeList(len(l)) }

func (w *worker) list2(l []any, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	return l, w.madeList(len(l))
}

// slowness returns how many steps a call of a slow function counts, or 0 for other functions.
// Keys take a second or more, password hashes about 50 ms, and regular expressions vary.
func slowness(name string) int64 {
	switch name {
	case "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey":
		return 100_000
	case "bcrypt", "htpasswd", "derivePassword":
		return 10_000
	case "regexMatch", "mustRegexMatch", "regexFind", "mustRegexFind", "semverCompare":
		return 10
	}
	return 0
}

// limited returns a function of f's type, with an error, that is not called if check refuses its arguments, and whose
// result is counted if it is text or a list. If the cost in steps is not 0, the function fails when the context ends; a
// call that has begun continues in the background.
func (w *worker) limited(f any, cost int64, check func(args []reflect.Value) error) any {
	v := reflect.ValueOf(f)
	t := v.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	out := []reflect.Type{t.Out(0), reflect.TypeFor[error]()}
	return reflect.MakeFunc(reflect.FuncOf(in, out, t.IsVariadic()), func(args []reflect.Value) []reflect.Value {
		if t.IsVariadic() {
			args = spread(args)
		}
		call := func() (reflect.Value, error) { return safely(v, args) }
		value, err := reflect.Value{}, check(args)
		switch {
		case err == nil && cost > 0:
			value, err = w.await(cost, call)
		case err == nil:
			value, err = call()
		}
		switch {
		case err != nil:
		case out[0].Kind() == reflect.String:
			err = w.grow(value.Len())
		case out[0] == reflect.TypeFor[[]any]():
			err = w.madeList(value.Len())
		}
		if err != nil {
			return []reflect.Value{reflect.Zero(out[0]), reflect.ValueOf(&err).Elem()}
		}
		return []reflect.Value{value, reflect.Zero(out[1])}
	}).Interface()
}

func (w *worker) measureArguments(args []reflect.Value) error {
	for _, arg := range args {
		if _, err := w.measure(arg.Interface()); err != nil {
			return err
		}
	}
	return nil
}

func interfaces(values []reflect.Value) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v.Interface()
	}
	return all
}

// spread replaces the last of args, a slice, by its elements.
func spread(args []reflect.Value) []reflect.Value {
	last := args[len(args)-1]
	args = args[:len(args)-1]
	for i := range last.Len() {
		args = append(args, last.Index(i))
	}
	return args
}

// safely calls a function, and returns its panic as an error.
func safely(f reflect.Value, args []reflect.Value) (result reflect.Value, err error) {
	return guarded(func() (reflect.Value, error) {
		results := f.Call(args)
		if len(results) == 2 && !results[1].IsNil() {
			return reflect.Value{}, results[1].Interface().(error)
		}
		return results[0], nil
	})
}

func guarded(f func() (reflect.Value, error)) (result reflect.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}
