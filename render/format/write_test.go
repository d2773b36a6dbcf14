package format

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestWriteReadsBack pins that what is written as a format is read back as the same values.
func TestWriteReadsBack(t *testing.T) {
	for _, c := range []struct{ format, text string }{
		{"json", `{"b": {"z": 1, "a": [1, 2.5, 1.0, 1e300, -0.000001, null, "x<y&\u2028\n\"", true]}, "": {}, "a": [], "n": 123456789012345678901234567890}`},
		{"json", `[1, [2, {}]]`}, {"json", `"text"`}, {"json", `null`},
		{"yaml", "a: {b: [1, {c: d}], e: ''}\n'<<': '='\nf: |\n  x\n  y\nyes: no\n'no': 'yes'\ng: 0o17\nh: 1_000\ni: 12:30:45\nj: 2001-01-01\nk: ~\nl: !!binary aGk=\nm: 0x1F\nn: 1e3\no: .5\np: '#'\nq: 12345678901234567890123\n"},
		{"yaml", "# only a comment\n"}, {"yaml", "- a\n- - b\n"}, {"yaml", "a: &x [1]\nb: *x\nc: &y {d: 1}\ne: {<<: *y, f: 2}\n"},
		{"toml", "d = 1979-05-27\nt = 07:32:00.5\nl = 1979-05-27T07:32:00\nz = 1979-05-27T07:32:00Z\nf = 1.0\nm = [1, \"x\", {a = 1}]\ns = \"\"\"\na\\\"\n\"\"\"\n[\"a.b\".c]\nx = []\n[[q]]\na = 1\n[[q]]\n"},
		{"ini", "top = 1\nflag\n[a.b]\nk = v ; no comment\nk = w\nempty =\nlong = x\n  y\n[c]\n\tk: v\n\tl=a: b\n"},
		{"properties", "a\\ b = \\ x \\\n  y\n\\#c: \\u20ac\\ud83d\\ude00\nd\n e.f = \\\\ \\t\n"},
		{"env", "A='x y'\nexport B=\"it's \\$1\\n\\\"q\\\"\\\\\"\nC=\nD=a#b\nE='$(x)'\n"},
	} {
		f := named(t, c.format)
		want, err := f.Document([]byte(c.text))
		if err != nil {
			t.Errorf("%s %q: %v", c.format, c.text, err)
			continue
		}
		for _, like := range []string{"", c.text} {
			text, err := f.Write(want, []byte(like))
			if err != nil {
				t.Errorf("%s %q: %v", c.format, c.text, err)
				continue
			}
			if got, err := f.Document(text); err != nil || !reflect.DeepEqual(unordered(got), unordered(want)) {
				t.Errorf("%s %q is written as\n%s\nand read back as %v, %v; want %v", c.format, c.text, text, unordered(got), err, unordered(want))
			}
			again, err := f.Write(want, text)
			if err != nil || string(again) != string(text) && c.format == "yaml" {
				t.Errorf("%s: written once as\n%s\nand twice as\n%s\n%v", c.format, text, again, err)
			}
		}
	}
}

