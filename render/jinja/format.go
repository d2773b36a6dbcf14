package jinja

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// spec is a parsed format such as "%-08.3f" or "{:*>8.3f}": how a value is written.
type spec struct {
	fill      string
	align     rune // < > ^ = or 0
	sign      byte // + or space: what a positive number begins with
	alternate bool // #
	zero      bool
	comma     string
	width     int64
	precision int // -1: none is given
	verb      byte
}

// percentFormat is format % arg: of a tuple's items, of a mapping's, or of one value.
func (c *call) percentFormat(format string, arg any) string {
	args := []any{arg}
	if l, ok := arg.(*list); ok && l.tuple {
		args = l.all()
	}
	mapping, _ := arg.(*dict)
	used := 0
	next := func() any {
		if used++; used > len(args) {
			panic(failure{errors.New("too few values for the format")})
		}
		return args[used-1]
	}
	var b strings.Builder
	for format != "" {
		before, after, found := strings.Cut(format, "%")
		b.WriteString(before)
		if !found {
			break
		}
		name, s, rest := percentSpec(after, next)
		format = rest
		if s.verb == '%' {
			b.WriteByte('%')
			continue
		}
		var v any
		if name != nil {
			failIf(mapping == nil, "the format needs a mapping")
			var ok bool
			if v, ok = mapping.get(*name); !ok {
				panic(failure{fmt.Errorf("the mapping has no %s", *name)})
			}
			used = len(args)
		} else {
			v = next()
		}
		b.WriteString(c.formatOne(v, s))
		c.grow(int64(b.Len()))
	}
	failIf(used < len(args) && mapping == nil, "too many values for the format")
	return b.String()
}

// percentSpec reads what follows a %.
func percentSpec(format string, next func() any) (name *string, s spec, rest string) {
	s = spec{precision: -1, fill: " ", align: '>'}
	if strings.HasPrefix(format, "(") {
		n, after, ok := strings.Cut(format[1:], ")")
		failIf(!ok, "the format has no )")
		name, format = &n, after
	}
	for format != "" && strings.IndexByte("-+ #0", format[0]) >= 0 {
		switch format[0] {
		case '-':
			s.align = '<'
		case '+':
			s.sign = '+'
		case ' ':
			s.sign = max(s.sign, ' ')
		case '#':
			s.alternate = true
		case '0':
			s.zero = true
		}
		format = format[1:]
	}
	number := func() int64 {
		if strings.HasPrefix(format, "*") {
			format = format[1:]
			n, ok := next().(int64)
			failIf(!ok, "* in the format wants a whole number")
			return n
		}
		digits := len(format) - len(strings.TrimLeft(format, "0123456789"))
		n, err := strconv.ParseInt("0"+format[:digits], 10, 64)
		if err != nil {
			check(errTooLarge)
		}
		format = format[digits:]
		return n
	}
	if s.width = number(); s.width < 0 {
		s.align, s.width = '<', -s.width
	}
	if strings.HasPrefix(format, ".") {
		format = format[1:]
		s.precision = int(min(max(number(), 0), math.MaxInt32))
	}
	format = strings.TrimLeft(format, "hlL")
	failIf(format == "", "the format ends inside a placeholder")
	s.verb = format[0]
	if s.zero && s.align == '>' && strings.IndexByte("diouxXeEfFgG", s.verb) >= 0 {
		s.fill, s.align = "0", '='
	}
	return name, s, format[1:]
}

