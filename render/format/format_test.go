package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func named(t testing.TB, name string) *Format {
	t.Helper()
	f, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFor(t *testing.T) {
	for name, want := range map[string]string{
		"app.yaml": "yaml", "/etc/app.YML": "yaml", "a.json": "json", "a.toml": "toml", "a.ini": "ini", "pom.xml": "xml",
		".env": "env", "prod.env": "env", ".env.local": "env", "app.properties": "properties", "nginx.conf": "nginx", "/etc/nginx/nginx.conf": "nginx",
		"app.conf": "", "haproxy.cfg": "", "yaml": "", "environment": "", "a.json.bak": "", "": "", "my-nginx.conf": "",
	} {
		got := ""
		if f := For(name); f != nil {
			got = f.Name
		}
		if got != want {
			t.Errorf("For(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNamed(t *testing.T) {
	if f, err := Named("YAML"); err != nil || f.Name != "yaml" {
		t.Errorf("YAML: %v, %v", f, err)
	}
	for name, want := range map[string]string{"ymal": "did you mean yaml?", "hcl": "the formats are json, yaml, toml"} {
		if _, err := Named(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

// TestValidate has files as they come out of templates, and what a person is told about those that are wrong.
func TestValidate(t *testing.T) {
	deep := func(open, middle, end string, n int) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	for _, test := range []struct{ format, data, want string }{
		{"json", `{"a": [1, 2.5e3, "x", null, true], "b": {"a": 1}}`, ""},
		{"json", "[]\n", ""},
		{"json", deep("[", "", "]", MaxDepth), ""},
		{"json", deep("[", "", "]", MaxDepth+1), "nested deeper"},
		{"json", strings.Repeat("[", 1<<20), "nested too deep"},
		{"json", "", "empty"},
		{"json", "{\n \"a\": 1,\n}", "line 3, column 1: a key in double quotes is expected here"},
		{"json", `{"a": 1 "b": 2}`, "line 1, column 9: a comma or } is expected here"},
		{"json", `["a" "b"]`, "line 1, column 6: a comma or ] is expected here"},
		{"json", `{"a" 1}`, "column 6: a colon"},
		{"json", `{"a": }`, "column 7: a value is expected"},
		{"json", `{"a": 1`, "line 1, column 8: the file ends"},
		{"json", "{\"a\": \"x\ny\"}", "line 1, column 9: a control character"},
		{"json", `{"a": 1} {"b": 2}`, "column 10: something follows"},
		{"json", "{\"a\": 1,\n  \"b\": {\"a\": 1},\n  \"a\": 2}", `line 3, column 3: duplicate key "a"`},
		{"json", `[{"a": [1, {"x": 0, "x": 1}]}]`, `duplicate key "x"`},
		{"json", `[{"a": 1}, {"a": 1}]`, ""},
		{"json", "\"\xff\"", "line 1, column 2: not UTF-8"},
		{"json", "\ufeff{}", "byte order mark"},
		{"json", `{"a": 1e999}`, ""}, // a number to JSON, if to few programs

		{"yaml", "a: 1\nb: [x, {y: z}]\n---\nc: 2\n", ""},
		{"yaml", "", ""},
		{"yaml", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 2\n", ""}, // a merged key may be overridden
		{"yaml", "a: &x {b: 1}\nd:\n  <<: *x\n  e: 2\n  e: 3\n", `duplicate key "e"`},
		{"yaml", "a: 1\nb:\n\tc: d\n", "line 3, column 1: a tab in the indentation"},
		{"yaml", "a: 1\nb: 2\na: 3\n", `line 3: duplicate key "a"`},
		{"yaml", "a: 1\n---\nb: 2\nb: 3\n", `line 4: duplicate key "b"`},
		{"yaml", "1: a\n\"1\": b\n", "written differently"},
		{"yaml", "a: 1\nb: [1, 2\nc: d\n", "line 3: a comma or ] is expected here"},
		{"yaml", "a: 1\n- b\n", "line 2: a key was expected here"},
		{"yaml", "a: 1\n b: 2\n", "line 2: a colon where no key can be"},
		{"yaml", "a: b: c\n", "line 1: a colon where no key can be"},
		{"yaml", "a: 1\nb: @x\n", "line 2: a character that needs quotes"},
		{"yaml", "a: *nothing\n", "line 1, column 4: an alias whose anchor does not exist"},
		{"yaml", "a: &a [*a]\n", "line 1, column 8: an anchor whose value contains itself"},
		{"yaml", "a: !!int hunter2\n", "does not match its tag"},
		{"yaml", "b: 1\na: {{ .Values.x }}\n", "line 2, column 4: a key that is a list or a map: does {{ need quotes?"},
		{"yaml", "a: .nan\n", "infinite or NaN"},
		{"yaml", "a: \x00\n", "column 4: a NUL byte"},
		{"yaml", "a: \x01\n", "a control character"},
		{"yaml", deep("[", "", "]", MaxDepth+1), "nested deeper"},
		{"yaml", strings.Repeat("[", 1<<20), "nested too deep"},
		{"yaml", strings.Repeat("- ", 1<<18), "nested too deep"},
		{"yaml", bomb(), "aliases expand to too much"},

		{"toml", "a = 1\n[t]\nb = [1, {c = 'x'}]\n[[l]]\n[[l]]\n", ""},
		{"toml", "", ""},
		{"toml", "a = 1\nb = hunter2\n", "line 2, column 5: key \"b\": not a value: text needs quotes"},
		{"toml", "a = 1\na = 2\n", "duplicate key"},
		{"toml", "a = \"x\n", "line 1, column 7: key \"a\": a string is not closed"},
		{"toml", "[a\n", "a ] that ends the name"},
		{"toml", "a = 99999999999999999999", "too large"},
		{"toml", "a = 2020-99-99", "not a date"},
		{"toml", "a = 1 2", "something follows the value"},
		{"toml", "a b = 1", "a = is expected here"},
		{"toml", "# " + strings.Repeat("[", 5000) + "\na = \"" + strings.Repeat("[", 5000) + "\"\nb = '''\n" + strings.Repeat("{", 5000) + "'''", ""},
		{"toml", "a = " + deep("[", "", "]", MaxDepth+1), "nested deeper"},
		{"toml", "a = " + strings.Repeat("[", 1<<20), "nested deeper"},
		{"toml", strings.Repeat("a.", 1<<19) + "a = 1", "a key of more than 100 parts"},
		{"toml", "a = [" + strings.Repeat("1.5, ", 5000) + "]", ""},

		{"ini", "; c\n# c\ntop = 1\n[s]\na = 1\nb: 2\nskip-networking\nlist =\n  [1]\n  x\nurl[] = a\n[t] ; c\n", ""},
		{"ini", "[s]\n[t\na = 1\n", "line 2, column 1: a section whose ] is missing"},
		{"ini", "[]\n", "a section without a name"},
		{"ini", "[a] b\n", "something follows the section"},
		{"ini", "a = 1\n = hunter2\n", "line 2, column 2: a value without a key"},

		{"xml", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE a [<!ENTITY e \"x\">]>\n<!-- c -->\n<a b=\"1\" c='2'><d/>x &amp; &#65; &e;<![CDATA[<<]]></a>\n", ""},
		{"xml", "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>\xe9</a>", ""},
		{"xml", "<a>\xe9</a>", "not UTF-8"},
		{"xml", "<a>\n<b>\n</a>", "line 3, column 5: an end tag that does not match the element that begins on line 2"},
		{"xml", "<a>\n<b>\n</b>", "line 1: the element that begins here is not closed"},
		{"xml", "<a/>\n<b/>", "line 2, column 5: a second root element"},
		{"xml", "<a/>\nx", "text outside the root"},
		{"xml", "", "no root element"},
		{"xml", "<a>a&hunter2;</a>", "an & that begins no entity"},
		{"xml", "<a>1 < 2</a>", "a < that begins no element"},
		{"xml", "<a b=\"1\" b=\"2\"/>", "duplicate attribute"},
		{"xml", "<a b=1/>", "without quotes"},
		{"xml", "</a>", "an end tag without a start tag"},
		{"xml", strings.Repeat("<a>", 1<<18), "nested deeper"},

		{"env", "# c\nA=1\nexport B='x y' # c\nC=\"a\nb\"\n\nD=\n", ""},
		{"env", "A=1\nhunter2\n", "line 2, column 1: not KEY=value"},
		{"env", "A='x\n", "line 1, column 3: the quote of A is not closed"},
		{"env", "A='x'y\n", "something follows the closing quote of A"},
		{"env", "1A=x\n", "not KEY=value"},

		{"properties", "a=1\nb : 2\nc 3\nd\\\n  e=4\n! c\n", ""},
		{"properties", "a=1\nb=\\u12g4\n", "line 2: four hexadecimal digits"},

		{"nginx", "user nginx;\nhttp {\n  # } c\n  server {\n    set $x \"a;{\" ;\n    if ($host ~* ^(a|b)\\{1\\}$) { return 200 'x y'; }\n    log_format m '$remote_addr'\n      '\"$request\"';\n    location ~ ^/${x}b { proxy_pass http://${x}; }\n  }\n}\n", ""},
		{"nginx", "content_by_lua_block {\n local t = { 1, \"}\" } -- }\n}\nx y;\n", ""},
		{"nginx", "http {\n  a b\n}\n", "line 2, column 3: the directive that begins here does not end in ;"},
		{"nginx", "http {\n  a b;\n", "line 1, column 6: the { is not closed"},
		{"nginx", "a b;\n}\n", "line 2, column 1: a } without its {"},
		{"nginx", "a 'b;\n", "line 1, column 3: the quote is not closed"},
		{"nginx", "a 'b'c;\n", "a blank or ; is expected"},
		{"nginx", "a b", "does not end in ;"},
		{"nginx", "a b;;\n", "a ; without a directive"},
		{"nginx", "{ }", "a { without a directive"},
	} {
		err := named(t, test.format).Validate([]byte(test.data))
		shown := test.data
		if len(shown) > 60 {
			shown = shown[:60] + "…"
		}
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s %q: %v", test.format, shown, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s %q: error %q, want %q", test.format, shown, fmt.Sprint(err), test.want)
		case err != nil && !errors.As(err, new(*Error)):
			t.Errorf("%s %q: error %T", test.format, shown, err)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s %q: the error quotes the file: %v", test.format, shown, err)
		}
	}
}

// bomb is YAML of a kilobyte that means gigabytes.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 10 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	return b.String()
}

// TestLongAliases is about aliases of one long text, whose number is moderate.
func TestLongAliases(t *testing.T) {
	data := "a: &a " + strings.Repeat("x", 500_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]\n"
	if _, err := named(t, "yaml").Parse([]byte(data)); err == nil || !strings.Contains(err.Error(), "with its aliases") {
		t.Errorf("error %v", err)
	}
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		format, data string
		want         any
	}{
		{"yaml", "port: 1000000\nratio: 0.5\none: 1.0\nbig: 12345678901234567890\nexp: 1e3\nhex: 0x1f\noct: 0755\nyes: on\ntext: \"1\"\nnone: ~\ndate: 2001-01-01\n1: a\n1.5: b\n",
			map[string]any{"port": int64(1000000), "ratio": 0.5, "one": int64(1), "big": new(big.Int).SetUint64(12345678901234567890), "exp": int64(1000), "hex": int64(31), "oct": int64(493),
				"true": true, "text": "1", "none": nil, "date": "2001-01-01", "1": "a", "1.5": "b"}},
		{"yaml", "", nil},
		{"yaml", "# c\n", nil},
		{"yaml", "a: 1\n---\n", map[string]any{"a": int64(1)}},
		{"yaml", "- a\n- {b: 1}\n", []any{"a", map[string]any{"b": int64(1)}}},
		{"yaml", "base: &b {x: 1, w: 2}\nz:\n  <<: *b\n  w: 3\n", map[string]any{"base": map[string]any{"x": int64(1), "w": int64(2)}, "z": map[string]any{"x": int64(1), "w": int64(3)}}},
		{"json", `{"a": 1, "b": 1.5, "c": 1e6, "d": [true, null], "e": 9223372036854775807, "f": "\u00e9"}`,
			map[string]any{"a": int64(1), "b": 1.5, "c": int64(1000000), "d": []any{true, nil}, "e": int64(math.MaxInt64), "f": "é"}},
		{"toml", "a = 1\nb = 1.5\nc = 1979-05-27T07:32:00Z\nd = 1979-05-27\ne = 07:32:00\nf = 1979-05-27T07:32:00.5\n[[g]]\nh = 'x'\n[i.j]\nk = []\n",
			map[string]any{"a": int64(1), "b": 1.5, "c": "1979-05-27T07:32:00Z", "d": "1979-05-27", "e": "07:32:00", "f": "1979-05-27T07:32:00.5",
				"g": []any{map[string]any{"h": "x"}}, "i": map[string]any{"j": map[string]any{"k": []any{}}}}},
		{"env", "A=1\n  B = x y  # c\nC='a\\n$b'\nD=\"a\\n\\\"\\$x\\y\nz\"\nexport E=#f\nF=a#b\nG= # c\nH=\r\nA=2\nI.j-k='' # c\r\nJ=\"x\"",
			map[string]any{"A": "2", "B": "x y", "C": `a\n$b`, "D": "a\n\"$x\\y\nz", "E": "#f", "F": "a#b", "G": "", "H": "", "I.j-k": "", "J": "x"}},
		{"properties", "# c\n! c\na=1\n b : 2\nc   3\nd\\ e\\==f\\\n   g\nh\nuni=\\u00e9\\uD83D\\uDE00\ntab=a\\tb\npath=C:\\\\x\\y\nempty=\na.b=x\nlast=z\\",
			map[string]any{"a": "1", "b": "2", "c": "3", "d e=": "fg", "h": "", "uni": "é😀", "tab": "a\tb", "path": `C:\xy`, "empty": "", "a.b": "x", "last": "z"}},
		{"properties", "a=\xe9\r\nb=2\rc=3", map[string]any{"a": "é", "b": "2", "c": "3"}},
		{"properties", "a=é", map[string]any{"a": "é"}},
	} {
		got, err := named(t, test.format).Parse([]byte(test.data))
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s %q:\n got %#v\nwant %#v (%v)", test.format, test.data, got, test.want, err)
		}
	}
	for _, test := range []struct{ format, data, want string }{
		{"yaml", "a: 1\n---\nb: 2\n", "2 documents"},
		{"ini", "a = 1", "values cannot be written as ini"},
		{"xml", "<a/>", "values cannot be written as xml"},
		{"json", `{"a": 1e999}`, "too large"},
	} {
		if _, err := named(t, test.format).Parse([]byte(test.data)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %q: error %v, want %q", test.format, test.data, err, test.want)
		}
	}
}

// TestLikeHelm compares with the library by which Helm reads values.
func TestLikeHelm(t *testing.T) {
	for _, data := range yamlSeeds {
		compareWithSigs(t, []byte(data))
	}
}

var yamlSeeds = []string{
	"a: 1\nb: 2.5\nc: [yes, no, on, off, y, n, ~, null, '']\n", "a: |\n  x\n  y\nb: >-\n  x\n  y\n", "? a\n: b\n", "a: !!str 1\nb: !!float 1\n", "a: !!binary aGk=\n",
	"a: 0o17\nb: 017\nc: 0b11\nd: 1_000\ne: 1e3\nf: -.5\ng: 190:20:30\n", "true: a\nnull: b\n", "{a: {b: [1, {c: d}]}}", "a: 2001-12-14t21:59:43.10-05:00\n", "- 1\n- 2\n", "x", "",
	"a: \"\\u00e9\\n\"\n", "a: 18446744073709551615\nb: -9223372036854775808\nc: 9007199254740993\n",
}

// compareWithSigs does so where both read data: ours refuses more.
func compareWithSigs(t *testing.T, data []byte) {
	t.Helper()
	f := For("x.yaml")
	got, err := f.Parse(data)
	if err != nil {
		return
	}
	var want any
	if err := yaml.Unmarshal(data, &want); err != nil {
		t.Errorf("%q: only we read it, the library says %v", data, err)
		return
	}
	if !reflect.DeepEqual(floats(got), want) {
		t.Errorf("%q:\n got %#v\nwant %#v", data, got, want)
	}
}

// floats makes of v what JSON makes of it.
func floats(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var w any
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	return w
}

// TestYAMLParts pins where a stream of documents is divided, so that the library reads the parts as it reads the whole.
func TestYAMLParts(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                   {""},
		"a: 1\n":                             {"a: 1\n"},
		"---\na: 1\n":                        {"---\na: 1\n"},
		"# x\n\n---\na: 1\n---\nb: 2\n":      {"# x\n\n---\na: 1\n", "---\nb: 2\n"},
		"a: 1\n--- # x\nb: 2\n---\t|\n c\n":  {"a: 1\n", "--- # x\nb: 2\n", "---\t|\n c\n"},
		"a: |\n  ---\n  b\n---x: 1\n ---\n":  {"a: |\n  ---\n  b\n---x: 1\n ---\n"},
		"%YAML 1.1\n---\na: 1\n":             {"%YAML 1.1\n---\na: 1\n"},
		"a\n...\n%TAG ! x\n---\nb\n---\nc\n": {"a\n...\n%TAG ! x\n---\nb\n", "---\nc\n"},
		"---\r\na: 1\r\n---\r\n":             {"---\r\na: 1\r\n", "---\r\n"},
		"---\n---\n":                         {"---\n", "---\n"},
	} {
		var got []string
		for part := range yamlParts([]byte(text)) {
			got = append(got, string(part))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestLimits pins what is refused because it would take too much memory, and that a YAML stream of short documents is
// not.
func TestLimits(t *testing.T) {
	line := strings.Repeat("x", 1<<20-10)
	for _, c := range []struct{ format, text, want string }{
		{"toml", "a = 1\n" + strings.Repeat("# "+line+"\n", 3), ""},
		{"toml", "a = 1\n" + strings.Repeat("# "+line+"\n", 5), "the file is longer than 4 MiB"},
		{"yaml", strings.Repeat("---\na: "+line+"\n", 5), ""},
		{"yaml", strings.Repeat("---\na: "+line+"\n", 5) + "---\na: 1\na: 2\n", "line 13: duplicate key"},
		{"yaml", "---\na: 1\n---\n" + strings.Repeat("# "+line+"\n", 5), "the document that begins on line 3 is longer than 4 MiB"},
		{"json", `["` + strings.Repeat(line, 5) + `"]`, ""},
		{"none", "\x00", ""},
	} {
		err := named(t, c.format).Validate([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %d bytes: %v, want %q", c.format, len(c.text), err, c.want)
		}
		if e := new(Error); errors.As(err, &e) && e.TooLong != strings.Contains(c.want, "longer") {
			t.Errorf("%s of %d bytes: TooLong is %t", c.format, len(c.text), e.TooLong)
		}
	}
	if _, err := named(t, "json").Parse([]byte(`["` + strings.Repeat(line, 5) + `"]`)); err == nil {
		t.Error("5 MiB of JSON are parsed")
	}
}

// TestParseExact pins what Parse loses: the order of keys, and numbers as they are written.
func TestParseExact(t *testing.T) {
	const text = "[z 1.0; a 18446744073709551616; m [c 2; b [1e+06]]]"
	for name, data := range map[string]string{
		"json": `{"z": 1.0, "a": 18446744073709551616, "m": {"c": 2, "b": [1e6]}}`,
		"yaml": "z: 1.0\na: 18446744073709551616\nm:\n  c: 2\n  b: [1.0e6]\n",
	} {
		got := exactly(t, name, data)
		if got != text {
			t.Errorf("%s is %s, want %s", name, got, text)
		}
	}
	for _, c := range []struct{ name, data, want string }{
		{"toml", "z = 1.0\nb.y = 1\nb.x = 2\n[t]\nk = 1\na = 2\n[[l]]\nd = 1\nc = 2\n", "[z 1.0; b [y 1; x 2]; t [k 1; a 2]; l [[d 1; c 2]]]"},
		{"env", "Z=1\nA=2\nZ=3\n", "[Z 3; A 2]"},
		{"properties", "z=1\na=2\n", "[z 1; a 2]"},
		{"yaml", "base: &b {z: 1, w: 2}\nm: {<<: *b, x: 3, z: 4}\nyes: 1\n1: 2\n'no': 3\n", "[base [z 1; w 2]; m [z 4; w 2; x 3]; true 1; 1 2; no 3]"},
		{"yaml", "yes: null\na: 1\noff:\n", "[true <nil>; a 1; false <nil>]"},
		{"toml", "z = {y = 1, x.b = 2, x.a = 3}\n[[l]]\nd = 1\n[[l]]\nc = 1\nd = 2\n[[l]]\nd = 3\nc = 4\n", "[z [y 1; x [b 2; a 3]]; l [[d 1]; [d 2; c 1]; [d 3; c 4]]]"},
		{"yaml", "---\n---\nb: -9223372036854775809\na: 1_000\n", "[b -9223372036854775809; a 1000]"},
	} {
		if got := exactly(t, c.name, c.data); got != c.want {
			t.Errorf("%s %q is %s, want %s", c.name, c.data, got, c.want)
		}
	}
}

// TestManyTables pins that a table in TOML does not cost what all tables of its list do.
func TestManyTables(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "[[a]]\nk%d = 1\n", i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := named(t, "toml").Parse([]byte(text.String())); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 200 {
		t.Errorf("%d KiB of TOML take %d MiB", text.Len()>>10, used)
	}
}

func exactly(t *testing.T, name, data string) string {
	t.Helper()
	f, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := f.ParseExact([]byte(data))
	if err != nil {
		t.Fatalf("%s %q: %v", name, data, err)
	}
	return inOrder(v)
}

// inOrder shows maps in their order, and floats with a fraction.
func inOrder(v any) string {
	var parts []string
	switch v := v.(type) {
	case *Map:
		for _, k := range v.Keys {
			parts = append(parts, k+" "+inOrder(v.Values[k]))
		}
	case []any:
		for _, e := range v {
			parts = append(parts, inOrder(e))
		}
	case float64:
		if s := fmt.Sprint(v); strings.ContainsAny(s, ".e") {
			return s
		}
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprint(v)
	}
	return "[" + strings.Join(parts, "; ") + "]"
}
