package jinja

import (
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	stdhash "hash"
	"io"
	"maps"
	"math"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"initbox/internal/lazy"
	"initbox/render/engine"
	"initbox/render/helpers"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// ansibleFilters returns the filters of Ansible that configuration uses.
func ansibleFilters() map[string]fn {
	return map[string]fn{
		"b64decode":            {do: base64Decode},
		"b64encode":            {do: onText(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })},
		"basename":             {do: onText(baseName)},
		"bool":                 {do: toBool},
		"combine":              {params: "**", do: combine},
		"dict2items":           {params: "key_name value_name", do: dictToItems},
		"difference":           {params: "other!", do: sets(func(inA, inB bool) bool { return inA && !inB })},
		"dirname":              {do: onText(dirName)},
		"flatten":              {params: "levels", do: flatten},
		"from_csv":             {params: "delimiter", do: fromCSV},
		"from_json":            {do: fromJSON},
		"from_yaml":            {do: fromYAML},
		"hash":                 {params: "hashtype", do: hashFilter("")},
		"intersect":            {params: "other!", do: sets(func(inA, inB bool) bool { return inA && inB })},
		"ipaddr":               {params: "query", do: ipAddr(0)},
		"ipv4":                 {params: "query", do: ipAddr(4)},
		"ipv6":                 {params: "query", do: ipAddr(6)},
		"ipwrap":               {do: ipWrap},
		"items2dict":           {params: "key_name value_name", do: itemsToDict},
		"mandatory":            {params: "msg", do: mandatory, lax: true},
		"md5":                  {do: hashFilter("md5")},
		"pow":                  {params: "y!", do: pow},
		"quote":                {do: shellQuote},
		"regex_escape":         {do: onText(regexp.QuoteMeta)},
		"regex_findall":        {params: "regex! multiline ignorecase", do: regexFindAll},
		"regex_replace":        {params: "pattern! replacement ignorecase multiline count", do: regexReplace},
		"regex_search":         {params: "regex! *", do: regexSearch},
		"sha1":                 {do: hashFilter("sha1")},
		"sha256":               {do: hashFilter("sha256")},
		"split":                {params: "sep maxsplit", do: split(false)},
		"splitext":             {do: splitExt},
		"symmetric_difference": {params: "other!", do: sets(func(inA, inB bool) bool { return inA != inB })},
		"ternary":              {params: "true_val! false_val! none_val", do: ternary},
		"to_json":              {params: "indent sort_keys", do: toJSON(0, false)},
		"to_nice_json":         {params: "indent sort_keys", do: toJSON(4, true)},
		"to_nice_yaml":         {params: "indent", do: toYAML},
		"to_yaml":              {params: "indent", do: toYAML},
		"union":                {params: "other!", do: sets(func(inA, inB bool) bool { return true })},
		"zip":                  {params: "*", do: zip},
	}
}

// ansibleFunctions returns the functions that stand for lookups of Ansible.
func ansibleFunctions() map[string]fn {
	return map[string]fn{
		"resolveSRV": {params: "name!", do: resolveSRV},
	}
}

// ipAddr makes the filters on addresses, for both versions of IP (0) or one. Of a list they keep the items that have an
// answer.
func ipAddr(version int) operator {
	return func(c *call) any {
		query := ""
		if c.has(1) {
			query = str(c.args[1])
		}
		l, many := c.args[0].(*list)
		if !many {
			return toValue(must(helpers.IPAddr(toGo(c.args[0]), query, version)))
		}
		var kept []any
		for _, item := range l.all() {
			c.step(1)
			if answer := must(helpers.IPAddr(toGo(item), query, version)); answer != false {
				kept = append(kept, toValue(answer))
			}
		}
		c.growItems(int64(len(kept)), 8)
		return newList(kept)
	}
}

// ipWrap puts an IPv6 address into brackets, and leaves everything else as it is.
func ipWrap(c *call) any {
	if wrapped, is := must(helpers.IPAddr(toGo(c.args[0]), "wrap", 6)).(string); is {
		return wrapped
	}
	return c.args[0]
}

func fromCSV(c *call) any {
	records := must(helpers.FromCSV(c.text(1, ","), str(c.args[0])))
	c.growItems(int64(len(records)), 8)
	return toValue(records)
}

// pow is a float, as in Ansible.
func pow(c *call) any {
	x, isNumber := number(c.args[0])
	y, isPower := number(c.args[1])
	failIf(!isNumber || !isPower, "want two numbers")
	result := math.Pow(x.f, y.f)
	failIf(math.IsNaN(result) || math.IsInf(result, 0), "the result is not a number")
	return result
}

// resolveSRV looks up SRV records, where the user allowed it.
func resolveSRV(c *call) any {
	lookup, name := c.e.data.ResolveSRV, c.text(0, "")
	require(lookup != nil, &engine.Error{Position: c.at, Text: "resolveSRV is not allowed", Fix: "allow templates to look up names with --resolve"})
	records, err := lookup(c.run, name)
	failIf(err != nil, "looking up %s: %w", name, err)
	return toValue(records)
}

