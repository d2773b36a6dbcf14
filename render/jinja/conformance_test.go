package jinja_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"initbox/render/engine"
	"initbox/render/format"
	"initbox/render/jinja"
	"initbox/test/servers"
)

var update = flag.Bool("update", false, "rewrite what jinja2 makes of the templates in testdata/conformance")

// family is a file of testdata/conformance: templates, each followed by what jinja2 makes of it. That is
//
//	want          the text, which ours is, too
//	refused       the kind of exception; ours is an error
//	only jinja2   the text, where ours is an error, which follows as
//	our error
//
// An error of ours where jinja2 has a text is allowed; everything else that differs is not. A family may have its own
// data and partials; others see those of shared.txtar.
type family struct {
	name     string
	comment  []byte
	own      []txtar.File // data and partials of its own
	data     string
	partials map[string]string
	cases    []testCase
}

type testCase struct{ template, kind, answer, err string }

// families reads testdata/conformance.
func families(t testing.TB) (all []*family) {
	t.Helper()
	files, err := filepath.Glob("testdata/conformance/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	shared := readFamily(t, "testdata/conformance/shared.txtar")
	for _, name := range files {
		f := readFamily(t, name)
		if f.data == "" {
			f.data, f.partials = shared.data, shared.partials
		}
		all = append(all, f)
	}
	return all
}

func readFamily(t testing.TB, name string) *family {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f := &family{name: strings.TrimSuffix(filepath.Base(name), ".txtar"), comment: a.Comment, partials: map[string]string{}}
	for _, part := range a.Files {
		text, last := strings.TrimSuffix(string(part.Data), "\n"), len(f.cases)-1
		kind, partial, _ := strings.Cut(part.Name, " ")
		switch {
		case part.Name == "data":
			f.own, f.data = append(f.own, part), text
		case kind == "partial":
			f.own, f.partials[partial] = append(f.own, part), text
		case part.Name == "template":
			f.cases = append(f.cases, testCase{template: text})
		case part.Name == "our error":
			f.cases[last].err = text
		default:
			f.cases[last].kind, f.cases[last].answer = part.Name, text
		}
	}
	return f
}

// write rewrites the file of f.
func (f *family) write(t *testing.T) {
	t.Helper()
	a := &txtar.Archive{Comment: f.comment, Files: slices.Clone(f.own)}
	add := func(name, text string) {
		a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text + "\n")})
	}
	for _, c := range f.cases {
		add("template", c.template)
		add(c.kind, c.answer)
		if c.err != "" {
			add("our error", c.err)
		}
	}
	if err := os.WriteFile("testdata/conformance/"+f.name+".txtar", txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// python renders all templates with jinja2, as jinja2-cli does, in one process.
const python = `
import json, re, sys, jinja2
out = []
for job in json.load(sys.stdin):
    env = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"], loader=jinja2.DictLoader(job["partials"]))
    for s in job["templates"]:
        try:
            text = env.from_string(s).render(json.loads(job["data"]))
            text.encode()
            out.append({"ok": True, "text": re.sub("at 0x[0-9a-f]+", "at ADDRESS", text)})
        except Exception as e:
            out.append({"ok": False, "text": type(e).__name__})
json.dump(out, sys.stdout)
`

// job is what python renders.
type job struct {
	Data      string            `json:"data"`
	Partials  map[string]string `json:"partials"`
	Templates []string          `json:"templates"`
}

// answer is what a template is rendered to, or why not.
type answer struct {
	OK   bool
	Text string
}

// jinja2 returns jinja2's answers.
func jinja2(t *testing.T, jobs []job) (answers []answer) {
	t.Helper()
	stdin, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	var failure string
	for _, interpreter := range []string{"/usr/bin/python3", "python3"} { // Debian's own first: it has the package
		cmd := exec.CommandContext(t.Context(), interpreter, "-c", python)
		cmd.Stdin = bytes.NewReader(stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err == nil {
			if err := json.Unmarshal(out, &answers); err != nil {
				t.Fatal(err)
			}
			return answers
		}
		failure += fmt.Sprintf("%s: %v\n%s", interpreter, err, stderr.Bytes())
	}
	servers.Absent(t, "no jinja2, install python3-jinja2:\n%s", failure)
	return nil
}

// engineOf makes an engine with the shared data and partials.
func engineOf(t testing.TB, o engine.Options) engine.Engine {
	t.Helper()
	shared := readFamily(t, "testdata/conformance/shared.txtar")
	return shared.engine(t, o)
}

func (f *family) engine(t testing.TB, o engine.Options) engine.Engine {
	t.Helper()
	json, _ := format.Named("json")
	values, err := json.ParseExact([]byte(f.data))
	if err != nil {
		t.Fatal(err)
	}
	if o.Limits == (engine.Limits{}) {
		o.Limits = engine.DefaultLimits
	}
	tree := values.(*format.Map)
	e := jinja.New(&engine.Data{Values: tree.Values, Tree: tree, Env: map[string]any{"HOME": "/root"}}, o)
	for name, text := range f.partials {
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

// kindOf is the kind of a case with jinja2's answer and ours, or what is wrong with ours.
func kindOf(theirs, ours answer) (kind, wrong string) {
	switch {
	case theirs.OK && ours.OK && theirs.Text != ours.Text:
		return "want", "the texts differ"
	case theirs.OK && ours.OK:
		return "want", ""
	case theirs.OK:
		return "only jinja2", ""
	case ours.OK:
		return "refused", "jinja2 refuses it"
	}
	return "refused", ""
}

// TestConformance compares our answers with those of jinja2 that the files have.
func TestConformance(t *testing.T) {
	counts := map[string]int{}
	for _, f := range families(t) {
		e := f.engine(t, engine.Options{})
		for _, c := range f.cases {
			got := ours(e, c.template)
			kind, wrong := kindOf(answer{c.kind != "refused", c.answer}, got)
			counts[kind]++
			if wrong != "" || kind != c.kind || c.err != "" && c.err != got.Text {
				t.Errorf("%s: %s\n   ours: %v %q\n pinned: %s %q\n%s", f.name, c.template, got.OK, got.Text, c.kind, c.answer+c.err, wrong)
			}
		}
	}
	t.Logf("%d templates are the same, %d are refused by both, %d only by us", counts["want"], counts["refused"], counts["only jinja2"])
}

// TestConformanceIsJinjas compares the answers in the files with those of the installed jinja2.
func TestConformanceIsJinjas(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	all := families(t)
	var jobs []job
	for _, f := range all {
		j := job{f.data, f.partials, []string{}}
		for _, c := range f.cases {
			j.Templates = append(j.Templates, c.template)
		}
		jobs = append(jobs, j)
	}
	answers := jinja2(t, jobs)
	for _, f := range all {
		e := f.engine(t, engine.Options{})
		for i, c := range f.cases {
			theirs := answers[0]
			answers = answers[1:]
			if theirs.OK != (c.kind != "refused") || theirs.OK && theirs.Text != c.answer {
				if !*update {
					t.Errorf("%s: %s\njinja2: %v %q\npinned: %s %q", f.name, c.template, theirs.OK, theirs.Text, c.kind, c.answer)
				}
			}
			got := ours(e, c.template)
			n := testCase{template: c.template, answer: theirs.Text}
			if n.kind, _ = kindOf(theirs, got); n.kind == "only jinja2" {
				n.err = got.Text
			}
			f.cases[i] = n
		}
		if *update && len(f.cases) > 0 {
			f.write(t)
		}
	}
}
