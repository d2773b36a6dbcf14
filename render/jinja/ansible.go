package jinja

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf16"

	"initbox/render/engine"
	"initbox/render/helpers"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
	"sigs.k8s.io/yaml"
)

func base64Encode(c *call) (value.Value, error) {
	s := str(c.args[0])
	if err := c.grow(int64(len(s)) * 4 / 3); err != nil {
		return value.Undefined(), err
	}
	return newString(base64.StdEncoding.EncodeToString([]byte(s))), nil
}

func base64Decode(c *call) (value.Value, error) {
	b, err := base64.StdEncoding.DecodeString(str(c.args[0]))
	if err != nil {
		return value.Undefined(), errors.New("the text is not base64") // which may be a secret
	}
	return newString(string(b)), nil
}

func baseName(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

func dirName(s string) string {
	dir := s[:strings.LastIndexByte(s, '/')+1]
	if trimmed := strings.TrimRight(dir, "/"); trimmed != "" {
		return trimmed
	}
	return dir
}

func splitExt(c *call) (value.Value, error) {
	s := str(c.args[0])
	ext := path.Ext(baseName(s))
	if strings.Trim(strings.TrimSuffix(baseName(s), ext), ".") == "" {
		ext = ""
	}
	return tuple(newString(strings.TrimSuffix(s, ext)), newString(ext)), nil
}

func shellQuote(c *call) (value.Value, error) { return c.sized(helpers.ShellQuote(str(c.args[0]))) }

// toBool takes the words that Ansible takes for true, and all else for false.
func toBool(c *call) (value.Value, error) {
	if n, ok := number(c.args[0]); ok {
		return truth(n.f == 1)
	}
	return truth(slices.Contains([]string{"yes", "on", "1", "true"}, strings.ToLower(str(c.args[0]))))
}

// combine merges mappings: later ones win, deeply with recursive=true.
func combine(c *call) (value.Value, error) {
	deep := false
	for name, v := range c.named {
		if name != "recursive" {
			return value.Undefined(), fmt.Errorf("there is no argument %s", name)
		}
		deep = v.IsTrue()
	}
	result := c.dict(0).copy()
	for i := range c.args[1:] {
		if err := merge(result, c.dict(i+1), deep, 0); err != nil {
			return value.Undefined(), err
		}
	}
	return fromDict(result), nil
}

func merge(to, from *dict, deep bool, depth int) error {
	if depth > maxNesting {
		return errNesting
	}
	for _, k := range from.list() {
		v, _ := from.get(k)
		old, _ := to.get(k)
		inner, ok1 := old.Raw().(*dict)
		more, ok2 := v.Raw().(*dict)
		if deep && ok1 && ok2 {
			merged := inner.copy()
			if err := merge(merged, more, deep, depth+1); err != nil {
				return err
			}
			v = fromDict(merged)
		}
		to.set(k, v)
	}
	return nil
}

func dictToItems(c *call) (value.Value, error) {
	var items []value.Value
	d := c.dict(0)
	for _, k := range d.list() {
		item := newDict()
		v, _ := d.get(k)
		item.set(newString(c.text(1, "key")), k)
		item.set(newString(c.text(2, "value")), v)
		items = append(items, fromDict(item))
	}
	return newList(items), nil
}

func itemsToDict(c *call) (value.Value, error) {
	d := newDict()
	for _, item := range c.items(0) {
		k := attribute(c.run, item, newString(c.text(1, "key")))
		if err := d.set(k, attribute(c.run, item, newString(c.text(2, "value")))); err != nil {
			return value.Undefined(), err
		}
	}
	return fromDict(d), nil
}

// sets makes the operations on lists as sets, in the order of their items.
func sets(keep func(inA, inB bool) bool) operator {
	return func(c *call) (value.Value, error) {
		all := append(slices.Clone(c.items(0)), c.items(1)...)
		a, b, seen := newDict(), newDict(), newDict()
		for _, v := range c.items(0) {
			must(0, a.set(v, v))
		}
		for _, v := range c.items(1) {
			must(0, b.set(v, v))
		}
		var kept []value.Value
		for _, v := range all {
			_, inA := a.get(v)
			_, inB := b.get(v)
			if _, again := seen.get(v); !again && keep(inA, inB) {
				kept = append(kept, v)
			}
			seen.set(v, v)
		}
		return newList(kept), nil
	}
}

func flatten(c *call) (value.Value, error) {
	var flat []value.Value
	var walk func(v value.Value, levels int64)
	walk = func(v value.Value, levels int64) {
		l, ok := v.Raw().(*list)
		if !ok || levels < 0 {
			flat = append(flat, v)
			must(0, c.growItems(1, 8))
			return
		}
		must(0, c.step(1))
		for _, item := range l.all() {
			walk(item, levels-1)
		}
	}
	walk(c.args[0], min(c.int(1, maxNesting), maxNesting))
	return newList(flat), nil
}

func mandatory(c *call) (value.Value, error) {
	m, ok := c.args[0].Raw().(*missing)
	if !ok {
		return c.args[0], nil
	}
	if c.has(1) {
		return value.Undefined(), &engine.Error{Position: m.at, Text: c.text(1, "")}
	}
	m.tell()
	return c.args[0], nil
}

func ternary(c *call) (value.Value, error) {
	switch {
	case c.args[0].IsNone() && !absent(c.args[3]):
		return c.args[3], nil
	case c.args[0].IsTrue():
		return c.args[1], nil
	}
	return c.args[2], nil
}

func zip(c *call) (value.Value, error) {
	n := len(c.items(0))
	for i := range c.args {
		n = min(n, len(c.items(i)))
	}
	var tuples []value.Value
	for j := range n {
		var t []value.Value
		for i := range c.args {
			t = append(t, c.items(i)[j])
		}
		tuples = append(tuples, tuple(t...))
	}
	return newList(tuples), nil
}

// hashFilter makes the filters of digests; the name is an argument if it is empty.
func hashFilter(name string) operator {
	return func(c *call) (value.Value, error) {
		b := []byte(str(c.args[0]))
		which := name
		if which == "" {
			which = c.text(1, "sha1")
		}
		switch which {
		case "md5":
			h := md5.Sum(b)
			return newString(hex.EncodeToString(h[:])), nil
		case "sha1":
			h := sha1.Sum(b)
			return newString(hex.EncodeToString(h[:])), nil
		case "sha256":
			h := sha256.Sum256(b)
			return newString(hex.EncodeToString(h[:])), nil
		case "sha512":
			h := sha512.Sum512(b)
			return newString(hex.EncodeToString(h[:])), nil
		}
		return value.Undefined(), fmt.Errorf("there is no digest %s: take md5, sha1, sha256 or sha512", which)
	}
}

// maxMatches bounds how often a regular expression may match: each match takes a
// hundred bytes and more.
const maxMatches = 1 << 20

var errMatches = fmt.Errorf("the regular expression matches more than %d times", maxMatches)

func regexReplace(c *call) (value.Value, error) {
	re, err := c.regex(c.text(1, ""), c.bool(3, false), c.bool(4, false))
	if err != nil {
		return value.Undefined(), err
	}
	s, template, left := str(c.args[0]), goReplacement(c.text(2, "")), c.int(5, 0)
	var out []byte
	end := 0
	matches := re.FindAllStringSubmatchIndex(s, maxMatches+1)
	if len(matches) > maxMatches {
		return value.Undefined(), errMatches
	}
	for _, m := range matches {
		out = append(out, s[end:m[0]]...)
		out = re.ExpandString(out, template, s, m)
		end = m[1]
		if int64(len(out)) > c.e.o.Bytes {
			return value.Undefined(), c.grow(int64(len(out)))
		}
		if left--; left == 0 {
			break
		}
	}
	return c.sized(string(append(out, s[end:]...)), nil)
}

// goReplacement makes Python's \1 and \g<name> what Go expands.
func goReplacement(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$':
			b.WriteString("$$")
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
		case s[i+1] >= '0' && s[i+1] <= '9':
			i++
			b.WriteString("${" + s[i:i+1] + "}")
		case strings.HasPrefix(s[i:], `\g<`) && strings.Contains(s[i:], ">"):
			name, _, _ := strings.Cut(s[i+3:], ">")
			b.WriteString("${" + name + "}")
			i += 3 + len(name)
		default:
			i++
			b.WriteString(map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': `\`}[s[i]])
		}
	}
	return b.String()
}

