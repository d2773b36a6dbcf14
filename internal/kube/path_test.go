package kube

import (
	"fmt"
	"testing"
)

// TestPath pins the forms of a path, and that what kubectl does not take is refused.
func TestPath(t *testing.T) {
	o := Object{"a": map[string]any{"b.c/d": "x", "l": []any{int64(1), 2.5}}, "n": nil}
	for text, want := range map[string]string{
		`{.a.b\.c/d}`: "[x]", `.a.b\.c/d`: "[x]", `a.b\.c/d`: "[x]", `$.a.b\.c/d`: "[x]", `{$.a.b\.c/d}`: "[x]", `{ .a['b\.c/d'] }`: "[x]",
		".a.l[*]": "[1 2.5]", ".a.l[-1]": "[2.5]", ".a.none": "[]", ".none.none": "[]",
	} {
		p, err := ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if found, err := p.Find(o); err != nil || fmt.Sprint(found) != want {
			t.Errorf("%s: %v, %v, want %s", text, found, err, want)
		}
	}
	for _, text := range []string{"", " ", "{}", "{", ".a}", "{.a}{.b}", ".a[", "$"} {
		if p, err := ParsePath(text); err == nil {
			t.Errorf("%q is %q, want an error", text, p)
		}
	}
	for text, want := range map[string]string{`.a=b`: "=b", `.a[?(@.b=="c")].d!=e`: "!=e", `.a[?(@.b=="c")].d`: "", `{.a}>=1`: ">=1"} {
		if _, rest := CutPath(text); rest != want {
			t.Errorf("%s: the rest is %q, want %q", text, rest, want)
		}
	}
}
