package jinja

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mitsuhiko/minijinja/minijinja-go/v2/value"
)

// spec is how a value is to be written, by "%-08.3f" or "{:*>8.3f}".
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
func (c *call) percentFormat(format string, arg value.Value) (string, error) {
	args := []value.Value{arg}
	if l, ok := arg.Raw().(*list); ok && l.tuple {
		args = l.all()
	}
	mapping, _ := arg.Raw().(*dict)
	used := 0
	next := func() (value.Value, error) {
		if used++; used > len(args) {
			return value.Value{}, errors.New("there are fewer values than the format has places for")
		}
		return args[used-1], nil
	}
	var b strings.Builder
	for format != "" {
		before, after, found := strings.Cut(format, "%")
		b.WriteString(before)
		if !found {
			break
		}
		name, s, rest, err := percentSpec(after, next)
		if err != nil {
			return "", err
		}
		format = rest
		if s.verb == '%' {
			b.WriteByte('%')
			continue
		}
		var v value.Value
		if name != nil {
			if mapping == nil {
				return "", errors.New("the format needs a mapping")
			}
			var ok bool
			if v, ok = mapping.get(newString(*name)); !ok {
				return "", fmt.Errorf("the mapping has no %s", *name)
			}
			used = len(args)
		} else if v, err = next(); err != nil {
			return "", err
		}
		text, err := c.formatOne(v, s)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		if err := c.grow(int64(b.Len())); err != nil {
			return "", err
		}
	}
	if used < len(args) && mapping == nil {
		return "", errors.New("there are more values than the format has places for")
	}
	return b.String(), nil
}

// percentSpec reads what follows a %.
func percentSpec(format string, next func() (value.Value, error)) (name *string, s spec, rest string, err error) {
	s = spec{precision: -1, fill: " ", align: '>'}
	if strings.HasPrefix(format, "(") {
		n, after, ok := strings.Cut(format[1:], ")")
		if !ok {
			return nil, s, "", errors.New("the format has no )")
		}
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
			v, e := next()
			n, ok := v.Raw().(int64)
			if e != nil || !ok {
				err = errors.New("* in the format wants a whole number")
			}
			return n
		}
		digits := len(format) - len(strings.TrimLeft(format, "0123456789"))
		n, e := strconv.ParseInt("0"+format[:digits], 10, 64)
		if e != nil {
			err = errTooLarge
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
	if format == "" {
		return nil, s, "", errors.New("the format ends in the middle of a place")
	}
	s.verb = format[0]
	if s.zero && s.align == '>' && strings.IndexByte("diouxXeEfFgG", s.verb) >= 0 {
		s.fill, s.align = "0", '='
	}
	return name, s, format[1:], err
}

// formatOne writes v as s says, for both kinds of formats.
func (c *call) formatOne(v value.Value, s spec) (string, error) {
	if m, ok := v.Raw().(*missing); ok {
		m.tell()
		return "", nil
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
		if !isNumber {
			return "", fmt.Errorf("%%%c wants a number, got a %s", s.verb, typeName(v))
		}
		if n.real {
			n.i = int64(n.f)
		}
		base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[s.verb]
		if base == 0 {
			base = 10
		}
		text = strings.TrimPrefix(strconv.FormatInt(n.i, base), "-")
		if zeros := s.precision - len(text); zeros > 0 {
			if err := c.grow(int64(zeros)); err != nil {
				return "", err
			}
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
		if !isNumber {
			return "", fmt.Errorf("%%%c wants a number, got a %s", s.verb, typeName(v))
		}
		text = s.formatReal(math.Abs(n.f))
		sign = s.signOf(math.Signbit(n.f))
	default:
		return "", fmt.Errorf("there is no format %q", string(s.verb))
	}
	if s.comma != "" && isNumber {
		text = grouped(text, s.comma)
	}
	if s.align == '=' {
		text, err := c.padded(text, s.width-int64(len(sign)), '>', s.fill)
		return sign + text, err
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

func formatMethod(c *call) (value.Value, error) {
	next := 0
	return c.sized(c.braceFormat(str(c.args[0]), &next, 0, func(name string) (value.Value, error) {
		if i, err := strconv.Atoi(name); err == nil {
			if i+1 >= len(c.args) || i < 0 {
				return value.Value{}, fmt.Errorf("the format wants %d values, %d are given", i+1, len(c.args)-1)
			}
			return c.args[i+1], nil
		}
		v, ok := c.named[name]
		if !ok {
			return v, fmt.Errorf("the format wants a %s, which is not given", name)
		}
		return v, nil
	}))
}

func formatMap(c *call) (value.Value, error) {
	next := 0
	return c.sized(c.braceFormat(str(c.args[0]), &next, 0, func(name string) (value.Value, error) {
		v, ok := c.dict(1).get(newString(name))
		if !ok {
			return v, fmt.Errorf("the format wants a %s, which is not given", name)
		}
		return v, nil
	}))
}

// braceFormat is str.format. The names of values may be followed by attributes
// and indices, specs may have fields of their own.
func (c *call) braceFormat(format string, next *int, depth int, get func(string) (value.Value, error)) (string, error) {
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
		if brace == '}' || end < 0 || depth > 2 {
			return "", errors.New("the format has a brace without its other one")
		}
		text, err := c.field(format[:end], next, depth, get)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		if err := c.grow(int64(b.Len())); err != nil {
			return "", err
		}
		format = format[end+1:]
	}
	return b.String(), nil
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

func (c *call) field(field string, next *int, depth int, get func(string) (value.Value, error)) (string, error) {
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
	v, err := get(first)
	for path != "" && err == nil {
		v, path, err = c.follow(v, path)
	}
	if err != nil {
		return "", err
	}
	if strings.Contains(specText, "{") {
		if specText, err = c.braceFormat(specText, next, depth+1, get); err != nil {
			return "", err
		}
	}
	switch conversion {
	case "r":
		v = newString(repr(v))
	case "s":
		v = newString(str(v))
	}
	s, err := braceSpec(specText, v)
	if err != nil {
		return "", err
	}
	return c.formatOne(v, s)
}

// follow follows the first of .name or [key] in a path.
func (c *call) follow(v value.Value, path string) (value.Value, string, error) {
	key, rest := path[1:], ""
	if path[0] == '[' {
		var ok bool
		if key, rest, ok = strings.Cut(path[1:], "]"); !ok {
			return v, "", errors.New("the format has no ]")
		}
	} else if i := strings.IndexAny(key, ".["); i >= 0 {
		key, rest = key[:i], key[i:]
	}
	k := newString(key)
	if n, err := strconv.ParseInt(key, 10, 64); err == nil && path[0] == '[' {
		k = value.FromInt(n)
	}
	got, ok := index(v, k)
	if !ok {
		return v, "", fmt.Errorf("the value for the format has no %s", key)
	}
	return got, rest, nil
}

// braceSpec reads [[fill]align][sign][#][0][width][,][.precision][type].
func braceSpec(text string, v value.Value) (spec, error) {
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
		return s, fmt.Errorf("there is no format %q", text)
	}
	n, isNumber := number(v)
	if _, ok := v.Raw().(bool); ok && whole == "" {
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
		return s, fmt.Errorf("the format %q wants a number, got a %s", string(s.verb), typeName(v))
	}
	if s.align == 0 {
		s.align = '<'
	}
	return s, nil
}
