package jinja

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"math/big"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"initbox/internal/lazy"
)

// jinjaFilters returns the built-in filters that Jinja's documentation for template authors lists.
func jinjaFilters() map[string]fn {
	return map[string]fn{
		"abs":            {do: absolute},
		"attr":           {params: "name!", do: attrFilter},
		"batch":          {params: "linecount! fill_with", do: batch},
		"capitalize":     {do: keepSafe(capitalize)},
		"center":         {params: "width", do: func(c *call) any { return like(c.args[0], str(c.pad(c.int(1, 80), centered, " "))) }},
		"count":          {do: count},
		"d":              {params: "default_value boolean", do: defaultTo, lax: true},
		"default":        {params: "default_value boolean", do: defaultTo, lax: true},
		"dictsort":       {params: "case_sensitive by reverse", do: dictSort},
		"e":              {do: escape},
		"escape":         {do: escape},
		"filesizeformat": {params: "binary", do: fileSize},
		"first":          {do: func(c *call) any { return c.oneOf("first", func(n int) int { return 0 }) }},
		"float":          {params: "default", do: toFloat},
		"forceescape":    {do: forceEscape},
		"format":         {params: "**", do: formatFilter},
		"groupby":        {params: "attribute! default case_sensitive", do: groupBy},
		"indent":         {params: "width first blank", do: indent},
		"int":            {params: "default base", do: toInt},
		"items":          {do: func(c *call) any { return generator("items", c.dict(0).items()) }},
		"join":           {params: "d attribute", do: join},
		"last":           {do: last},
		"length":         {do: count},
		"list":           {do: func(c *call) any { return newList(slices.Clone(c.items(0))) }},
		"lower":          {do: keepSafe(lower)},
		"map":            {params: "**", do: mapFilter},
		"max":            {params: "case_sensitive attribute", do: extreme("max", 1)},
		"min":            {params: "case_sensitive attribute", do: extreme("min", -1)},
		"pprint":         {do: prettyPrint},
		"random":         {do: func(c *call) any { c.notGenerator(); return c.oneOf("random", rand.IntN) }, unsteady: true},
		"reject":         {params: "**", do: selection(false, false), lax: true},
		"rejectattr":     {params: "**", do: selection(true, false)},
		"replace":        {params: "old! new! count", do: replaceFilter},
		"reverse":        {do: reverse},
		"round":          {params: "precision method", do: round},
		"safe":           {do: func(c *call) any { return safe(str(c.args[0])) }},
		"select":         {params: "**", do: selection(false, true), lax: true},
		"selectattr":     {params: "**", do: selection(true, true)},
		"slice":          {params: "slices! fill_with", do: slicesFilter},
		"sort":           {params: "reverse case_sensitive attribute", do: sortFilter},
		"string":         {do: keepSafe(func(s string) string { return s })},
		"striptags":      {do: stripTags},
		"sum":            {params: "attribute start", do: sum},
		"title":          {do: onText(title)},
		"tojson":         {params: "indent", do: toJSONFilter},
		"trim":           {params: "chars", do: func(c *call) any { return like(c.args[0], strip(str(c.args[0]), c, 1, true, true)) }},
		"truncate":       {params: "length killwords end leeway", do: truncate},
		"unique":         {params: "case_sensitive attribute", do: unique},
		"upper":          {do: keepSafe(upper)},
		"urlencode":      {do: urlEncode},
		"wordcount":      {do: wordCount},
		"wordwrap":       {params: "width break_long_words wrapstring break_on_hyphens", do: wordWrap},
		"xmlattr":        {params: "autospace", do: xmlAttributes},
	}
}

// keepSafe is like onText, but the result for a safe string is safe.
func keepSafe(f func(string) string) operator {
	return func(c *call) any { return c.sized(like(c.args[0], f(str(c.args[0])))) }
}

// needsText fails unless the value of the filter is a string.
func (c *call) needsText() {
	_, ok := asString(c.args[0])
	failIf(!ok, "want a string, got a %s: add | string before it", typeName(c.args[0]))
}

