package values

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shade returns a text of the same shape as s that differs from it wherever possible: of the same length, with another
// letter for each letter and another digit for each digit. The result depends only on s. In a text without letters and
// digits, another character changes to a similar one.
func Shade(s string) string {
	shaded := []byte(s)
	changed := false
	for i, r := range s {
		switch other := r; {
		case 'a' <= r && r <= 'z':
			shaded[i] = 'a' + (s[i]-'a'+1)%26
		case 'A' <= r && r <= 'Z':
			shaded[i] = 'A' + (s[i]-'A'+1)%26
		case '0' <= r && r <= '9':
			shaded[i] = '1' + (s[i]-'0')%9 // never 0, which has a meaning at the beginning
		case r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			other = neighbour(r)
			copy(shaded[i:], string(other))
			fallthrough
		default:
			changed = changed || other != r
			continue
		}
		changed = true
	}
	if changed {
		return string(shaded)
	}
	for i, r := range s {
		if other := neighbour(r); other != r {
			return s[:i] + string(other) + s[i+utf8.RuneLen(r):]
		}
	}
	return s
}

// neighbour is another printable character of the same length, or r.
func neighbour(r rune) rune {
	if r == utf8.RuneError || !unicode.IsPrint(r) || r == ' ' {
		return r
	}
	for _, other := range []rune{r + 1, r - 1} {
		if utf8.RuneLen(other) == utf8.RuneLen(r) && unicode.IsPrint(other) && other != ' ' &&
			unicode.IsLetter(other) == unicode.IsLetter(r) && unicode.IsDigit(other) == unicode.IsDigit(r) {
			return other
		}
	}
	return r
}

// shade is Shade for any leaf.
func shade(leaf any) any {
	switch v := leaf.(type) {
	case string:
		return Shade(v)
	case bool:
		return !v
	case int64:
		if i, err := strconv.ParseInt(Shade(strconv.FormatInt(v, 10)), 10, 64); err == nil {
			return i
		}
		return v ^ 1 // too large
	case *big.Int:
		if i, ok := new(big.Int).SetString(Shade(v.String()), 10); ok {
			return i
		}
	case float64:
		if f, err := strconv.ParseFloat(shadeDigits(strconv.FormatFloat(v, 'g', -1, 64)), 64); err == nil && f != v {
			return f
		}
		return v/2 + 1
	}
	return leaf
}

// shadeDigits changes the digits of a number, but not those of its exponent.
func shadeDigits(s string) string {
	exponent := strings.IndexByte(s+"e", 'e')
	return Shade(s[:exponent]) + s[exponent:]
}
