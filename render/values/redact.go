package values

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Redacted replaces a secret.
const Redacted = "[…]"

// shortest is the least length of a secret that is removed even inside a word: a shorter one
// such as "db" is part of too many words.
const shortest = 4

// Redactor removes secrets from text. It may be used by several goroutines.
type Redactor struct {
	replacer *strings.Replacer
	short    []string
}

// NewRedactor prepares to remove the secrets, in each form that they have in messages and in rendered files: literally,
// quoted, escaped for JSON, XML and URLs, in base64, and each line of those with several lines. Secrets of less than
// four bytes are removed only as whole words.
func NewRedactor(secrets []string) *Redactor {
	all := map[string]bool{}
	for _, s := range secrets {
		for _, form := range forms(s) {
			all[form] = true
		}
	}
	delete(all, "")
	sorted := make([]string, 0, len(all))
	for s := range all {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	r := &Redactor{}
	var pairs []string
	for _, s := range sorted {
		if len(s) < shortest {
			r.short = append(r.short, s)
		} else {
			pairs = append(pairs, s, Redacted)
		}
	}
	r.replacer = strings.NewReplacer(pairs...) // at one place the first of the list wins, so the longest
	return r
}

// forms lists the forms in which a secret may appear in text.
func forms(secret string) []string {
	trimmed := strings.TrimSpace(secret)
	list := []string{}
	for _, s := range slices.Compact([]string{secret, trimmed}) {
		list = append(list, s, url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), inside(strconv.Quote(s)))
		if quoted, err := json.Marshal(s); err == nil {
			list = append(list, inside(string(quoted)))
		}
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			list = append(list, e.EncodeToString([]byte(s)))
		}
	}
	if lines := strings.FieldsFunc(trimmed, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
		for _, line := range lines {
			if line = strings.TrimSpace(line); len(line) >= shortest { // a lone brace reveals nothing
				list = append(list, line, inside(strconv.Quote(line)))
			}
		}
	}
	return list
}

// inside returns the text between quotes.
func inside(quoted string) string { return quoted[1 : len(quoted)-1] }

// Redact returns text with [Redacted] for each secret.
func (r *Redactor) Redact(text string) string {
	text = r.replacer.Replace(text)
	for _, s := range r.short {
		text = replaceWord(text, s)
	}
	return text
}

// replaceWord redacts s where no letter or digit is beside it.
func replaceWord(text, s string) string {
	var b strings.Builder
	done := 0
	for from := 0; ; {
		i := strings.Index(text[from:], s)
		if i < 0 {
			b.WriteString(text[done:])
			return b.String()
		}
		start, end := from+i, from+i+len(s)
		before := start == 0 || !isWord(text[start-1]) || !isWord(s[0])
		after := end == len(text) || !isWord(text[end]) || !isWord(s[len(s)-1])
		from = start + 1
		if before && after {
			b.WriteString(text[done:start])
			b.WriteString(Redacted)
			done, from = end, end
		}
	}
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c >= 0x80
}
