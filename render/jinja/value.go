package jinja

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"initbox/render/format"
)

// Values are Go's own: int64, *big.Int for whole numbers beyond it, float64, bool, string, and the types below. nil is
// the value that is not there: an argument that is not given, or what an {{ x if y }} without an else is.

// null is the type of Python's None.
type null struct{}

var none = null{}

// safe is a string that {% autoescape %} leaves alone.
type safe string

// dict is Python's: it keeps the order of its keys, which need not be strings. Data becomes one when it is first read,
// so that a run costs what it reads. It is copied by that: templates change their own copy.
type dict struct {
	src   map[string]any // data not yet read
	order []string       // of its keys; nil means sorted
	keys  []any
	m     map[any]any // by key
}

func newDict() *dict { return &dict{m: map[any]any{}} }

func (d *dict) load() {
	if d.m != nil {
		return
	}
	d.m = make(map[any]any, len(d.src))
	if d.order == nil {
		d.order = sortedKeys(d.src)
	}
	for _, k := range d.order {
		d.keys = append(d.keys, k)
		d.m[k] = toValue(d.src[k])
	}
	d.src = nil
}

func (d *dict) get(key any) (any, bool) {
	d.load()
	k, err := hash(key)
	if err != nil {
		return nil, false
	}
	v, ok := d.m[k]
	return v, ok
}

func (d *dict) has(key any) bool { _, ok := d.get(key); return ok }

func (d *dict) set(key, v any) error {
	d.load()
	k, err := hash(key)
	if err != nil {
		return err
	}
	if !d.has(key) {
		d.keys = append(d.keys, key)
	}
	d.m[k] = v
	return nil
}

func (d *dict) remove(key any) {
	if k, err := hash(key); err == nil {
		delete(d.m, k)
		d.keys = slices.DeleteFunc(d.keys, func(o any) bool { return must(hash(o)) == k })
	}
}

func (d *dict) copy() *dict {
	c := newDict()
	c.update(d)
	return c
}

func (d *dict) update(other *dict) {
	for k, v := range other.all() {
		d.set(k, v)
	}
}

func (d *dict) list() []any { d.load(); return d.keys }

// all yields the keys and their values; those set meanwhile are left out.
func (d *dict) all() iter.Seq2[any, any] {
	return func(yield func(k, v any) bool) {
		for _, k := range d.list() {
			if v, _ := d.get(k); !yield(k, v) {
				return
			}
		}
	}
}

func (d *dict) items() (pairs []any) {
	for k, v := range d.all() {
		pairs = append(pairs, tuple(k, v))
	}
	return pairs
}

// list is Python's list or tuple. Like dict, it holds data not yet read. Sequences of other kinds are not printed as
// lists, and cannot do all that lists can.
type list struct {
	src   []any
	v     []any
	tuple bool
	group bool // of groupby, whose two items have names

	kind   string   // of another sequence: rangeKind, …
	bounds [3]int64 // of a range
	view   func() []any
	from   string // the filter that made the generator
}

// The kinds of sequences that are neither lists nor tuples. Views follow the changes of their mapping. A generator,
// which filters such as map return, can be iterated over once.
const (
	rangeKind     = "range"
	keysKind      = "dict_keys"
	valuesKind    = "dict_values"
	itemsKind     = "dict_items"
	generatorKind = "generator"
)

// generator is what the filter called from returns.
func generator(from string, items []any) any { return &list{v: items, kind: generatorKind, from: from} }

// plainList returns v, if it is a list or a tuple.
func plainList(v any) (*list, bool) {
	l, ok := v.(*list)
	return l, ok && l.kind == ""
}

func newList(v []any) any { return &list{v: v} }
func tuple(v ...any) any  { return &list{v: v, tuple: true} }

func (l *list) all() []any {
	if l.view != nil {
		return l.view()
	}
	if l.src != nil {
		l.v = make([]any, len(l.src))
		for i, x := range l.src {
			l.v[i] = toValue(x)
		}
		l.src = nil
	}
	return l.v
}

// hashed is what stands for a key that Go does not compare as Python does.
type hashed string

// hash returns what two equal keys have in common: in Python 1, 1.0 and True are the same key.
func hash(v any) (any, error) {
	if n, ok := number(v); ok {
		switch n := n.exact().(type) {
		case *big.Int:
			return hashed(n.String()), nil
		default:
			return n, nil
		}
	}
	if s, ok := asString(v); ok {
		return s, nil
	}
	if l, ok := v.(*list); ok && l.tuple {
		var b strings.Builder
		err := l.hash(&b, 0)
		return hashed(b.String()), err
	}
	if v == none {
		return none, nil
	}
	return nil, fmt.Errorf("a %s cannot be a key", typeName(v))
}

