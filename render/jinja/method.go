package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethods are Python's, those that make sense in a template.
func stringMethods() map[string]fn {
	return map[string]fn{
		"capitalize": {do: onText(capitalize)},
		"casefold":   {do: onText(caseFold)},
		"center":     {params: "width! fill", do: func(c *call) any { return c.pad(c.int(1, 0), centered, c.text(2, " ")) }},
		"count":      {params: "sub!", do: countOf},
		"encode":     {params: "*", do: unsupported("there are no bytes here: leave it out")},
		"endswith":   {params: "suffix!", do: affix(strings.HasSuffix)},
		"expandtabs": {params: "tabsize", do: unsupported("")},
		"find":       {params: "sub!", do: find(strings.Index, false)},
		"format":     {params: "**", do: formatMethod},
		"format_map": {params: "mapping!", do: formatMap},
		"index":      {params: "sub!", do: find(strings.Index, true)},
		"isalnum":    {do: allRunes(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })},
		"isalpha":    {do: allRunes(unicode.IsLetter)},
		"isascii": {do: func(c *call) any {
			return !strings.ContainsFunc(str(c.args[0]), func(r rune) bool { return r >= utf8.RuneSelf })
		}},
		"isdecimal":    {do: allRunes(unicode.IsDigit)},
		"isdigit":      {do: allRunes(func(r rune) bool { return unicode.IsDigit(r) || unicode.Is(otherDigits, r) })},
		"isidentifier": {do: unsupported("")},
		"islower":      {do: func(c *call) any { return isLower(str(c.args[0])) }},
		"isnumeric":    {do: isNumeric},
		"isprintable":  {do: unsupported("")},
		"isspace":      {do: allRunes(isSpace)},
		"istitle":      {do: unsupported("")},
		"isupper":      {do: func(c *call) any { return isUpper(str(c.args[0])) }},
		"join":         {params: "items!", do: joinMethod},
		"ljust":        {params: "width! fill", do: func(c *call) any { return c.pad(c.int(1, 0), '<', c.text(2, " ")) }},
		"lower":        {do: onText(lower)},
		"lstrip":       {params: "chars", do: func(c *call) any { return strip(str(c.args[0]), c, 1, true, false) }},
		"maketrans":    {params: "*", do: unsupported("")},
		"partition":    {params: "sep!", do: partition(strings.Index)},
		"removeprefix": {params: "prefix!", do: func(c *call) any { return strings.TrimPrefix(str(c.args[0]), c.text(1, "")) }},
		"removesuffix": {params: "suffix!", do: func(c *call) any { return strings.TrimSuffix(str(c.args[0]), c.text(1, "")) }},
		"replace":      {params: "old! new! count", do: func(c *call) any { return c.replaced(c.text(1, ""), c.text(2, "")) }},
		"rfind":        {params: "sub!", do: find(strings.LastIndex, false)},
		"rindex":       {params: "sub!", do: find(strings.LastIndex, true)},
		"rjust":        {params: "width! fill", do: func(c *call) any { return c.pad(c.int(1, 0), '>', c.text(2, " ")) }},
		"rpartition":   {params: "sep!", do: partition(strings.LastIndex)},
		"rsplit":       {params: "sep maxsplit", do: split(true)},
		"rstrip":       {params: "chars", do: func(c *call) any { return strip(str(c.args[0]), c, 1, false, true) }},
		"split":        {params: "sep maxsplit", do: split(false)},
		"splitlines":   {params: "keepends", do: func(c *call) any { return c.stringList(splitLines(str(c.args[0]), c.bool(1, false))) }},
		"startswith":   {params: "prefix!", do: affix(strings.HasPrefix)},
		"strip":        {params: "chars", do: func(c *call) any { return strip(str(c.args[0]), c, 1, true, true) }},
		"swapcase":     {do: onText(swapCase)},
		"title":        {do: onText(pythonTitle)},
		"translate":    {params: "*", do: unsupported("")},
		"upper":        {do: onText(upper)},
		"zfill":        {params: "width!", do: zeroFill},
	}
}

func dictMethods() map[string]fn {
	return map[string]fn{
		"clear":      {do: clearDict},
		"copy":       {do: func(c *call) any { return c.dict(0).copy() }},
		"fromkeys":   {params: "*", do: unsupported("")},
		"get":        {params: "key! default", do: dictGet},
		"items":      {do: view(itemsKind, (*dict).items)},
		"keys":       {do: view(keysKind, func(d *dict) []any { return slices.Clone(d.list()) })},
		"pop":        {params: "key! default", do: dictPop},
		"popitem":    {do: popItem},
		"setdefault": {params: "key! default", do: setDefault},
		"update":     {params: "from **", do: updateDict},
		"values":     {do: view(valuesKind, (*dict).values)},
	}
}