// formatOne writes v as s says, for both kinds of formats.
func (c *call) formatOne(v any, s spec) string {
	if m, ok := v.(*missing); ok {
		m.report()
		return ""
	}
	text, sign := "", ""
	n, isNumber := number(v)
	switch s.verb {
	case 's', 'r', 'a', 0:
		if text = str(v); s.verb == 'r' || s.verb == 'a' {
			text = repr(v)
		}
		if runes := []rune(text); s.precision >= 0 && s.precision < len(runes) {
			text = string(runes[:s.precision])
		}
		if s.align == '=' {
			s.align = '>'
		}
	case 'c':
		if text = str(v); isNumber {
			text = string(rune(n.i))
		}
	case 'd', 'i', 'u', 'x', 'X', 'o', 'b':
		failIf(!isNumber, "%%%c wants a number, got a %s", s.verb, typeName(v))
		if n.real {
			n.i = int64(n.f)
		}
		base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[s.verb]
		if base == 0 {
			base = 10
		}
		text = strings.TrimPrefix(strconv.FormatInt(n.i, base), "-")
		if zeros := s.precision - len(text); zeros > 0 {
			c.grow(int64(zeros))
			text = strings.Repeat("0", zeros) + text
		}
		if s.alternate && base != 10 {
			sign = "0" + strings.ToLower(string(s.verb))
		}
		if s.verb == 'X' {
			text, sign = strings.ToUpper(text), strings.ToUpper(sign)
		}
		sign = s.signOf(n.i < 0) + sign
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		failIf(!isNumber, "%%%c wants a number, got a %s", s.verb, typeName(v))
		text = s.formatReal(math.Abs(n.f))
		sign = s.signOf(math.Signbit(n.f))
	default:
		panic(failure{fmt.Errorf("unknown format %q", string(s.verb))})
	}
	if s.comma != "" && isNumber {
		text = grouped(text, s.comma)
	}
	if s.align == '=' {
		return sign + c.padded(text, s.width-int64(len(sign)), '>', s.fill)
	}
	return c.padded(sign+text, s.width, s.align, s.fill)
}

func (s spec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case s.sign != 0:
		return string(s.sign)
	}
	return ""
}

func (s spec) formatReal(f float64) string {
	precision := min(s.precision, 1000)
	if precision < 0 {
		precision = 6
	}
	switch s.verb {
	case '%':
		return strconv.FormatFloat(f*100, 'f', precision, 64) + "%"
	case 'g', 'G':
		text := fmt.Sprintf("%.*g", max(precision, 1), f)
		if s.alternate {
			text = fmt.Sprintf("%#.*g", max(precision, 1), f)
		}
		if s.verb == 'G' {
			text = strings.ToUpper(text)
		}
		return text
	}
	verb := s.verb
	if verb == 'F' {
		verb = 'f'
	}
	return strconv.FormatFloat(f, verb, precision, 64)
}

// grouped puts a separator between thousands.
func grouped(text, sep string) string {
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + sep + whole[i:]
	}
	return whole + text[len(text)-len(fraction)-min(1, len(fraction)):]
}

func formatMethod(c *call) any {
	next := 0
	return c.sized(c.braceFormat(str(c.args[0]), &next, 0, func(name string) any {
		if i, err := strconv.Atoi(name); err == nil {
			failIf(i+1 >= len(c.args) || i < 0, "the format wants %d values, %d are given", i+1, len(c.args)-1)
			return c.args[i+1]
		}
		v, ok := c.named[name]
		failIf(!ok, "the format wants a %s, which is not given", name)
		return v
	}))
}

func formatMap(c *call) any {
	next := 0
	return c.sized(c.braceFormat(str(c.args[0]), &next, 0, func(name string) any {
		v, ok := c.dict(1).get(name)
		failIf(!ok, "the format wants a %s, which is not given", name)
		return v
	}))
}

// braceFormat is str.format. The names of values may be followed by attributes
// and indices, specs may have fields of their own.
func (c *call) braceFormat(format string, next *int, depth int, get func(string) any) string {
	var b strings.Builder
	for format != "" {
		i := strings.IndexAny(format, "{}")
		if i < 0 {
			b.WriteString(format)
			break
		}
		b.WriteString(format[:i])
		brace := format[i]
		format = format[i+1:]
		if format != "" && format[0] == brace {
			b.WriteByte(brace)
			format = format[1:]
			continue
		}
		end := fieldEnd(format)
		failIf(brace == '}' || end < 0 || depth > 2, "unmatched brace in the format")
		b.WriteString(c.field(format[:end], next, depth, get))
		c.grow(int64(b.Len()))
		format = format[end+1:]
	}
	return b.String()
}

