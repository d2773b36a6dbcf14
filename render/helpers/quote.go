package helpers

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The quoting functions take any scalar. Their errors do not quote it: it may be a password.

// text returns a value as a template would print it.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

var errNUL = errors.New("the value contains a NUL byte, which cannot be quoted")

// ShellQuote returns value as one word of a POSIX shell (XCU 2.2.2).
func ShellQuote(value any) (string, error) {
	s := text(value)
	if strings.IndexByte(s, 0) >= 0 {
		return "", errNUL
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
}

// SQLQuote returns value as a string literal of standard SQL (ISO 9075-2, character string literal). MySQL needs the
// mode NO_BACKSLASH_ESCAPES for it, so a backslash is refused: to escape it or not would be wrong in one of them.
func SQLQuote(value any) (string, error) {
	s := text(value)
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return "", errNUL
	case strings.IndexByte(s, '\\') >= 0:
		return "", errors.New("the value contains a backslash, which PostgreSQL and MySQL read differently; write the literal for the one in use")
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'", nil
}

// JSONQuote returns value as a JSON string (RFC 8259), with nothing escaped that need not be.
func JSONQuote(value any) (string, error) {
	s := text(value)
	if !utf8.ValidString(s) {
		return "", errors.New("the value is not UTF-8, which JSON requires")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// YAMLQuote returns value as a double-quoted scalar (YAML 1.2.2, section 7.3.1):
// a JSON string in which what YAML does not take as it is is escaped.
func YAMLQuote(value any) (string, error) {
	s, err := JSONQuote(value)
	if err != nil {
		return "", errors.New("the value is not UTF-8, which YAML requires")
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == 0x7f, r >= 0x80 && r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff, r == 0xfffe, r == 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), nil
}

// INIQuote returns value in double quotes, with backslashes before quotes and backslashes, as Git, systemd, PHP and
// Python's configobj read them. No dialect agrees on line breaks, so they are refused.
func INIQuote(value any) (string, error) {
	s := text(value)
	if strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
		return "", errors.New("the value contains a line break or another control character, which INI files cannot express")
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`, nil
}

// XMLQuote returns value escaped for text and for attributes (XML 1.0, section 2.4), without quotes around it.
func XMLQuote(value any) (string, error) {
	s := text(value)
	for _, r := range s {
		if r == utf8.RuneError || r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return "", errors.New("the value contains a character that XML cannot express")
		}
	}
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "", err
	}
	return b.String(), nil
}
