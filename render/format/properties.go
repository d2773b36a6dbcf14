package format

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// parseProperties reads a file as java.util.Properties.load does. A file that is not UTF-8 is ISO-8859-1, as in Java's
// resource bundles (JEP 226). The last of duplicate keys counts.
func parseProperties(data []byte) (any, error) {
	s := string(data)
	if !utf8.ValidString(s) {
		s = latin1(data)
	}
	values := &Map{Values: map[string]any{}}
	line := 0
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\n")
	for line < len(lines) {
		start := line + 1
		text := strings.TrimLeft(lines[line], " \t\f")
		line++
		if text == "" || text[0] == '#' || text[0] == '!' {
			continue
		}
		var whole strings.Builder
		for continues(text) && line < len(lines) {
			whole.WriteString(text[:len(text)-1])
			text = strings.TrimLeft(lines[line], " \t\f")
			line++
		}
		if continues(text) { // at the end of the file
			text = text[:len(text)-1]
		}
		whole.WriteString(text)
		key, value := cutProperty(whole.String())
		k, kok := unescapeProperty(key)
		v, vok := unescapeProperty(value)
		if !kok || !vok {
			return nil, &Error{Line: start, Text: "four hexadecimal digits are expected after \\u"}
		}
		values.Set(k, v)
	}
	return values, nil
}

// continues returns whether a line ends in an odd number of backslashes.
func continues(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// cutProperty splits a line at the first =, : or blank that is not escaped.
func cutProperty(s string) (key, value string) {
	i := 0
	for i < len(s) && strings.IndexByte("=: \t\f", s[i]) < 0 {
		if s[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(s))
	value = strings.TrimLeft(s[i:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return s[:i], value
}

func unescapeProperty(s string) (string, bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	var b strings.Builder
	var pending rune // the first half of a surrogate pair
	flush := func() {
		if pending != 0 {
			b.WriteRune(utf8.RuneError)
			pending = 0
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			flush()
			b.WriteByte(s[i])
			continue
		}
		i++
		if s[i] != 'u' {
			flush()
			if j := strings.IndexByte("tnrf", s[i]); j >= 0 {
				b.WriteByte("\t\n\r\f"[j])
			} else {
				b.WriteByte(s[i])
			}
			continue
		}
		if len(s) < i+5 {
			return "", false
		}
		u, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
		if err != nil {
			return "", false
		}
		i += 4
		r := rune(u)
		if full := utf16.DecodeRune(pending, r); pending != 0 && full != utf8.RuneError {
			b.WriteRune(full)
			pending = 0
			continue
		}
		flush()
		if utf16.IsSurrogate(r) && r < 0xdc00 {
			pending = r
			continue
		}
		b.WriteRune(r) // half a pair becomes U+FFFD
	}
	flush()
	return b.String(), true
}

// latin1 decodes ISO-8859-1.
func latin1(data []byte) string {
	runes := make([]rune, len(data))
	for i, c := range data {
		runes[i] = rune(c)
	}
	return string(runes)
}
