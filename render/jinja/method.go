package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// stringMethods are Python's, those that make sense in a template.
func stringMethods() map[string]fn {
	return map[string]fn{
		"capitalize": {do: onText(capitalize)},
		"casefold":   {do: onText(strings.ToLower)},
		"center":     {params: "width! fill", do: func(c *call) (value.Value, error) { return c.pad(c.int(1, 0), centered, c.text(2, " ")) }},
		"count":      {params: "sub!", do: func(c *call) (value.Value, error) { return countOf(c), nil }},
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
		"islower":    {do: func(c *call) (value.Value, error) { return truth(isLower(str(c.args[0]))) }},
		"isnumeric":  {do: allRunes(unicode.IsNumber)},
		"isspace":    {do: allRunes(unicode.IsSpace)},
		"isupper":    {do: func(c *call) (value.Value, error) { return truth(isUpper(str(c.args[0]))) }},
		"join":       {params: "items!", do: joinMethod},
		"ljust":      {params: "width! fill", do: func(c *call) (value.Value, error) { return c.pad(c.int(1, 0), '<', c.text(2, " ")) }},
		"lower":      {do: onText(strings.ToLower)},
		"lstrip":     {params: "chars", do: func(c *call) (value.Value, error) { return newString(strip(str(c.args[0]), c, 1, true, false)), nil }},
		"partition":  {params: "sep!", do: partition(strings.Index)},
		"removeprefix": {params: "prefix!", do: func(c *call) (value.Value, error) {
			return newString(strings.TrimPrefix(str(c.args[0]), c.text(1, ""))), nil
		}},
		"removesuffix": {params: "suffix!", do: func(c *call) (value.Value, error) {
			return newString(strings.TrimSuffix(str(c.args[0]), c.text(1, ""))), nil
		}},
		"replace": {params: "old! new! count", do: func(c *call) (value.Value, error) {
			return c.replaced(str(c.args[0]), c.text(1, ""), c.text(2, ""), c.int(3, -1))
		}},
		"rfind":      {params: "sub!", do: find(strings.LastIndex, false)},
		"rindex":     {params: "sub!", do: find(strings.LastIndex, true)},
		"rjust":      {params: "width! fill", do: func(c *call) (value.Value, error) { return c.pad(c.int(1, 0), '>', c.text(2, " ")) }},
		"rpartition": {params: "sep!", do: partition(strings.LastIndex)},
		"rsplit":     {params: "sep maxsplit", do: split(true)},
		"rstrip":     {params: "chars", do: func(c *call) (value.Value, error) { return newString(strip(str(c.args[0]), c, 1, false, true)), nil }},
		"split":      {params: "sep maxsplit", do: split(false)},
		"splitlines": {params: "keepends", do: func(c *call) (value.Value, error) { return c.stringList(splitLines(str(c.args[0]), c.bool(1, false))) }},
		"startswith": {params: "prefix!", do: affix(strings.HasPrefix)},
		"strip":      {params: "chars", do: func(c *call) (value.Value, error) { return newString(strip(str(c.args[0]), c, 1, true, true)), nil }},
		"swapcase":   {do: onText(swapCase)},
		"title":      {do: onText(pythonTitle)},
		"upper":      {do: onText(strings.ToUpper)},
		"zfill":      {params: "width!", do: zeroFill},
	}
}

func dictMethods() map[string]fn {
	return map[string]fn{
		"copy":       {do: func(c *call) (value.Value, error) { return fromDict(c.dict(0).copy()), nil }},
		"get":        {params: "key! default", do: dictGet},
		"items":      {do: func(c *call) (value.Value, error) { return newList(c.dict(0).items()), nil }},
		"keys":       {do: func(c *call) (value.Value, error) { return newList(slices.Clone(c.dict(0).list())), nil }},
		"pop":        {params: "key! default", do: dictPop},
		"setdefault": {params: "key! default", do: setDefault},
		"update":     {params: "from **", do: func(c *call) (value.Value, error) { return value.None(), updateDict(c) }},
		"values":     {do: dictValues},
	}
}

func tupleMethods() map[string]fn {
	return map[string]fn{
		"count": {params: "item!", do: func(c *call) (value.Value, error) { return countOf(c), nil }},
		"index": {params: "item!", do: listIndex},
	}
}