func base64Decode(c *call) any {
	b, err := base64.StdEncoding.DecodeString(str(c.args[0]))
	failIf(err != nil, "the text is not base64") // without err, which may show a secret
	return string(b)
}

func baseName(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

func dirName(s string) string {
	dir := s[:strings.LastIndexByte(s, '/')+1]
	return cmp.Or(strings.TrimRight(dir, "/"), dir)
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
		merge(result, c.dict(i+1), deep, 0)
	}
	return result
}

func merge(to, from *dict, deep bool, depth int) {
	require(depth <= maxNesting, errNesting)
	for k, v := range from.all() {
		old, _ := to.get(k)
		if inner, more, ok := both(as[*dict], old, v); ok && deep {
			merged := inner.copy()
			merge(merged, more, deep, depth+1)
			v = merged
		}
		to.set(k, v)
	}
}

func dictToItems(c *call) any {
	var items []any
	for k, v := range c.dict(0).all() {
		item := newDict()
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
		a, b, seen := newDict(), newDict(), newDict()
		for i, set := range []*dict{a, b} {
			for _, v := range c.items(i) {
				check(set.set(v, v))
			}
		}
		return newList(kept(slices.Concat(c.items(0), c.items(1)), func(v any) bool {
			again := seen.has(v)
			seen.set(v, v)
			return !again && keep(a.has(v), b.has(v))
		}))
	}
}

func flatten(c *call) any {
	var flat []any
	var walk func(v any, levels int64)
	walk = func(v any, levels int64) {
		l, ok := plainList(v)
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
	if m, ok := c.args[0].(*missing); ok {
		require(!c.has(1), &engine.Error{Position: m.at, Text: c.text(1, "")})
		m.report()
	}
	return c.args[0]
}

func ternary(c *call) any {
	switch {
	case c.args[0] == none:
		return c.or(3, c.args[2])
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
	tuples := make([]any, n)
	for j := range tuples {
		t := make([]any, len(c.args))
		for i := range t {
			t[i] = c.items(i)[j]
		}
		tuples[j] = tuple(t...)
	}
	return newList(tuples)
}

// digests has the algorithms of the filter hash, whose default is sha1.
var digests = map[string]func() stdhash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// hashFilter makes the filters of digests; the name is an argument if it is empty.
func hashFilter(name string) operator {
	return func(c *call) any {
		which := cmp.Or(name, c.text(1, "sha1"))
		newDigest := digests[which]
		failIf(newDigest == nil, "unknown digest %s: use md5, sha1, sha256 or sha512", which)
		h := newDigest()
		io.WriteString(h, str(c.args[0]))
		return hex.EncodeToString(h.Sum(nil))
	}
}

func regexReplace(c *call) any {
	re := c.regex(c.text(1, ""), c.bool(3, false), c.bool(4, false))
	s, template, left := str(c.args[0]), goReplacement(c.text(2, "")), c.int(5, 0)
	var out []byte
	end := 0
	matches := re.FindAllStringSubmatchIndex(s, maxMatches+1)
	require(len(matches) <= maxMatches, errMatches)
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

var replacementPattern = lazy.Regexp(`(?s)\$|\\g<[^>]*>|\\.`)

// goReplacement converts Python's \1 and \g<name> to what Go expands.
func goReplacement(s string) string {
	return replacementPattern().ReplaceAllStringFunc(s, func(m string) string {
		switch {
		case m == "$":
			return "$$"
		case strings.HasPrefix(m, `\g<`):
			return "${" + m[3:len(m)-1] + "}"
		case m[1] >= '0' && m[1] <= '9':
			return "${" + m[1:] + "}"
		}
		return map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': `\`}[m[1]]
	})
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
		_, err := fmt.Sscan(name, &group)
		failIf(err != nil && group < 0 || group >= len(m), "the regular expression has no group %s", name)
		groups = append(groups, m[group])
	}
	return newList(groups)
}

func regexFindAll(c *call) any {
	re := c.regex(c.text(1, ""), c.bool(3, false), c.bool(2, false))
	matches := re.FindAllStringSubmatch(str(c.args[0]), maxMatches+1)
	require(len(matches) <= maxMatches, errMatches)
	found := make([]any, len(matches))
	for i, m := range matches {
		if found[i] = m[len(m)-1]; len(m) > 2 {
			found[i] = tuple(anys(m[1:])...)
		}
	}
	c.growItems(int64(len(found)), 1)
	return newList(found)
}

func fromJSON(c *call) any {
	d := json.NewDecoder(strings.NewReader(str(c.args[0])))
	d.UseNumber()
	var v any
	failIf(d.Decode(&v) != nil || d.Decode(&struct{}{}) != io.EOF, "the text is not JSON")
	return toValue(v)
}

func fromYAML(c *call) any {
	var v any
	failIf(yamlv2.Unmarshal([]byte(str(c.args[0])), &v) != nil, "the text is not YAML")
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
		l := slices.Clone(v)
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
	v := toGo(c.args[0])
	failIf(hasBig(v), "to_yaml would round whole numbers of more than 64 bits: use to_json, which YAML includes")
	return c.sized(string(must(yaml.Marshal(v))))
}

// hasBig returns whether v, of toGo, has whole numbers that the YAML library rounds.
func hasBig(v any) bool {
	switch v := v.(type) {
	case *big.Int:
		return !v.IsUint64()
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasBig)
	case []any:
		return slices.ContainsFunc(v, hasBig)
	}
	return false
}

// toJSONFilter is Jinja's tojson, whose text is safe in HTML, too.
func toJSONFilter(c *call) any {
	j := jsonWriter{writer{nice: c.has(1), indent: size(c.int(1, 0))}, c, true}
	j.write(c.args[0], 0)
	return c.sized(safe(strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "'", `\u0027`).Replace(j.String())))
}

