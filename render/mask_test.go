package render

import (
	"errors"
	"fmt"
	"testing"

	"initbox/render/engine"
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