// hash writes the hashes of the items of a tuple.
func (l *list) hash(w *strings.Builder, depth int) error {
	require(depth <= maxNesting, errNesting)
	for _, item := range l.all() {
		require(w.Len() <= maxText, errSize)
		if inner, ok := item.(*list); ok && inner.tuple {
			w.WriteByte('(')
			if err := inner.hash(w, depth+1); err != nil {
				return err
			}
			w.WriteByte(')')
			continue
		}
		h, err := hash(item)
		if err != nil {
			return err
		}
		text := fmt.Sprint(h)
		fmt.Fprintf(w, "%T %d %s,", h, len(text), text)
	}
	return nil
}

// toValue converts data.
func toValue(x any) any {
	switch x := x.(type) {
	case nil:
		return none
	case null, safe, *dict, *list, string, bool, int64, float64:
		return x
	case map[string]any:
		return &dict{src: x}
	case *format.Map:
		return &dict{src: x.Values, order: x.Keys}
	case []any:
		return &list{src: x}
	case int:
		return int64(x)
	case uint64:
		return fromBig(new(big.Int).SetUint64(x))
	case *big.Int:
		return fromBig(x)
	case json.Number:
		if i, ok := new(big.Int).SetString(string(x), 10); ok {
			return fromBig(i)
		}
		f, _ := x.Float64()
		return f
	case fmt.Stringer: // a TOML date
		return x.String()
	}
	return otherValue(x)
}

