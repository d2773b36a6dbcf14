package expect

import "testing"

func TestMatcher(t *testing.T) {
	for _, test := range []struct {
		pattern, s    string
		within, whole bool
	}{
		{"up", "up", true, true},
		{"up", "it is up", true, false},
		{"up", "UP", false, false},
		{"/up/", "it is up", true, true},
		{"/^up$/", "it is up", false, false},
		{"/(?i)UP/", "up", true, true},
		{"/", "a/b", true, false},  // a single slash is literal
		{"//", "", true, true},     // an empty expression matches everything
		{"/up", "/up", true, true}, // so is a single one at the beginning
		{"a.c", "abc", false, false},
		{"", "x", true, false},
	} {
		m, err := ParseMatcher(test.pattern)
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		if m.Within(test.s) != test.within || m.Whole(test.s) != test.whole {
			t.Errorf("%q in %q: within %t, whole %t, want %t, %t", test.pattern, test.s, m.Within(test.s), m.Whole(test.s), test.within, test.whole)
		}
	}
	if _, err := ParseMatcher("/(/"); err == nil {
		t.Error("/(/ is not a regular expression")
	}
}