func listMethods() map[string]fn {
	return map[string]fn{
		"append":  {params: "item!", do: func(c *call) any { return c.changed(append(c.list().all(), c.args[1])) }},
		"clear":   {do: func(c *call) any { return c.changed(nil) }},
		"copy":    {do: func(c *call) any { return newList(slices.Clone(c.list().all())) }},
		"count":   {params: "item!", do: countOf},
		"extend":  {params: "items!", do: func(c *call) any { return c.changed(append(c.list().all(), c.items(1)...)) }},
		"index":   {params: "item!", do: listIndex},
		"insert":  {params: "at! item!", do: listInsert},
		"pop":     {params: "at", do: listPop},
		"remove":  {params: "item!", do: func(c *call) any { c.args[1] = listIndex(c); listPop(c); return none }},
		"reverse": {do: func(c *call) any { slices.Reverse(c.list().all()); return none }},
		"sort":    {params: "reverse", do: func(c *call) any { c.sorted(c.list().all(), c.bool(1, false), same); return none }},
	}
}

func (c *call) list() *list { return c.args[0].(*list) }

// changed puts items into the list that a method is called on.
func (c *call) changed(items []any) any {
	l := c.list()
	more := int64(len(items) - len(l.all()))
	l.v = items
	if len(items) > int(c.e.o.Bytes/itemSize) {
		c.grow(-1)
	}
	c.growItems(max(0, more), 1)
	return none
}

func (c *call) stringList(parts []string) any {
	c.growItems(int64(len(parts)), 1)
	return newList(anys(parts))
}

// centered is the alignment of center, which Python rounds differently from ^.
const centered = 'c'

// pad fills a string up to width characters.
func (c *call) pad(width int64, align rune, fill string) any {
	failIf(utf8.RuneCountInString(fill) != 1, "the fill must be one character")
	return c.sized(c.padded(str(c.args[0]), width, align, fill))
}

func (c *call) padded(s string, width int64, align rune, fill string) string {
	missing := width - int64(utf8.RuneCountInString(s))
	if missing <= 0 {
		return s
	}
	if missing > c.e.o.Bytes/int64(len(fill)) {
		c.grow(-1)
	}
	left := map[rune]int64{'>': missing, '^': missing / 2, centered: missing/2 + missing&width&1}[align]
	return strings.Repeat(fill, size(left)) + s + strings.Repeat(fill, size(missing-left))
}

func zeroFill(c *call) any {
	s, sign := str(c.args[0]), ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	return c.sized(sign + c.padded(s, c.int(1, 0)-int64(len(sign)), '>', "0"))
}

func countOf(c *call) any {
	if s, ok := asString(c.args[0]); ok {
		return int64(strings.Count(s, c.text(1, "")))
	}
	n := int64(0)
	for _, v := range c.items(0) {
		if equal(v, c.args[1]) {
			n++
		}
	}
	return n
}

// affix makes startswith and endswith, which take one text or a tuple of them.
func affix(has func(s, affix string) bool) operator {
	return func(c *call) any {
		choices := []any{c.args[1]}
		if l, ok := c.args[1].(*list); ok && l.tuple {
			choices = l.all()
		}
		for _, v := range choices {
			_, ok := asString(v)
			failIf(!ok, "want a string or a tuple of strings, got a %s", typeName(c.args[1]))
		}
		return slices.ContainsFunc(choices, func(v any) bool { return has(str(c.args[0]), str(v)) })
	}
}

func find(index func(s, sub string) int, needed bool) operator {
	return func(c *call) any {
		s := str(c.args[0])
		i := index(s, c.text(1, ""))
		failIf(i < 0 && needed, "the text is not found")
		return int64(utf8.RuneCountInString(s[:max(i, 0)]) + min(i, 0))
	}
}

func allRunes(is func(rune) bool) operator {
	return func(c *call) any {
		s := str(c.args[0])
		return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !is(r) })
	}
}

// isNumeric fails for Chinese characters, some of which are numbers.
func isNumeric(c *call) any {
	failIf(strings.ContainsFunc(str(c.args[0]), func(r rune) bool { return unicode.Is(unicode.Han, r) }), "isnumeric is not supported for Chinese characters")
	return allRunes(unicode.IsNumber)(c)
}

func joinMethod(c *call) any {
	for _, v := range c.items(1) {
		_, ok := asString(v)
		failIf(!ok, "want strings to join, got a %s", typeName(v))
	}
	c.args = []any{c.args[1], c.args[0]}
	return join(c)
}

