package failure

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPrintable is how many bytes of a text from outside a message quotes.
const maxPrintable = 1000

// Printable returns a text from outside, such as a file's name or what a server sent, as a part of one line of a
// message. What would start another line, control a terminal, reorder the characters around it or hide is written as in
// a Go string: \n, \x1b, \u2028, \u202e. A long text is cut.
func Printable(s string) string {
	if len(s) <= maxPrintable {
		return escape(s, unprintable)
	}
	end := maxPrintable
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return escape(s[:end], unprintable) + "…"
}

// Lines returns a whole message, whose line breaks and tabs are its own, with everything else that [Printable] escapes
// escaped. So that no line after the first can pass for another message, it is indented, unless it already is or is a
// line of a manifest, which users copy, or another hint.
func Lines(s string) string {
	s = escape(s, func(r rune) bool { return r != '\n' && r != '\t' && unprintable(r) })
	if !strings.Contains(s, "\n") {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines[1:] {
		if line != "" && !ours(line) {
			lines[i+1] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

// ours returns whether a line is indented, or begins as one of a manifest or a hint: "---", "- name: x", "kind: Role".
func ours(line string) bool {
	if line == "---" || strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "- ") {
		return true
	}
	key, _, found := strings.Cut(line, ":")
	const lower, upper = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	isKey := strings.Trim(key, lower+upper) == "" && strings.IndexAny(key, lower) == 0 // not "ERROR: …"
	return found && isKey && key != "initbox"
}

// escape replaces bytes that are not UTF-8, and characters for which special returns true.
func escape(s string, special func(rune) bool) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, special) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			quoted := strconv.Quote(s[:1]) // "\xff"
			b.WriteString(quoted[1 : len(quoted)-1])
		case special(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// unprintable returns whether a character is not a visible one or a plain space: control characters, line and paragraph
// separators, bidirectional controls, byte order marks, and what Unicode lists as invisible.
func unprintable(r rune) bool {
	if ' ' <= r && r <= '~' {
		return false // most are
	}
	return !unicode.IsPrint(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
