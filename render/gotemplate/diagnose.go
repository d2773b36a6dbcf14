package gotemplate

import (
	"cmp"
	"reflect"
	"slices"
	"text/template"
)

// tolerant returns the functions for a worker that diagnoses. If an argument is missing, the function is not called and
// its result is missing too, without another report. A function that fails does not end the execution.
func (w *worker) tolerant(funcs template.FuncMap) template.FuncMap {
	for name, f := range builtinFuncs() {
		if funcs[name] == nil {
			funcs[name] = f
		}
	}
	wrapped := make(template.FuncMap, len(funcs))
	for name, f := range funcs {
		f := reflect.ValueOf(f)
		wrapped[name] = func(args ...reflect.Value) (any, error) { return w.tolerate(name, f, args) }
	}
	return wrapped
}

func (w *worker) tolerate(name string, f reflect.Value, values []reflect.Value) (any, error) {
	args := make([]any, len(values))
	var quiet, loud gap
	for i, v := range values {
		if v.IsValid() {
			args[i] = v.Interface()
		}
		g, ok := args[i].(gap)
		if !ok {
			continue
		}
		if args[i] = nil; asksAbout(name, i, len(args)) {
			quiet = g
			continue
		}
		w.use(g)
		loud = g
	}
	if loud != nil {
		return nothing(), nil
	}
	result, err := callFunction(f, args)
	if err != nil {
		return w.instead(err)
	}
	if result == nil && quiet != nil {
		return quiet, nil
	}
	return result, nil
}

// asksAbout returns whether an argument of a function may be missing. Where it may not, every
// gap has been reported, except for eq and ne, which may compare with a nil in the text.
func asksAbout(name string, i, n int) bool {
	return name == "eq" || name == "ne" || isOptional(name, nil, i, n)
}

// builtinFuncs are some of text/template's functions, which it does not export.
// They decide where a diagnosis continues, not what is printed.
func builtinFuncs() template.FuncMap {
	return template.FuncMap{
		"not": func(v any) bool { truth, _ := template.IsTrue(v); return !truth },
		"len": func(v any) int { return reflect.Indirect(reflect.ValueOf(v)).Len() },
		"eq": func(a any, b ...any) bool {
			return slices.ContainsFunc(b, func(b any) bool { return compare(a, b) == 0 })
		},
		"ne":    func(a, b any) bool { return compare(a, b) != 0 },
		"lt":    func(a, b any) bool { return compare(a, b) < 0 },
		"le":    func(a, b any) bool { return compare(a, b) <= 0 },
		"gt":    func(a, b any) bool { return compare(a, b) > 0 },
		"ge":    func(a, b any) bool { return compare(a, b) >= 0 },
		"index": func(v any, keys ...any) any { return nothing() },
		"call":  func(f any, args ...any) (any, error) { return callFunction(reflect.ValueOf(f), args) },
		"slice": func(v any, indexes ...any) any { return v },
	}
}

// compare compares numbers as numbers, and other values as text.
func compare(a, b any) int {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x.CanInt() && y.CanInt():
		return cmp.Compare(x.Int(), y.Int())
	case x.CanFloat() && y.CanFloat():
		return cmp.Compare(x.Float(), y.Float())
	case x.Kind() == reflect.String && y.Kind() == reflect.String:
		return cmp.Compare(x.String(), y.String())
	case x.Kind() == reflect.Bool && y.Kind() == reflect.Bool && x.Bool() == y.Bool(), a == nil && b == nil:
		return 0
	}
	return 1
}