// otherValue makes a value of types that data rarely has, such as []string, by way of JSON.
func otherValue(x any) any {
	text, err := json.Marshal(x)
	if err != nil {
		return fmt.Sprint(x)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain any
	check(d.Decode(&plain))
	return toValue(plain)
}

// toGo converts v to the maps, slices and scalars of encoding/json.
func toGo(v any) any {
	left := 200_000 // values
	return toGoAt(v, 0, &left)
}

func toGoAt(v any, depth int, left *int) any {
	*left--
	require(*left >= 0 && depth <= maxNesting, errSize)
	switch d := v.(type) {
	case *dict:
		m := make(map[string]any, len(d.list()))
		for k, v := range d.all() {
			m[str(k)] = toGoAt(v, depth+1, left)
		}
		return m
	case *list:
		items := must(iterate(d))
		l := make([]any, len(items))
		for i, v := range items {
			l[i] = toGoAt(v, depth+1, left)
		}
		return l
	case bool, int64, float64, *big.Int:
		return d
	case null:
		return nil
	}
	return str(v)
}

// str is Python's str(): what {{ }} writes.
func str(v any) string {
	if s, ok := asString(v); ok || v == nil {
		return s
	}
	return repr(v)
}

// repr is Python's repr(): what is written of strings in lists.
func repr(v any) string {
	var w writer
	w.repr(v, 0)
	return w.String()
}

// writer writes lists and mappings as Python does: with spaces behind the commas and colons.
type writer struct {
	strings.Builder
	nice   bool // each item on its own line
	indent int
}

func (w *writer) container(open, end string, n, depth int, item func(i int)) {
	w.WriteString(open)
	for i := range n {
		switch {
		case i > 0 && w.nice:
			w.WriteByte(',')
		case i > 0:
			w.WriteString(", ")
		}
		w.newLine(depth + 1)
		item(i)
	}
	if n > 0 {
		w.newLine(depth)
	}
	w.WriteString(end)
}

func (w *writer) newLine(depth int) {
	if w.nice {
		w.WriteString("\n" + strings.Repeat(" ", max(0, depth*w.indent)))
	}
}

func (w *writer) repr(v any, depth int) {
	require(depth <= maxNesting, errNesting)
	require(w.Len() <= maxText, errSize)
	switch d := v.(type) {
	case *list:
		open, end := "[", "]"
		switch {
		case d.kind == generatorKind:
			failf("%s returns no list: add | list to print it", d.from)
		case d.kind == rangeKind:
			step := fmt.Sprintf(", %d", d.bounds[2])
			fmt.Fprintf(w, "range(%d, %d%s)", d.bounds[0], d.bounds[1], strings.TrimSuffix(step, ", 1"))
			return
		case d.kind != "":
			open, end = d.kind+"([", "])"
		}
		if d.tuple {
			open, end = "(", map[bool]string{true: ",)", false: ")"}[len(d.all()) == 1]
		}
		w.container(open, end, len(d.all()), depth, func(i int) { w.repr(d.all()[i], depth+1) })
	case *dict:
		keys := d.list()
		w.container("{", "}", len(keys), depth, func(i int) {
			v, _ := d.get(keys[i])
			w.repr(keys[i], depth+1)
			w.WriteString(": ")
			w.repr(v, depth+1)
		})
	case *missing:
		d.report()
	case nil:
		w.WriteString("Undefined")
	case bool:
		w.WriteString(map[bool]string{true: "True", false: "False"}[d])
	case int64:
		w.WriteString(strconv.FormatInt(d, 10))
	case *big.Int:
		text := d.String()
		require(len(text) <= maxDigits, errTooLarge)
		w.WriteString(text)
	case float64:
		w.WriteString(formatFloat(d))
	case string:
		w.WriteString(quote(d))
	case safe:
		w.WriteString("Markup(" + quote(string(d)) + ")")
	case *method:
		failf("%s is a method of a %s: add parentheses to call it, or write ['%s'] for a key of that name", d.name, typeName(d.of), d.name)
	case fmt.Stringer:
		w.WriteString(d.String())
	default:
		failf("a %s cannot be printed", typeName(v))
	}
}

func (null) String() string { return "None" }

// formatFloat is Python's repr of a float: the shortest digits, an exponent from 1e16 on and below 1e-4.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	e := strconv.FormatFloat(f, 'e', -1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if f != 0 && (exp < -4 || exp >= 16) {
		return e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote is Python's repr of a string: in single quotes, unless it holds some and no double ones.
func quote(s string) string {
	q := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteRune(q)
	for _, r := range s {
		switch {
		case r == q || r == '\\':
			b.WriteString(`\` + string(r))
		case strings.ContainsRune("\n\r\t", r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(escapedRune(r))
		}
	}
	b.WriteRune(q)
	return b.String()
}

var typeNames = map[reflect.Type]string{
	nil: "undefined", reflect.TypeFor[*missing](): "missing value", reflect.TypeFor[null](): "none",
	reflect.TypeFor[bool](): "boolean", reflect.TypeFor[int64](): "whole number", reflect.TypeFor[*big.Int](): "whole number", reflect.TypeFor[float64](): "number",
	reflect.TypeFor[string](): "string", reflect.TypeFor[safe](): "string",
	reflect.TypeFor[*dict](): "mapping", reflect.TypeFor[*list](): "list",
	reflect.TypeFor[*op](): "function", reflect.TypeFor[*macro](): "macro", reflect.TypeFor[*method](): "method",
	reflect.TypeFor[*namespace](): "namespace", reflect.TypeFor[*cycler](): "cycler", reflect.TypeFor[*loop](): "loop",
	reflect.TypeFor[*module](): "module", reflect.TypeFor[*blocks](): "template", reflect.TypeFor[*blockReference](): "block",
}

// typeName returns what errors call the type of v.
func typeName(v any) string {
	if l, ok := v.(*list); ok && l.tuple {
		return "tuple"
	} else if ok && l.kind != "" {
		return l.kind
	}
	return cmp.Or(typeNames[reflect.TypeOf(v)], "object")
}

// asString returns the text of a string, and whether v is one.
func asString(v any) (string, bool) {
	switch s := v.(type) {
	case string:
		return s, true
	case safe:
		return string(s), true
	}
	return "", false
}

func as[T any](v any) (T, bool) { t, ok := v.(T); return t, ok }
func is[T any](v any) bool      { _, ok := v.(T); return ok }

// both applies a function such as asString to a and b, and returns whether both are of that type.
func both[T any](as func(any) (T, bool), a, b any) (x, y T, ok bool) {
	x, ok1 := as(a)
	y, ok2 := as(b)
	return x, y, ok1 && ok2
}

// isTrue returns whether v counts as true in an if.
func isTrue(v any) bool {
	switch d := v.(type) {
	case nil, null:
		return false
	case bool:
		return d
	case *missing:
		d.report()
		return false
	}
	if n, ok := number(v); ok {
		return n.f != 0 // NaN is true
	}
	if l, ok := v.(*list); ok && l.kind == generatorKind {
		return true
	}
	return length(v) != 0
}

// iterate returns what a for loop sees.
func iterate(v any) (items []any, err error) {
	switch d := v.(type) {
	case *list:
		items := d.all()
		if d.kind == generatorKind {
			d.v = nil
		}
		return items, nil
	case *dict:
		return slices.Clone(d.list()), nil
	case *missing:
		d.report()
		return nil, nil
	case nil:
		return nil, nil
	}
	s, ok := asString(v)
	switch {
	case !ok:
		return nil, fmt.Errorf("a %s is not a list", typeName(v))
	case len(s) > maxCharacters:
		return nil, errors.New("the text is too long to iterate over")
	}
	for _, r := range s {
		items = append(items, string(r))
	}
	return items, nil
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func anys[T any](items []T) []any {
	all := make([]any, len(items))
	for i, v := range items {
		all[i] = v
	}
	return all
}
