package render

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"initbox/internal/perm"
	"initbox/render/engine"
	"initbox/render/values"
)

// TestMasked pins which words of an error are shown if the template fails in the way of other with other secrets.
func TestMasked(t *testing.T) {
	at := engine.Position{File: "a.tmpl", Line: 1}
	fails := func(text string) error {
		return &engine.Error{Position: at, Text: text, Fix: "correct " + text + " there"}
	}
	missing := func(names ...string) error {
		err := &engine.MissingError{}
		for _, name := range names {
			err.Missing = append(err.Missing, engine.Input{Position: at, Name: name, Why: "want " + name + " here"})
		}
		return err
	}
	for _, test := range []struct {
		err, other error
		want       string
	}{
		{fails("no port"), fails("no port"), "a.tmpl:1: no port (correct no port there)"},
		{fails("bad hunter22 in it"), fails("bad ivoufs33 in it"), "a.tmpl:1: bad […] in it (correct bad […] in it there)"},
		{fails("hunter22 and HUNTER22 in it"), fails("ivoufs33 and IVOUFS33 in it"), "a.tmpl:1: […] in it (correct […] in it there)"},
		{fails("bad it"), fails("bad bad it"), "a.tmpl:1: bad […] it (correct bad […] it there)"},
		{fails("bad"), fails("bad it"), "a.tmpl:1: bad […] (correct bad […] there)"},
		{fails("bad hunter22"), missing("ivoufs33"), "a.tmpl:1: […] ([…])"},
		{fails("bad hunter22"), nil, "a.tmpl:1: […] ([…])"},
		{errors.New("key hunter22 is of type null"), errors.New("key ivoufs33 is of type null"), "key […] is of type null"},
		{errTooLong, errTooLong, "the result is longer than the limit"},
		{errTooLong, nil, "the result is longer than the limit"},
		{missing("host"), missing("host"), "a.tmpl:1: host is missing: want host here"},
		{missing("host", ".a hunter22"), missing("host", ".a ivoufs33"), "a.tmpl:1: host is missing: want host here; a.tmpl:1: .a […] is missing: want .a […] here"},
		{missing(".a hunter22", "host"), missing("host"), "a.tmpl:1: […] is missing: […]; a.tmpl:1: host is missing: want host here"},
		{missing(".a hunter22"), fails("bad"), "a.tmpl:1: […] is missing: […]"},
		{missing(".a hunter22"), nil, "a.tmpl:1: […] is missing: […]"},
	} {
		got := masked(test.err, test.other)
		said := got.Error()
		if hinted, ok := got.(interface{ Hint() string }); ok {
			said += fmt.Sprintf(" (%s)", hinted.Hint())
		}
		if said != test.want {
			t.Errorf("%v, with other secrets %v: %s, want %s", test.err, test.other, said, test.want)
		}
	}
	same := &engine.Error{Text: "cannot read", Err: errTooLong}
	if err := masked(same, &engine.Error{Text: "cannot read"}); !errors.Is(err, errTooLong) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

// TestMaskedFunction pins that the function that failed is named, unless the rest of the text tells more.
func TestMaskedFunction(t *testing.T) {
	at := engine.Position{File: "a.tmpl", Line: 1}
	for _, test := range []struct{ text, other, want string }{
		{"hunter22 is no number", "", "a.tmpl:1: atoi: […]"},
		{"hunter22 is no number", "ivoufs33 is no number", "a.tmpl:1: atoi: […] is no number"},
		{"atoi: no number: hunter22", "atoi: no number: ivoufs33", "a.tmpl:1: atoi: no number: […]"},
	} {
		var other error
		if test.other != "" {
			other = &engine.Error{Position: at, Text: test.other}
		}
		if got := masked(&engine.Error{Position: at, Text: test.text, Function: "atoi"}, other).Error(); got != test.want {
			t.Errorf("%q, with other secrets %q: %s, want %s", test.text, test.other, got, test.want)
		}
	}
}

// TestMaskedCheck pins that no error of a check shows a key that is made of a secret, in whatever form.
func TestMaskedCheck(t *testing.T) {
	yes, _ := perm.ParseRule("", func(string) (string, error) { return "", nil })
	schema := filepath.Join(tree(t, map[string]string{"s.json": `{"patternProperties": {"^HUNTER|^open": {"type": "string"}}}`}), "s.json")
	yes.Value = schema
	for _, c := range []struct{ name, template, want string }{
		{"a.json", `{"{{ upper .Values.password }}": 1}`, "it does not match its schema: […]: is of type integer, not string"},
		{"a.json", `{"open": 1, "{{ upper .Values.password }}": 1}`, "it does not match its schema: /open: is of type integer, not string; […]: is of type integer, not string"},
		{"a.json", `{"{{ upper .Values.password }}": 1, "HUNTER22": 2}`, "line 1: duplicate key […]"},
		{"a.yaml", "{{ upper .Values.password }}: 1\nHUNTER22: 2\n", "line 2: duplicate key […]"},
		{"a.yaml", "{{ upper .Values.password }}: 1\nx: 1\nx: 2\n", "line 3: duplicate key \"x\""},
		{"a.toml", "[{{ upper .Values.password }}]\na = [\n", "line 2: key […]: a value is expected here"},
		{"a.env", "{{ upper .Values.password }}='a\n", "line 1: the quote of […] is not closed"},
	} {
		o := Options{Values: []values.Source{password}, Validate: true, Schemas: []perm.Rule[string]{yes}}
		if filepath.Ext(c.name) == ".env" {
			o.Schemas = nil
		}
		_, _, err := rendered(t, o, map[string]string{c.name + ".tmpl": c.template})
		if err == nil || !strings.HasSuffix(err.Error(), c.want) || strings.Contains(strings.ReplaceAll(err.Error(), "^HUNTER", ""), "HUNTER") {
			t.Errorf("%s: %v, want %s", c.template, err, c.want)
		}
	}
}
