package jinja

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"initbox/internal/lazy"
)

// spec is a parsed format such as "%-08.3f" or "{:*>8.3f}": how a value is written.
type spec struct {
	fill      string
	align     rune   // < > ^ = or 0
	sign      string // + or space: what a positive number begins with
	alternate bool   // #
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
		used++
		failIf(used > len(args), "too few values for the format")
		return args[used-1]
	}
	total := int64(0)
	text := percentPattern().ReplaceAllStringFunc(format, func(placeholder string) string {
		name, s := percentSpec(placeholder, next)
		var v any
		switch {
		case s.verb == '%':
			return "%"
		case name == "":
			v = next()
		default:
			failIf(mapping == nil, "the format needs a mapping")
			var ok bool
			v, ok = mapping.get(name[1 : len(name)-1])
			failIf(!ok, "the mapping has no %s", name)
			used = len(args)
		}
		one := c.formatOne(v, s)
		total += int64(len(one))
		c.grow(total)
		return one
	})
	failIf(used < len(args) && mapping == nil, "too many values for the format")
	return text
}

var percentPattern = lazy.Regexp(`(?s)%(\([^)]*\))?([-+ #0]*)(\*|\d*)(\.(?:\*|\d*))?[hlL]*(.?)`)

// percentSpec reads what follows a %: (name), flags, width, precision, type.
func percentSpec(format string, next func() any) (name string, s spec) {
	m := percentPattern().FindStringSubmatch(format)
	failIf(m[5] == "", "the format ends inside a placeholder")
	flag := func(c string) bool { return strings.Contains(m[2], c) }
	s = spec{precision: -1, fill: " ", align: '>', alternate: flag("#"), verb: m[5][0]}
	for _, sign := range []string{" ", "+"} {
		if flag(sign) {
			s.sign = sign
		}
	}
	number := func(text string) int64 {
		if text != "*" {
			return digits(text)
		}
		n, ok := next().(int64)
		failIf(!ok, "* in the format needs a whole number")
		return n
	}
	if s.width = number(m[3]); s.width < 0 || flag("-") {
		s.align, s.width = '<', max(s.width, -s.width)
	}
	if m[4] != "" {
		s.precision = int(min(max(number(m[4][1:]), 0), math.MaxInt32))
	}
	if flag("0") && s.align == '>' && strings.IndexByte("diouxXeEfFgG", s.verb) >= 0 {
		s.fill, s.align = "0", '='
	}
	return m[1], s
}

// digits is the number that a format has, 0 if it has none.
func digits(text string) int64 {
	n, err := strconv.ParseInt("0"+text, 10, 64)
	require(err == nil, errTooLarge)
	return n
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
		failIf(!isNumber, "%%%c needs a number, got a %s", s.verb, typeName(v))
		failIf(n.real && strings.IndexByte("diu", s.verb) < 0, "%%%c needs a whole number", s.verb)
		whole := n.exact()
		if n.real {
			whole = truncated(n.f)
		}
		n, _ = number(whole)
		base := cmp.Or(map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[s.verb], 10)
		text = strings.TrimPrefix(n.int().Text(base), "-")
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
		sign = s.signOf(n.f < 0) + sign
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		failIf(!isNumber, "%%%c needs a number, got a %s", s.verb, typeName(v))
		text = s.formatReal(math.Abs(n.float()))
		sign = s.signOf(math.Signbit(n.f))
	default:
		failf("unknown format %q", string(s.verb))
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
	if negative {
		return "-"
	}
	return s.sign
}

func (s spec) formatReal(f float64) string {
	precision, verb := min(s.precision, 1000), string(s.verb)
	if precision < 0 {
		precision = 6
	}
	switch verb {
	case "%":
		return fmt.Sprintf("%.*f%%", precision, f*100)
	case "g", "G":
		precision = max(precision, 1)
		if s.alternate {
			return fmt.Sprintf("%#.*"+verb, precision, f)
		}
	}
	return fmt.Sprintf("%.*"+verb, precision, f)
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
	return c.formatText(func(name string) (any, bool) {
		if i, err := strconv.Atoi(name); err == nil {
			failIf(i+1 >= len(c.args) || i < 0, "the format needs %d values, %d are given", i+1, len(c.args)-1)
			return c.args[i+1], true
		}
		v, ok := c.named[name]
		return v, ok
	})
}

func formatMap(c *call) any {
	return c.formatText(func(name string) (any, bool) { return c.dict(1).get(name) })
}

func (c *call) formatText(value func(name string) (any, bool)) any {
	next := 0
	return c.sized(c.braceFormat(str(c.args[0]), &next, 0, func(name string) any {
		v, ok := value(name)
		failIf(!ok, "the format needs a %s, which is not given", name)
		return v
	}))
}

// braceFormat is str.format. Names may be followed by attributes and indices, specs may have fields of their own.
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

// pathPattern is the first .name or [key] in a path.
var pathPattern = lazy.Regexp(`^(?:\.([^.\[]*)|\[([^\]]*)\])`)

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
		m := pathPattern().FindStringSubmatch(path)
		failIf(m == nil, "the format has no ]")
		var key any = m[1] + m[2]
		if n, err := strconv.ParseInt(m[2], 10, 64); err == nil {
			key = n
		}
		part, ok := index(v, key)
		failIf(!ok, "the value for the format has no %s", m[0])
		v, path = part, path[len(m[0]):]
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

var bracePattern = lazy.Regexp(`(?s)^(?:(.)?([<>^=]))?([-+ ])?(#)?(0)?(\d*)([,_])?(\.\d*)?([sdxXobceEfFgG%])?$`)

// braceSpec reads [[fill]align][sign][#][0][width][,][.precision][type].
func braceSpec(text string, v any) spec {
	m := bracePattern().FindStringSubmatch(text)
	failIf(m == nil, "unknown format %q", text)
	s := spec{precision: -1, fill: cmp.Or(m[1], " "), alternate: m[4] != "", width: digits(m[6]), comma: m[7], sign: strings.Trim(m[3], "-")}
	if m[2] != "" {
		s.align = rune(m[2][0])
	} else if m[5] != "" {
		s.fill, s.align = "0", '='
	}
	if m[8] != "" {
		s.precision = int(min(digits(m[8][1:]), math.MaxInt32))
	}
	if m[9] != "" {
		s.verb = m[9][0]
	}
	n, isNumber := number(v)
	if _, ok := v.(bool); ok && text == "" {
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
		case s.verb == 0 && s.sign == "" && s.align != '=':
			s.comma = ""
		}
	} else if s.verb != 0 && s.verb != 's' {
		failf("the format %q needs a number, got a %s", string(s.verb), typeName(v))
	}
	if s.align == 0 {
		s.align = '<'
	}
	return s
}