// notGenerator fails where Python needs to know how many items there are.
func (c *call) notGenerator() {
	l, ok := c.args[0].(*list)
	if ok && l.kind == generatorKind {
		failf("%s returns no list: add | list before %s", l.from, c.op.name)
	}
}

// attrFilter finds an attribute or a method, but no key of a mapping.
func attrFilter(c *call) any {
	name := str(c.args[1])
	if m, ok := c.e.methodOf(c.args[0], name); ok {
		return m
	}
	if o, ok := c.args[0].(object); ok {
		if v, ok := o.attr(name); ok {
			return v
		}
	}
	return c.missed("the attribute " + name)
}

// onText makes a filter of a function of a string.
func onText(f func(string) string) operator {
	return func(c *call) any { return c.sized(f(str(c.args[0]))) }
}

func absolute(c *call) any {
	n, ok := number(c.args[0])
	failIf(!ok, "a %s has no absolute value", typeName(c.args[0]))
	if n.real {
		return math.Abs(n.f)
	}
	return fromBig(new(big.Int).Abs(n.int()))
}

// attribute finds a path like a.b.0 in v, as the attribute arguments of filters do.
func attribute(r *run, v, path any) any {
	for part := range strings.SplitSeq(str(path), ".") {
		var key any = part
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			key = n
		}
		got, ok := index(v, key)
		if !ok {
			return r.missed("the attribute " + str(path))
		}
		v = got
	}
	return v
}

// by returns a function that returns its argument or, if argument i names an attribute, that attribute.
func (c *call) by(i int) func(v any) any {
	return func(v any) any {
		if c.has(i) {
			return attribute(c.run, v, c.args[i])
		}
		return v
	}
}

// folded is v for comparisons that ignore case.
func folded(v any, caseSensitive bool) any {
	if s, ok := asString(v); ok && !caseSensitive {
		return strings.ToLower(s)
	}
	return v
}

func batch(c *call) any {
	n, all := c.int(1, 0), c.items(0)
	failIf(n < 1, "the size of a batch must be at least 1")
	var batches []any
	for part := range slices.Chunk(all, size(n)) {
		part = slices.Clone(part)
		if c.has(2) {
			c.growItems(n, 1)
			part = append(part, slices.Repeat(c.args[2:3], int(n)-len(part))...)
		}
		batches = append(batches, newList(part))
	}
	return generator("batch", batches)
}

func slicesFilter(c *call) any {
	n, all := c.int(1, 0), c.items(0)
	failIf(n < 1, "the number of slices must be at least 1")
	c.growItems(n, 2)
	size, longer := int64(len(all))/n, int64(len(all))%n
	parts := make([]any, n)
	for i := range n {
		end := (i+1)*size + min(i+1, longer)
		part := slices.Clone(all[i*size+min(i, longer) : end])
		if c.has(2) && i >= longer {
			part = append(part, c.args[2])
		}
		parts[i] = newList(part)
	}
	return generator("slice", parts)
}

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return titleOf(r) + lower(s[n:])
}

// title makes the first letter of each word a capital, where words are what spaces, dashes and opening brackets
// separate.
func title(s string) string {
	var b strings.Builder
	for s != "" {
		end := strings.IndexFunc(s, func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) })
		if end < 0 {
			end = len(s)
		}
		if end > 0 {
			_, n := utf8.DecodeRuneInString(s)
			b.WriteString(upper(s[:n]) + lower(s[n:end]))
			s = s[end:]
			continue
		}
		_, n := utf8.DecodeRuneInString(s)
		b.WriteString(s[:n])
		s = s[n:]
	}
	return b.String()
}

func count(c *call) any {
	n := length(c.args[0])
	failIf(n < 0, "a %s has no length", typeName(c.args[0]))
	return int64(n)
}

func defaultTo(c *call) any {
	v := c.args[0]
	if !isMissing(v) && (isTrue(v) || !c.bool(2, false)) {
		return v
	}
	return c.or(1, "")
}

func dictSort(c *call) any {
	by := slices.Index([]string{"key", "value"}, c.text(2, "key"))
	failIf(by < 0, "sort by key or by value")
	return c.sorted(c.dict(0).items(), c.bool(3, false), func(v any) any { return folded(v.(*list).v[by], c.bool(1, false)) })
}

