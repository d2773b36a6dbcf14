package envsubst

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"initbox/internal/lazy"
)

// special are the characters that have a meaning in a pattern.
var special = lazy.Regexp(`[*?\[\]!^\\-]`)

// glob returns the regular expression of a shell's pattern, between others. Its group is what the pattern matches: the
// longest text, or the shortest one, or with before that ends in a * what that leaves.
func glob(pattern, before, after string, shortest bool) (*regexp.Regexp, error) {
	if !utf8.ValidString(pattern) {
		return nil, errors.New("the pattern is not UTF-8")
	}
	var b strings.Builder
	b.WriteString(`(?s)` + before + `(`)
	for rest := pattern; rest != ""; {
		c, size := utf8.DecodeRuneInString(rest)
		next := rest[size:]
		switch c {
		case '*':
			b.WriteString(`.*`)
			if shortest {
				b.WriteByte('?')
			}
			next = strings.TrimLeft(next, "*")
		case '?':
			b.WriteByte('.')
		case '[':
			set, n, err := bracket(rest)
			if err != nil {
				return nil, err
			}
			b.WriteString(set)
			next = rest[n:]
		case '\\':
			if next != "" {
				c, size = utf8.DecodeRuneInString(next)
				next = next[size:]
			}
			fallthrough
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
		rest = next
	}
	b.WriteString(`)` + after)
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, errors.New("the pattern is too long")
	}
	if !shortest && !strings.HasSuffix(before, `*`) {
		re.Longest()
	}
	return re, nil
}

// classes are POSIX' classes of characters, as items of a set of a regular expression.
var classes = map[string]string{
	"alnum": `\pL\p{Nd}`, "alpha": `\pL`, "blank": ` \t`, "cntrl": `\p{Cc}`, "digit": `0-9`, "graph": `\pL\pM\pN\pP\pS`,
	"lower": `\p{Ll}`, "print": `\pL\pM\pN\pP\pS `, "punct": `\pP\pS`, "space": `\s\v`, "upper": `\p{Lu}`, "xdigit": `0-9A-Fa-f`,
}

// bracket returns the set of characters that the pattern begins with, and its length. A [ that is not closed is
// itself.
func bracket(pattern string) (set string, size int, err error) {
	i := 1
	not := ""
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		not = `^`
		i++
	}
	var b strings.Builder
	for first := true; i < len(pattern) && (first || pattern[i] != ']'); first = false {
		if name, _, ok := strings.Cut(strings.TrimPrefix(pattern[i:], "[:"), ":]"); ok && strings.HasPrefix(pattern[i:], "[:") {
			if classes[name] == "" {
				return "", 0, fmt.Errorf("there is no class [:%s:]", name)
			}
			b.WriteString(classes[name])
			i += len("[::]") + len(name)
			continue
		}
		from, n := character(pattern[i:])
		i += n
		to := from
		if strings.HasPrefix(pattern[i:], "-") && len(pattern) > i+1 && pattern[i+1] != ']' {
			to, n = character(pattern[i+1:])
			i += 1 + n
		}
		if from <= to { // else no character is between them
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, from, to)
		}
	}
	switch {
	case i >= len(pattern):
		return `\[`, 1, nil
	case b.Len() > 0:
		return `[` + not + b.String() + `]`, i + 1, nil
	case not != "":
		return `.`, i + 1, nil
	}
	return `[^\x{0}-\x{10ffff}]`, i + 1, nil
}

// character returns the first character, which may be escaped, and its size in the pattern.
func character(pattern string) (rune, int) {
	if pattern[0] == '\\' && len(pattern) > 1 {
		c, size := utf8.DecodeRuneInString(pattern[1:])
		return c, size + 1
	}
	return utf8.DecodeRuneInString(pattern)
}