// fieldEnd is where the } of a field is.
func fieldEnd(format string) int {
	open := 1
	for i := range len(format) {
		switch format[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

func (c *call) field(field string, next *int, depth int, get func(string) any) string {
	name, specText, _ := strings.Cut(field, ":")
	name, conversion, _ := strings.Cut(name, "!")
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	first, path := name[:end], name[end:]
	if first == "" {
		first = strconv.Itoa(*next)
		*next++
	}
	v := get(first)
	for path != "" {
		v, path = c.follow(v, path)
	}
	if strings.Contains(specText, "{") {
		specText = c.braceFormat(specText, next, depth+1, get)
	}
	switch conversion {
	case "r":
		v = repr(v)
	case "s":
		v = str(v)
	}
	return c.formatOne(v, braceSpec(specText, v))
}

// follow follows the first of .name or [key] in a path.
func (c *call) follow(v any, path string) (any, string) {
	key, rest := path[1:], ""
	if path[0] == '[' {
		var ok bool
		key, rest, ok = strings.Cut(path[1:], "]")
		failIf(!ok, "the format has no ]")
	} else if i := strings.IndexAny(key, ".["); i >= 0 {
		key, rest = key[:i], key[i:]
	}
	var k any = key
	if n, err := strconv.ParseInt(key, 10, 64); err == nil && path[0] == '[' {
		k = int64(n)
	}
	got, ok := index(v, k)
	failIf(!ok, "the value for the format has no %s", key)
	return got, rest
}

// braceSpec reads [[fill]align][sign][#][0][width][,][.precision][type].
func braceSpec(text string, v any) spec {
	s, whole := spec{precision: -1, fill: " "}, text
	runes := []rune(text)
	if len(runes) > 1 && strings.ContainsRune("<>^=", runes[1]) {
		s.fill, s.align, runes = string(runes[0]), runes[1], runes[2:]
	} else if len(runes) > 0 && strings.ContainsRune("<>^=", runes[0]) {
		s.align, runes = runes[0], runes[1:]
	}
	text = string(runes)
	take := func(chars string) byte {
		if text != "" && strings.IndexByte(chars, text[0]) >= 0 {
			c := text[0]
			text = text[1:]
			return c
		}
		return 0
	}
	if s.sign = take("+- "); s.sign == '-' {
		s.sign = 0
	}
	s.alternate = take("#") != 0
	if take("0") != 0 && s.align == 0 {
		s.fill, s.align = "0", '='
	}
	digits := func() (n int64) {
		for d := take("0123456789"); d != 0 && n < math.MaxInt32; d = take("0123456789") {
			n = n*10 + int64(d-'0')
		}
		return n
	}
	s.width = digits()
	if sep := take(",_"); sep != 0 {
		s.comma = string(sep)
	}
	if take(".") != 0 {
		s.precision = int(digits())
	}
	if s.verb = take("sdxXobceEfFgG%"); text != "" {
		failf("unknown format %q", text)
	}
	n, isNumber := number(v)
	if _, ok := v.(bool); ok && whole == "" {
		isNumber = false // a word
	}
	if isNumber {
		if s.align == 0 {
			s.align = '>'
		}
		switch {
		case s.verb == 0 && !n.real:
			s.verb = 'd'
		case s.verb == 0 && s.precision >= 0:
			s.verb = 'g'
		case s.verb == 0 && s.sign == 0 && s.align != '=':
			s.comma = ""
		}
	} else if s.verb != 0 && s.verb != 's' {
		failf("the format %q wants a number, got a %s", string(s.verb), typeName(v))
	}
	if s.align == 0 {
		s.align = '<'
	}
	return s
}
