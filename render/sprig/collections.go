package sprig

import (
	"fmt"
	"reflect"
	"slices"

	"dario.cat/mergo"
)

func dictFunctions() map[string]any {
	return map[string]any{
		"dict":               dict,
		"get":                func(d map[string]any, key string) any { return valueOr(d, key, "") },
		"set":                func(d map[string]any, key string, value any) map[string]any { d[key] = value; return d },
		"unset":              func(d map[string]any, key string) map[string]any { delete(d, key); return d },
		"hasKey":             func(d map[string]any, key string) bool { _, has := d[key]; return has },
		"pluck":              pluck,
		"pick":               pick,
		"omit":               omit,
		"merge":              quietly(merge),
		"mustMerge":          merge,
		"mergeOverwrite":     quietly(mergeOverwrite),
		"mustMergeOverwrite": mergeOverwrite,
	}
}

func valueOr(d map[string]any, key string, otherwise any) any {
	if value, has := d[key]; has {
		return value
	}
	return otherwise
}

// dict returns a map of keys and values in turn. A last key without a value has "".
func dict(args ...any) map[string]any {
	d := make(map[string]any, len(args)/2)
	for pair := range slices.Chunk(args, 2) {
		if key := text(pair[0]); len(pair) == 2 {
			d[key] = pair[1]
		} else {
			d[key] = ""
		}
	}
	return d
}

func pluck(key string, dicts ...map[string]any) []any {
	list := []any{}
	for _, d := range dicts {
		if value, has := d[key]; has {
			list = append(list, value)
		}
	}
	return list
}

func pick(d map[string]any, keys ...string) map[string]any {
	picked := map[string]any{}
	for _, key := range keys {
		if value, has := d[key]; has {
			picked[key] = value
		}
	}
	return picked
}

func omit(d map[string]any, keys ...string) map[string]any {
	omitted := make(map[string]bool, len(keys))
	for _, key := range keys {
		omitted[key] = true
	}
	kept := map[string]any{}
	for key, value := range d {
		if !omitted[key] {
			kept[key] = value
		}
	}
	return kept
}

// merge adds to d, at any depth, what the others have and d has not.
func merge(d map[string]any, others ...map[string]any) (any, error) { return merged(d, others) }

func mergeOverwrite(d map[string]any, others ...map[string]any) (any, error) {
	return merged(d, others, mergo.WithOverride)
}

func merged(d map[string]any, others []map[string]any, how ...func(*mergo.Config)) (any, error) {
	for _, other := range others {
		if err := mergo.Merge(&d, other, how...); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// quietly returns a function whose result is "" instead of an error.
func quietly(f func(map[string]any, ...map[string]any) (any, error)) func(map[string]any, ...map[string]any) any {
	return func(d map[string]any, others ...map[string]any) any {
		result, err := f(d, others...)
		if err != nil {
			return ""
		}
		return result
	}
}

func listFunctions() map[string]any {
	list := func(args ...any) []any { return args }
	return map[string]any{
		"list":        list,
		"tuple":       list,
		"first":       first,
		"mustFirst":   first,
		"last":        last,
		"mustLast":    last,
		"rest":        rest,
		"mustRest":    rest,
		"initial":     initial,
		"mustInitial": initial,
		"append":      push,
		"mustAppend":  push,
		"push":        push,
		"mustPush":    push,
		"prepend":     prepend,
		"mustPrepend": prepend,
		"reverse":     reverse,
		"mustReverse": reverse,
		"compact":     compact,
		"mustCompact": compact,
		"mustWithout": without,
		"has":         has,
		"mustHas":     has,
		"slice":       slice,
		"mustSlice":   slice,
		"mustChunk":   chunk,
		"sortAlpha":   sortAlpha,
	}
}

func isList(v reflect.Value) bool { return v.Kind() == reflect.Slice || v.Kind() == reflect.Array }

// elements returns a copy of a list of any type. name is the function that needs it.
func elements(name string, list any) ([]any, error) {
	v := reflect.ValueOf(list)
	if !isList(v) {
		return nil, fmt.Errorf("%s: %s, where a list is needed", name, kindOf(list))
	}
	all := make([]any, v.Len(), v.Len()+1)
	for i := range all {
		all[i] = v.Index(i).Interface()
	}
	return all, nil
}

// end returns the element at the beginning or the end of a list, or nil if it has none.
func end(name string, list any, at func(n int) int) (any, error) {
	v := reflect.ValueOf(list)
	switch {
	case !isList(v):
		return nil, fmt.Errorf("%s: %s, where a list is needed", name, kindOf(list))
	case v.Len() == 0:
		return nil, nil
	}
	return v.Index(at(v.Len())).Interface(), nil
}

func first(list any) (any, error) { return end("first", list, func(int) int { return 0 }) }
func last(list any) (any, error)  { return end("last", list, func(n int) int { return n - 1 }) }

func rest(list any) ([]any, error) {
	all, err := elements("rest", list)
	if len(all) == 0 {
		return nil, err
	}
	return all[1:], nil
}

func initial(list any) ([]any, error) {
	all, err := elements("initial", list)
	if len(all) == 0 {
		return nil, err
	}
	return all[:len(all)-1], nil
}

func push(list, v any) ([]any, error) {
	all, err := elements("append", list)
	if err != nil {
		return nil, err
	}
	return append(all, v), nil
}

func prepend(list, v any) ([]any, error) {
	all, err := elements("prepend", list)
	if err != nil {
		return nil, err
	}
	return slices.Insert(all, 0, v), nil
}

func reverse(list any) ([]any, error) {
	all, err := elements("reverse", list)
	slices.Reverse(all)
	return all, err
}

func compact(list any) ([]any, error) {
	all, err := elements("compact", list)
	return slices.DeleteFunc(all, empty), err
}

func without(list any, omitted ...any) ([]any, error) {
	all, err := elements("without", list)
	return slices.DeleteFunc(all, func(v any) bool { return contains(omitted, v) }), err
}

func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(element any) bool { return reflect.DeepEqual(element, v) })
}

func has(v, list any) (bool, error) {
	if list == nil {
		return false, nil
	}
	all, err := elements("has", list)
	return contains(all, v), err
}

// slice returns a part of a list, which keeps its type.
func slice(list any, indices ...any) (any, error) {
	v := reflect.ValueOf(list)
	switch {
	case !isList(v):
		return nil, fmt.Errorf("slice: %s, where a list is needed", kindOf(list))
	case v.Len() == 0:
		return nil, nil
	}
	from, to := 0, v.Len()
	if len(indices) > 0 {
		from = toInt(indices[0])
	}
	if len(indices) > 1 {
		to = toInt(indices[1])
	}
	return v.Slice(from, to).Interface(), nil
}

// chunk returns lists of size elements, of which the last may have fewer.
func chunk(size int, list any) ([][]any, error) {
	all, err := elements("chunk", list)
	if err != nil {
		return nil, err
	}
	return slices.AppendSeq([][]any{}, slices.Chunk(all, size)), nil
}

// sortAlpha sorts a list of texts where it is, like sprig, and a copy of another one.
func sortAlpha(list any) []string {
	if !isList(reflect.Indirect(reflect.ValueOf(list))) {
		return []string{text(list)}
	}
	sorted := texts(list)
	slices.Sort(sorted)
	return sorted
}
