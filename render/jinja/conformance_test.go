package jinja_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"initbox/render/engine"
	"initbox/render/jinja"
	"initbox/test/servers"
)

// dataJSON is what the snippets see, here and in Python.
const dataJSON = `{
	"name": "initbox", "text": "  Hello, World!  ", "words": "the quick brown fox jumps over the lazy dog",
	"lines": "first\nsecond\n\nfourth", "html": "<a href=\"x\">Tom & 'Jerry'</a>", "empty": "", "uni": "Ünïcödé ß 日本",
	"zero": 0, "one": 1, "port": 5432, "neg": -7, "pi": 3.14159, "half": 2.5, "yes": true, "no": false, "nothing": null,
	"nums": [3, 1, 2, 3], "letters": ["b", "A", "c"], "nested": [[1, 2], [3, [4]]], "none_list": [],
	"db": {"host": "db.local", "port": 5432, "tags": ["a", "b"]},
	"users": [{"name": "zoe", "age": 30, "admin": true}, {"name": "Bob", "age": 25, "admin": false}, {"name": "amy", "age": 30, "admin": false}],
	"tree": [{"n": "a", "kids": [{"n": "b", "kids": []}, {"n": "c", "kids": [{"n": "d", "kids": []}]}]}]
}`

// partials are what snippets may include.
var partials = map[string]string{
	"hello.j2":  "Hello {{ name }}!",
	"macros.j2": "{% macro field(n, t='text') %}<{{ n }}:{{ t }}>{% endmacro %}{% set version = '1.2' %}",
	"base.j2":   "[{% block head %}base head{% endblock %}|{% block body %}base body{% endblock %}]",
	"mid.j2":    "{% extends 'base.j2' %}{% block head %}mid({{ super() }}){% endblock %}",
	"loop.j2":   "{{ x }};",
}

// python renders all snippets with jinja2, as jinja2-cli does, in one process.
const python = `
import copy, json, sys, jinja2
job = json.load(sys.stdin)
env = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"], loader=jinja2.DictLoader(job["partials"]))
out = []
for s in job["snippets"]:
    try:
        out.append({"ok": True, "text": env.from_string(s).render(copy.deepcopy(job["data"]))})
    except Exception as e:
        out.append({"ok": False, "text": type(e).__name__ + ": " + str(e)})
json.dump(out, sys.stdout)
`

// answer is what a snippet is rendered to, or why not.
type answer struct {
	OK   bool
	Text string
}

// jinja2 returns jinja2's answers.
func jinja2(t *testing.T, snippets []string, data json.RawMessage, partials map[string]string) (answers []answer) {
	t.Helper()
	job, err := json.Marshal(map[string]any{"snippets": snippets, "partials": partials, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	var failure string
	for _, interpreter := range []string{"/usr/bin/python3", "python3"} { // Debian's own first: it has the package
		cmd := exec.CommandContext(t.Context(), interpreter, "-c", python)
		cmd.Stdin = bytes.NewReader(job)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err == nil {
			if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(snippets) {
				t.Fatalf("%d answers of %d: %v", len(answers), len(snippets), err)
			}
			return answers
		}
		failure += fmt.Sprintf("%s: %v\n%s", interpreter, err, stderr.Bytes())
	}
	servers.Absent(t, "no jinja2, install python3-jinja2:\n%s", failure)
	return nil
}

// engineOf makes an engine with the data and the partials of the snippets.
func engineOf(t testing.TB, o engine.Options) engine.Engine {
	t.Helper()
	return engineWith(t, dataJSON, partials, o)
}

func engineWith(t testing.TB, data string, partials map[string]string, o engine.Options) engine.Engine {
	t.Helper()
	var values map[string]any
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		t.Fatal(err)
	}
	if o.Limits == (engine.Limits{}) {
		o.Limits = engine.DefaultLimits
	}
	e := jinja.New(&engine.Data{Values: values, Env: map[string]any{"HOME": "/root"}}, o)
	for name, text := range partials {
		if err := e.AddPartial(name, text); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func ours(e engine.Engine, snippet string) answer {
	tm, err := e.Parse("t", snippet)
	if err != nil {
		return answer{Text: err.Error()}
	}
	var b strings.Builder
	if err := tm.Execute(context.Background(), &b); err != nil {
		return answer{Text: err.Error()}
	}
	return answer{OK: true, Text: b.String()}
}

// same reports whether two answers are: where both fail, the words differ.
func (a answer) same(b answer) bool { return a.OK == b.OK && (!a.OK || a.Text == b.Text) }

// TestConformance renders every snippet with jinja2, too, and compares the bytes. What differs is in the table of
// mismatches, with the reason; one that no longer differs has to leave it.
func TestConformance(t *testing.T) {
	all := slices.Concat(snippets, more)
	for _, m := range mismatches {
		all = append(all, m.snippet)
	}
	want := jinja2(t, all, json.RawMessage(dataJSON), partials)
	e := engineOf(t, engine.Options{})
	for i, s := range all {
		got := ours(e, s)
		switch same := got.same(want[i]); {
		case i < len(all)-len(mismatches) && !same:
			t.Errorf("%s\n   ours: %v %q\n jinja2: %v %q", s, got.OK, got.Text, want[i].OK, want[i].Text)
		case i >= len(all)-len(mismatches) && same:
			t.Errorf("%s\n no longer differs: %q", s, got.Text)
		}
	}
	t.Logf("%d snippets, %d more that are known to differ", len(all)-len(mismatches), len(mismatches))
}

// TestMismatchTable writes the table of mismatches for the documentation, where $MISMATCHES names the file.
func TestMismatchTable(t *testing.T) {
	if os.Getenv("MISMATCHES") == "" {
		t.Skip("$MISMATCHES is not set")
	}
	var all []string
	for _, m := range mismatches {
		all = append(all, m.snippet)
	}
	want := jinja2(t, all, json.RawMessage(dataJSON), partials)
	e := engineOf(t, engine.Options{})
	var b strings.Builder
	b.WriteString("| template | jinja2 | initbox | why |\n|---|---|---|---|\n")
	cell := func(a answer) string {
		text := strings.NewReplacer("|", `\|`, "\n", "⏎").Replace(a.Text)
		if !a.OK {
			return "error"
		}
		return "`` " + text + " ``"
	}
	for i, m := range mismatches {
		fmt.Fprintf(&b, "| `` %s `` | %s | %s | %s |\n", strings.NewReplacer("|", `\|`, "\n", "⏎").Replace(m.snippet), cell(want[i]), cell(ours(e, m.snippet)), m.why)
	}
	if err := os.WriteFile(os.Getenv("MISMATCHES"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