// toJSON makes to_json and to_nice_json.
func toJSON(indent int64, sorted bool) operator {
	return func(c *call) any {
		n := c.int(1, indent)
		j := jsonWriter{writer{nice: n > 0, indent: size(n)}, c, c.bool(2, sorted)}
		j.write(c.args[0], 0)
		return j.String()
	}
}

// jsonWriter writes JSON as Python does, in ASCII.
type jsonWriter struct {
	writer
	c    *call
	sort bool
}

func (j *jsonWriter) write(v any, depth int) {
	require(depth <= maxNesting, errNesting)
	if int64(j.Len()) > j.c.e.o.Bytes || j.indent > 100 {
		j.c.grow(math.MaxInt64)
	}
	switch d := v.(type) {
	case *list:
		failIf(d.kind == generatorKind, "%s returns no list: add | list before %s", d.from, j.c.op.name)
		failIf(d.kind != "", "a %s cannot be written as JSON: add | list before %s", d.kind, j.c.op.name)
		j.container("[", "]", len(d.all()), depth, func(i int) { j.write(d.v[i], depth+1) })
	case *dict:
		keys := slices.Clone(d.list())
		if j.sort {
			slices.SortStableFunc(keys, compare)
		}
		j.container("{", "}", len(keys), depth, func(i int) {
			v, _ := d.get(keys[i])
			_, isList := keys[i].(*list)
			failIf(isList, "a tuple cannot be a key in JSON")
			if key, ok := asString(keys[i]); ok {
				j.quote(key)
			} else {
				j.quote(jsonText(keys[i]))
			}
			j.WriteString(": ")
			j.write(v, depth+1)
		})
	case bool, int64, *big.Int, float64, null:
		j.WriteString(jsonText(v))
	case *missing:
		d.report()
	default:
		s, ok := asString(v)
		failIf(!ok, "a %s cannot be written as JSON", typeName(v))
		j.quote(s)
	}
}

// jsonText is a number, a boolean or none as JSON.
func jsonText(v any) string {
	s := str(v)
	return cmp.Or(jsonWords[s], s)
}

// jsonWords has the words of JSON, and those that Python writes there, by their form in Python.
var jsonWords = map[string]string{"True": "true", "False": "false", "None": "null", "inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}

// prettyPrint writes what fits on one line as Python's pprint does, with the keys of mappings sorted.
func prettyPrint(c *call) any {
	text := repr(sortedCopy(c.args[0], 0))
	failIf(utf8.RuneCountInString(text) > 80, "pprint of more than a line is not supported: use to_nice_json or to_nice_yaml")
	return text
}

func sortedCopy(v any, depth int) any {
	require(depth <= maxNesting, errNesting)
	switch d := v.(type) {
	case *dict:
		keys, sorted := slices.Clone(d.list()), newDict()
		slices.SortStableFunc(keys, compare)
		for _, k := range keys {
			item, _ := d.get(k)
			check(sorted.set(k, sortedCopy(item, depth+1)))
		}
		return sorted
	case *list:
		if d.kind != "" {
			return d
		}
		l := &list{v: make([]any, len(d.all())), tuple: d.tuple}
		for i, item := range d.all() {
			l.v[i] = sortedCopy(item, depth+1)
		}
		return l
	}
	return v
}

// jsonEscapes are the characters that have an escape of their own in JSON.
var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (j *jsonWriter) quote(s string) {
	j.WriteByte('"')
	for _, r := range s {
		switch short := jsonEscapes[r]; {
		case short != "":
			j.WriteString(short)
		case r >= ' ' && r < 0x7f:
			j.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(j, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(j, `\u%04x`, r)
		}
	}
	j.WriteByte('"')
}
