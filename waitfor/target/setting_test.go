package target

import (
	"slices"
	"testing"
)

func TestParseSettings(t *testing.T) {
	k := &Kind{Settings: []Setting{{Name: "one", Value: "X"}, {Name: "many", Value: "X", Multi: true}, {Name: "switch"}}}
	for fragment, want := range map[string]Settings{
		"":                          {},
		"one=1":                     {"one": {"1"}},
		"one=1&switch":              {"one": {"1"}, "switch": {""}},
		"many=a&many=b":             {"many": {"a", "b"}},
		"one=a=b":                   {"one": {"a=b"}},
		"one=a%26b%3D%23+c%20d":     {"one": {"a&b=#+c d"}}, // "+" is not a space: this is not a form
		"gone&one=1":                {"gone": {""}, "one": {"1"}},
		"one=%E2%82%AC":             {"one": {"€"}},
		"many=/a|b/&many=[0]==\"\"": {"many": {"/a|b/", "[0]==\"\""}},
	} {
		got, err := parseSettings(fragment, k)
		if err != nil {
			t.Errorf("%q: %v", fragment, err)
			continue
		}
		if len(got) != len(want) {
			t.Errorf("%q: %v, want %v", fragment, got, want)
		}
		for name := range want {
			if !slices.Equal(got[name], want[name]) {
				t.Errorf("%q: %v, want %v", fragment, got, want)
			}
		}
	}
	for _, fragment := range []string{"two=2", "one", "one=", "switch=1", "switch=", "one=1&one=2", "one=%4", "one=1&", "=1", "ONE=1"} {
		if got, err := parseSettings(fragment, k); err == nil {
			t.Errorf("%q: %v, want an error", fragment, got)
		}
	}
}

func TestSettingsTakeDefaults(t *testing.T) {
	own := Settings{"status": {"200"}}
	own.take(&Kind{Settings: []Setting{{Name: "status", Value: "LIST"}, {Name: "method", Value: "METHOD"}}}, Settings{"status": {"500"}, "method": {"HEAD"}, "min-size": {"1"}, "gone": {""}})
	if own.Get("status") != "200" {
		t.Errorf("status is %q, want the target's own", own.Get("status"))
	}
	if own.Get("method") != "HEAD" || !own.On("gone") {
		t.Errorf("%v lacks a default", own)
	}
	if own.On("min-size") {
		t.Errorf("%v has a setting of another kind", own)
	}
}
