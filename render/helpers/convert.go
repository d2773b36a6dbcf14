package helpers

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"path"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// ToBool returns what a word means, in any case: true, t, yes, y, on, 1, or false, f, no, n, off, 0. Another value is
// an error, as is an empty text.
func ToBool(value any) (bool, error) {
	switch strings.ToLower(text(value)) {
	case "true", "t", "yes", "y", "on", "1":
		return true, nil
	case "false", "f", "no", "n", "off", "0":
		return false, nil
	}
	return false, errors.New("want true, yes, on or 1, or false, no, off or 0")
}

// FromCSV returns the records of a text in CSV (RFC 4180), each a map by the names in the first one. The delimiter may
// be given before the text.
func FromCSV(args ...any) ([]any, error) {
	if len(args) == 0 || len(args) > 2 {
		return nil, errors.New("want a text, or a delimiter and a text")
	}
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text(args[len(args)-1]), "\ufeff")))
	if len(args) == 2 {
		delimiter, size := utf8.DecodeRuneInString(text(args[0]))
		if size == 0 || size != len(text(args[0])) {
			return nil, errors.New("the delimiter is one character")
		}
		r.Comma = delimiter
	}
	records := []any{}
	names, err := r.Read()
	for err == nil {
		var fields []string
		if fields, err = r.Read(); err != nil {
			break
		}
		record := make(map[string]any, len(names))
		for i, name := range names {
			if _, twice := record[name]; twice {
				return nil, fmt.Errorf("column %d has the name of another", i+1)
			}
			record[name] = fields[i]
		}
		records = append(records, record)
	}
	if err != io.EOF {
		return nil, err // which quotes nothing
	}
	return records, nil
}

// SplitN returns at most n parts of a text, as a list. The last part is the rest of the text.
func SplitN(separator string, n any, s string) ([]any, error) {
	most, err := whole(n)
	if err != nil {
		return nil, err
	}
	if count := strings.Count(s, separator); int64(count) >= mostParts && most > mostParts || most < 0 && count >= mostParts {
		return nil, fmt.Errorf("more than %d parts", mostParts)
	}
	list := []any{}
	for _, part := range strings.SplitN(s, separator, int(min(most, mostParts))) {
		list = append(list, part)
	}
	return list, nil
}

const mostParts = 1 << 20

// Slug returns a text as it may stand in a URL or in the name of a Kubernetes object: lower-case ASCII letters and
// digits, with a dash between words.
func Slug(value any) (string, error) {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(text(value)) {
		plain, known := latin()[r]
		switch {
		case r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			plain = string(r)
		case r == '\'' || unicode.Is(unicode.Mn, r): // an apostrophe, or an accent, of the letter before it
			continue
		case known:
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			return "", errors.New("there is a letter that has no form in ASCII")
		default:
			dash = b.Len() > 0
			continue
		}
		if dash {
			b.WriteByte('-')
			dash = false
		}
		b.WriteString(plain)
	}
	if b.Len() == 0 {
		return "", errors.New("there is no letter or digit in it")
	}
	return b.String(), nil
}

// latin has the ASCII form of lower-case Latin letters.
var latin = sync.OnceValue(func() map[rune]string {
	table := map[rune]string{'ß': "ss", 'æ': "ae", 'œ': "oe", 'þ': "th"}
	for plain, letters := range map[string]string{
		"a": "àáâãäåāăąǎ", "c": "çćĉċč", "d": "ðďđ", "e": "èéêëēĕėęě", "g": "ĝğġģ", "h": "ĥħ", "i": "ìíîïĩīĭįıǐ", "j": "ĵ", "k": "ķ",
		"l": "ĺļľŀł", "n": "ñńņň", "o": "òóôõöøōŏőǒ", "r": "ŕŗř", "s": "śŝşšș", "t": "ţťŧț", "u": "ùúûüũūŭůűųǔ", "w": "ŵ", "y": "ýÿŷ", "z": "źżž",
	} {
		for _, r := range letters {
			table[r] = plain
		}
	}
	return table
})

// Flatten returns the items of a list, and of the lists in it, to any depth or to the one that is given before the
// list.
func Flatten(args ...any) ([]any, error) {
	if len(args) == 0 || len(args) > 2 {
		return nil, errors.New("want a list, or a depth and a list")
	}
	depth := int64(deepest)
	if len(args) == 2 {
		var err error
		if depth, err = whole(args[0]); err != nil {
			return nil, err
		}
	}
	v := reflect.ValueOf(args[len(args)-1])
	if v.Kind() != reflect.Slice {
		return nil, errors.New("want a list")
	}
	return flatten([]any{}, v, min(depth, deepest)), nil
}

// deepest is how deep lists are flattened.
const deepest = 1000

func flatten(to []any, list reflect.Value, depth int64) []any {
	for i := range list.Len() {
		item := list.Index(i).Interface()
		if inner := reflect.ValueOf(item); depth > 0 && inner.Kind() == reflect.Slice {
			to = flatten(to, inner, depth-1)
		} else {
			to = append(to, item)
		}
	}
	return to
}

// Pow returns a to the power of b: a whole number if both are and b is not negative, and it fits.
func Pow(a, b any) (any, error) {
	if x, err := whole(a); err == nil {
		if y, err := whole(b); err == nil && y >= 0 {
			return power(x, y)
		}
	}
	x, err := strconv.ParseFloat(text(a), 64)
	y, other := strconv.ParseFloat(text(b), 64)
	if err != nil || other != nil {
		return nil, errors.New("want two numbers")
	}
	result := math.Pow(x, y)
	if math.IsNaN(result) || math.IsInf(result, 0) {
		return nil, errors.New("the result is not a number")
	}
	return result, nil
}

func power(a, b int64) (int64, error) {
	if b > 63 && a != 0 && a != 1 && a != -1 {
		return 0, errTooLarge
	}
	if b > 63 { // the result repeats
		b = 62 + b%2
	}
	result := new(big.Int).Exp(big.NewInt(a), big.NewInt(b), nil)
	if !result.IsInt64() {
		return 0, errTooLarge
	}
	return result.Int64(), nil
}

var errTooLarge = errors.New("the result is too large for 64 bits")

// PathMatch returns whether a name matches a pattern with *, ? and [a-z], of which none matches a slash.
func PathMatch(pattern, name string) (bool, error) { return path.Match(pattern, name) }

// whole returns a whole number, which may be given as text.
func whole(value any) (int64, error) {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
	default:
		if n, err := strconv.ParseInt(text(value), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, errors.New("want a whole number")
}
