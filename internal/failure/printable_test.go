package failure

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"plain é 漢 🙂":                          "plain é 漢 🙂",
		"a\nb\rc\td":                           `a\nb\rc\td`,
		"\x1b[2K\x00\x7f":                      `\x1b[2K\x00\x7f`,
		"\u0085\u2028\u2029":                   `\u0085\u2028\u2029`,
		"\u202a\u202e\u2066\u2069\u061c\u200f": `\u202a\u202e\u2066\u2069\u061c\u200f`,
		"\ufeff\u200b\u200d\u2060\u00ad\u3164": `\ufeff\u200b\u200d\u2060\u00ad\u3164`,
		"\u00a0\u3000\ue000\U000e0041":         `\u00a0\u3000\ue000\U000e0041`,
		"\xff\xfea\xc3":                        `\xff\xfea\xc3`,
		"\ufffd":                               "\ufffd",
		`back\slash "quoted" 'q'`:              `back\slash "quoted" 'q'`,
		"":                                     "",
	} {
		if got := Printable(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 5000), strings.Repeat("é", 2500), "x" + strings.Repeat("é", 2500)} {
		if got := Printable(long); len(got) > 1100 || !utf8.ValidString(got) || strings.Contains(got, `\x`) || !strings.HasSuffix(got, "…") {
			t.Errorf("%.80q, %d bytes", got, len(got))
		}
	}
	f := Of(errors.New("says\r\nERROR forged"))
	if strings.ContainsAny(f.Text, "\r\n") {
		t.Errorf("%q", f.Text)
	}
}

func TestLines(t *testing.T) {
	for s, want := range map[string]string{
		"one line":                      "one line",
		"a\tb\n":                        "a\tb\n",
		"a\u2028b\x1bc\r\nd":            `a\u2028b\x1bc\r` + "\n  d",
		"x\n2026-01-01T00:00Z ok":       "x\n  2026-01-01T00:00Z ok",
		"x\n{\"time\":1}":               "x\n  {\"time\":1}",
		"x\ninitbox: done":              "x\n  initbox: done",
		"x\ninitbox sleep: done":        "x\n  initbox sleep: done",
		"2 left:\n  a: b\n  and 1 more": "2 left:\n  a: b\n  and 1 more",
		"grant it\napiVersion: v1\nrules:\n- {verbs: [get]}\n---\nkind: Role\n": "grant it\napiVersion: v1\nrules:\n- {verbs: [get]}\n---\nkind: Role\n",
		"x\nERROR: forged\n: y": "x\n  ERROR: forged\n  : y",
		"first\nhint: second":   "first\nhint: second",
	} {
		if got := Lines(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
