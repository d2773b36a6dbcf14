package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// dict is Python's: it keeps the order of its keys, which may be more than
// strings. Data becomes one when it is first looked at, so that a run costs what
// it reads, and is copied so: what templates change is their own.
type dict struct {
	src  map[string]any // data not yet looked at
	keys []value.Value
	m    map[any]value.Value // by key
}

func newDict() *dict { return &dict{m: map[any]value.Value{}} }

func (d *dict) load() {
	if d.m != nil {
		return
	}
	d.m = make(map[any]value.Value, len(d.src))
	for _, k := range sortedKeys(d.src) {
		d.keys = append(d.keys, value.FromString(k))
		d.m[k] = toValue(d.src[k])
	}
	d.src = nil
}

func (d *dict) get(key value.Value) (value.Value, bool) {
	d.load()
	k, err := hash(key)
	if err != nil {
		return value.Value{}, false
	}
	v, ok := d.m[k]
	return v, ok
}

func (d *dict) set(key, v value.Value) error {
	d.load()
	k, err := hash(key)
	if err != nil {
		return err
	}
	if _, ok := d.m[k]; !ok {
		d.keys = append(d.keys, key)
	}
	d.m[k] = v
	return nil
}

func (d *dict) remove(key value.Value) {
	k, err := hash(key)
	if _, ok := d.m[k]; err != nil || !ok {
		return
	}
	delete(d.m, k)
	d.keys = slices.DeleteFunc(d.keys, func(o value.Value) bool {
		h, _ := hash(o)
		return h == k
	})
}

func (d *dict) copy() *dict {
	d.load()
	c := newDict()
	c.update(d)
	return c
}

func (d *dict) update(other *dict) {
	for _, k := range other.list() {
		v, _ := other.get(k)
		d.set(k, v)
	}
}

func (d *dict) list() []value.Value { d.load(); return d.keys }

func (d *dict) items() []value.Value {
	var pairs []value.Value
	for _, k := range d.list() {
		v, _ := d.get(k)
		pairs = append(pairs, tuple(k, v))
	}
	return pairs
}

func (d *dict) GetAttr(name string) value.Value {
	if v, ok := d.get(value.FromString(name)); ok {
		return v
	}
	return value.Undefined()
}
func (d *dict) ObjectRepr() value.ObjectRepr { return value.ObjectReprMap }
func (d *dict) ObjectIsTrue() bool           { return len(d.list()) > 0 }
func (d *dict) Iter() []value.Value          { return append([]value.Value{}, d.list()...) } // not nil
func (d *dict) Map() map[string]value.Value { // for f(**d)
	m := make(map[string]value.Value, len(d.list()))
	for _, k := range d.list() {
		if s, ok := k.AsString(); ok {
			m[s], _ = d.get(k)
		}
	}
	return m
}

// list is Python's, or a tuple. Like dict, it holds data not yet looked at.
type list struct {
	src   []any
	v     []value.Value
	tuple bool
	group bool // of groupby, whose two items have names
}

func newList(v []value.Value) value.Value { return value.FromObject(&list{v: v}) }
func tuple(v ...value.Value) value.Value  { return value.FromObject(&list{v: v, tuple: true}) }
func newString(s string) value.Value      { return value.FromString(s) }
func fromDict(d *dict) value.Value        { return value.FromObject(d) }

func (l *list) GetAttr(name string) value.Value {
	switch {
	case l.group && name == "grouper":
		return l.v[0]
	case l.group && name == "list":
		return l.v[1]
	}
	return value.Undefined()
}
func (l *list) ObjectRepr() value.ObjectRepr {
	return value.ObjectReprSeq
}
func (l *list) ObjectIsTrue() bool { return len(l.all()) > 0 }

// Iter is never nil, which would mean that it cannot be iterated over.
func (l *list) Iter() []value.Value {
	if v := l.all(); v != nil {
		return v
	}
	return []value.Value{}
}

func (l *list) all() []value.Value {
	if l.src != nil {
		l.v = make([]value.Value, len(l.src))
		for i, x := range l.src {
			l.v[i] = toValue(x)
		}
		l.src = nil
	}
	return l.v
}

// hash is what makes two keys the same: in Python 1, 1.0 and True are.
func hash(v value.Value) (any, error) {
	switch d := v.Raw().(type) {
	case int64:
		return d, nil
	case bool:
		if d {
			return int64(1), nil
		}
		return int64(0), nil
	case float64:
		if d == math.Trunc(d) && math.Abs(d) < 1<<53 {
			return int64(d), nil
		}
		return d, nil
	case *list:
		if d.tuple {
			return [1]string{repr(v)}, nil
		}
	}
	if s, ok := v.AsString(); ok {
		return s, nil
	}
	if v.IsNone() {
		return nil, nil
	}
	return nil, fmt.Errorf("a %s cannot be a key", typeName(v))
}

// toValue makes data a value. Numbers that formats cannot tell from integers,
// 8080.0 of JSON, are integers.
func toValue(x any) value.Value {
	switch x := x.(type) {
	case nil:
		return value.None()
	case value.Value:
		return x
	case map[string]any:
		return fromDict(&dict{src: x})
	case []any:
		return value.FromObject(&list{src: x})
	case string:
		return newString(x)
	case bool:
		return value.FromBool(x)
	case int:
		return value.FromInt(int64(x))
	case int64:
		return value.FromInt(x)
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return value.FromInt(int64(x))
		}
		return value.FromFloat(x)
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return value.FromInt(i)
		}
		f, _ := x.Float64()
		return value.FromFloat(f)
	case fmt.Stringer: // a TOML date
		return newString(x.String())
	}
	return reflected(reflect.ValueOf(x))
}

