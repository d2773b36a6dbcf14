package gotemplate

import (
	"fmt"
	"math/big"
	"reflect"

	"initbox/render/engine"
)

// callFunction calls a function of templates: it has one result, or two of which
// the second is an error. A panic is an error, too.
func callFunction(f reflect.Value, args []any) (result any, err error) {
	t := f.Type()
	if n := t.NumIn(); len(args) < n-1 || len(args) != n && !t.IsVariadic() {
		return nil, fmt.Errorf("want %d arguments, got %d", n, len(args))
	}
	in := make([]reflect.Value, len(args))
	for i, arg := range args {
		want := t.In(min(i, t.NumIn()-1))
		if t.IsVariadic() && i >= t.NumIn()-1 {
			want = want.Elem()
		}
		if in[i], err = argument(arg, want); err != nil {
			return nil, err
		}
	}
	out, err := safely(f, in)
	if err != nil {
		return nil, err
	}
	if v, ok := out.Interface().(reflect.Value); ok {
		out = v
	}
	if !out.IsValid() {
		return nil, nil
	}
	return out.Interface(), nil
}

var reflectValue = reflect.TypeFor[reflect.Value]()

// argument converts as text/template does: numbers in a text have no type yet.
func argument(arg any, want reflect.Type) (reflect.Value, error) {
	v := reflect.ValueOf(arg)
	switch {
	case want == reflectValue:
		return reflect.ValueOf(v), nil
	case !v.IsValid():
		switch want.Kind() {
		case reflect.Interface, reflect.Map, reflect.Slice, reflect.Pointer, reflect.Func, reflect.Chan:
			return reflect.Zero(want), nil
		}
	case v.Type().AssignableTo(want):
		return v, nil
	case v.CanInt() && (want.Kind() >= reflect.Int && want.Kind() <= reflect.Float64):
		return v.Convert(want), nil
	}
	return reflect.Value{}, fmt.Errorf("%s, where %s is needed", kindOf(arg), typeName(want))
}

// kindOf names the kind of a value.
func kindOf(v any) string {
	if v == nil {
		return "null"
	}
	return typeName(reflect.TypeOf(v))
}

// typeName names a type as authors of templates know it.
func typeName(t reflect.Type) string {
	if t == reflect.TypeFor[*big.Int]() {
		return "an integer"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "a bool"
	case reflect.Map:
		return "a map"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	if t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr {
		return "an integer"
	}
	return "a " + t.String()
}

func wrongCount(function string, want, got int) error {
	return &engine.Error{Text: fmt.Sprintf("%s: want %d arguments, got %d", function, want, got)}
}

func wrongType(function, want string, got any) error {
	return &engine.Error{Text: fmt.Sprintf("%s: %s, where %s is needed", function, kindOf(got), want)}
}
