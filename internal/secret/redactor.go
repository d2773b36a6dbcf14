package secret

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"initbox/internal/failure"
	"initbox/internal/lazy"
)

// Mark stands for a secret that was removed from a text.
const Mark = "[…]"

const (
	// shortest is the length, in bytes, from which a secret is removed wherever it is. A shorter one, such as "db", is
	// part of too many words: it is removed only as a whole word.
	shortest = 4

	// A prefix of a secret is removed where the text ends or is elided after it, from beginning bytes, and anywhere
	// from telling bytes: servers cut what they repeat, Redis after 128 bytes.
	beginning = 8
	telling   = 16

	elisionLength = 64 // bytes after a prefix that tell whether the text is elided there, so that the search stays linear

	quotedLength = 512       // bytes of a message that Quote shows
	window       = 128 << 10 // bytes of a text that are searched at once; a view needs 17 times as much memory
)

// Redactor removes secrets from text, in whichever form the text has them: literally, escaped for URLs, JSON, HTML, SQL
// or shells (by up to three of these, one around the other), in base64 or hexadecimal digits, inside other text in
// base64, folded over several lines, or cut off. Several goroutines may use it at once.
type Redactor struct {
	short []string            // below shortest
	long  map[string][]needle // by their first beginning bytes, or by shortest if they are not that long
}

// needle is a text to be removed.
type needle struct {
	text  string
	coded bool // in base64 or hexadecimal digits, where text around it continues it
}

// NewRedactor prepares to remove the secrets. It removes each line of a secret with several lines, too.
func NewRedactor(secrets ...string) *Redactor {
	all := map[needle]bool{}
	for _, s := range secrets {
		for _, s := range []string{s, strings.TrimSpace(s), string([]rune(s))} { // as JSON and Go replace invalid UTF-8
			all[needle{text: s}] = true
			for _, coded := range coded(s) {
				all[needle{coded, true}] = true
			}
		}
		if lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
			for _, line := range lines {
				if line = strings.TrimSpace(line); len(line) >= shortest { // a lone brace reveals nothing
					all[needle{text: line}] = true
				}
			}
		}
	}
	r := &Redactor{long: map[string][]needle{}}
	for n := range all {
		switch length := len(n.text); {
		case length >= beginning:
			r.long[n.text[:beginning]] = append(r.long[n.text[:beginning]], n)
		case length >= shortest:
			r.long[n.text[:shortest]] = append(r.long[n.text[:shortest]], n)
		case length > 0:
			r.short = append(r.short, n.text)
		}
	}
	return r
}

// coded returns s in hexadecimal digits, and in both alphabets of base64 (RFC 4648), without padding: as it is alone,
// and inside a longer text, such as "user:password".
func coded(s string) []string {
	if len(s) < shortest {
		return nil
	}
	forms := []string{hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s)))}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, alphabet.EncodeToString([]byte(s)))
		for shift := range 3 {
			digits := alphabet.EncodeToString(append(make([]byte, shift), s...))
			if (shift+len(s))%3 != 0 {
				digits = digits[:len(digits)-1] // it has bits of what follows
			}
			forms = append(forms, digits[[]int{0, 2, 3}[shift]:]) // those before have bits of what precedes
		}
	}
	return forms
}

// Redact returns text with [Mark] in place of each secret.
func (r *Redactor) Redact(text string) string {
	if len(r.long)+len(r.short) == 0 {
		return text
	}
	var found []span
	for start := 0; ; start += window / 2 {
		part := text[start:min(len(text), start+window)]
		for _, v := range views(part) {
			for _, s := range r.find(v) {
				found = append(found, span{start + s.from, start + s.to})
			}
		}
		if start+len(part) == len(text) {
			break
		}
	}
	slices.SortFunc(found, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	done := 0
	for i := 0; i < len(found); {
		from, to := found[i].from, found[i].to
		for i++; i < len(found) && found[i].from < to; i++ {
			to = max(to, found[i].to)
		}
		b.WriteString(text[done:from])
		b.WriteString(Mark)
		done = to
	}
	return b.String() + text[done:]
}

// Quote returns a message of a server for our own: without secrets, printable, on one line, and not too long.
func (r *Redactor) Quote(text string) string {
	text = r.Redact(text[:min(len(text), 8*quotedLength)])
	text = strings.Join(strings.Fields(strings.Trim(text, "\x00")), " ") // C's strings end with a NUL
	if len(text) > quotedLength {
		text = strings.ToValidUTF8(text[:quotedLength], "") + "…"
	}
	return failure.Printable(text)
}

// Quote returns a message of a server as [Redactor.Quote] does.
func Quote(text string, secrets ...string) string { return NewRedactor(secrets...).Quote(text) }

// span is a part of a text, in bytes.
type span struct{ from, to int }

// find returns where the secrets are in what v is a view of.
func (r *Redactor) find(v *view) []span {
	var found []span
	cutOff, at := false, -1 // whether the text is cut off there, which many needles ask
	for i := range len(v.text) {
		rest := v.text[i:]
		for _, s := range r.short {
			if strings.HasPrefix(rest, s) && v.isWord(i, i+len(s)) {
				found = append(found, v.original(i, i+len(s)))
			}
		}
		for _, length := range []int{shortest, beginning} {
			if len(rest) < length {
				break
			}
			for _, n := range r.long[rest[:length]] {
				same := common(rest, n.text)
				end := i + same
				if at != end && same >= beginning {
					cutOff, at = elided(v.text[end:]), end
				}
				if same >= min(len(n.text), telling) || same >= beginning && cutOff {
					found = append(found, v.original(n.whole(v.text, i, end)))
				}
			}
		}
	}
	return found
}

// whole returns where the digits of n are in text, with those that it shares with what is around it, and padding.
func (n needle) whole(text string, start, end int) (int, int) {
	if !n.coded {
		return start, end
	}
	if start > 0 && isDigit(text[start-1]) {
		start--
	}
	if end < len(text) && isDigit(text[end]) {
		end++
	}
	for end < len(text) && text[end] == '=' {
		end++
	}
	return start, end
}

// common returns how many bytes a and b have in common at their beginning.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// isDigit reports whether c is a digit of base64.
func isDigit(c byte) bool { return isWord(c) && c < utf8.RuneSelf || c == '+' || c == '/' || c == '-' }

// elided reports whether a text is cut off before rest.
func elided(rest string) bool { return elision().MatchString(rest[:min(len(rest), elisionLength)]) }

// elision matches the end of a text, an ellipsis, and the end of a string in JSON.
var elision = lazy.Regexp(`^([^\pL\pN]*$|[^\pL\pN]{0,4}(\.\.|…|trunc|cut)|[^\pL\pN"]*"\s*[,}\]])`)

// isWord reports whether the text of v between start and end is not part of a longer word.
func (v *view) isWord(start, end int) bool {
	before := start == 0 || !isWord(v.text[start-1]) || !isWord(v.text[start])
	after := end == len(v.text) || !isWord(v.text[end]) || !isWord(v.text[end-1])
	return before && after
}

// original returns where the bytes of v between start and end are in the original.
func (v *view) original(start, end int) span { return span{v.source[start].from, v.source[end-1].to} }

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c >= utf8.RuneSelf
}