func reflected(v reflect.Value) value.Value {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		if b, ok := v.Interface().([]byte); ok {
			return newString(string(b))
		}
		l := make([]value.Value, v.Len())
		for i := range l {
			l[i] = toValue(v.Index(i).Interface())
		}
		return newList(l)
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for _, k := range v.MapKeys() {
			m[fmt.Sprint(k.Interface())] = v.MapIndex(k).Interface()
		}
		return fromDict(&dict{src: m})
	case reflect.Pointer:
		if v.IsNil() {
			return value.None()
		}
		return toValue(v.Elem().Interface())
	case reflect.String:
		return newString(v.String())
	case reflect.Bool:
		return value.FromBool(v.Bool())
	}
	switch {
	case v.CanInt():
		return value.FromInt(v.Int())
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return value.FromInt(int64(v.Uint()))
	case v.CanFloat():
		return value.FromFloat(v.Float())
	}
	return newString(fmt.Sprint(v.Interface()))
}

// toGo is the way back: maps, slices and scalars as encoding/json knows them.
func toGo(v value.Value) any {
	left := 200_000 // values
	return toGoAt(v, 0, &left)
}

func toGoAt(v value.Value, depth int, left *int) any {
	if *left--; *left < 0 || depth > maxNesting {
		panic(errSize)
	}
	switch d := v.Raw().(type) {
	case *dict:
		m := make(map[string]any, len(d.list()))
		for _, k := range d.list() {
			v, _ := d.get(k)
			m[str(k)] = toGoAt(v, depth+1, left)
		}
		return m
	case *list:
		l := make([]any, len(d.all()))
		for i, v := range d.all() {
			l[i] = toGoAt(v, depth+1, left)
		}
		return l
	case bool, int64, float64:
		return d
	}
	if v.IsNone() {
		return nil
	}
	return str(v)
}

// maxText bounds the text of a list or a mapping: such that hold one value many
// times would have no end.
const maxText = 1 << 20

// errSize bounds the text of values that hold one value many times, and the
// comparisons of such.
var errSize = errors.New("the value is too large to be looked at")

var errNesting = errors.New("the value contains itself, or is nested too deeply")

// str is Python's str(): what {{ }} writes.
func str(v value.Value) string {
	if s, ok := v.AsString(); ok {
		return s
	}
	return repr(v)
}

// repr is Python's repr(): what is written of strings in lists.
func repr(v value.Value) string {
	var b strings.Builder
	writeRepr(&b, v, 0)
	return b.String()
}

func writeRepr(b *strings.Builder, v value.Value, depth int) {
	if depth > maxNesting {
		panic(errNesting) // becomes an error in op.Call
	}
	if b.Len() > maxText {
		panic(errSize)
	}
	switch d := v.Raw().(type) {
	case *list:
		open, end := "[", "]"
		if d.tuple {
			open, end = "(", ")"
		}
		b.WriteString(open)
		for i, x := range d.all() {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, x, depth+1)
		}
		if d.tuple && len(d.v) == 1 {
			b.WriteByte(',')
		}
		b.WriteString(end)
	case *dict:
		b.WriteByte('{')
		for i, k := range d.list() {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, k, depth+1)
			b.WriteString(": ")
			x, _ := d.get(k)
			writeRepr(b, x, depth+1)
		}
		b.WriteByte('}')
	case *missing:
		d.tell()
	case float64:
		b.WriteString(formatFloat(d))
	case fmt.Stringer:
		b.WriteString(d.String())
	default:
		if s, ok := v.AsString(); ok {
			b.WriteString(quote(s))
			return
		}
		b.WriteString(v.String())
	}
}

// maxNesting bounds values in values: a list can be appended to itself.
const maxNesting = 200

// formatFloat is Python's repr of a float: the shortest digits, an exponent
// from 1e16 on and below 1e-4.
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

// quote is Python's repr of a string: in single quotes, unless it holds some
// and no double ones.
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
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r > 0x7f && r < 0x100 && !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case !strconv.IsPrint(r) && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteRune(q)
	return b.String()
}

// typeName is what a person calls a value in an error.
func typeName(v value.Value) string {
	switch d := v.Raw().(type) {
	case *dict:
		return "mapping"
	case *list:
		if d.tuple {
			return "tuple"
		}
		return "list"
	case bool:
		return "boolean"
	case int64:
		return "whole number"
	case float64:
		return "number"
	case *missing:
		return "missing value"
	}
	if v.Kind() == value.KindPlain {
		return "object"
	}
	return v.Kind().String()
}

// maxCharacters bounds a string as a list: each of its characters takes 40 bytes.
const maxCharacters = 1 << 20

// iterate returns what a for loop sees.
func iterate(v value.Value) ([]value.Value, error) {
	if s, ok := v.AsString(); ok && len(s) > maxCharacters {
		return nil, errors.New("the text is too long to go through its characters")
	}
	if items := v.Iter(); items != nil {
		return items, nil
	}
	return nil, fmt.Errorf("a %s is not a list", typeName(v))
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
