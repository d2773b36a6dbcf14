// Package leak has secrets in all the forms in which servers, encoders and templates repeat them, to test that none of
// them reaches a message:
//
//	for _, form := range leak.Forms(secret) {
//		said := messageOf(serverThatSays("denied " + form.Text))
//		if part := form.In(said); part != "" {
//			t.Errorf("%s: %q reveals %q", form.Name, said, part)
//		}
//	}
package leak

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Secrets are what openssl rand -base64 32 prints, a passphrase with characters that encoders escape, and a short
// password.
var Secrets = []string{
	"k7Jm2Qx9Lp4Rt6Vw8Yb1+Nc3Df5Gh7Sj9Ka2Zx4Cv6/Bn8M=",
	`Zq9"x'Lk&7<Vt>\w 3%Rf+Yb/é€😀#Hm?=G;5`,
	"u7$Kd0/wQe+1",
}

// Form is a text with a secret in some form.
type Form struct {
	Name   string
	Text   string // with what is around the secret
	secret string // the part that must not be shown
	enough int    // how many bytes of it reveal something: eight characters of the secret, as they are escaped
}

// In returns a part of the form's secret that text shows, or "". Fewer than eight characters of the secret reveal too
// little, and may be there by chance.
func (f Form) In(text string) string {
	for i := range max(len(f.secret)-f.enough+1, 0) {
		if part := f.secret[i : i+f.enough]; strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// Forms returns the forms of a secret of at least 12 bytes.
func Forms(secret string) []Form {
	var forms []Form
	in := func(name, before, form, after string) {
		forms = append(forms, Form{name, before + form + after, form, 8 * max(1, len(form)/len(secret))})
	}
	add := func(name, form string) { in(name, "", form, "") }
	for _, e := range encodings {
		form := e.encode(secret)
		add(e.name, form)
		for _, outer := range []int{0, 1, 2, 3} {
			if o := encodings[outer]; e.name != "literal" && o.encode(form) != form {
				add(e.name+", "+o.name, o.encode(form))
			}
		}
	}
	add("between quotes", secret)
	in("in a URL", "http://app:", url.QueryEscape(secret), "@host/")
	for _, c := range []struct {
		name   string
		coding *base64.Encoding
	}{
		{"base64", base64.StdEncoding}, {"base64 without padding", base64.RawStdEncoding},
		{"base64 for URLs", base64.URLEncoding}, {"base64 for URLs without padding", base64.RawURLEncoding},
	} {
		add(c.name, c.coding.EncodeToString([]byte(secret)))
		for i, user := range []string{"a:", "u2:", "app:"} {
			coded := c.coding.EncodeToString([]byte(user + secret + ":x")) // whose first digits are of the user
			text := coded[4+(i+1)/3*2 : len(coded)-6]
			in(fmt.Sprintf("%s with a user of %d bytes", c.name, i+1), "Basic "+strings.TrimSuffix(coded, text+coded[len(coded)-6:]), text, coded[len(coded)-6:])
		}
	}
	add("hexadecimal", hex.EncodeToString([]byte(secret)))
	add("upper-case hexadecimal", strings.ToUpper(hex.EncodeToString([]byte(secret))))
	for cut := 8; cut < min(len(secret), 16); cut++ {
		for _, end := range []string{"", "…", "...", "'", `"`, "'...", ".", " [truncated]"} {
			in(fmt.Sprintf("cut after %d bytes, and %q", cut, end), "no such user '", whole(secret[:cut]), end)
		}
	}
	for cut := 16; cut < len(secret); cut += 5 {
		in(fmt.Sprintf("cut after %d bytes, in the middle", cut), "AUTH (", whole(secret[:cut]), ") is unknown to this server")
	}
	in("folded", "", secret[:len(whole(secret[:10]))]+"\n    "+secret[len(whole(secret[:10])):], "")
	in("beside another", "x"+secret, secret, secret)
	return forms
}

// whole returns a text without a part of a character at its end.
func whole(text string) string { return strings.ToValidUTF8(text, "") }

// encodings are ways to escape a text. The first are also tried around the others.
var encodings = []struct {
	name   string
	encode func(string) string
}{
	{"JSON", jsonString},
	{"percent", url.QueryEscape},
	{"HTML", html.EscapeString},
	{"Go, quoted", func(s string) string { return inside(strconv.Quote(s)) }},
	{"literal", func(s string) string { return s }},
	{"percent, for a path", url.PathEscape},
	{"percent, lower case", func(s string) string { return each(s, lowerPercent) }},
	{"percent, every byte", func(s string) string {
		return each(s, func(c byte) string { return fmt.Sprintf("%%%02X", c) })
	}},
	{"percent, Python's quote", kept("/_.-~")},
	{"percent, encodeURIComponent", kept("-_.!~*'()")},
	{"percent, encodeURI", kept("-_.!~*'();/?:@&=+$,#")},
	{"JSON, slashes escaped", func(s string) string { return strings.ReplaceAll(jsonString(s), "/", `\/`) }},
	{"JSON, nothing else escaped", func(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) }},
	{"JSON, every character", func(s string) string { return units(s, `\u%04x`) }},
	{"JSON, every character, upper case", func(s string) string { return units(s, `\u%04X`) }},
	{"Go, quoted to ASCII", func(s string) string { return inside(strconv.QuoteToASCII(s)) }},
	{"C, octal numbers", func(s string) string { return numbers(s, `\%03o`) }},
	{"C, hexadecimal numbers", func(s string) string { return numbers(s, `\x%02x`) }},
	{"Python's repr", func(s string) string {
		return characters(s, func(r rune) string {
			if r < utf8.RuneSelf && r != '\'' && r != '\\' {
				return string(r)
			}
			if r < 0x100 && r >= utf8.RuneSelf {
				return fmt.Sprintf(`\x%02x`, r)
			}
			if r > 0xffff {
				return fmt.Sprintf(`\U%08x`, r)
			}
			if r >= utf8.RuneSelf {
				return fmt.Sprintf(`\u%04x`, r)
			}
			return `\` + string(r)
		})
	}},
	{"HTML, named", strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;", "é", "&eacute;", "€", "&euro;", "+", "&plus;", "/", "&sol;", "=", "&equals;").Replace},
	{"HTML, decimal", func(s string) string {
		return characters(s, func(r rune) string { return fmt.Sprintf("&#%d;", r) })
	}},
	{"HTML, hexadecimal", func(s string) string {
		return characters(s, func(r rune) string { return fmt.Sprintf("&#x%x;", r) })
	}},
	{"SQL", strings.NewReplacer("'", "''").Replace},
	{"SQL, an identifier", strings.NewReplacer(`"`, `""`).Replace},
	{"MySQL", strings.NewReplacer("'", `\'`, `"`, `\"`, `\`, `\\`).Replace},
	{"shell", strings.NewReplacer("'", `'\''`).Replace},
	{"shell, Python's shlex", strings.NewReplacer("'", `'"'"'`).Replace},
	{"shell, printf %q", func(s string) string {
		return characters(s, func(r rune) string {
			if strings.ContainsRune(" !\"#$&'()*,;<>?[\\]^`{|}=", r) {
				return `\` + string(r)
			}
			return string(r)
		})
	}},
}

func jsonString(s string) string {
	quoted, _ := json.Marshal(s)
	return inside(string(quoted))
}

// inside returns the text between quotation marks.
func inside(quoted string) string { return quoted[1 : len(quoted)-1] }

func each(s string, encode func(byte) string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(encode(s[i]))
	}
	return b.String()
}

func characters(s string, encode func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(encode(r))
	}
	return b.String()
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func lowerPercent(c byte) string {
	if alphanumeric(c) {
		return string(rune(c))
	}
	return fmt.Sprintf("%%%02x", c)
}

// kept escapes for a URL, but keeps some characters.
func kept(characters string) func(string) string {
	return func(s string) string {
		return each(s, func(c byte) string {
			if alphanumeric(c) || strings.IndexByte(characters, c) >= 0 {
				return string(rune(c))
			}
			return fmt.Sprintf("%%%02X", c)
		})
	}
}

// units formats each UTF-16 code unit.
func units(s, format string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, format, unit)
	}
	return b.String()
}

// numbers formats each byte that is not a letter or a digit.
func numbers(s, format string) string {
	return each(s, func(c byte) string {
		if alphanumeric(c) {
			return string(rune(c))
		}
		return fmt.Sprintf(format, c)
	})
}
