package jinja

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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
	escape    bool // for HTML
}

// shortest is the verb of floats without one: the fewest digits.
const shortest = 'R'

// percentFormat is format % arg: of a tuple's items, of a mapping's, or of one value.
func (c *call) percentFormat(v, arg any) any {
	format := str(v)
	args := []any{arg}
	if l, ok := arg.(*list); ok && l.tuple {
		args = l.all()
	}
	mapping, _ := arg.(*dict)
	safeFormat := is[safe](v)
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
			failIf(placeholder != "%%", "%% has no flags in the format")
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
		s.escape = safeFormat
		one := c.formatOne(v, s)
		total += int64(len(one))
		c.grow(total)
		return one
	})
	failIf(used < len(args) && mapping == nil, "too many values for the format")
	return like(v, text)
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
		text = c.formatText(v, s)
		if s.align == '=' {
			s.align = '>'
		}
	case 'c':
		text = character(v)
	case 'd', 'i', 'u', 'x', 'X', 'o', 'b':
		failIf(!isNumber, "%%%c needs a number, got a %s", s.verb, typeName(v))
		failIf(n.real && strings.IndexByte("diu", s.verb) < 0, "%%%c needs a whole number", s.verb)
		text, sign = c.formatInt(n, s)
	case 'e', 'E', 'f', 'F', 'g', 'G', '%', shortest:
		failIf(!isNumber, "%%%c needs a number, got a %s", s.verb, typeName(v))
		text = s.formatReal(math.Abs(n.float()))
		sign = s.signOf(math.Signbit(n.f))
	default:
		failf("unknown format %q", string(s.verb))
	}
	if s.comma != "" && isNumber {
		text = c.grouped(text, sign, s)
	}
	if s.align == '=' {
		return sign + c.padded(text, s.width-int64(utf8.RuneCountInString(sign)), '>', s.fill)
	}
	return c.padded(sign+text, s.width, s.align, s.fill)
}

// formatText is v as text, cut to the precision.
func (c *call) formatText(v any, s spec) string {
	text := str(v)
	if s.verb == 'r' || s.verb == 'a' {
		text = repr(v)
	}
	if s.verb == 'a' {
		text = ascii(text)
	}
	if s.escape && !is[safe](v) {
		text = html.EscapeString(text)
	}
	if runes := []rune(text); s.precision >= 0 && s.precision < len(runes) {
		text = string(runes[:s.precision])
	}
	return text
}

// ascii escapes what is not ASCII.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			b.WriteString(escapedRune(r))
		}
	}
	return b.String()
}

// character is that with the number v, or v.
func character(v any) string {
	if i, ok := whole(v); ok {
		failIf(i < 0 || i > unicode.MaxRune || !utf8.ValidRune(rune(i)), "%d is not a character", i)
		return string(rune(i))
	}
	s, ok := asString(v)
	failIf(!ok || utf8.RuneCountInString(s) != 1, "%%c needs a whole number or one character")
	return s
}

func (c *call) formatInt(n num, s spec) (text, sign string) {
	if n.real {
		n, _ = number(truncated(n.f))
	}
	base := cmp.Or(map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[s.verb], 10)
	i := n.int()
	text = strings.TrimPrefix(i.Text(base), "-")
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
	return text, s.signOf(i.Sign() < 0) + sign
}

func (s spec) signOf(negative bool) string {
	if negative {
		return "-"
	}
	return s.sign
}

func (s spec) formatReal(f float64) string {
	precision, verb := min(s.precision, 1000), string(s.verb)
	failIf(math.IsNaN(f) || math.IsInf(f, 0), "%s cannot be formatted", formatFloat(f))
	switch {
	case s.verb == shortest && precision < 0:
		return formatFloat(f)
	case s.verb == shortest:
		return formatShort(f, max(precision, 1))
	case precision < 0:
		precision = 6
	}
	switch verb {
	case "%":
		return fmt.Sprintf("%.*f%%", precision, f*100)
	case "g", "G":
		precision = max(precision, 1)
	}
	if s.alternate {
		return fmt.Sprintf("%#.*"+verb, precision, f)
	}
	return fmt.Sprintf("%.*"+verb, precision, f)
}

// formatShort is f in as many digits. As in Python, it is not like a whole number.
func formatShort(f float64, digits int) string {
	scientific := strconv.FormatFloat(f, 'e', digits-1, 64)
	mantissa, exponent, _ := strings.Cut(scientific, "e")
	if x, _ := strconv.Atoi(exponent); f != 0 && (x < -4 || x >= max(digits-1, 1)) {
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimSuffix(strings.TrimRight(mantissa, "0"), ".")
		}
		return mantissa + "e" + exponent
	}
	text := fmt.Sprintf("%.*g", digits, f)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// grouped puts a separator between groups of digits, and between those of the zeros that fill the width.
