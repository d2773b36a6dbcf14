package values

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"initbox/render/format"
)

// node is a place in the tree of values: a map, a list or a leaf.
type node struct {
	keys  map[string]*node // a map, unless nil
	order []string         // of the keys; those of a directory are sorted
	list  bool
	items []*node // of a list
	leaf  any     // string, bool, int64, *big.Int, float64 or nil

	source  string // a file's name, or a flag such as --set
	secret  bool   // the leaf is
	removed bool   // by a null: there is no such key
	hole    bool   // in a list, that no source filled
	prev    *node  // what was at this place before the source set it
}

// build returns the tree of v, which format.ParseExact returned.
func build(v any, source string, secret bool) *node {
	n := &node{source: source}
	switch v := v.(type) {
	case *format.Map:
		n.keys = make(map[string]*node, len(v.Keys))
		for _, k := range v.Keys {
			n.put(k, build(v.Values[k], source, secret))
		}
	case []any:
		n.list = true
		for _, e := range v {
			n.items = append(n.items, build(e, source, secret))
		}
	default:
		n.leaf, n.secret = v, secret
	}
	return n
}

// put sets a key of a map. One that is there keeps its place.
func (n *node) put(key string, v *node) {
	if _, there := n.keys[key]; !there {
		n.order = append(n.order, key)
	}
	n.keys[key] = v
}

// inOrder returns the keys of a map.
func (n *node) inOrder() []string {
	if len(n.order) < len(n.keys) { // a directory
		n.order = slices.Sorted(maps.Keys(n.keys))
	}
	return n.order
}

func (n *node) isMap() bool  { return n != nil && n.keys != nil }
func (n *node) isList() bool { return n != nil && n.list }
func (n *node) isNull() bool { return n.keys == nil && !n.list && n.leaf == nil }

// kind returns what n is, in words.
func (n *node) kind() string {
	switch {
	case n.isMap():
		return "a map"
	case n.isList():
		return "a list"
	}
	switch n.leaf.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}

// merge returns old, overridden by a later source: two maps become one with the keys of both.
func merge(old, later *node) *node {
	if !old.isMap() || !later.isMap() {
		return replace(old, later)
	}
	for _, k := range later.inOrder() {
		old.put(k, merge(old.keys[k], later.keys[k]))
	}
	return old
}

// replace returns later with the history of old. A null removes the old value.
func replace(old, later *node) *node {
	if old == nil || old.hole {
		return later
	}
	later.removed = later.isNull() && (old.removed || !old.isNull())
	later.remember(old)
	return later
}

// remember records the previous values of n and of everything in it.
func (n *node) remember(old *node) {
	n.prev = old
	for i := range min(len(n.items), len(old.items)) {
		n.items[i].remember(old.items[i])
	}
	for k, e := range n.keys {
		if was := old.keys[k]; was != nil {
			e.remember(was)
		}
	}
}

// plain returns n as templates see it, with or without secrets.
func (n *node) plain(shaded bool) any {
	switch {
	case n.isMap():
		m := make(map[string]any, len(n.keys))
		for k, e := range n.keys {
			if !e.removed {
				m[k] = e.plain(shaded)
			}
		}
		return m
	case n.list:
		items := make([]any, len(n.items))
		for i, e := range n.items {
			items[i] = e.plain(shaded)
		}
		return items
	}
	leaf := n.exact(shaded)
	if i, ok := leaf.(*big.Int); ok && n.source == Set.String() { // to Helm, that is text
		return i.String()
	}
	return format.Number(leaf)
}

// exact returns n as Jinja sees it.
func (n *node) exact(shaded bool) any {
	switch {
	case n.isMap():
		m := &format.Map{Values: make(map[string]any, len(n.keys))}
		for _, k := range n.inOrder() {
			if e := n.keys[k]; !e.removed {
				m.Set(k, e.exact(shaded))
			}
		}
		return m
	case n.list:
		items := make([]any, len(n.items))
		for i, e := range n.items {
			items[i] = e.exact(shaded)
		}
		return items
	case shaded && n.secret:
		return shade(n.leaf)
	}
	return n.leaf
}

// walk calls visit for each leaf, and each list and map that is empty, in the order of their keys. Path is that of n.
func (n *node) walk(path string, visit func(path string, n *node)) {
	for i, e := range n.items {
		e.walk(path+"["+strconv.Itoa(i)+"]", visit)
	}
	for _, k := range slices.Sorted(maps.Keys(n.keys)) {
		n.keys[k].walk(join(path, k), visit)
	}
	if len(n.items) == 0 && len(n.keys) == 0 && (path != "" || !n.isMap()) {
		visit(path, n)
	}
}

// join is the path of a key in the map at path, as --set wants it.
func join(path, key string) string {
	key = strings.NewReplacer(`\`, `\\`, `.`, `\.`, `[`, `\[`, `=`, `\=`, `,`, `\,`).Replace(key)
	if path == "" {
		return key
	}
	return path + "." + key
}
