package sprig

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/adler32"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/huandu/xstrings"
)

func textFunctions() map[string]any {
	trimAll := func(cutset, s string) string { return strings.Trim(s, cutset) }
	return map[string]any{
		"hello": func() string { return "Hello!" },

		"abbrev":     func(width int, s string) string { return abbreviate(0, width, s) },
		"abbrevboth": abbreviate,
		"trunc":      truncate,
		"trim":       strings.TrimSpace,
		"trimall":    trimAll,
		"trimAll":    trimAll,
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"trimPrefix": func(prefix, s string) string { return strings.TrimPrefix(s, prefix) },
		"upper":      strings.ToUpper,
		"lower":      strings.ToLower,
		"title":      strings.Title, //lint:ignore SA1019 its rule for words is what charts expect
		"untitle":    untitle,
		"substr":     substring,
		"nospace":    withoutSpace,
		"initials":   initials,
		"swapcase":   swapCase,
		"shuffle":    xstrings.Shuffle,
		"snakecase":  xstrings.ToSnakeCase,
		"camelcase":  xstrings.ToPascalCase,
		"kebabcase":  xstrings.ToKebabCase,
		"wrap":       func(width int, s string) string { return wrap(width, "\n", s, false) },
		"wrapWith":   func(width int, between, s string) string { return wrap(width, between, s, true) },
		"contains":   func(part, s string) bool { return strings.Contains(s, part) },
		"hasPrefix":  func(prefix, s string) bool { return strings.HasPrefix(s, prefix) },
		"hasSuffix":  func(suffix, s string) bool { return strings.HasSuffix(s, suffix) },
		"quote":      quote,
		"squote":     squote,
		"cat":        cat,
		"plural":     plural,
		"toString":   text,
		"toStrings":  texts,
		"join":       func(between string, list any) string { return strings.Join(texts(list), between) },
		"split":      func(between, s string) map[string]string { return numbered(strings.Split(s, between)) },
		"splitList":  func(between, s string) []string { return strings.Split(s, between) },
		"splitn": func(between string, n int, s string) map[string]string {
			return numbered(strings.SplitN(s, between, n))
		},

		"b64enc":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"b64dec":     decoder(base64.StdEncoding.DecodeString),
		"b32enc":     func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) },
		"b32dec":     decoder(base32.StdEncoding.DecodeString),
		"sha1sum":    func(s string) string { sum := sha1.Sum([]byte(s)); return hex.EncodeToString(sum[:]) },
		"sha256sum":  func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) },
		"sha512sum":  func(s string) string { sum := sha512.Sum512([]byte(s)); return hex.EncodeToString(sum[:]) },
		"adler32sum": func(s string) string { return strconv.FormatUint(uint64(adler32.Checksum([]byte(s))), 10) },
	}
}

// decoder returns a function whose result is the error's text if there is one.
func decoder(decode func(string) ([]byte, error)) func(string) string {
	return func(s string) string {
		decoded, err := decode(s)
		if err != nil {
			return err.Error()
		}
		return string(decoded)
	}
}

// text returns v as print would, but also bytes as a text.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprint(v)
}

// texts returns the elements of a list that are not null, or a list of v itself. A list of texts is not copied.
func texts(v any) []string {
	switch list := v.(type) {
	case nil:
		return []string{}
	case []string:
		return list
	}
	value := reflect.ValueOf(v)
	if !isList(value) {
		return []string{text(v)}
	}
	result := make([]string, 0, value.Len())
	for i := range value.Len() {
		if element := value.Index(i).Interface(); element != nil {
			result = append(result, text(element))
		}
	}
	return result
}

// numbered returns a map with the keys _0, _1 and so on.
func numbered(parts []string) map[string]string {
	m := make(map[string]string, len(parts))
	for i, part := range parts {
		m["_"+strconv.Itoa(i)] = part
	}
	return m
}

// abbreviate shortens s to width bytes, with dots where it was cut: at its end, or, if left is more than 4, at its
// beginning too, so that the byte at left stays.
func abbreviate(left, width int, s string) string {
	const dots = "..."
	if width < 4 || left > 0 && width < 7 || len(s) <= width {
		return s
	}
	left = min(left, len(s))
	kept := width - len(dots)
	left = min(left, len(s)-kept)
	switch {
	case left <= 4:
		return s[:kept] + dots
	case left+kept < len(s):
		return dots + abbreviate(0, kept, s[left:])
	}
	return dots + s[len(s)-kept:]
}

