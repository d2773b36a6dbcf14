package wire

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"

	"initbox/internal/failure"
)

// quotedLength is as much as is told of what a server says.
const quotedLength = 300

// Quote makes what a server says fit for a message: on one line, not too long, and without any of the secrets, which
// servers are known to repeat.
func Quote(text string, secrets ...string) string {
	text = text[:min(len(text), 20*quotedLength)]
	for _, s := range secrets {
		quoted := strconv.Quote(s) // as servers written in Go, and those that speak JSON, have it
		for _, sent := range []string{base64.StdEncoding.EncodeToString([]byte(s)), url.QueryEscape(s), url.PathEscape(s), quoted[1 : len(quoted)-1], s} {
			text = hide(text, sent)
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > quotedLength {
		text = strings.ToValidUTF8(text[:quotedLength], "") + "…"
	}
	return failure.Printable(text)
}

// hide replaces a secret in text, and the beginning of a long one: servers cut off what they repeat, Redis after 128
// bytes.
func hide(text, s string) string {
	const enough = 16 // bytes, which are in no text by chance
	if len(s) <= 2 {  // is in other words by chance, and no secret either
		return text
	}
	text = strings.ReplaceAll(text, s, "…")
	for len(s) > enough {
		i := strings.Index(text, s[:enough])
		if i < 0 {
			break
		}
		n := enough
		for n < len(s) && i+n < len(text) && text[i+n] == s[n] {
			n++
		}
		text = text[:i] + "…" + text[i+n:]
	}
	return text
}