func listMethods() map[string]fn {
	return map[string]fn{
		"append":  {params: "item!", do: func(c *call) (value.Value, error) { return c.changed(append(c.list().all(), c.args[1])) }},
		"clear":   {do: func(c *call) (value.Value, error) { return c.changed(nil) }},
		"copy":    {do: func(c *call) (value.Value, error) { return newList(slices.Clone(c.list().all())), nil }},
		"count":   {params: "item!", do: func(c *call) (value.Value, error) { return countOf(c), nil }},
		"extend":  {params: "items!", do: func(c *call) (value.Value, error) { return c.changed(append(c.list().all(), c.items(1)...)) }},
		"index":   {params: "item!", do: listIndex},
		"insert":  {params: "at! item!", do: listInsert},
		"pop":     {params: "at", do: listPop},
		"remove":  {params: "item!", do: listRemove},
		"reverse": {do: func(c *call) (value.Value, error) { slices.Reverse(c.list().all()); return value.None(), nil }},
		"sort":    {params: "reverse", do: listSort},
	}
}

func (c *call) list() *list { return c.args[0].Raw().(*list) }

// changed puts items into the list that a method is called on.
func (c *call) changed(items []value.Value) (value.Value, error) {
	l := c.list()
	more := int64(len(items) - len(l.all()))
	l.v = items
	if len(items) > int(c.e.o.Bytes/itemSize) {
		return value.Undefined(), c.grow(-1)
	}
	return value.None(), c.growItems(max(0, more), 1)
}

func (c *call) stringList(parts []string) (value.Value, error) {
	items := make([]value.Value, len(parts))
	for i, p := range parts {
		items[i] = newString(p)
	}
	return newList(items), c.growItems(int64(len(parts)), 1)
}

// centered is the alignment of center, which Python rounds otherwise than ^.
const centered = 'c'

// pad fills a string up to width characters.
func (c *call) pad(width int64, align rune, fill string) (value.Value, error) {
	if utf8.RuneCountInString(fill) != 1 {
		return value.Undefined(), errors.New("want one character to fill with")
	}
	return c.sized(c.padded(str(c.args[0]), width, align, fill))
}

func (c *call) padded(s string, width int64, align rune, fill string) (string, error) {
	missing := width - int64(utf8.RuneCountInString(s))
	if missing <= 0 {
		return s, nil
	}
	if missing > c.e.o.Bytes/int64(len(fill)) {
		return "", c.grow(-1)
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
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(missing-left)), nil
}

func zeroFill(c *call) (value.Value, error) {
	s, sign := str(c.args[0]), ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	s, err := c.padded(s, c.int(1, 0)-int64(len(sign)), '>', "0")
	return c.sized(sign+s, err)
}

func countOf(c *call) value.Value {
	if s, ok := c.args[0].AsString(); ok {
		return value.FromInt(int64(strings.Count(s, c.text(1, ""))))
	}
	n := 0
	for _, v := range c.items(0) {
		if equal(v, c.args[1]) {
			n++
		}
	}
	return value.FromInt(int64(n))
}

// affix makes startswith and endswith, which take one text or a tuple of them.
func affix(has func(s, affix string) bool) operator {
	return func(c *call) (value.Value, error) {
		choices := []value.Value{c.args[1]}
		if _, ok := c.args[1].AsString(); !ok {
			choices = c.items(1)
		}
		return truth(slices.ContainsFunc(choices, func(v value.Value) bool { return has(str(c.args[0]), str(v)) }))
	}
}

func find(index func(s, sub string) int, needed bool) operator {
	return func(c *call) (value.Value, error) {
		s := str(c.args[0])
		i := index(s, c.text(1, ""))
		if i < 0 && needed {
			return value.Undefined(), errors.New("the text is not found")
		}
		return value.FromInt(int64(utf8.RuneCountInString(s[:max(i, 0)]) + min(i, 0))), nil
	}
}

func allRunes(is func(rune) bool) operator {
	return func(c *call) (value.Value, error) {
		s := str(c.args[0])
		return truth(s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !is(r) }))
	}
}