// regexSearch returns the first match, or the groups of it that are asked for.
func regexSearch(c *call) (value.Value, error) {
	re, err := c.regex(c.text(1, ""), false, false)
	if err != nil {
		return value.Undefined(), err
	}
	m := re.FindStringSubmatch(str(c.args[0]))
	if m == nil {
		return value.None(), nil
	}
	if len(c.args) == 2 {
		return newString(m[0]), nil
	}
	var groups []value.Value
	for i := range c.args[2:] {
		name := strings.TrimPrefix(c.text(i+2, ""), `\`)
		group := re.SubexpIndex(strings.TrimSuffix(strings.TrimPrefix(name, "g<"), ">"))
		if _, err := fmt.Sscan(name, &group); err != nil && group < 0 || group >= len(m) {
			return value.Undefined(), fmt.Errorf("the regular expression has no group %s", name)
		}
		groups = append(groups, newString(m[group]))
	}
	return newList(groups), nil
}

func regexFindAll(c *call) (value.Value, error) {
	re, err := c.regex(c.text(1, ""), c.bool(3, false), c.bool(2, false))
	if err != nil {
		return value.Undefined(), err
	}
	var found []value.Value
	matches := re.FindAllStringSubmatch(str(c.args[0]), maxMatches+1)
	if len(matches) > maxMatches {
		return value.Undefined(), errMatches
	}
	for _, m := range matches {
		switch len(m) {
		case 1, 2:
			found = append(found, newString(m[len(m)-1]))
		default:
			var groups []value.Value
			for _, g := range m[1:] {
				groups = append(groups, newString(g))
			}
			found = append(found, tuple(groups...))
		}
	}
	return newList(found), c.growItems(int64(len(found)), 1)
}

func fromJSON(c *call) (value.Value, error) {
	d := json.NewDecoder(strings.NewReader(str(c.args[0])))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.Decode(&struct{}{}) != io.EOF {
		return value.Undefined(), errors.New("the text is not JSON")
	}
	return toValue(v), nil
}

func fromYAML(c *call) (value.Value, error) {
	var v any
	if err := yaml.Unmarshal([]byte(str(c.args[0])), &v); err != nil {
		return value.Undefined(), errors.New("the text is not YAML")
	}
	return toValue(v), nil
}

func toYAML(c *call) (value.Value, error) {
	if _, err := toJSON(0, false)(&call{run: c.run, op: c.op, args: []value.Value{c.args[0], {}, {}}}); err != nil {
		return value.Undefined(), err // larger than it may be, or nested in itself
	}
	b, err := yaml.Marshal(toGo(c.args[0]))
	return must(c.sized(string(b), nil)), err
}

// toJSONFilter is Jinja's tojson, whose text is good in HTML, too.
func toJSONFilter(c *call) (value.Value, error) {
	j := jsonWriter{c: c, indent: int(c.int(1, 0)), nice: c.has(1), sort: true}
	j.write(c.args[0], 0)
	s := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "'", `\u0027`).Replace(j.String())
	return value.FromSafeString(s), c.grow(int64(len(s)))
}

// toJSON makes to_json and to_nice_json.
func toJSON(indent int64, sorted bool) operator {
	return func(c *call) (value.Value, error) {
		n := c.int(1, indent)
		j := jsonWriter{c: c, indent: int(n), nice: n > 0, sort: c.bool(2, sorted)}
		j.write(c.args[0], 0)
		return newString(j.String()), nil
	}
}

// jsonWriter writes JSON as Python does: with spaces behind the commas and
// colons, and nothing but ASCII.
type jsonWriter struct {
	strings.Builder
	c          *call
	indent     int
	nice, sort bool
}

func (j *jsonWriter) write(v value.Value, depth int) {
	if depth > maxNesting {
		panic(errNesting)
	}
	if int64(j.Len()) > j.c.e.o.Bytes || j.indent > 100 {
		j.c.mustGrow(math.MaxInt64)
	}
	switch d := v.Raw().(type) {
	case *list:
		j.container('[', ']', len(d.all()), depth, func(i int) { j.write(d.v[i], depth+1) })
	case *dict:
		keys := slices.Clone(d.list())
		if j.sort {
			slices.SortStableFunc(keys, func(a, b value.Value) int { return strings.Compare(str(a), str(b)) })
		}
		j.container('{', '}', len(keys), depth, func(i int) {
			v, _ := d.get(keys[i])
			j.quote(str(keys[i]))
			j.WriteString(": ")
			j.write(v, depth+1)
		})
	case bool, int64, float64:
		j.WriteString(strings.NewReplacer("True", "true", "False", "false", "inf", "Infinity", "nan", "NaN").Replace(str(v)))
	case *missing:
		d.tell()
	default:
		switch s, ok := v.AsString(); {
		case ok:
			j.quote(s)
		case v.IsNone():
			j.WriteString("null")
		default:
			panic(argError{fmt.Errorf("a %s has no JSON", typeName(v))})
		}
	}
}

func (j *jsonWriter) container(open, end byte, n, depth int, item func(i int)) {
	j.WriteByte(open)
	for i := range n {
		switch {
		case i > 0 && j.nice:
			j.WriteByte(',')
		case i > 0:
			j.WriteString(", ")
		}
		j.newLine(depth + 1)
		item(i)
	}
	if n > 0 {
		j.newLine(depth)
	}
	j.WriteByte(end)
}

func (j *jsonWriter) newLine(depth int) {
	if j.nice {
		j.WriteByte('\n')
		j.WriteString(strings.Repeat(" ", max(0, depth*j.indent)))
	}
}

func (j *jsonWriter) quote(s string) {
	j.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			j.WriteByte('\\')
			j.WriteRune(r)
		case r >= ' ' && r < 0x7f:
			j.WriteRune(r)
		case strings.ContainsRune("\n\r\t\b\f", r):
			j.WriteString(map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}[r])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(j, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(j, `\u%04x`, r)
		}
	}
	j.WriteByte('"')
}