// sorted sorts items, in place, by what key returns for each.
func (c *call) sorted(items []any, reverse bool, key func(any) any) any {
	type keyed struct{ key, v any }
	all := make([]keyed, len(items))
	for i, v := range items {
		all[i] = keyed{key(v), v}
		if m, ok := all[i].key.(*missing); ok {
			m.report()
		}
	}
	c.step(len(items))
	sign := map[bool]int{false: 1, true: -1}[reverse]
	slices.SortStableFunc(all, func(a, b keyed) int { return sign * compare(a.key, b.key) })
	for i := range all {
		items[i] = all[i].v
	}
	return newList(items)
}

func sortFilter(c *call) any {
	sensitive, paths := c.bool(2, false), []string(nil)
	if c.has(3) {
		paths = strings.Split(str(c.args[3]), ",")
	}
	return c.sorted(slices.Clone(c.items(0)), c.bool(1, false), func(v any) any {
		var keys []any
		for _, p := range paths {
			keys = append(keys, folded(attribute(c.run, v, p), sensitive))
		}
		switch len(keys) {
		case 0:
			return folded(v, sensitive)
		case 1:
			return keys[0]
		}
		return tuple(keys...)
	})
}

// escaped is the text of v, for HTML.
func escaped(v any) string {
	if s, ok := v.(safe); ok {
		return string(s)
	}
	return html.EscapeString(str(v))
}

func escape(c *call) any      { return c.sized(safe(escaped(c.args[0]))) }
func forceEscape(c *call) any { return c.sized(safe(escaped(str(c.args[0])))) }

func fileSize(c *call) any {
	n, ok := number(c.args[0])
	if s, isText := asString(c.args[0]); isText {
		f, err := strconv.ParseFloat(s, 64)
		n, ok = num{f: f}, err == nil
	}
	failIf(!ok, "want a number of bytes")
	base, prefixes, unit := 1000.0, "kMGTPEZY", "B"
	if c.bool(1, false) {
		base, prefixes, unit = 1024, "KMGTPEZY", "iB"
	}
	switch {
	case n.f == 1:
		return "1 Byte"
	case n.f < base:
		return fmt.Sprintf("%d Bytes", int64(n.f))
	}
	i, next := 0, base*base
	for ; n.f >= next && i < len(prefixes)-1; i++ {
		next = math.Pow(base, float64(i+3))
	}
	return fmt.Sprintf("%.1f %c%s", base*n.f/next, prefixes[i], unit)
}

func (c *call) oneOf(which string, choose func(n int) int) any {
	l, isList := c.args[0].(*list)
	items := c.items(0)
	if len(items) == 0 {
		return c.missed("the " + which + " item of an empty list")
	}
	if isList && l.kind == generatorKind {
		l.v = items[1:]
	}
	return items[choose(len(items))]
}

// last returns the last item. That of a safe text is safe, unlike the first: Python reads it by its index.
func last(c *call) any {
	c.notGenerator()
	item := c.oneOf("last", func(n int) int { return n - 1 })
	if text, ok := item.(string); ok {
		if _, isSafe := c.args[0].(safe); isSafe {
			return safe(text)
		}
	}
	return item
}

func toFloat(c *call) any {
	if n, ok := number(c.args[0]); ok {
		return n.float()
	}
	s, ok := asString(c.args[0])
	if f, isNumber := parseFloat(s); ok && isNumber {
		return f
	}
	return c.or(1, float64(0))
}

var floatText = lazy.Regexp(`^(?i)[-+]?(?:(?:\d(?:_?\d)*\.?(?:\d(?:_?\d)*)?|\.\d(?:_?\d)*)(?:e[-+]?\d(?:_?\d)*)?|inf(?:inity)?|nan)$`)

// parseFloat is Python's float() of a text.
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if !floatText().MatchString(s) {
		return 0, false
	}
	f, _ := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64) // infinite if it is too large
	return f, true
}

var intText = lazy.Regexp(`^(?i)[-+]?(?:0[xob]_?)?[\da-z](?:_?[\da-z])*$`)

