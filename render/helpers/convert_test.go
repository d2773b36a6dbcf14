package helpers

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// outcome is a result as JSON, or its error.
func outcome(v any, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(b)
}

// expect compares an outcome, or the beginning of an error.
func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want && !(strings.HasPrefix(want, "error: ") && strings.HasPrefix(got, want)) {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestCIDR(t *testing.T) {
	for _, c := range []struct {
		n      any
		prefix string
		want   string
	}{
		{0, "10.1.2.3/16", `"10.1.0.0"`}, {int64(258), "10.1.2.3/16", `"10.1.1.2"`}, {-1, "10.1.2.3/16", `"10.1.255.255"`},
		{"65535", "10.1.0.0/16", `"10.1.255.255"`}, {65536, "10.1.0.0/16", "error: a network of /16 has 65536 addresses"},
		{-65537, "10.1.0.0/16", "error: a network of /16"}, {0, "10.0.0.1/32", `"10.0.0.1"`}, {1, "10.0.0.1/32", "error: a network of /32 has 1 "},
		{5, "fd00::/64", `"fd00::5"`}, {-2, "fd00::/64", `"fd00::ffff:ffff:ffff:fffe"`}, {"18446744073709551616", "fd00::/64", "error: a network of /64"},
		{"18446744073709551616", "fd00::/63", `"fd00:0:0:1::"`}, {1, "::/0", `"::1"`}, {-1, "0.0.0.0/0", `"255.255.255.255"`},
		{1, "10.0.0.1", "error: want a network"}, {1, "", "error: want a network"}, {1, "10.0.0.0/33", "error: want a network"},
		{1, "10.0.0.256/8", "error: want a network"}, {"x", "10.0.0.0/8", "error: want the number"}, {1.5, "10.0.0.0/8", "error: want the number"},
	} {
		addr, err := CIDRHost(c.n, c.prefix)
		expect(t, c.prefix, outcome(addr, err), c.want)
	}
	for prefix, want := range map[string]string{
		"10.0.0.0/8": `"255.0.0.0"`, "10.0.0.0/0": `"0.0.0.0"`, "10.0.0.7/32": `"255.255.255.255"`, "fd00::/48": `"ffff:ffff:ffff::"`, "": "error: want a network",
	} {
		mask, err := CIDRNetmask(prefix)
		expect(t, prefix, outcome(mask, err), want)
	}
	for prefix, want := range map[string]string{
		"10.1.2.3/16": `{"address":"10.1.2.3","bits":16,"first":"10.1.0.0","last":"10.1.255.255","netmask":"255.255.0.0","network":"10.1.0.0/16","version":4}`,
		"fd00::1/127": `{"address":"fd00::1","bits":127,"first":"fd00::","last":"fd00::1","netmask":"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe","network":"fd00::/127","version":6}`,
		"10.1.2.3":    "error: want a network", "fe80::1%eth0/64": "error: want a network", "10.0.0.0/-1": "error: want a network",
	} {
		parts, err := ParsePrefix(prefix)
		expect(t, prefix, outcome(parts, err), want)
	}
}

func TestConversions(t *testing.T) {
	for value, want := range map[any]string{
		"Yes": "true", "on": "true", 1: "true", true: "true", "F": "false", int64(0): "false", false: "false", "": "error: want true", "maybe": "error: want true", 2: "error: want true",
	} {
		is, err := ToBool(value)
		expect(t, "toBool", outcome(is, err), want)
	}
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{"a,b\n1,\"x, y\"\n2,z\n"}, `[{"a":"1","b":"x, y"},{"a":"2","b":"z"}]`}, {[]any{";", "\ufeffa;b\r\n1;2\r\n"}, `[{"a":"1","b":"2"}]`},
		{[]any{"a,b\n"}, "[]"}, {[]any{""}, "[]"}, {[]any{"a,b\n1\n"}, "error: record on line 2: wrong number of fields"},
		{[]any{"a,a\n1,2\n"}, "error: column 2 has the name"}, {[]any{"::", "a\n"}, "error: the delimiter"}, {[]any{"", "a\n"}, "error: the delimiter"},
		{[]any{"\n", "a\n"}, "error: csv: invalid field or comment delimiter"}, {nil, "error: want a text"}, {[]any{"a\n\"s3cret\n"}, "error: parse error on line 2, column 9"},
	} {
		records, err := FromCSV(c.args...)
		expect(t, "fromCsv", outcome(records, err), c.want)
	}
	for _, c := range []struct {
		n    any
		s    string
		want string
	}{{2, "a.b.c", `["a","b.c"]`}, {int64(-1), "a.b.c", `["a","b","c"]`}, {0, "a.b", "[]"}, {5, "", `[""]`}, {"x", "a", "error: want a whole"}, {-1, strings.Repeat(".", mostParts), "error: more than"}} {
		parts, err := SplitN(".", c.n, c.s)
		expect(t, "splitN", outcome(parts, err), c.want)
	}
	for text, want := range map[string]string{
		"Hello, World!": `"hello-world"`, "  --a__b--  ": `"a-b"`, "Crème Brûlée": `"creme-brulee"`, "Straße 7": `"strasse-7"`, "it's": `"its"`, "e\u0301t\u00e9": `"ete"`,
		"": "error: there is no letter", "!?": "error: there is no letter", "Москва": "error: there is a letter that has no form", "東京": "error: there is a letter",
	} {
		slug, err := Slug(text)
		expect(t, text, outcome(slug, err), want)
	}
	nested := []any{1, []any{2, []any{3, []any{}, []string{"4"}}}}
	for _, c := range []struct {
		args []any
		want string
	}{{[]any{nested}, `[1,2,3,"4"]`}, {[]any{1, nested}, `[1,2,[3,[],["4"]]]`}, {[]any{0, nested}, `[1,[2,[3,[],["4"]]]]`}, {[]any{[]any{}}, "[]"}, {[]any{"a"}, "error: want a list"}, {[]any{"x", nested}, "error: want a whole"}, {nil, "error: want a list"}} {
		list, err := Flatten(c.args...)
		expect(t, "flatten", outcome(list, err), c.want)
	}
	for _, c := range []struct {
		a, b any
		want string
	}{
		{2, 10, "1024"}, {int64(-2), "63", "-9223372036854775808"}, {2, 63, "error: the result is too large"}, {0, 0, "1"}, {1, int64(math.MaxInt64), "1"}, {-1, 101, "-1"}, {-1, 100, "1"},
		{10, 20, "error: the result is too large"}, {2, -1, "0.5"}, {2.5, 2, "6.25"}, {4, 0.5, "2"}, {0, -1, "error: the result is not a number"}, {"x", 1, "error: want two numbers"},
	} {
		n, err := Pow(c.a, c.b)
		expect(t, "pow", outcome(n, err), c.want)
	}
	for pattern, want := range map[string]string{"*.conf": "true", "*": "true", "b.conf": "false", "[": "error: syntax error in pattern", "": "false"} {
		is, err := PathMatch(pattern, "a.conf")
		expect(t, pattern, outcome(is, err), want)
	}
}

