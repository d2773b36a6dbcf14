package gotemplate

import (
	"errors"
	"strings"
	"testing"

	"initbox/render/engine"
)

// TestSyntaxErrors pins where errors point to, in characters: what is not closed, to where it begins.
func TestSyntaxErrors(t *testing.T) {
	for _, test := range []struct{ text, want, fix string }{
		{"a\nä {{ .a \nfoo: bar\n{{ .b }}", "t:2:3: the action is not closed", "end it with }}"},
		{"a\n {{ .a", "t:2:2: the action is not closed", "end it with }}"},
		{"é{{ if .a }}\n{{ range .x }}{{ end }}", "t:1:2: {{if}} is not closed", "{{end}}"},
		{"é{{- with .a }}\n é{{ range .x }}", "t:2:3: {{range}} is not closed", "{{end}}"},
		{"ä {{ printf \"abc }}\nx", "t:1:13: a text in quotes is not closed", `end it with "`},
		{"ä {{ printf \"abc }}\nx \"y\" {{ .x }}", "t:1:13: a text in quotes is not closed", `end it with "`},
		{"{{ print `abc }}\nx", "t:1:10: a text in quotes is not closed", "end it with `"},
		{"{{ print 'a }}\nx", "t:1:10: a text in quotes is not closed", "end it with '"},
		{"é {{/* abc }}\nx", "t:1:3: the comment is not closed", "*/}}"},
		{"{{- /* abc */ x }}", "t:1:1: the comment is not closed", "*/}}"},
		{"{{ /* abc */ }}", "t:1:4: a comment does not begin so", "{{/*"},
		{"é {{ end }}", "t:1:6: unexpected {{end}}", "more {{end}}"},
		{"{{ .a }}\né {{ if }}x{{ end }}", "t:2:6: missing value for if", ""},
		{"ä {{- .Values.a-b -}}", "t:1:16: bad character U+002D '-'", "needs index"},
		{"ä {{ print $y (print 1 }}", "t:1:12: undefined variable \"$y\"", "declare it"},
		{"ä {{ print (print 1 }}", "t:1:12: unclosed left paren", ""},
		{"ä {{ print (1)) }}", "t:1:15: unexpected right paren", ""},
		{`ä {{ print "a,b", 2 }}`, `t:1:17: unexpected "," in operand`, "spaces"},
		{"{{ .Values.a. }}", "t:1:13: unexpected <.> in operand", ""},
		{"{{ .Values[0] }}", "t:1:11: bad character U+005B '['", "index"},
		{"{{ if eq .a == 1 }}{{ end }}", `t:1:13: unexpected "=" in operand`, "eq"},
		{"{{ if true }}{{ else }}é{{ else }}{{ end }}", "t:1:28: expected end; found {{else}}", ""},
		{"{{ if true }}{{ define \"x\" }}{{ end }}", "t:1:17: unexpected <define> in command", "missing before it"},
		{`ä {{ getenv("POD_IP") }}`, `t:1:12: unexpected "(" in operand`, "write .Env.POD_IP"},
		{`{{ upper("x") }}`, `t:1:9: unexpected "(" in operand`, "{{upper "},
		{`{{ expandenv("$A") }}`, `t:1:13: unexpected "(" in operand`, "{{expandenv "},
		// Names instead of fields.
		{`{{ getenv "POD_IP" }}`, "t:1:4: there is no function getenv", "write .Env.POD_IP"},
		{`{{ POD_IP }}`, "t:1:4: there is no function POD_IP", "write .Env.POD_IP"},
		{`{{ env.POD_IP | quote }}`, "t:1:4: there is no env.POD_IP", "write .Env.POD_IP"},
		{`{{ with $x := Values.db }}{{ end }}`, "t:1:15: there is no Values.db", "write .Values.db"},
		{`{{ port }}`, "t:1:4: there is no function port", "write .Values.port"},
		{`{{ HOME }}{{ UPPER "x" }}`, "t:1:4: there is no function HOME", "write .Env.HOME"},
		{`{{ UPPER "x" }}`, "t:1:4: there is no function UPPER", "did you mean upper?"},
		// At run time.
		{`ä {{ print "ä" (div 1 0) }}`, "t:1:17: div: division by zero", ""},
		{"é\né{{ upper (list \"é\" | first) \"x\" }}", "t:2:5: wrong number of args for upper: want 1 got 2", ""},
	} {
		_, err := render(t, engine.Options{}, test.text)
		e := (*engine.Error)(nil)
		if !errors.As(err, &e) || err.Error() != test.want || !strings.Contains(e.Fix, test.fix) || (e.Fix == "") != (test.fix == "") {
			t.Errorf("%s: got %v (%#v), want %s (%s)", test.text, err, e, test.want, test.fix)
		}
	}
	if _, err := render(t, engine.Options{Delims: []string{"[[", "]]"}}, "é [[ if true ]]"); err == nil || err.Error() != "t:1:3: [[if]] is not closed" {
		t.Errorf("with other delimiters: %v", err)
	}
}

// TestSyntaxErrorsHavePlaces cuts a template off at each byte, and leaves each one out: whatever the parser says about
// the rest, there is a position in it.
func TestSyntaxErrorsHavePlaces(t *testing.T) {
	const whole = "é{{/* c */}}\n{{- if and (eq .a `x\ny`) \"\\\"\" }}\n{{ $x := 'c' }}{{ range $i, $e := .list }}{{ $i | printf \"%d\" }}{{ else }}{{ break }}{{ end }}{{ end -}}\n{{ define \"d\" }}{{ template \"d\" . }}{{ end }}"
	e := New(sample(), engine.Options{})
	check := func(text string) {
		_, err := e.Parse("t", text)
		failed := (*engine.Error)(nil)
		if err == nil {
			return
		}
		lines := strings.Split(text, "\n")
		if !errors.As(err, &failed) || failed.Line < 1 || failed.Line > len(lines) || failed.Column < 1 || failed.Column > 1+len([]rune(lines[failed.Line-1])) {
			t.Errorf("%q: %v has no place in it", text, err)
		}
	}
	for i := range whole {
		check(whole[:i])
		check(whole[i:])
		check(whole[:i] + whole[i+1:])
	}
}