// parseInt is Python's int() of a text.
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.TrimFunc(s, isSpace)
	prefixes := map[int]string{2: "0b", 8: "0o", 16: "0x"}
	if base < 0 || base == 1 || base > 36 || !intText().MatchString(s) || len(s) > maxDigits {
		return nil, false
	}
	s = strings.ToLower(strings.ReplaceAll(s, "_", ""))
	digits := strings.TrimLeft(s, "-+")
	if base != 0 {
		digits = strings.TrimPrefix(digits, cmp.Or(prefixes[base], " "))
	} else if strings.HasPrefix(digits, "0") && strings.Trim(digits, "0") != "" && digits[1] >= '0' && digits[1] <= '9' {
		return nil, false // 010 is octal in Go only
	}
	i, ok := new(big.Int).SetString(digits, base)
	if ok && strings.HasPrefix(s, "-") {
		i.Neg(i)
	}
	return i, ok
}

func toInt(c *call) any {
	n, ok := number(c.args[0])
	if ok && !n.real {
		return n.exact()
	}
	if s, isText := asString(c.args[0]); isText {
		failIf(strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf && unicode.IsDigit(r) }), "want digits from 0 to 9")
		if i, ok := parseInt(s, size(c.int(2, 10))); ok {
			return fromBig(i)
		}
		n.f, ok = parseFloat(s)
	}
	if !ok || math.IsNaN(n.f) {
		return c.or(1, int64(0))
	}
	return truncated(n.f)
}

func formatFilter(c *call) any {
	arg := tuple(c.args[1:]...)
	if len(c.named) > 0 {
		arg = c.mappingOf(nil)
	}
	failIf(len(c.named) > 0 && len(c.args) > 1, "format takes positional or named arguments, not both")
	return c.sized(c.percentFormat(c.args[0], arg))
}

func groupBy(c *call) any {
	items, sensitive := slices.Clone(c.items(0)), c.bool(3, false)
	key := func(v any) any {
		got := attribute(c.run, v, c.args[1])
		if isMissing(got) && c.args[2] != nil {
			got = c.args[2]
		}
		return got
	}
	caseless := func(v any) any { return folded(key(v), sensitive) }
	c.sorted(items, false, caseless)
	var groups []any
	for len(items) > 0 {
		n := 1
		for n < len(items) && equal(caseless(items[0]), caseless(items[n])) {
			n++
		}
		groups = append(groups, &list{v: []any{key(items[0]), newList(items[:n:n])}, tuple: true, group: true})
		items = items[n:]
	}
	return newList(groups)
}

func indent(c *call) any {
	c.needsText()
	prefix, ok := asString(c.args[1])
	if !ok {
		width := max(0, c.int(1, 4))
		c.grow(width)
		prefix = strings.Repeat(" ", size(width))
	}
	lines := splitLines(str(c.args[0])+"\n", false)
	c.grow(int64(len(lines)) * int64(len(prefix)))
	for i := range lines {
		if i == 0 && c.bool(2, false) || i > 0 && (lines[i] != "" || c.bool(3, false)) {
			lines[i] = prefix + lines[i]
		}
	}
	return c.sized(like(c.args[0], strings.Join(lines, "\n")))
}

func join(c *call) any {
	sep, by, items := "", c.by(2), c.items(0)
	if c.has(1) {
		sep = str(c.args[1])
	}
	parts := make([]string, len(items))
	total := int64(0)
	escapes := c.escape && (is[safe](c.or(1, "")) || slices.ContainsFunc(items, func(v any) bool { return is[safe](by(v)) }))
	if escapes {
		sep = escaped(c.or(1, ""))
	}
	for i, v := range items {
		if parts[i] = str(by(v)); escapes {
			parts[i] = escaped(by(v))
		}
		if total += int64(len(parts[i]) + len(sep)); total > c.e.o.Bytes+int64(len(sep)) {
			c.grow(total)
		}
	}
	text := strings.Join(parts, sep)
	if escapes {
		return c.sized(safe(text))
	}
	return c.sized(text)
}

// sub calls a filter or a test, for map and select.
func (c *call) sub(f fn, args ...any) any {
	o := &op{at: c.at, name: c.op.name, do: f.call, lax: f.lax}
	return c.apply(o, arguments{args, c.named, c.names, c.escape})
}