func TestJSONPath(t *testing.T) {
	var doc any
	if err := json.Unmarshal([]byte(`{"a":{"b.c":[1,2,3,4],"d":null},"items":[{"n":"x","t":{"n":"deep"}},{"n":"y"},{"m":1}],"e":{},"it's":5}`), &doc); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"$":             `{"a":{"b.c":[1,2,3,4],"d":null},"e":{},"it's":5,"items":[{"n":"x","t":{"n":"deep"}},{"n":"y"},{"m":1}]}`,
		`$.a["b.c"][0]`: "1", ".a['b.c'][-1]": "4", "{.items[1].n}": `"y"`, "$['it\\'s']": "5", "$.a.d": "null", "$.e": "{}",
		"$.items[*].n": `["x","y"]`, "$..n": `["x","deep","y"]`, "$.items[0:2].n": `["x","y"]`, `$.a["b.c"][::-1]`: "[4,3,2,1]", `$.a["b.c"][1:99:2]`: "[2,4]",
		`$.a["b.c"][-2:]`: "[3,4]", `$.a["b.c"][3:0:-9223372036854775808]`: "[4]", `$.a["b.c"][0, -1, 7]`: "[1,4]", "$.a.*": "[[1,2,3,4],null]", "$.a['d','x']": "[null]", "$.e.*": "[]",
		"$.nope": "error: there is no $.nope", "$.a.b.c": "error: there is no $.a.b", "$.items[3].n": "error: there is no $.items[3]", "$.items.n": "error: there is no $.items.n",
		"$.a.d.x": "error: there is no $.a.d.x", "a.b": "error: a path begins with", "$.": "error: a key is missing", "$...n": "error: too many dots", "$[": "error: a ] is missing",
		"$['a'": "error: a ] is missing", "$['a": "error: a quote is not closed", "$.items[?(@.n)]": "error: filters are not supported", "$.items[x]": "error: want an index",
		"$.items[]": "error: want an index", "$.items[::0]": "error: a slice by 0", "$.items[1:2:3:4]": "error: want an index", "": "",
	} {
		got, err := JSONPath(path, doc)
		if path == "" {
			want = outcome(doc, nil)
		}
		expect(t, path, outcome(got, err), want)
	}
	wide := []any{}
	for range 400 {
		wide = append(wide, make([]any, 400))
	}
	for _, path := range []string{"$..*", "$[*][*]"} {
		if _, err := JSONPath(path, wide); err == nil {
			t.Errorf("%s selects 160 000 values", path)
		}
	}
	if got, err := JSONPath("$.a[0]", map[string][]string{"a": {"x"}}); got != "x" || err != nil {
		t.Errorf("of typed maps: %v, %v", got, err)
	}
}
