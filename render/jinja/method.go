package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethods are Python's, those that make sense in a template.
func stringMethods() map[string]fn {
	return map[string]fn{
		"capitalize": {do: onText(capitalize)},
		"casefold":   {do: onText(strings.ToLower)},
		"center":     {params: "width! fill", do: func(c *call) any { return c.pad(c.int(1, 0), centered, c.text(2, " ")) }},
		"count":      {params: "sub!", do: func(c *call) any { return countOf(c) }},
		"encode":     {params: "*", do: onText(func(s string) string { return s })},
		"endswith":   {params: "suffix!", do: affix(strings.HasSuffix)},
		"find":       {params: "sub!", do: find(strings.Index, false)},
		"format":     {params: "**", do: formatMethod},
		"format_map": {params: "mapping!", do: formatMap},
		"index":      {params: "sub!", do: find(strings.Index, true)},
		"isalnum":    {do: allRunes(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })},
		"isalpha":    {do: allRunes(unicode.IsLetter)},
		"isdecimal":  {do: allRunes(unicode.IsDigit)},
		"isdigit":    {do: allRunes(unicode.IsDigit)},
		"islower":    {do: func(c *call) any { return isLower(str(c.args[0])) }},
		"isnumeric":  {do: allRunes(unicode.IsNumber)},
		"isspace":    {do: allRunes(unicode.IsSpace)},
		"isupper":    {do: func(c *call) any { return isUpper(str(c.args[0])) }},
		"join":       {params: "items!", do: joinMethod},
		"ljust":      {params: "width! fill", do: func(c *call) any { return c.pad(c.int(1, 0), '<', c.text(2, " ")) }},
		"lower":      {do: onText(strings.ToLower)},
		"lstrip":     {params: "chars", do: func(c *call) any { return strip(str(c.args[0]), c, 1, true, false) }},
		"partition":  {params: "sep!", do: partition(strings.Index)},
		"removeprefix": {params: "prefix!", do: func(c *call) any {
			return strings.TrimPrefix(str(c.args[0]), c.text(1, ""))
		}},
		"removesuffix": {params: "suffix!", do: func(c *call) any {
			return strings.TrimSuffix(str(c.args[0]), c.text(1, ""))
		}},
		"replace": {params: "old! new! count", do: func(c *call) any {
			return c.replaced(str(c.args[0]), c.text(1, ""), c.text(2, ""), c.int(3, -1))
		}},
		"rfind":      {params: "sub!", do: find(strings.LastIndex, false)},
		"rindex":     {params: "sub!", do: find(strings.LastIndex, true)},
		"rjust":      {params: "width! fill", do: func(c *call) any { return c.pad(c.int(1, 0), '>', c.text(2, " ")) }},
		"rpartition": {params: "sep!", do: partition(strings.LastIndex)},
		"rsplit":     {params: "sep maxsplit", do: split(true)},
		"rstrip":     {params: "chars", do: func(c *call) any { return strip(str(c.args[0]), c, 1, false, true) }},
		"split":      {params: "sep maxsplit", do: split(false)},
		"splitlines": {params: "keepends", do: func(c *call) any { return c.stringList(splitLines(str(c.args[0]), c.bool(1, false))) }},
		"startswith": {params: "prefix!", do: affix(strings.HasPrefix)},
		"strip":      {params: "chars", do: func(c *call) any { return strip(str(c.args[0]), c, 1, true, true) }},
		"swapcase":   {do: onText(swapCase)},
		"title":      {do: onText(pythonTitle)},
		"upper":      {do: onText(strings.ToUpper)},
		"zfill":      {params: "width!", do: zeroFill},
	}
}

func dictMethods() map[string]fn {
	return map[string]fn{
		"copy":       {do: func(c *call) any { return c.dict(0).copy() }},
		"get":        {params: "key! default", do: dictGet},
		"items":      {do: func(c *call) any { return newList(c.dict(0).items()) }},
		"keys":       {do: func(c *call) any { return newList(slices.Clone(c.dict(0).list())) }},
		"pop":        {params: "key! default", do: dictPop},
		"setdefault": {params: "key! default", do: setDefault},
		"update":     {params: "from **", do: updateDict},
		"values":     {do: dictValues},
	}
}

func tupleMethods() map[string]fn {
	return map[string]fn{
		"count": {params: "item!", do: func(c *call) any { return countOf(c) }},
		"index": {params: "item!", do: listIndex},
	}
}

func listMethods() map[string]fn {
	return map[string]fn{
		"append":  {params: "item!", do: func(c *call) any { return c.changed(append(c.list().all(), c.args[1])) }},
		"clear":   {do: func(c *call) any { return c.changed(nil) }},
		"copy":    {do: func(c *call) any { return newList(slices.Clone(c.list().all())) }},
		"count":   {params: "item!", do: func(c *call) any { return countOf(c) }},
		"extend":  {params: "items!", do: func(c *call) any { return c.changed(append(c.list().all(), c.items(1)...)) }},
		"index":   {params: "item!", do: listIndex},
		"insert":  {params: "at! item!", do: listInsert},
		"pop":     {params: "at", do: listPop},
		"remove":  {params: "item!", do: listRemove},
		"reverse": {do: func(c *call) any { slices.Reverse(c.list().all()); return none }},
		"sort":    {params: "reverse", do: listSort},
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
		return ""
	}
	left := int64(0)
	switch align {
	case '>':
		left = missing
	case '^':
		left = missing / 2
	case centered:
		left = missing/2 + missing&width&1
	}
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(missing-left))
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
	n := 0
	for _, v := range c.items(0) {
		if equal(v, c.args[1]) {
			n++
		}
	}
	return int64(n)
}