func mapFilter(c *call) any {
	path, byAttribute := c.named["attribute"]
	instead, hasDefault := c.named["default"]
	failIf(len(c.args) < 2 && !byAttribute, "map needs a filter's name or an attribute")
	do := func(v any) any {
		if v = attribute(c.run, v, path); hasDefault && isMissing(v) {
			return instead
		}
		return v
	}
	if !byAttribute {
		f, ok := c.e.filters[str(c.args[1])]
		failIf(!ok, "there is no filter %s", str(c.args[1]))
		do = func(v any) any { return c.sub(f, append([]any{v}, c.args[2:]...)...) }
	}
	mapped := slices.Clone(c.items(0))
	for i, v := range mapped {
		mapped[i] = do(v)
	}
	return generator("map", mapped)
}

// selection makes select, reject, selectattr and rejectattr.
func selection(byAttribute, want bool) operator {
	return func(c *call) any {
		args := c.args[1:]
		key := same
		if byAttribute {
			failIf(len(args) == 0, "want the name of an attribute")
			path := args[0]
			key, args = func(v any) any { return attribute(c.run, v, path) }, args[1:]
		}
		test := fn{do: func(c *call) any { return isTrue(c.args[0]) }}
		if len(args) > 0 {
			t, ok := c.e.tests[str(args[0])]
			failIf(!ok, "there is no test %s", str(args[0]))
			test, args = t, args[1:]
		}
		return c.kept(c.items(0), func(v any) bool { return isTrue(c.sub(test, append([]any{key(v)}, args...)...)) == want })
	}
}

// kept returns the items that are wanted.
func kept(items []any, wanted func(v any) bool) (all []any) {
	for _, v := range items {
		if wanted(v) {
			all = append(all, v)
		}
	}
	return all
}

func (c *call) kept(items []any, wanted func(v any) bool) any {
	return generator(strings.TrimPrefix(c.op.name, "filter "), kept(items, wanted))
}

func extreme(name string, sign int) operator {
	return func(c *call) any {
		items := c.items(0)
		if len(items) == 0 {
			return c.missed("the " + name + " of an empty list")
		}
		by, sensitive := c.by(2), c.bool(1, false)
		return slices.MaxFunc(items, func(a, b any) int { return sign * compare(folded(by(a), sensitive), folded(by(b), sensitive)) })
	}
}

// replaceFilter escapes its arguments if {% autoescape %} is on and the text is safe.
func replaceFilter(c *call) any {
	old, with := c.args[1], c.args[2]
	if !c.escape {
		return c.replaced(str(old), str(with))
	}
	if !is[safe](c.args[0]) && (is[safe](old) || is[safe](with)) {
		c.args[0] = safe(escaped(c.args[0]))
	}
	if is[safe](c.args[0]) {
		return safe(str(c.replaced(escaped(old), escaped(with))))
	}
	return c.replaced(str(old), str(with))
}

func (c *call) replaced(old, with string) any {
	s, n := str(c.args[0]), c.int(3, -1)
	found := int64(strings.Count(s, old))
	if n >= 0 {
		found = min(found, n)
	}
	c.grow(int64(len(s)) + found*int64(len(with)-len(old)))
	return strings.Replace(s, old, with, size(found))
}

func reverse(c *call) any {
	if s, ok := asString(c.args[0]); ok {
		runes := []rune(s)
		slices.Reverse(runes)
		return like(c.args[0], string(runes))
	}
	l, ok := c.args[0].(*list)
	wasGenerator := ok && l.kind == generatorKind
	items := slices.Clone(c.items(0))
	slices.Reverse(items)
	if wasGenerator {
		return newList(items)
	}
	return generator("reverse", items)
}

func round(c *call) any {
	n, ok := number(c.args[0])
	failIf(!ok, "a %s cannot be rounded", typeName(c.args[0]))
	digits, method := c.int(1, 0), c.text(2, "common")
	require(digits <= 300 && digits >= -300, errTooLarge)
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(digits, -digits)), nil))
	if digits < 0 {
		scale.Inv(scale)
	}
	switch method {
	case "ceil", "floor":
		to := map[string]func(float64) float64{"ceil": math.Ceil, "floor": math.Floor}[method]
		by, _ := scale.Float64()
		return (to(n.float()*by) + 0) / by // no negative zero
	case "common":
	default:
		failf("unknown rounding method: use common, ceil or floor")
	}
	if math.IsNaN(n.f) || math.IsInf(n.f, 0) || !n.real && digits >= 0 {
		return n.value()
	}
	return rounded(n, scale)
}

