package wire

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"

	"initbox/internal/failure"
)

// quotedLength is how many bytes of a server's message are shown at most.
const quotedLength = 300

// Quote prepares a server's message for our own: on one line, not too long, and without the secrets, which some servers
// repeat.
func Quote(text string, secrets ...string) string {
	text = text[:min(len(text), 20*quotedLength)]
	for _, s := range secrets {
		quoted := strconv.Quote(s) // the form of servers in Go, and of JSON
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

// hide replaces a secret in text, or the beginning of a long one: servers truncate what they repeat, Redis after 128
// bytes.
func hide(text, s string) string {
	const enough = 16 // bytes, which do not match by chance
	if len(s) <= 2 {  // matches in other words by chance, and is not much of a secret
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
