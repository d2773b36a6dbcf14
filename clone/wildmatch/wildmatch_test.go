package wildmatch

import (
	"strings"
	"testing"
)

// TestMatch has the less obvious cases of git's own tests (t/t3070-wildmatch.sh). Package attributes compares with git
// itself.
func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		path, all     bool // what is matched with path, and without
	}{
		{"foo", "foo", true, true},
		{"", "", true, true},
		{"???", "foo", true, true},
		{"??", "foo", false, false},
		{"*ob*a*r*", "foobar", true, true},
		{`\*`, "*", true, true},
		{`foo\*bar`, "foo*bar", true, true},
		{`f\\oo`, `f\oo`, true, true},
		{`foo\`, `foo`, false, false},
		{"*[al]?", "ball", true, true},
		{"[ten]", "ten", false, false},
		{"t[a-g]n", "ten", true, true},
		{"t[!a-g]n", "ten", false, false},
		{"t[^a-g]n", "ton", true, true},
		{"a[]]b", "a]b", true, true},
		{"a[]-]b", "a-b", true, true},
		{"a[]a-]b", "aab", true, true},
		{"]", "]", true, true},
		{"foo*bar", "foo/baz/bar", false, true},
		{"foo**bar", "foo/baz/bar", false, true},
		{"foo**bar", "foobazbar", true, true},
		{"foo/**/bar", "foo/baz/bar", true, true},
		{"foo/**/**/bar", "foo/b/a/z/bar", true, true},
		{"foo/**/bar", "foo/bar", true, false},
		{"foo?bar", "foo/bar", false, true},
		{"foo[/]bar", "foo/bar", false, true},
		{"foo[^a-z]bar", "foo/bar", false, true},
		{"**/foo", "foo", true, false},
		{"**/foo", "XXX/foo", true, true},
		{"*/foo", "bar/baz/foo", false, true},
		{"**/bar*", "foo/bar/baz", false, true},
		{"**/bar/*/*", "deep/foo/bar/baz/x", true, true},
		{"*/bar/**", "foo/bar/baz", true, true},
		{"*/bar/**", "deep/foo/bar", false, false},
		{"[[:alpha:]][[:digit:]][[:upper:]]", "a1B", true, true},
		{"[[:digit:][:upper:][:space:]]", "A", true, true},
		{"[[:digit:][:upper:][:spaci:]]", "1", false, false},
		{"[a-c[:digit:]x-z]", "5", true, true},
		{"[a-c[:digit:]x-z]", "q", false, false},
		{`[\\-^]`, "]", true, true},
		{"[-]", "-", true, true},
		{"[a-", "a", false, false},
		{"[!]a-]", "j", true, true},
		{"[,-.]", "-", true, true},
		{"[--A]", "-", true, true},
		{"[[:]a]", ":a]", true, true},
		{"-*-*-*-*-*-*-12-*-*-*-m-*-*-*", "-adobe-courier-bold-o-normal--12-120-75-75-m-70-iso8859-1", true, true},
		{"XXX/*/*/*/*/*/*/12/*/*/*/m/*/*/*", "XXX/adobe/courier/bold/o/normal//12/120/75/75/m/70/iso8859/1", true, true},
		{"**/*a*b*g*n*t", "abcd/abcdefg/abcdefghijk/abcdefghijklmnop.txt", true, true},
		{"*/*/*", "foo/bar", false, false},
		{"*X*i", "foo/bb/aa/Xi", false, true},
	} {
		if got := Match(tt.pattern, tt.text, true); got != tt.path {
			t.Errorf("%q, %q, path: %v", tt.pattern, tt.text, got)
		}
		if got := Match(tt.pattern, tt.text, false); got != tt.all {
			t.Errorf("%q, %q: %v", tt.pattern, tt.text, got)
		}
	}
}

// TestBound pins that the work of a match is bounded.
func TestBound(t *testing.T) {
	if Match(strings.Repeat("**/a*", 400)+"b", strings.Repeat("a/a", 1300), true) {
		t.Error("matches")
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("**/a[!b-c]*", "x/ad/y", true)
	f.Add(`[[:alpha:]\`, "a", false)
	f.Fuzz(func(t *testing.T, pattern, text string, path bool) {
		Match(pattern, text, path)
		if strings.Contains(text, "\x00") {
			return
		}
		quoted := "" // every byte for itself
		for i := range len(text) {
			quoted += `\` + text[i:i+1]
		}
		if len(text) < 1000 && !Match(quoted, text, path) {
			t.Fatalf("%q does not match itself", text)
		}
	})
}