// strip trims the characters of argument i, or white space.
func strip(s string, c *call, i int, left, right bool) string {
	is := unicode.IsSpace
	if chars := c.text(i, ""); c.has(i) {
		is = func(r rune) bool { return strings.ContainsRune(chars, r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, is)
	}
	if right {
		s = strings.TrimRightFunc(s, is)
	}
	return s
}

func partition(index func(s, sub string) int) operator {
	last := index("aa", "a") > 0
	return func(c *call) any {
		s, sep := str(c.args[0]), c.text(1, "")
		failIf(sep == "", "the separator is empty")
		switch i := index(s, sep); {
		case i >= 0:
			return tuple(s[:i], sep, s[i+len(sep):])
		case last:
			return tuple("", "", s)
		}
		return tuple(s, "", "")
	}
}

// split makes split and rsplit: at white space, or at a separator, n times.
func split(last bool) operator {
	return func(c *call) any {
		s, sep, n := str(c.args[0]), c.text(1, ""), c.int(2, -1)
		failIf(c.has(1) && sep == "", "the separator is empty")
		var parts []string
		if sep == "" && last {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		} else if sep == "" {
			s = strings.TrimLeftFunc(s, unicode.IsSpace)
		}
		for start, end := separator(s, sep, last); n != 0 && start >= 0; start, end = separator(s, sep, last) {
			if last {
				parts, s = append(parts, s[end:]), s[:start]
			} else {
				parts, s = append(parts, s[:start]), s[end:]
			}
			n--
		}
		if s != "" || sep != "" {
			parts = append(parts, s)
		}
		if last {
			slices.Reverse(parts)
		}
		return c.stringList(parts)
	}
}

// separator finds the first or the last sep in s, or white space if sep is empty.
func separator(s, sep string, last bool) (start, end int) {
	switch {
	case sep != "" && last:
		start = strings.LastIndex(s, sep)
	case sep != "":
		start = strings.Index(s, sep)
	case last:
		word := strings.LastIndexFunc(s, unicode.IsSpace)
		_, size := utf8.DecodeRuneInString(s[max(word, 0):])
		return min(word, len(strings.TrimRightFunc(s[:max(word, 0)], unicode.IsSpace))), word + size
	default:
		start = strings.IndexFunc(s, unicode.IsSpace)
		return start, len(s) - len(strings.TrimLeftFunc(s[max(start, 0):], unicode.IsSpace))
	}
	return start, start + len(sep)
}

// splitLines is Python's splitlines: a line end at the end does not begin a line.
func splitLines(s string, keep bool) (lines []string) {
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(lines, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		end := i
		if keep {
			end += n
		}
		lines = append(lines, s[:end])
		s = s[i+n:]
	}
	return lines
}

func dictGet(c *call) any {
	if v, ok := c.dict(0).get(c.args[1]); ok {
		return v
	}
	return c.or(2, none)
}

func dictPop(c *call) any {
	failIf(!c.dict(0).has(c.args[1]) && c.args[2] == nil, "there is no such key")
	v := dictGet(c)
	c.dict(0).remove(c.args[1])
	return v
}

func setDefault(c *call) any {
	v := dictGet(c)
	check(c.dict(0).set(c.args[1], v))
	return v
}

func updateDict(c *call) any {
	d := c.dict(0)
	c.args = c.args[1:]
	from := c.mapping()
	d.update(from)
	c.growItems(int64(len(from.list())), 1)
	return none
}

// view makes a method that returns a view of the mapping.
func view(kind string, items func(d *dict) []any) operator {
	return func(c *call) any {
		d := c.dict(0)
		return &list{kind: kind, view: func() []any { return items(d) }}
	}
}

func (d *dict) values() (all []any) {
	for _, v := range d.all() {
		all = append(all, v)
	}
	return all
}

func clearDict(c *call) any {
	*c.dict(0) = *newDict()
	return none
}

func popItem(c *call) any {
	items := c.dict(0).items()
	failIf(len(items) == 0, "the mapping is empty")
	last := items[len(items)-1]
	c.dict(0).remove(last.(*list).v[0])
	return last
}

// unsupported makes a method that Python has, and that is an error here.
func unsupported(why string) operator {
	return func(c *call) any {
		failf("%s is not supported%s", c.op.name, strings.TrimSuffix(": "+why, ": "))
		return nil
	}
}

func listIndex(c *call) any {
	i := slices.IndexFunc(c.items(0), func(v any) bool { return equal(v, c.args[1]) })
	failIf(i < 0, "the item is not in the list")
	return int64(i)
}

func listInsert(c *call) any {
	l := c.list().all()
	n := int64(len(l))
	return c.changed(slices.Insert(l, int(fromEnd(c.int(1, 0), n, 0, n)), c.args[2]))
}

func listPop(c *call) any {
	l := c.list().all()
	v, ok := index(c.list(), c.int(1, -1))
	failIf(!ok, "there is no such item to pop")
	at := (c.int(1, -1) + int64(len(l))) % int64(len(l))
	c.list().v = slices.Delete(l, int(at), int(at)+1)
	return v
}

func same(v any) any { return v }