// rounded is n to a multiple of 1/scale. As in Python, ties go to even, and it is exact.
func rounded(n num, scale *big.Rat) any {
	exact := new(big.Rat)
	if n.real {
		exact.SetFloat64(n.f)
	} else {
		exact.SetInt(n.int())
	}
	exact.Mul(exact, scale)
	i, rest := new(big.Int).DivMod(exact.Num(), exact.Denom(), new(big.Int))
	if half := rest.Lsh(rest, 1).Cmp(exact.Denom()); half > 0 || half == 0 && i.Bit(0) == 1 {
		i.Add(i, big.NewInt(1))
	}
	result := new(big.Rat).Quo(new(big.Rat).SetInt(i), scale)
	if !n.real {
		return fromBig(result.Num())
	}
	f, _ := result.Float64()
	return math.Copysign(f, n.f)
}

func stripTags(c *call) any {
	s := str(c.args[0])
	for _, mark := range [][2]string{{"<!--", "-->"}, {"<", ">"}} {
		var b strings.Builder
		for {
			before, after, found := strings.Cut(s, mark[0])
			_, rest, closed := strings.Cut(after, mark[1])
			if !found || !closed {
				break
			}
			b.WriteString(before)
			s = rest
		}
		s = b.String() + s
	}
	return html.UnescapeString(strings.Join(strings.FieldsFunc(s, isSpace), " "))
}

func sum(c *call) any {
	by, total := c.by(1), any(int64(0))
	if c.has(2) {
		total = c.args[2]
	}
	_, isText := asString(total)
	failIf(isText, "sum adds no texts: use join")
	plus := &op{at: c.at, name: c.op.name, do: add}
	for _, v := range c.items(0) {
		total = c.apply(plus, arguments{args: []any{total, by(v)}})
	}
	return total
}

func truncate(c *call) any {
	n, end := c.int(1, 255), c.text(3, "...")
	keep := n - int64(utf8.RuneCountInString(end))
	failIf(keep < 0, "the length is less than that of the end")
	failIf(c.int(4, 5) < 0, "the leeway is less than 0")
	if length := length(c.args[0]); length >= 0 && int64(length) <= n+c.int(4, 5) {
		return c.args[0]
	}
	c.needsText()
	runes := []rune(str(c.args[0]))
	cutOff := string(runes[:keep])
	if i := strings.LastIndexByte(cutOff, ' '); i >= 0 && !c.bool(2, false) {
		cutOff = cutOff[:i]
	}
	return joined(like(c.args[0], cutOff), end)
}

func unique(c *call) any {
	by, seen := c.by(2), newDict()
	return c.kept(c.items(0), func(v any) bool {
		key := folded(by(v), c.bool(1, false))
		again := seen.has(key)
		check(seen.set(key, v))
		return !again
	})
}

// urlEncode encodes a string, with its slashes, or a mapping as a query.
func urlEncode(c *call) any {
	v := c.args[0]
	var pairs []any
	switch d := v.(type) {
	case *dict:
		pairs = d.items()
	case *list:
		pairs = d.all()
	default:
		return c.sized(strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(str(v))))
	}
	var parts []string
	for _, p := range pairs {
		k, v := keyAndValue(p)
		parts = append(parts, url.QueryEscape(str(k))+"="+url.QueryEscape(str(v)))
	}
	return c.sized(strings.Join(parts, "&"))
}

func wordCount(c *call) any {
	return int64(len(strings.FieldsFunc(str(c.args[0]), func(r rune) bool { return !isWord(r) })))
}