// TestWriteKeepsComments pins that comments stay with their keys, and are not about another value.
func TestWriteKeepsComments(t *testing.T) {
	f := named(t, "yaml")
	const like = "# head\n\na: 1 # one\n# about b\nb: 'x' # text\nlist:\n  # first\n  - x # ex\n  - y\ngone: 1 # gone\ntag: !ref [a, !sub b]\n"
	v, err := f.Document([]byte("a: 2\nb: x\nlist: [z, y]\ntag: [a, b]\nnew: {c: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Write(v, []byte(like))
	const want = "# head\n\na: 2 # one\n# about b\nb: 'x' # text\nlist:\n  - z\n  - y\ntag: !ref [a, !sub b]\nnew:\n  c: 1\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

// TestWriteRefuses pins that nothing is written that a format cannot hold, with the path and without the value.
func TestWriteRefuses(t *testing.T) {
	for _, c := range []struct{ json, format, want string }{
		{`{"a": {"b": null}}`, "toml", "a.b: TOML has no null"},
		{`{"a": [1, null]}`, "toml", "a[1]: TOML has no null"},
		{`{"a": 123456789012345678901}`, "toml", "a: the number is too large"},
		{`[1]`, "toml", "a map of keys"}, {`[1]`, "ini", "a map of keys"}, {`"x"`, "env", "a map of keys"}, {`[1]`, "properties", "a map of keys"},
		{`{"s": {"t": {"u": 1}}}`, "ini", "s.t: a map or a list cannot be written here"},
		{`{"s": {"k": "x\n[evil]"}}`, "ini", "s.k: this format cannot hold the name, or"},
		{`{"s": {"k": " hunter2"}}`, "ini", "s.k: this format cannot hold the name, or"},
		{`{"s": {"k": "hunter2\n\ny"}}`, "ini", "s.k: this format cannot hold the name, or"},
		{`{"k\nx": "1"}`, "ini", `k\nx: this format cannot hold the name, or`}, {`{"#k": "1"}`, "ini", "#k: this format cannot hold the name, or"}, {`{"a=b": "1"}`, "ini", "a=b: this format cannot hold the name, or"},
		{`{"s]\n[t": {"k": "1"}}`, "ini", "not the name of a section"},
		{`{"A": "'` + "`hunter2`" + `"}`, "env", "A: this format cannot hold"}, {`{"a": [1]}`, "env", "a: a list cannot"}, {`{"a b": "1"}`, "env", "a b: this format cannot hold the name, or"}, {`{"A\nB": "1"}`, "env", `A\nB: this format cannot hold the name, or`},
		{`{"a": {"b": []}}`, "properties", "a.b: a list cannot"},
		{`{}`, "xml", "values cannot be written as xml"},
	} {
		v, err := named(t, "json").Document([]byte(c.json))
		if err != nil {
			t.Fatal(err)
		}
		text, err := named(t, c.format).Write(v, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s as %s: %q, %v; want %q", c.json, c.format, text, err, c.want)
		}
	}
}

// TestWriteBombs pins that neither aliases nor indentation make a small file large, or slow.
func TestWriteBombs(t *testing.T) {
	deep := strings.Repeat("[", 900) + strings.Repeat("1,", 200_000) + "1" + strings.Repeat("]", 900)
	v, err := named(t, "json").Document([]byte(deep))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"json", "yaml"} {
		start := time.Now()
		_, err := named(t, name).Write(v, nil)
		if long := new(Error); !errors.As(err, &long) || !long.TooLong {
			t.Errorf("%s: %v, want that it is too long", name, err)
		}
		t.Logf("%s: %v", name, time.Since(start))
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}
	if _, err := named(t, "yaml").Document([]byte(bomb)); err == nil {
		t.Error("a bomb of aliases is read")
	}
}

// FuzzWrite looks for a document that is read back otherwise than it was written.
func FuzzWrite(f *testing.F) {
	f.Add("a: 1\n", "b: [x, {c: 2}]\n")
	f.Add("# c\na: &x {b: 1} # d\n", "a: {b: yes, c: '1'}\n? y\n: 'no'\n")
	f.Fuzz(func(t *testing.T, like, text string) {
		yaml := named(t, "yaml")
		v, err := yaml.Document([]byte(text))
		if err != nil {
			return
		}
		for _, name := range []string{"yaml", "json", "toml", "ini", "properties", "env"} {
			to := named(t, name)
			written, err := to.Write(v, []byte(like))
			if err != nil {
				continue
			}
			got, err := to.Document(written)
			if err != nil {
				t.Fatalf("%s: %q is written as %q: %v", name, text, written, err)
			}
			want := unordered(v)
			if name == "json" {
				want = unordered(unworded(v))
			}
			if (name == "yaml" || name == "json" && !strings.Contains(text, "binary")) && !reflect.DeepEqual(unordered(got), want) {
				t.Fatalf("%s: %q after %q is written as %q", name, text, like, written)
			}
		}
	})
}

// unordered returns a copy of v without the order of its maps.
func unordered(v any) any { return plain(changed(v, func(v any) any { return v })) }

// unworded returns a copy of v with booleans for words.
func unworded(v any) any {
	return changed(v, func(v any) any {
		if w, is := v.(Word); is {
			return w.bool()
		}
		return v
	})
}

// changed returns a copy of v with other scalars.
func changed(v any, by func(any) any) any {
	switch v := v.(type) {
	case *Map:
		m := &Map{Values: map[string]any{}}
		for _, k := range v.Keys {
			m.Set(k, changed(v.Values[k], by))
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = changed(v[i], by)
		}
		return list
	}
	return by(v)
}
