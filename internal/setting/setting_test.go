package setting

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	list := List{{Name: "one", Value: "X"}, {Name: "many", Value: "X", Multi: true}, {Name: "switch"}, {Name: "maybe", Value: "X", Optional: true}}
	for fragment, want := range map[string]Settings{
		"":                          {},
		"one=1":                     {"one": {"1"}},
		"one=1&switch":              {"one": {"1"}, "switch": {""}},
		"many=a&many=b":             {"many": {"a", "b"}},
		"one=a=b":                   {"one": {"a=b"}},
		"one=a%26b%3D%23+c%20d":     {"one": {"a&b=#+c d"}}, // "+" is not a space: this is not a form
		"switch&one=1":              {"switch": {""}, "one": {"1"}},
		"maybe":                     {"maybe": {""}},
		"maybe=1":                   {"maybe": {"1"}},
		"one=%E2%82%AC":             {"one": {"€"}},
		"many=/a|b/&many=[0]==\"\"": {"many": {"/a|b/", "[0]==\"\""}},
	} {
		got, err := list.Parse(fragment)
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
	for _, fragment := range []string{"two=2", "one", "one=", "switch=1", "switch=", "maybe=", "one=1&one=2", "one=%4", "one=1&", "=1", "ONE=1"} {
		if got, err := list.Parse(fragment); err == nil {
			t.Errorf("%q: %v, want an error", fragment, got)
		}
	}
}

func TestTakeDefaults(t *testing.T) {
	list := List{{Name: "file", Excludes: []string{"empty"}}, {Name: "empty"}, {Name: "mode", Value: "MODE"}, {Name: "owner", Value: "UID"}}
	own := Settings{"mode": {"0700"}, "empty": {""}}
	own.Take(list, Settings{"mode": {"0755"}, "owner": {"1"}, "other": {"2"}, "file": {""}})
	if own.Get("mode") != "0700" {
		t.Errorf("mode is %q, want the argument's own", own.Get("mode"))
	}
	if own.Get("owner") != "1" {
		t.Errorf("%v lacks a default", own)
	}
	if own.On("other") {
		t.Errorf("%v has a setting that is not in the list", own)
	}
	if own.On("file") {
		t.Errorf("%v has a default that contradicts the argument's own settings", own)
	}
}

func TestArgument(t *testing.T) {
	list := List{{Name: "owner", Value: "UID"}, {Name: "empty"}, {Name: "file", Excludes: []string{"empty"}}, {Name: "if", Needs: "owner"}}
	for text, want := range map[string]string{
		"/data":                 "/data",
		"/data#owner=1":         "/data",
		"/data%23a#owner=1":     "/data#a",
		"/100%25":               "/100%",
		"/a%41":                 "/a%41", // only what could not be written otherwise is decoded
		"/data#owner=a%23b#c":   "/data",
		"/data%2523#owner=1&if": "/data%23",
	} {
		path, _, err := list.Argument(text, nil)
		if err != nil || path != want {
			t.Errorf("%q: path %q, want %q (%v)", text, path, want, err)
		}
	}
	for _, text := range []string{"", "#owner=1", "/data#empty&file", "/data#if", "/data#own=1"} {
		if path, s, err := list.Argument(text, nil); err == nil {
			t.Errorf("%q: %q, %v, want an error", text, path, s)
		}
	}
}