// truncate returns the first n bytes, or the last -n.
func truncate(n int, s string) string {
	switch {
	case n >= 0:
		return s[:min(n, len(s))]
	case len(s)+n > 0:
		return s[len(s)+n:]
	}
	return s
}

// substring returns the bytes from start to end, each of which may be negative for none.
func substring(start, end int, s string) string {
	switch {
	case start < 0:
		return s[:end]
	case end < 0 || end > len(s):
		return s[start:]
	}
	return s[start:end]
}

// withoutSpace removes white space; as in sprig, bytes beyond ASCII are then taken for Latin-1.
func withoutSpace(s string) string {
	var kept strings.Builder
	count := 0
	for i := range len(s) {
		if r := rune(s[i]); !unicode.IsSpace(r) {
			kept.WriteRune(r)
			count++
		}
	}
	if count == len(s) {
		return s
	}
	return kept.String()
}

// initials returns the first byte of each word; as in sprig, bytes beyond ASCII are taken for Latin-1.
func initials(s string) string {
	var first strings.Builder
	inWord := false
	for i := range len(s) {
		r := rune(s[i])
		space := unicode.IsSpace(r)
		if !space && !inWord {
			first.WriteRune(r)
		}
		inWord = !space
	}
	return first.String()
}

// untitle begins each word with a lower case letter.
func untitle(s string) string {
	inWord := false
	return mapRunes(s, func(r rune) rune {
		space := unicode.IsSpace(r)
		if !space && !inWord {
			r = unicode.ToLower(r)
		}
		inWord = !space
		return r
	})
}

// swapCase swaps upper and lower case, with title case at the beginning of words.
func swapCase(s string) string {
	afterSpace := true
	return mapRunes(s, func(r rune) rune {
		switch {
		case unicode.IsUpper(r), unicode.IsTitle(r):
			r = unicode.ToLower(r)
		case unicode.IsLower(r) && afterSpace:
			r = unicode.ToTitle(r)
		case unicode.IsLower(r):
			return unicode.ToUpper(r)
		default:
			afterSpace = unicode.IsSpace(r)
			return r
		}
		afterSpace = false
		return r
	})
}

// mapRunes is strings.Map, but invalid UTF-8 always becomes U+FFFD.
func mapRunes(s string, f func(rune) rune) string {
	runes := []rune(s)
	for i, r := range runes {
		runes[i] = f(r)
	}
	return string(runes)
}

// wrap breaks a text at spaces into lines of at most width bytes. A longer word is broken too if broken is true.
func wrap(width int, between, s string, broken bool) string {
	width = max(width, 1)
	if between == "" {
		between = "\n"
	}
	var lines strings.Builder
	for len(s) > width {
		if s[0] == ' ' {
			s = s[1:]
			continue
		}
		line, rest := s[:width], s[width:] // of a word that is broken
		if space := strings.LastIndexByte(s[:width+1], ' '); space >= 0 {
			line, rest = s[:space], s[space+1:]
		} else if !broken {
			word, after, found := strings.Cut(rest, " ")
			if !found {
				break
			}
			line, rest = line+word, after
		}
		lines.WriteString(line)
		lines.WriteString(between)
		s = rest
	}
	return lines.String() + s
}

func quote(args ...any) string {
	return joined(args, func(v any) string { return strconv.Quote(text(v)) })
}

func squote(args ...any) string {
	return joined(args, func(v any) string { return "'" + fmt.Sprint(v) + "'" })
}

func cat(args ...any) string { return joined(args, func(v any) string { return fmt.Sprint(v) }) }

// joined returns what is not null, with spaces between.
func joined(args []any, f func(any) string) string {
	words := make([]string, 0, len(args))
	for _, arg := range args {
		if arg != nil {
			words = append(words, f(arg))
		}
	}
	return strings.Join(words, " ")
}

func plural(one, many string, count int) string {
	if count == 1 {
		return one
	}
	return many
}
