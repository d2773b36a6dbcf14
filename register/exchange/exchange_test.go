package exchange

import (
	"encoding/json"
	"strings"
	"testing"

	"initbox/internal/httpclient"
)

// TestPointer has the examples of RFC 6901, section 5, and what is not there.
func TestPointer(t *testing.T) {
	const doc = `{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8, "n": 12345678901234567890, "nothing": null}`
	for path, want := range map[string]string{
		"/foo": `["bar","baz"]`, "/foo/0": "bar", "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3",
		"/g|h": "4", `/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8", "/n": "12345678901234567890", "/nothing": "null",
	} {
		if got, err := Pointer([]byte(doc), path); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"foo", "/bar", "/foo/2", "/foo/-", "/foo/00", "/foo/+1", "/foo/bar", "/n/0", "/m~n~"} {
		if got, err := Pointer([]byte(doc), path); err == nil {
			t.Errorf("%s: %q, want an error", path, got)
		}
	}
	for _, text := range []string{"", "<html>", "{"} {
		if _, err := Pointer([]byte(text), "/a"); err == nil || err.Error() != "is not JSON" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzPointer looks for anything in anything.
func FuzzPointer(f *testing.F) {
	f.Add(`{"a": [1, {"b": "c"}]}`, "/a/1/b")
	f.Add(`[[]]`, "/0/0")
	f.Add(`"x"`, "")
	f.Fuzz(func(t *testing.T, doc, path string) {
		value, err := Pointer([]byte(doc), path)
		if err == nil && path == "" && !json.Valid([]byte(doc)) && !strings.HasPrefix(strings.TrimSpace(doc), value) {
			d := json.NewDecoder(strings.NewReader(doc))
			if d.Decode(new(any)) != nil {
				t.Errorf("%q has %q", doc, value)
			}
		}
	})
}

// TestSaid pins how much of an answer is quoted, and that no secret is, also where it is cut.
func TestSaid(t *testing.T) {
	const limit = 512 // see secret.Quote
	r := &Server{}
	r.Hide("s3cr3t/&\"value")
	r.Hide("xyz")
	for body, want := range map[string]string{
		"":                                     "",
		" no such thing \n":                    `"no such thing"`,
		"it was xyz":                           `"it was […]"`,
		"a\x1b[31mb":                           `"a\\x1b[31mb"`,
		`you sent s3cr3t/&"value`:              `"you sent […]"`,
		"you sent s3cr3t%2F%26%22value":        `"you sent […]"`,
		`{"you sent": "s3cr3t/\u0026\"value"}`: `"{\"you sent\": \"[…]\"}"`,
	} {
		if got := r.said(&httpclient.Answer{Body: []byte(body)}); strings.TrimPrefix(got, ": ") != want {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
	for _, body := range []string{
		`s3cr3t/&amp;&#34;value`, `s3cr3t/&amp;&quot;value`, `{"a": "s3cr3t/&\"value"}`, "czNjcjN0LyYidmFsdWU=",
	} {
		if got := r.said(&httpclient.Answer{Body: []byte(body)}); strings.Contains(got, "s3cr") || strings.Contains(got, "czNj") {
			t.Errorf("%q: %s", body, got)
		}
	}
	if got := r.said(&httpclient.Answer{Body: []byte(strings.Repeat("x", limit))}); len(got) != limit+len(`: ""`) {
		t.Errorf("cut too early: %s", got)
	}
	for n := 490; n < 520; n++ {
		body := strings.Repeat("x", n) + `s3cr3t/&"value` + strings.Repeat("ü", 100)
		got := r.said(&httpclient.Answer{Body: []byte(body)})
		if strings.Contains(got, "s3") || len(got) > limit+12 || strings.Contains(got, "�") {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestMuch pins that a request with more secrets than can be looked for shows nothing that the server says.
func TestMuch(t *testing.T) {
	s := &Server{}
	s.Hide(strings.Repeat("x", maxHidden), "s3cr3t")
	if got := s.said(&httpclient.Answer{Body: []byte("it was s3cr3t")}); strings.Contains(got, "s3cr3t") || !strings.Contains(got, "not shown") {
		t.Error(got)
	}
}