// affix makes startswith and endswith, which take one text or a tuple of them.
func affix(has func(s, affix string) bool) operator {
	return func(c *call) any {
		choices := []any{c.args[1]}
		if _, ok := asString(c.args[1]); !ok {
			choices = c.items(1)
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

func isLower(s string) bool { return s == strings.ToLower(s) && s != strings.ToUpper(s) }
func isUpper(s string) bool { return s == strings.ToUpper(s) && s != strings.ToLower(s) }

func joinMethod(c *call) any {
	for _, v := range c.items(1) {
		if _, ok := asString(v); !ok {
			panic(failure{fmt.Errorf("want strings to join, got a %s", typeName(v))})
		}
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
		i := index(s, sep)
		switch {
		case sep == "":
			panic(failure{errors.New("the separator is empty")})
		case i < 0 && last:
			return tuple("", "", s)
		case i < 0:
			return tuple(s, "", "")
		}
		return tuple(s[:i], sep, s[i+len(sep):])
	}
}

// split makes split and rsplit: at white space, or at a separator, n times.
func split(last bool) operator {
	return func(c *call) any {
		s, n := str(c.args[0]), c.int(2, -1)
		if !c.has(1) {
			return c.stringList(splitSpace(s, n, last))
		}
		sep := c.text(1, "")
		failIf(sep == "", "the separator is empty")
		if n < 0 || !last {
			return c.stringList(strings.SplitN(s, sep, int(min(max(n, -2), 1<<31))+1+min(0, int(max(n, -1)))))
		}
		var parts []string
		for i := strings.LastIndex(s, sep); i >= 0 && n > 0; i = strings.LastIndex(s, sep) {
			parts = append(parts, s[i+len(sep):])
			s = s[:i]
			n--
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return c.stringList(parts)
	}
}

func splitSpace(s string, n int64, last bool) (parts []string) {
	if n < 0 {
		return strings.Fields(s)
	}
	if last {
		for s = strings.TrimRightFunc(s, unicode.IsSpace); s != ""; n-- {
			i := strings.LastIndexFunc(s, unicode.IsSpace)
			if n == 0 || i < 0 {
				parts = append(parts, strings.TrimLeftFunc(s, unicode.IsSpace)[:])
				if n == 0 {
					parts[len(parts)-1] = s
				}
				break
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			parts = append(parts, s[i+size:])
			s = strings.TrimRightFunc(s[:i], unicode.IsSpace)
		}
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, unicode.IsSpace); s != ""; n-- {
		i := strings.IndexFunc(s, unicode.IsSpace)
		if n == 0 || i < 0 {
			return append(parts, s)
		}
		parts = append(parts, s[:i])
		s = strings.TrimLeftFunc(s[i:], unicode.IsSpace)
	}
	return parts
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
		if keep {
			lines = append(lines, s[:i+n])
		} else {
			lines = append(lines, s[:i])
		}
		s = s[i+n:]
	}
	return lines
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

// pythonTitle is the method title, for which everything but a letter ends a word. Jinja's filter of that name differs.
func pythonTitle(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		first := !inWord
		inWord = unicode.IsLetter(r)
		if first {
			return unicode.ToTitle(r)
		}
		return unicode.ToLower(r)
	}, s)
}

func dictGet(c *call) any {
	if v, ok := c.dict(0).get(c.args[1]); ok {
		return v
	}
	if absent(c.args[2]) {
		return none
	}
	return c.args[2]
}

func dictPop(c *call) any {
	v, ok := c.dict(0).get(c.args[1])
	switch {
	case ok:
		c.dict(0).remove(c.args[1])
	case absent(c.args[2]):
		panic(failure{errors.New("there is no such key")})
	default:
		v = c.args[2]
	}
	return v
}

func setDefault(c *call) any {
	if v, ok := c.dict(0).get(c.args[1]); ok {
		return v
	}
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

func dictValues(c *call) any {
	d := c.dict(0)
	var values []any
	for _, k := range d.list() {
		v, _ := d.get(k)
		values = append(values, v)
	}
	return newList(values)
}

func listIndex(c *call) any {
	for i, v := range c.items(0) {
		if equal(v, c.args[1]) {
			return int64(i)
		}
	}
	panic(failure{errors.New("the item is not in the list")})
}

func listInsert(c *call) any {
	l, at := c.list().all(), c.int(1, 0)
	if at < 0 {
		at += int64(len(l))
	}
	return c.changed(slices.Insert(l, int(min(max(at, 0), int64(len(l)))), c.args[2]))
}

func listPop(c *call) any {
	l, at := c.list().all(), c.int(1, -1)
	if at < 0 {
		at += int64(len(l))
	}
	failIf(at < 0 || at >= int64(len(l)), "there is no such item to pop")
	v := l[at]
	c.list().v = slices.Delete(l, int(at), int(at)+1)
	return v
}

func listRemove(c *call) any {
	i := int(listIndex(c).(int64))
	c.list().v = slices.Delete(c.list().v, i, i+1)
	return none
}

func listSort(c *call) any {
	c.sorted(c.list().all(), c.bool(1, false), func(v any) any { return v })
	return none
}
