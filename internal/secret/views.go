package secret

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A view is what a text means if it is taken as escaped. Redact looks for secrets in all views of a text, so it needs
// no list of the forms in which a secret may be escaped, of which there are many: encoders differ in which characters
// they escape.
type view struct {
	text   string
	source []span // of each byte of text: where its escape is in the original
}

// layers is how many escapes around each other are undone: a URL in JSON in an HTML page has three.
const layers = 3

// views returns the text itself, and what it means under each combination of the ways to escape.
func views(text string) []*view {
	plain := &view{text: text, source: make([]span, len(text))}
	for i := range len(text) {
		plain.source[i] = span{i, i + 1}
	}
	all, seen := []*view{plain}, map[string]bool{text: true}
	from := 0
	for range layers {
		last := all[from:]
		from = len(all)
		for _, v := range last {
			for _, e := range escapes {
				if !strings.Contains(v.text, e.sign) {
					continue
				}
				if u := v.undo(e.unit); !seen[u.text] {
					seen[u.text] = true
					all = append(all, u)
				}
			}
		}
	}
	return all
}

// undo returns the view in which each unit of v has its meaning.
func (v *view) undo(unit func(string) (meaning string, length int)) *view {
	u := &view{source: make([]span, 0, len(v.text))}
	var b strings.Builder
	for i := 0; i < len(v.text); {
		meaning, n := unit(v.text[i:])
		if n == 0 {
			meaning, n = v.text[i:i+1], 1
		}
		for range len(meaning) {
			u.source = append(u.source, span{v.source[i].from, v.source[i+n-1].to})
		}
		b.WriteString(meaning)
		i += n
	}
	u.text = b.String()
	return u
}

// escapes are the ways to escape. A unit begins with sign, or with one that it returns no length for.
var escapes = []struct {
	sign string
	unit func(text string) (meaning string, length int)
}{
	{"%", percent},
	{"+", plus},
	{`\`, backslash},
	{`\x`, codePoint},
	{"&", entity},
	{"'", quote},
	{`""`, quote},
	{"\n", fold},
}

// percent is a byte in a URL (RFC 3986, section 2.1).
func percent(text string) (string, int) {
	if len(text) < 3 || text[0] != '%' {
		return "", 0
	}
	return number(text[1:3], 16, 3)
}

// plus is a byte in a form, where a plus sign is a space (HTML, application/x-www-form-urlencoded).
func plus(text string) (string, int) {
	if text[0] == '+' {
		return " ", 1
	}
	return percent(text)
}

// number is the byte that digits stand for, in an escape of some length.
func number(digits string, base, length int) (string, int) {
	n, err := strconv.ParseUint(digits, base, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(n)}), length
}

// backslash is a character in a string of JSON, Go, C, Python, SQL or a shell. \x and octal numbers stand for bytes.
func backslash(text string) (string, int) {
	if len(text) < 2 || text[0] != '\\' {
		return "", 0
	}
	switch c := text[1]; {
	case strings.IndexByte("nrtabfv", c) >= 0:
		return string("\n\r\t\a\b\f\v"[strings.IndexByte("nrtabfv", c)]), 2
	case c == 'u':
		return unicodeEscape(text)
	case c == 'U' && len(text) >= 10:
		return character(text[2:10], 10)
	case c == 'x' && len(text) >= 4:
		return number(text[2:4], 16, 4)
	case '0' <= c && c <= '7':
		if len(text) >= 4 {
			if meaning, n := number(text[1:4], 8, 4); n > 0 {
				return meaning, n
			}
		}
		return "\x00", 2
	case c == '\n':
		return "", 0 // a line of a shell that continues: fold
	case c < utf8.RuneSelf && !isWord(c) || c == '_' || c == '\\':
		return string(c), 2
	}
	return "", 0
}

// unicodeEscape is \uXXXX, or two that are a surrogate pair (RFC 8259, section 7).
func unicodeEscape(text string) (string, int) {
	if len(text) < 6 {
		return "", 0
	}
	if len(text) >= 12 && text[6:8] == `\u` {
		high, err1 := strconv.ParseUint(text[2:6], 16, 16)
		low, err2 := strconv.ParseUint(text[8:12], 16, 16)
		if r := utf16.DecodeRune(rune(high), rune(low)); err1 == nil && err2 == nil && r != utf8.RuneError {
			return string(r), 12
		}
	}
	return character(text[2:6], 6)
}

// character is the character with the code point that hexadecimal digits stand for, in an escape of some length.
func character(digits string, length int) (string, int) {
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || n > utf8.MaxRune {
		return "", 0
	}
	return string(rune(n)), length
}

// codePoint is the same as backslash, but for \x, which stands for a character in Python's and JavaScript's strings.
func codePoint(text string) (string, int) {
	if len(text) >= 4 && text[0] == '\\' && text[1] == 'x' {
		return character(text[2:4], 4)
	}
	return backslash(text)
}

// entity is a character reference of HTML or XML.
func entity(text string) (string, int) {
	if text[0] != '&' {
		return "", 0
	}
	end := strings.IndexByte(text[:min(len(text), 12)], ';') + 1
	if end == 0 {
		return "", 0
	}
	if meaning := html.UnescapeString(text[:end]); meaning != text[:end] {
		return meaning, end
	}
	return "", 0
}

// quote is a quotation mark in a text in such marks: doubled in SQL and CSV, outside the marks in a shell.
func quote(text string) (string, int) {
	for _, q := range []string{`'\''`, `'"'"'`, `''`, `""`} {
		if strings.HasPrefix(text, q) {
			return q[:1], len(q)
		}
	}
	return "", 0
}

// fold is nothing: a line break in the middle of a long text, and the indentation after it.
func fold(text string) (string, int) {
	rest := strings.TrimPrefix(text, `\`)
	if rest = strings.TrimPrefix(rest, "\r"); !strings.HasPrefix(rest, "\n") {
		return "", 0
	}
	return "", len(text) - len(strings.TrimLeft(rest[1:], " \t"))
}