func (c *call) grouped(text, sign string, s spec) string {
	size := 3
	if strings.IndexByte("xXob", s.verb) >= 0 {
		size = 4
	}
	end := strings.IndexAny(text, ".e%")
	if end < 0 {
		end = len(text)
	}
	digits, rest := text[:end], text[end:]
	width := int(s.width) - len(sign) - len(rest)
	for s.align == '=' && s.fill == "0" && len(digits)+(len(digits)-1)/size < width {
		c.grow(s.width)
		digits = "0" + digits
	}
	for i := len(digits) - size; i > 0; i -= size {
		digits = digits[:i] + s.comma + digits[i:]
	}
	return digits + rest
}

func formatMethod(c *call) any {
	return c.braces(func(name string) (any, bool) {
		if i, err := strconv.Atoi(name); err == nil {
			failIf(i+1 >= len(c.args) || i < 0, "the format needs %d values, %d are given", i+1, len(c.args)-1)
			return c.args[i+1], true
		}
		v, ok := c.named[name]
		return v, ok
	})
}

func formatMap(c *call) any {
	return c.braces(func(name string) (any, bool) { return c.dict(1).get(name) })
}

func (c *call) braces(value func(name string) (any, bool)) any {
	f := &fields{escape: is[safe](c.args[0]), get: func(name string) any {
		v, ok := value(name)
		failIf(!ok, "the format needs a %s, which is not given", name)
		return v
	}}
	return c.sized(c.braceFormat(str(c.args[0]), f, 0))
}

// fields are the values for the fields of str.format.
type fields struct {
	get      func(name string) any
	next     int  // number of the next one without a name
	numbered bool // some have numbers
	escape   bool
}

// value returns that of the field with that name.
func (f *fields) value(name string) any {
	if strings.Trim(name, "0123456789") == "" {
		f.numbered = f.numbered || name != ""
		if name == "" {
			name = strconv.Itoa(f.next)
			f.next++
		}
		failIf(f.numbered && f.next > 0, "the format has fields with numbers and without")
	}
	return f.get(name)
}

// braceFormat is str.format. Names may be followed by attributes and indices, specs may have fields of their own.
func (c *call) braceFormat(format string, f *fields, depth int) string {
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
		b.WriteString(c.field(format[:end], f, depth))
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

func (c *call) field(field string, f *fields, depth int) string {
	name, specText, _ := strings.Cut(field, ":")
	name, conversion, converts := strings.Cut(name, "!")
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v := f.value(name[:end])
	for path := name[end:]; path != ""; {
		m := pathPattern().FindStringSubmatch(path)
		failIf(m == nil, "the format has no ]")
		v = partOf(v, m)
		path = path[len(m[0]):]
	}
	if strings.Contains(specText, "{") {
		specText = c.braceFormat(specText, f, depth+1)
	}
	plain := v
	switch conversion {
	case "r":
		v = repr(v)
	case "a":
		v = ascii(repr(v))
	case "s":
		v = str(v)
	default:
		failIf(converts, "unknown conversion %q in the format", conversion)
	}
	text := c.formatOne(v, braceSpec(specText, v))
	if f.escape && !is[safe](plain) {
		text = html.EscapeString(text)
	}
	return text
}

// partOf returns the part of v that a match of pathPattern names: an attribute, or an item.
func partOf(v any, m []string) any {
	var part any
	ok := false
	if m[0][0] == '.' {
		if o, isObject := v.(object); isObject {
			part, ok = o.attr(m[1])
		}
	} else {
		var key any = m[2]
		if n, err := strconv.ParseUint(m[2], 10, 63); err == nil {
			key = int64(n)
		}
		part, ok = index(v, key)
	}
	failIf(!ok, "the value for the format has no %s", m[0])
	return part
}

var bracePattern = lazy.Regexp(`(?s)^(?:(.)?([<>^=]))?([-+ ])?(#)?(0)?(\d*)([,_])?(\.\d+)?([sdxXobceEfFgG%])?$`)

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
	_, isBool := v.(bool)
	_, isText := asString(v)
	switch {
	case isNumber && !(isBool && text == ""):
		s.numeric(n, text)
	case isText:
		wrong := s.verb != 0 && s.verb != 's' || s.comma != "" || m[3] != "" || s.alternate || s.align == '=' && m[2] != ""
		failIf(wrong, "the format %q does not suit a string", text)
		if s.align == '=' {
			s.align = '<'
		}
	default:
		failIf(text != "", "the format %q does not suit a %s: convert it with !s", text, typeName(v))
	}
	if s.align == 0 {
		s.align = '<'
	}
	return s
}

// numeric completes the format of a number.
func (s *spec) numeric(n num, text string) {
	if s.align == 0 {
		s.align = '>'
	}
	ofFloats := s.verb != 0 && strings.IndexByte("eEfFgG%", s.verb) >= 0
	switch {
	case s.verb == 0 && n.real:
		s.verb = shortest
	case s.verb == 0:
		s.verb = 'd'
	}
	wrong := n.real && s.verb != shortest && !ofFloats || !n.real && !ofFloats && s.precision >= 0 ||
		s.verb == 's' || s.verb == 'c' && (s.sign != "" || s.comma != "" || s.alternate) || s.comma == "," && strings.IndexByte("xXob", s.verb) >= 0
	failIf(wrong, "the format %q does not suit a %s", text, typeName(n.value()))
}
