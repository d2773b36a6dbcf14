package merge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/lazy"
	"initbox/internal/words"
	"initbox/render/format"
)

// merged returns old, overridden by later, both at path. A null overrides like any other value, and may be overridden
// by any: with a null that deletes, a run on its own result could bring back what the run before has deleted.
func (r *run) merged(path string, old, later any) (any, error) {
	a, isMap := old.(*format.Map)
	b, laterIs := later.(*format.Map)
	switch {
	case old == nil || later == nil:
		return later, nil
	case isMap != laterIs:
		return nil, failure.WithHint(fmt.Errorf("%s is %s here, and %s in an earlier file", cmp.Or(path, "the file"), kind(later), kind(old)),
			"give both the same type, or set it to null in a file between the two")
	case isMap:
		for _, k := range b.Keys {
			v, err := r.merged(format.Path(path, k), a.Values[k], b.Values[k])
			if err != nil {
				return nil, err
			}
			a.Set(k, v)
		}
		return a, nil
	}
	list, isList := old.([]any)
	items, laterIs := later.([]any)
	name, byKey := strings.CutPrefix(r.Lists, "by-key=")
	if r.Lists == "append" && r.format.Name == "ini" && isList != laterIs { // a key that one file has once
		if !isList {
			list, isList = []any{old}, true
		} else {
			items, laterIs = []any{later}, true
		}
	}
	switch {
	case !isList || !laterIs:
		return later, nil
	case r.Lists == "append":
		return append(list, items...), nil
	case byKey && keyed(list, name) && keyed(items, name):
		return r.mergedItems(path, name, list, items)
	}
	return items, nil
}

// keyed returns whether all items are maps with a scalar under that key.
func keyed(items []any, name string) bool {
	return !slices.ContainsFunc(items, func(item any) bool {
		m, isMap := item.(*format.Map)
		return !isMap || kind(m.Values[name]) != "a value"
	})
}

// mergedItems merges the items of two lists that have the same value of a key.
func (r *run) mergedItems(path, name string, list, items []any) (any, error) {
	at := map[any]int{}
	for i, item := range list {
		at[fmt.Sprint(item.(*format.Map).Values[name])] = i
	}
	for _, item := range items {
		key := fmt.Sprint(item.(*format.Map).Values[name])
		i, there := at[key]
		if !there {
			at[key] = len(list)
			list = append(list, item)
			continue
		}
		v, err := r.merged(fmt.Sprintf("%s[%d]", path, i), list[i], item)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

// kind returns what v is, in words.
func kind(v any) string {
	switch v.(type) {
	case *format.Map:
		return "a map"
	case []any:
		return "a list"
	case nil:
		return "null"
	}
	return "a value"
}

var reference = lazy.Regexp(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// expand replaces ${NAME} and ${NAME:-text} in the strings of a document, which stay strings.
func (r *run) expand(doc any) (any, error) {
	var missing []string
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case *format.Map:
			for k, e := range v.Values {
				v.Values[k] = walk(e)
			}
		case []any:
			for i, e := range v {
				v[i] = walk(e)
			}
		case string:
			return reference().ReplaceAllStringFunc(v, func(ref string) string {
				m := reference().FindStringSubmatch(ref)
				value, set := r.Expand(m[1])
				switch {
				case m[2] != "" && value == "":
					return m[3]
				case !set:
					missing = append(missing, "$"+m[1])
				}
				return value
			})
		}
		return v
	}
	doc = walk(doc)
	if slices.Sort(missing); missing != nil {
		return nil, failure.WithHint(fmt.Errorf("not set: %s", words.List(slices.Compact(missing))), "set them in the container's env, or write ${NAME:-text}")
	}
	return doc, nil
}
