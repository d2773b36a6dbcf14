package secret_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"initbox/internal/secret"
	"initbox/test/leak"
)

// TestRedactForms pins that no form of a secret stays, alone and among other secrets.
func TestRedactForms(t *testing.T) {
	t.Parallel()
	for _, s := range leak.Secrets {
		alone := secret.NewRedactor(s)
		// Prefixes of the secret, longer secrets with it, and forms of it that are secrets themselves.
		among := secret.NewRedactor(s[:5], s[:11], "app:"+s, s, base64.StdEncoding.EncodeToString([]byte("app:"+s)))
		for _, form := range leak.Forms(s) {
			for name, r := range map[string]*secret.Redactor{"alone": alone, "among others": among} {
				for _, text := range []string{form.Text, "ERR denied: " + form.Text, `{"message":"` + form.Text + `"}`} {
					got := r.Redact(text)
					if part := form.In(got); part != "" || !strings.Contains(got, secret.Mark) {
						t.Errorf("%s, %s: %s becomes %s, which has %q", form.Name, name, text, got, part)
					}
				}
			}
		}
	}
}

// TestRedact pins what is kept around secrets.
func TestRedact(t *testing.T) {
	t.Parallel()
	const pem = "-----BEGIN KEY-----\nMIIEabc\n-----END KEY-----\n"
	secrets := []string{"p@ss/w\"ör\nd", "hunter2", "hunter2hunter2", "db", "42", pem, "", "trailing\n", "correct horse battery"}
	r := secret.NewRedactor(secrets...)
	for text, want := range map[string]string{
		"user hunter2, url?p=p%40ss%2Fw%22%C3%B6r%0Ad&x": "user […], url?p=[…]&x",
		"hunter2hunter2":                                           "[…]",
		"hunter2hunter2hunter2":                                    "[…]",
		"hunter2-hunter2":                                          "[…]-[…]",
		`{"p": "p@ss/w\"ör\nd"}`:                                   `{"p": "[…]"}`,
		"debug the db-42, db2 or 421 (db)":                         "debug the […]-[…], db2 or 421 ([…])",
		base64.StdEncoding.EncodeToString([]byte("hunter2")):       "[…]",
		base64.StdEncoding.EncodeToString([]byte("user:hunter2 ")): "dXNlcj[…]A==",
		base64.RawURLEncoding.EncodeToString([]byte(pem)):          "[…]",
		"  MIIEabc\n":                                              "  […]\n",
		"x trailing y":                                             "x […] y",
		"of correct battery, correct horses":                       "of correct battery, correct horses",
		"of correct h":                                             "of […]",
		"of correct":                                               "of correct",
		"of 'correct h...' others":                                 "of '[…]...' others",
		"of 'correct h' others":                                    "of 'correct h' others",
		`{"of":"correct h","others":1}`:                            `{"of":"[…]","others":1}`,
		"of correct h; others":                                     "of correct h; others",
		"of correct+horse+battery":                                 "of […]",
		"nothing":                                                  "nothing",
		"":                                                         "",
	} {
		if got := r.Redact(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := secret.NewRedactor().Redact("x"); got != "x" {
		t.Error(got)
	}
}

// TestRedactLong pins that a text is searched whose views do not fit into a window.
func TestRedactLong(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("0123456789abcde\n", 4<<10) // 64 KiB
	form := leak.Forms(leak.Secrets[0])[1]
	for _, shift := range []int{0, 1, 17, 40} {
		text := filler[shift:] + form.Text + filler + filler + form.Text
		if got, want := secret.NewRedactor(leak.Secrets[0]).Redact(text), filler[shift:]+"[…]"+filler+filler+"[…]"; got != want {
			t.Errorf("shift %d: %d bytes, want %d", shift, len(got), len(want))
		}
	}
}

// TestRedactHostile pins that the time that a text takes does not grow with the square of its length, even if it
// repeats the beginning of a secret all the way.
func TestRedactHostile(t *testing.T) {
	t.Parallel()
	var secrets []string
	for i := range 20 {
		secrets = append(secrets, fmt.Sprintf("--------%d", i))
	}
	text := strings.Repeat("-", 1<<16) + "a"
	if got := secret.NewRedactor(secrets...).Redact(text); got != secret.Mark+strings.Repeat("-", 64)+"a" {
		t.Errorf("%.80q", got)
	}
}

// TestQuote pins that a message of a server becomes one line of a bounded length.
func TestQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" no such user:\r\n\tapp \x1b[31m\x00":    `no such user: app \x1b[31m`,
		"hunter2 " + strings.Repeat("x", 1<<20):   "[…] " + strings.Repeat("x", 512-len("[…] ")) + "…",
		strings.Repeat("a ", 2000) + "hunter2":    strings.Repeat("a ", 256) + "…",
		strings.Repeat("x", 511) + "é":            strings.Repeat("x", 511) + "…",
		strings.Repeat("x", 8*512-8) + "hunter2h": strings.Repeat("x", 512) + "…",
	} {
		if got := secret.Quote(text, "hunter2"); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("user=hunter2 x", "hunter2", "db")
	f.Add(`%\u00e4&#x41;''`, "a'b\\c%41+", "\xff\xfe\n")
	f.Fuzz(func(t *testing.T, text, secret1, secret2 string) {
		got := secret.NewRedactor(secret1, secret2).Redact(text + secret1)
		if len(secret1) >= 4 && strings.Contains(strings.ReplaceAll(got, secret.Mark, "\x00"), secret1) && !strings.ContainsAny(secret1, secret.Mark+"\x00") {
			t.Errorf("%q stays in %q", secret1, got)
		}
		for _, form := range leak.Forms("Zq9" + secret1 + leak.Secrets[2])[:8] {
			if got := secret.NewRedactor("Zq9" + secret1 + leak.Secrets[2]).Redact(text + " " + form.Text); !strings.Contains(got, secret.Mark) {
				t.Errorf("%s: %q stays in %q", form.Name, form.Text, got)
			}
		}
	})
}

// BenchmarkRedact has as many secrets as a directory could have.
func BenchmarkRedact(b *testing.B) {
	var secrets []string
	for i := range 1000 {
		secrets = append(secrets, fmt.Sprintf("secret-number-%d", i))
	}
	r := secret.NewRedactor(secrets...)
	text := strings.Repeat("a line that has no secret in it\n", 1000) + secrets[999]
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Redact(text)
	}
}
