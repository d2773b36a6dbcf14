package gotemplate

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"

	"github.com/mitchellh/copystructure"
)

// Functions of sprig that differ here: the same template and data must give the same bytes,
// and every template must end.

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// keys is sprig's, but sorted within each map.
func keys(dicts ...map[string]any) []string {
	all := []string{}
	for _, d := range dicts {
		all = append(all, sortedKeys(d)...)
	}
	return all
}

// values is sprig's, but sorted by the keys.
func values(dict map[string]any) []any {
	all := []any{}
	for _, key := range sortedKeys(dict) {
		all = append(all, dict[key])
	}
	return all
}

// dig is sprig's, but treats a null on the way as missing.
func dig(args ...any) (any, error) {
	if len(args) < 3 {
		return nil, errors.New("dig: want at least three arguments")
	}
	path, otherwise, value := args[:len(args)-2], args[len(args)-2], args[len(args)-1]
	for _, step := range path {
		key, ok := step.(string)
		if !ok {
			return nil, fmt.Errorf("dig: %s, where a key is needed", kindOf(step))
		}
		if value == nil {
			return otherwise, nil
		}
		m, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("dig: %s, where a map is needed", kindOf(value))
		}
		if value, ok = m[key]; !ok {
			return otherwise, nil
		}
	}
	return value, nil
}

// uniq is sprig's, but does not take quadratic time for strings and numbers.
func uniq(list any) ([]any, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return nil, fmt.Errorf("uniq: %s, where a list is needed", kindOf(list))
	}
	const plenty = 4000 // of maps and lists, which are compared with each other
	result, seen, others := []any{}, map[any]bool{}, []any{}
	for i := range v.Len() {
		item := v.Index(i).Interface()
		if basic(item) {
			if !seen[item] {
				seen[item] = true
				result = append(result, item)
			}
			continue
		}
		if !slices.ContainsFunc(others, func(o any) bool { return reflect.DeepEqual(o, item) }) {
			if others = append(others, item); len(others) > plenty {
				return nil, fmt.Errorf("uniq: more than %d maps and lists", plenty)
			}
			result = append(result, item)
		}
	}
	return result, nil
}

// basic returns whether == is deep equality.
func basic(v any) bool {
	switch v.(type) {
	case nil, string, bool, int, int64, uint64, float64, *big.Int:
		return true
	}
	return false
}

// copyValue copies data that a template may change.
func copyValue(v any) any {
	switch v := v.(type) {
	case nil, string, bool, int, int64, uint64, float64, *big.Int:
		return v
	case map[string]any:
		return copyMap(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = copyValue(element)
		}
		return list
	}
	copied, err := copystructure.Copy(v)
	if err != nil {
		return v
	}
	return copied
}

func copyMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	c := make(map[string]any, len(m))
	for key, value := range m {
		c[key] = copyValue(value)
	}
	return c
}