func wordWrap(c *call) any {
	c.needsText()
	width, end := int(min(c.int(1, 79), math.MaxInt32)), c.text(3, "\n")
	failIf(width < 1, "the width must be at least 1")
	c.growItems(int64(len(str(c.args[0]))), 1)
	var lines []string
	for _, line := range splitLines(str(c.args[0]), false) {
		wrapped := wrapLine(chunks([]rune(line), c.bool(4, true)), width, c.bool(2, true), c.bool(4, true))
		lines = append(lines, strings.Join(wrapped, end))
	}
	return c.sized(strings.Join(lines, end))
}

func isBlank(r rune) bool  { return strings.ContainsRune("\t\n\v\f\r ", r) }
func isWord(r rune) bool   { return unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' }
func isLetter(r rune) bool { return isWord(r) && !unicode.IsDigit(r) }
func isPunct(r rune) bool  { return isWord(r) || strings.ContainsRune(`!"'&.,?`, r) }

// chunks are the words of a line and the spaces between them. As in Python's textwrap, a word may be broken after a
// hyphen between letters, and before and after a dash of several.
func chunks(line []rune, hyphens bool) (all [][]rune) {
	at := func(i int, is func(rune) bool) bool { return i >= 0 && i < len(line) && is(line[i]) }
	hyphen := func(r rune) bool { return r == '-' }
	dashes := func(i int) int { // the end of a dash between words that begins at i, or i
		end := i
		for at(end, hyphen) {
			end++
		}
		if end-i < 2 || !at(i-1, isPunct) || !at(end, isWord) {
			return i
		}
		return end
	}
	for i := 0; i < len(line); {
		end := i + 1
		switch {
		case isBlank(line[i]):
			for at(end, isBlank) {
				end++
			}
		case hyphens && dashes(i) > i:
			end = dashes(i)
		default:
			for ; end < len(line) && !isBlank(line[end]) && (!hyphens || dashes(end) == end); end++ {
				before := at(end-1, isLetter) && at(end-2, isLetter) || at(end-1, isPunct) && at(end-2, hyphen) && at(end-3, isLetter)
				after := at(end+1, isLetter) && (at(end+2, isLetter) || at(end+2, hyphen) && at(end+3, isLetter))
				if hyphens && line[end] == '-' && before && after {
					end++
					break
				}
			}
		}
		all = append(all, line[i:end])
		i = end
	}
	return all
}

// wrapLine makes lines of chunks, as Python's textwrap does.
func wrapLine(chunks [][]rune, width int, breakWords, hyphens bool) (lines []string) {
	blank := func(c []rune) bool { return strings.TrimFunc(string(c), isSpace) == "" }
	for len(chunks) > 0 {
		if len(lines) > 0 && blank(chunks[0]) {
			chunks = chunks[1:]
			continue
		}
		var line [][]rune
		n := 0
		for len(chunks) > 0 && n+len(chunks[0]) <= width {
			n += len(chunks[0])
			line = append(line, chunks[0])
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && len(chunks[0]) > width {
			switch long := chunks[0]; {
			case breakWords:
				end := width - n
				if i := strings.LastIndexByte(string(long[:end]), '-'); hyphens && i > 0 && strings.Trim(string(long[:end])[:i], "-") != "" {
					end = utf8.RuneCountInString(string(long[:end])[:i]) + 1
				}
				line = append(line, long[:end])
				chunks[0] = long[end:]
			case len(line) == 0:
				line = append(line, long)
				chunks = chunks[1:]
			}
		}
		if last := len(line) - 1; last >= 0 && blank(line[last]) {
			line = line[:last]
		}
		if len(line) > 0 {
			lines = append(lines, string(slices.Concat(line...)))
		}
	}
	return lines
}

func xmlAttributes(c *call) any {
	s := ""
	for k, v := range c.dict(0).all() {
		if v != none && !isMissing(v) {
			name, ok := asString(k)
			failIf(!ok || strings.ContainsAny(name, " \t\n\v\f\r/>="), "%s cannot be the name of an attribute: it may have no spaces, /, > and =", repr(k))
			s += " " + html.EscapeString(str(k)) + `="` + html.EscapeString(str(v)) + `"`
		}
	}
	if !c.bool(1, true) {
		s = strings.TrimPrefix(s, " ")
	}
	if c.escape {
		return safe(s)
	}
	return s
}
