package gotemplate

import (
	"fmt"
	"reflect"

	"initbox/render/engine"
)

// maxNesting is how deep maps and lists may be within each other where a
// function walks all of them: fmt has no bound for a map that contains itself.
const maxNesting = 1000

// measure returns approximately how many bytes a value has as text, and an error if they
// exceed the limit: a list may contain the same list many times, and be small only in memory.
func (w *worker) measure(values ...any) (int64, error) {
	left := w.e.options.Bytes
	for _, v := range values {
		if err := w.weigh(v, 0, &left); err != nil {
			return 0, err
		}
	}
	size := w.e.options.Bytes - left
	return size, w.charge(size >> 10)
}

func (w *worker) weigh(v any, depth int, left *int64) error {
	if *left -= int64(2 * depth); *left < 0 {
		return w.allow(-1)
	}
	if depth > maxNesting {
		return &engine.Error{Text: fmt.Sprintf("maps and lists are nested deeper than %d", maxNesting), Fix: "does one contain itself?"}
	}
	switch v := v.(type) {
	case nil, bool, int, int64, uint64, float64:
		*left -= 4
	case string:
		*left -= int64(len(v))
	case map[string]any:
		for key, element := range v {
			*left -= int64(len(key) + 4)
			if err := w.weigh(element, depth+1, left); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range v {
			*left -= 2
			if err := w.weigh(element, depth+1, left); err != nil {
				return err
			}
		}
	default:
		return w.weighOther(reflect.ValueOf(v), depth, left)
	}
	if *left < 0 {
		return w.allow(-1)
	}
	return nil
}

func (w *worker) weighOther(v reflect.Value, depth int, left *int64) error {
	var parts []reflect.Value
	switch v.Kind() {
	case reflect.String:
		*left -= int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			parts = append(parts, v.Elem())
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			parts = append(parts, it.Key(), it.Value())
		}
	case reflect.Slice, reflect.Array:
		if kind := v.Type().Elem().Kind(); kind != reflect.Interface && kind < reflect.Array {
			*left -= 4 * int64(v.Len()) // of numbers
			return w.allow(w.e.options.Bytes - *left)
		}
		for i := range v.Len() {
			parts = append(parts, v.Index(i))
		}
	case reflect.Struct:
		*left -= 64
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				parts = append(parts, v.Field(i))
			}
		}
	}
	for _, part := range parts {
		if !part.CanInterface() {
			continue
		}
		if err := w.weigh(part.Interface(), depth+1, left); err != nil {
			return err
		}
	}
	return nil
}

// elements checks the length of a list before it is made.
func (w *worker) elements(n int64) error {
	if n < 0 || n > w.e.options.Bytes/16 {
		return &engine.Error{Text: fmt.Sprintf("makes a list of more than %d elements", w.e.options.Bytes/16)}
	}
	return nil
}

// madeList counts a new list. The rate is low, because loops that append to a list make a new
// one each time, and the old ones are garbage.
func (w *worker) madeList(n int) error { return w.madeElements(int64(n)) }

func (w *worker) madeElements(n int64) error {
	if err := w.elements(n); err != nil {
		return err
	}
	if err := w.charge(n >> 4); err != nil {
		return err
	}
	return w.grow(2 * int(n))
}
