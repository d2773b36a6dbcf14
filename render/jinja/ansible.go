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

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

func base64Encode(c *call) any {
	s := str(c.args[0])
	c.grow(int64(len(s)) * 4 / 3)
	return base64.StdEncoding.EncodeToString([]byte(s))
}

func base64Decode(c *call) any {
	b, err := base64.StdEncoding.DecodeString(str(c.args[0]))
	if err != nil {
		panic(failure{errors.New("the text is not base64")}) // which may be a secret
	}
	return string(b)
}

func baseName(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

func dirName(s string) string {
	dir := s[:strings.LastIndexByte(s, '/')+1]
	if trimmed := strings.TrimRight(dir, "/"); trimmed != "" {
		return trimmed
	}
	return dir
}

func splitExt(c *call) any {
	s := str(c.args[0])
	ext := path.Ext(baseName(s))
	if strings.Trim(strings.TrimSuffix(baseName(s), ext), ".") == "" {
		ext = ""
	}
	return tuple(strings.TrimSuffix(s, ext), ext)
}

func shellQuote(c *call) any { return c.sized(must(helpers.ShellQuote(str(c.args[0])))) }

// toBool takes the words that Ansible takes for true, and all else for false.
func toBool(c *call) any {
	if n, ok := number(c.args[0]); ok {
		return n.f == 1
	}
	return slices.Contains([]string{"yes", "on", "1", "true"}, strings.ToLower(str(c.args[0])))
}

// combine merges mappings: later ones win, deeply with recursive=true.
func combine(c *call) any {
	deep := false
	for name, v := range c.named {
		failIf(name != "recursive", "there is no argument %s", name)
		deep = isTrue(v)
	}
	result := c.dict(0).copy()
	for i := range c.args[1:] {
		check(merge(result, c.dict(i+1), deep, 0))
	}
	return result
}

func merge(to, from *dict, deep bool, depth int) error {
	if depth > maxNesting {
		return errNesting
	}
	for _, k := range from.list() {
		v, _ := from.get(k)
		old, _ := to.get(k)
		inner, ok1 := old.(*dict)
		more, ok2 := v.(*dict)
		if deep && ok1 && ok2 {
			merged := inner.copy()
			if err := merge(merged, more, deep, depth+1); err != nil {
				return err
			}
			v = merged
		}
		to.set(k, v)
	}
	return nil
}

func dictToItems(c *call) any {
	var items []any
	d := c.dict(0)
	for _, k := range d.list() {
		item := newDict()
		v, _ := d.get(k)
		item.set(c.text(1, "key"), k)
		item.set(c.text(2, "value"), v)
		items = append(items, item)
	}
	return newList(items)
}

func itemsToDict(c *call) any {
	d := newDict()
	for _, item := range c.items(0) {
		k := attribute(c.run, item, c.text(1, "key"))
		check(d.set(k, attribute(c.run, item, c.text(2, "value"))))
	}
	return d
}

// sets makes the operations on lists as sets, in the order of their items.
func sets(keep func(inA, inB bool) bool) operator {
	return func(c *call) any {
		all := append(slices.Clone(c.items(0)), c.items(1)...)
		a, b, seen := newDict(), newDict(), newDict()
		for _, v := range c.items(0) {
			must(0, a.set(v, v))
		}
		for _, v := range c.items(1) {
			must(0, b.set(v, v))
		}
		var kept []any
		for _, v := range all {
			_, inA := a.get(v)
			_, inB := b.get(v)
			if _, again := seen.get(v); !again && keep(inA, inB) {
				kept = append(kept, v)
			}
			seen.set(v, v)
		}
		return newList(kept)
	}
}

func flatten(c *call) any {
	var flat []any
	var walk func(v any, levels int64)
	walk = func(v any, levels int64) {
		l, ok := v.(*list)
		if !ok || levels < 0 {
			flat = append(flat, v)
			c.growItems(1, 8)
			return
		}
		c.step(1)
		for _, item := range l.all() {
			walk(item, levels-1)
		}
	}
	walk(c.args[0], min(c.int(1, maxNesting), maxNesting))
	return newList(flat)
}

func mandatory(c *call) any {
	m, ok := c.args[0].(*missing)
	if !ok {
		return c.args[0]
	}
	if c.has(1) {
		panic(failure{&engine.Error{Position: m.at, Text: c.text(1, "")}})
	}
	m.report()
	return c.args[0]
}

func ternary(c *call) any {
	switch {
	case c.args[0] == none && !absent(c.args[3]):
		return c.args[3]
	case isTrue(c.args[0]):
		return c.args[1]
	}
	return c.args[2]
}

func zip(c *call) any {
	n := len(c.items(0))
	for i := range c.args {
		n = min(n, len(c.items(i)))
	}
	var tuples []any
	for j := range n {
		var t []any
		for i := range c.args {
			t = append(t, c.items(i)[j])
		}
		tuples = append(tuples, tuple(t...))
	}
	return newList(tuples)
}

// hashFilter makes the filters of digests; the name is an argument if it is empty.
func hashFilter(name string) operator {
	return func(c *call) any {
		b := []byte(str(c.args[0]))
		which := name
		if which == "" {
			which = c.text(1, "sha1")
		}
		switch which {
		case "md5":
			h := md5.Sum(b)
			return hex.EncodeToString(h[:])
		case "sha1":
			h := sha1.Sum(b)
			return hex.EncodeToString(h[:])
		case "sha256":
			h := sha256.Sum256(b)
			return hex.EncodeToString(h[:])
		case "sha512":
			h := sha512.Sum512(b)
			return hex.EncodeToString(h[:])
		}
		panic(failure{fmt.Errorf("unknown digest %s: use md5, sha1, sha256 or sha512", which)})
	}
}

// maxMatches bounds how often a regular expression may match: each match takes a hundred bytes and more.
const maxMatches = 1 << 20

var errMatches = fmt.Errorf("the regular expression matches more than %d times", maxMatches)

func regexReplace(c *call) any {
	re := c.regex(c.text(1, ""), c.bool(3, false), c.bool(4, false))
	s, template, left := str(c.args[0]), goReplacement(c.text(2, "")), c.int(5, 0)
	var out []byte
	end := 0
	matches := re.FindAllStringSubmatchIndex(s, maxMatches+1)
	if len(matches) > maxMatches {
		panic(failure{errMatches})
	}
	for _, m := range matches {
		out = append(out, s[end:m[0]]...)
		out = re.ExpandString(out, template, s, m)
		end = m[1]
		if int64(len(out)) > c.e.o.Bytes {
			c.grow(int64(len(out)))
		}
		if left--; left == 0 {
			break
		}
	}
	return c.sized(string(append(out, s[end:]...)))
}

// goReplacement converts Python's \1 and \g<name> to what Go expands.
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
func regexSearch(c *call) any {
	re := c.regex(c.text(1, ""), false, false)
	m := re.FindStringSubmatch(str(c.args[0]))
	if m == nil {
		return none
	}
	if len(c.args) == 2 {
		return m[0]
	}
	var groups []any
	for i := range c.args[2:] {
		name := strings.TrimPrefix(c.text(i+2, ""), `\`)
		group := re.SubexpIndex(strings.TrimSuffix(strings.TrimPrefix(name, "g<"), ">"))
		if _, err := fmt.Sscan(name, &group); err != nil && group < 0 || group >= len(m) {
			panic(failure{fmt.Errorf("the regular expression has no group %s", name)})
		}
		groups = append(groups, m[group])
	}
	return newList(groups)
}

func regexFindAll(c *call) any {
	re := c.regex(c.text(1, ""), c.bool(3, false), c.bool(2, false))
	var found []any
	matches := re.FindAllStringSubmatch(str(c.args[0]), maxMatches+1)
	if len(matches) > maxMatches {
		panic(failure{errMatches})
	}
	for _, m := range matches {
		switch len(m) {
		case 1, 2:
			found = append(found, m[len(m)-1])
		default:
			var groups []any
			for _, g := range m[1:] {
				groups = append(groups, g)
			}
			found = append(found, tuple(groups...))
		}
	}
	c.growItems(int64(len(found)), 1)
	return newList(found)
}

func fromJSON(c *call) any {
	d := json.NewDecoder(strings.NewReader(str(c.args[0])))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.Decode(&struct{}{}) != io.EOF {
		panic(failure{errors.New("the text is not JSON")})
	}
	return toValue(v)
}

func fromYAML(c *call) any {
	var v any
	if err := yamlv2.Unmarshal([]byte(str(c.args[0])), &v); err != nil {
		panic(failure{errors.New("the text is not YAML")})
	}
	return exact(v)
}

// exact converts what the YAML library decodes; 1.0 stays a float.
func exact(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m, d := make(map[string]any, len(v)), newDict()
		for k, item := range v {
			m[fmt.Sprint(k)] = item
		}
		for _, k := range sortedKeys(m) {
			d.set(k, exact(m[k]))
		}
		return d
	case []any:
		l := make([]any, len(v))
		for i, item := range v {
			l[i] = exact(item)
		}
		return newList(l)
	case float64:
		return v
	}
	return toValue(v)
}

func toYAML(c *call) any {
	// What is too large, or contains itself, is refused here.
	toJSON(0, false)(&call{run: c.run, op: c.op, arguments: arguments{args: []any{c.args[0], nil, nil}}})
	return c.sized(string(must(yaml.Marshal(toGo(c.args[0])))))
}

// toJSONFilter is Jinja's tojson, whose text is safe in HTML, too.
func toJSONFilter(c *call) any {
	j := jsonWriter{c: c, indent: int(c.int(1, 0)), nice: c.has(1), sort: true}
	j.write(c.args[0], 0)
	s := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "'", `\u0027`).Replace(j.String())
	c.grow(int64(len(s)))
	return safe(s)
}

// toJSON makes to_json and to_nice_json.
func toJSON(indent int64, sorted bool) operator {
	return func(c *call) any {
		n := c.int(1, indent)
		j := jsonWriter{c: c, indent: int(n), nice: n > 0, sort: c.bool(2, sorted)}
		j.write(c.args[0], 0)
		return j.String()
	}
}

// jsonWriter writes JSON as Python does: with spaces behind the commas and colons, and nothing but ASCII.
type jsonWriter struct {
	strings.Builder
	c          *call
	indent     int
	nice, sort bool
}

func (j *jsonWriter) write(v any, depth int) {
	if depth > maxNesting {
		panic(failure{errNesting})
	}
	if int64(j.Len()) > j.c.e.o.Bytes || j.indent > 100 {
		j.c.grow(math.MaxInt64)
	}
	switch d := v.(type) {
	case *list:
		j.container('[', ']', len(d.all()), depth, func(i int) { j.write(d.v[i], depth+1) })
	case *dict:
		keys := slices.Clone(d.list())
		if j.sort {
			slices.SortStableFunc(keys, func(a, b any) int { return strings.Compare(str(a), str(b)) })
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
		d.report()
	default:
		switch s, ok := asString(v); {
		case ok:
			j.quote(s)
		case v == none:
			j.WriteString("null")
		default:
			panic(failure{fmt.Errorf("a %s has no JSON", typeName(v))})
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
