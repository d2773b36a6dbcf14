package gotemplate

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"initbox/render/engine"
)

// TestElsewhere pins the hint for functions of gomplate and dockerize, by whichever of their names.
func TestElsewhere(t *testing.T) {
	for text, want := range map[string]string{
		`{{ strings.ToUpper "x" }}`:     "strings.ToUpper: here it is upper",
		`{{ "x" | toUpper }}`:           "toUpper: here it is upper",
		`{{ getenv "X" }}`:              "getenv: write .Env.X",
		`{{ getenv "X" "y" }}`:          "getenv: here it is .Env, as in",
		`{{ env.Getenv "X" "y" }}`:      "env.Getenv: here it is .Env, as in",
		`{{ (ds "config").x }}`:         `ds: here it is .Values, with --values FILE`,
		`{{ net.CIDRHost 1 "10.0/8" }}`: "net.CIDRHost: here it is cidrHost",
		`{{ semver.Semver "1" }}`:       "semver.Semver: here it is semver or semverCompare",
		`{{ aws.EC2Meta "x" }}`:         "aws.EC2Meta: nothing here reads from a cloud",
		`{{ jsonQuery "x" "y" }}`:       "jsonQuery: --compat dockerize has it",
		`{{ uper "x" }}`:                "uper: did you mean upper?",
	} {
		_, err := New(&engine.Data{}, engine.Options{}).Parse("a", text)
		var e *engine.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v, want an error", text, err)
			continue
		}
		if got := strings.TrimPrefix(e.Text, "there is no function ") + ": " + e.Fix; want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if _, err := New(&engine.Data{}, engine.Options{}).Parse("a", `{{ now.Year }}{{ (semver "1.2.3").Major }}`); err != nil {
		t.Errorf("a field of a function's result: %v", err)
	}
}

// TestElsewhereIsHere pins that each function that a hint names exists.
func TestElsewhereIsHere(t *testing.T) {
	e := New(&engine.Data{}, engine.Options{}).(*goEngine)
	word := regexp.MustCompile(`^[a-z]\w*`)
	for there, here := range gomplate() {
		name := word.FindString(here)
		switch {
		case strings.HasSuffix(there, "."), name == "", name == "if":
		case e.function(name) == nil && !slices.Contains(runFuncs, name) && !slices.Contains(builtins, name):
			t.Errorf("the hint for %s is %s, which does not exist", there, here)
		}
	}
}