func isLower(s string) bool { return s == strings.ToLower(s) && s != strings.ToUpper(s) }
func isUpper(s string) bool { return s == strings.ToUpper(s) && s != strings.ToLower(s) }

func joinMethod(c *call) (value.Value, error) {
	for _, v := range c.items(1) {
		if _, ok := v.AsString(); !ok {
			return value.Undefined(), fmt.Errorf("want strings to join, got a %s", typeName(v))
		}
	}
	c.args = []value.Value{c.args[1], c.args[0]}
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
	return func(c *call) (value.Value, error) {
		s, sep := str(c.args[0]), c.text(1, "")
		i := index(s, sep)
		switch {
		case sep == "":
			return value.Undefined(), errors.New("the separator is empty")
		case i < 0 && last:
			return tuple(newString(""), newString(""), newString(s)), nil
		case i < 0:
			return tuple(newString(s), newString(""), newString("")), nil
		}
		return tuple(newString(s[:i]), newString(sep), newString(s[i+len(sep):])), nil
	}
}

// split makes split and rsplit: at white space, or at a separator, n times.
func split(last bool) operator {
	return func(c *call) (value.Value, error) {
		s, n := str(c.args[0]), c.int(2, -1)
		if !c.has(1) {
			return c.stringList(splitSpace(s, n, last))
		}
		sep := c.text(1, "")
		if sep == "" {
			return value.Undefined(), errors.New("the separator is empty")
		}
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

// splitLines is Python's splitlines: a line end at the end begins no new line.
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

// pythonTitle is the method title, for which everything but a letter ends a
// word. Jinja's filter is another.
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

func dictGet(c *call) (value.Value, error) {
	if v, ok := c.dict(0).get(c.args[1]); ok {
		return v, nil
	}
	if absent(c.args[2]) {
		return value.None(), nil
	}
	return c.args[2], nil
}

func dictPop(c *call) (value.Value, error) {
	v, ok := c.dict(0).get(c.args[1])
	switch {
	case ok:
		c.dict(0).remove(c.args[1])
	case absent(c.args[2]):
		return value.Undefined(), errors.New("there is no such key")
	default:
		v = c.args[2]
	}
	return v, nil
}

func setDefault(c *call) (value.Value, error) {
	if v, ok := c.dict(0).get(c.args[1]); ok {
		return v, nil
	}
	v, _ := dictGet(c)
	return v, c.dict(0).set(c.args[1], v)
}

func updateDict(c *call) error {
	d := c.dict(0)
	c.args = c.args[1:]
	from := c.mapping()
	d.update(from)
	return c.growItems(int64(len(from.list())), 1)
}

func dictValues(c *call) (value.Value, error) {
	d := c.dict(0)
	var values []value.Value
	for _, k := range d.list() {
		v, _ := d.get(k)
		values = append(values, v)
	}
	return newList(values), nil
}

func listIndex(c *call) (value.Value, error) {
	for i, v := range c.items(0) {
		if equal(v, c.args[1]) {
			return value.FromInt(int64(i)), nil
		}
	}
	return value.Undefined(), errors.New("the item is not in the list")
}

func listInsert(c *call) (value.Value, error) {
	l, at := c.list().all(), c.int(1, 0)
	if at < 0 {
		at += int64(len(l))
	}
	return c.changed(slices.Insert(l, int(min(max(at, 0), int64(len(l)))), c.args[2]))
}

func listPop(c *call) (value.Value, error) {
	l, at := c.list().all(), c.int(1, -1)
	if at < 0 {
		at += int64(len(l))
	}
	if at < 0 || at >= int64(len(l)) {
		return value.Undefined(), errors.New("there is no such item to pop")
	}
	v := l[at]
	c.list().v = slices.Delete(l, int(at), int(at)+1)
	return v, nil
}

func listRemove(c *call) (value.Value, error) {
	at, err := listIndex(c)
	if err != nil {
		return value.Undefined(), err
	}
	i, _ := at.AsInt()
	c.list().v = slices.Delete(c.list().v, int(i), int(i)+1)
	return value.None(), nil
}

func listSort(c *call) (value.Value, error) {
	_, err := c.sorted(c.list().all(), c.bool(1, false), func(v value.Value) value.Value { return v })
	return value.None(), err
}
