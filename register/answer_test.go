package register

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
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
		if got, err := pointer([]byte(doc), path); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"foo", "/bar", "/foo/2", "/foo/-", "/foo/00", "/foo/+1", "/foo/bar", "/n/0", "/m~n~"} {
		if got, err := pointer([]byte(doc), path); err == nil {
			t.Errorf("%s: %q, want an error", path, got)
		}
	}
	for _, text := range []string{"", "<html>", "{"} {
		if _, err := pointer([]byte(text), "/a"); err == nil || err.Error() != "is not JSON" {
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
		value, err := pointer([]byte(doc), path)
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
	r := &Registration{}
	r.hide("s3cr3t/&\"value")
	r.hide("xyz")
	for body, want := range map[string]string{
		"":                                     "",
		" no such thing \n":                    `"no such thing"`,
		"it was xyz":                           `"it was […]"`,
		"a\x1b[31mb":                           `"a\\x1b[31mb"`,
		`you sent s3cr3t/&"value`:              `"you sent […]"`,
		"you sent s3cr3t%2F%26%22value":        `"you sent […]"`,
		`{"you sent": "s3cr3t/\u0026\"value"}`: `"{\"you sent\": \"[…]\"}"`,
	} {
		if got := r.said(&httpclient.Answer{Body: []byte(body)}); got != want {
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
	if got := r.said(&httpclient.Answer{Body: []byte(strings.Repeat("x", limit))}); len(got) != limit+len(`""`) {
		t.Errorf("cut too early: %s", got)
	}
	for n := 490; n < 520; n++ {
		body := strings.Repeat("x", n) + `s3cr3t/&"value` + strings.Repeat("ü", 100)
		got := r.said(&httpclient.Answer{Body: []byte(body)})
		if strings.Contains(got, "s3") || len(got) > limit+10 || strings.Contains(got, "�") {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestAnswerIsOfNoUse pins the errors of an answer that lacks the wanted value, and of one that cannot be written.
func TestAnswerIsOfNoUse(t *testing.T) {
	t.Parallel()
	r, err := Open(Options{
		Server: Server{URL: "http://registry:1"}, Protocol: Protocol{Preset: "etcd"}, Entry: Entry{ID: "web-0"},
		Extract: "/id", Output: filepath.Join(t.TempDir(), "missing", "answer"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.extract(&httpclient.Answer{Body: []byte(`{"id": "7"}`)}); string(got) != "7" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := r.extract(&httpclient.Answer{Body: []byte("{}")}); err == nil || !strings.HasSuffix(err.Error(), "but the answer has no /id") {
		t.Errorf("no id in the answer: %v", err)
	}
	for _, err := range []error{r.checkOutput(), r.writeAnswer()} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "write the answer to "+r.o.Output) {
			t.Errorf("no directory for the answer: %v", err)
		}
	}
	r.o.Output = ""
	if err := errors.Join(r.checkOutput(), r.writeAnswer()); err != nil {
		t.Errorf("no answer is wanted: %v", err)
	}
}
