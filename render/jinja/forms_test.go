package jinja_test

import (
	"encoding/json"
	"os"
	"testing"

	"initbox/render/engine"
)

// forms are the forms of tags in Jinja's documentation, each in several variants, with what jinja2 makes of them.
type forms struct {
	Data     json.RawMessage
	Partials map[string]string
	Forms    []struct {
		Form, Template string
		Want           string // the text, and in Fails jinja2's exception
		Fails          string
		Differs        string // why ours is another answer
	}
}

func readForms(t testing.TB) (all forms) {
	t.Helper()
	data, err := os.ReadFile("testdata/forms.json")
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestForms compares with what jinja2 made of the forms.
func TestForms(t *testing.T) {
	all := readForms(t)
	equal, refused, different := 0, 0, 0
	for _, f := range all.Forms {
		e := engineWith(t, string(all.Data), all.Partials, engine.Options{}) // a new one: templates change their values
		got, want := ours(e, f.Template), answer{OK: f.Fails == "", Text: f.Want}
		same := got.same(want)
		switch {
		case same:
			equal++
		case !got.OK:
			refused++
		default:
			different++
		}
		if same != (f.Differs == "") {
			t.Errorf("%s: %s (%s)\n   ours: %v %q\n jinja2: %v %q", f.Form, f.Template, f.Differs, got.OK, got.Text, want.OK, f.Want+f.Fails)
		}
	}
	t.Logf("%d equal, %d refused, %d different", equal, refused, different)
}

// TestFormsAreJinjas compares what is expected of the forms with what the installed jinja2 makes of them.
func TestFormsAreJinjas(t *testing.T) {
	all := readForms(t)
	var templates []string
	for _, f := range all.Forms {
		templates = append(templates, f.Template)
	}
	for i, got := range jinja2(t, templates, all.Data, all.Partials) {
		f := all.Forms[i]
		if want := (answer{OK: f.Fails == "", Text: f.Want}); !got.same(want) {
			t.Errorf("%s\n    got %v %q\npinned %v %q", f.Template, got.OK, got.Text, want.OK, want.Text+f.Fails)
		}
	}
}
