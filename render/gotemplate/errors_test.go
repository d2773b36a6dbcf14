package gotemplate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"initbox/render/engine"
)

func TestErrors(t *testing.T) {
	for _, test := range []struct{ text, want, fix string }{
		{"a\n{{ .Values.name | uper }}", "t:2:19: there is no function uper", "did you mean upper?"},
		{`{{toyaml .Values}}`, "t:1:3: there is no function toyaml", "did you mean toYaml?"},
		{`{{_chain 1 .}}`, "t:1:3: there is no function _chain", ""},
		{"x\n{{if .Values.name}}", "t:2:1: {{if}} is not closed", "end each"},
		{`{{.Values.a-b}}`, "t:1:12: bad character U+002D '-'", "needs index"},
		{`{{$x}}`, `t:1:3: undefined variable "$x"`, "declare it"},
		{`{{end}}`, `t:1:3: unexpected {{end}}`, "more {{end}}"},
		{`{{fail "no luck"}}`, "t:1:3: no luck", ""},
		{`{{lookup "v1" "Pod" "" ""}}`, "t:1:3: lookup queries a cluster, which render does not do", "wait-for-service"},
		{`{{resolve "db"}}`, "t:1:3: resolve queries the DNS, which is not allowed", "--resolve"},
		{`{{getHostByName "db"}}`, "t:1:3: resolve queries the DNS, which is not allowed", "--resolve"},
		{`{{upper .Values.port}}`, "t:1:9: is of type int, where string is needed", "toString"},
		{`{{upper .Values.null}}`, "t:1:9: is null, where string is needed", "default"},
		{`{{trunc 3}}`, "t:1:3: wrong number of args for trunc: want 2 got 1", ""},
		{`{{div 1 0}}`, "t:1:3: div: division by zero", ""},
		{`{{include "nope" .}}`, `t:1:3: there is no template "nope"`, ""},
		{`{{define "label"}}x{{end}}{{include "lable" .}}`, `t:1:29: there is no template "lable"`, `did you mean "label"?`},
		{`{{template "nope"}}`, `t:1:12: there is no template "nope"`, ""},
		{"{{define \"p\"}}\n{{fail \"inner\"}}{{end}}{{include \"p\" .}}", "t:2:3: inner", ""},
		{`{{tpl "{{" .}}`, "t:1:3: in the text given to tpl: 1:1: the action is not closed", "}}"},
		{`{{tpl "{{fail \"x\"}}" .}}`, "t:1:3: in the text given to tpl: 1:3: x", ""},
		{`{{.Values.name.x}}`, "t:1:3: .Values.name.x: there is no x in a text", ""},
		{`{{index .Values.name "x"}}`, "t:1:3: index: a list cannot be indexed with a text", ""},
		{`{{index .Values 1}}`, "t:1:3: index: a map cannot be indexed with an integer", ""},
		{`{{.Values.name "x"}}`, "t:1:3: .Values.name has arguments, but is not a function", ""},
		{`{{range .Values.name}}{{end}}`, "t:1:9: range needs a list, a map or a number", ""},
		{`{{print .Values.null}}`, "t:1:3: print: null is printed", ""},
		{`{{required 1 .Values.x}}`, "t:1:3: required: an integer, where a message is needed", ""},
		{`{{mustToJson (dict "x" .Files.Get)}}`, "", ""},
	} {
		_, err := render(t, engine.Options{}, test.text)
		e := (*engine.Error)(nil)
		if test.want == "" {
			if err == nil {
				t.Errorf("%s: no error", test.text)
			}
			continue
		}
		if !errors.As(err, &e) || err.Error() != test.want || !strings.Contains(e.Fix, test.fix) || (e.Fix == "") != (test.fix == "") {
			t.Errorf("%s: got %v (%#v), want %s (%s)", test.text, err, e, test.want, test.fix)
		}
	}
}

// TestWhy looks at what is said beside the name.
func TestWhy(t *testing.T) {
	for text, want := range map[string]string{
		`{{required "set the level" .Values.level}}`: "t:1:3: .Values.level is missing: set the level",
		`{{.Values.null}}`:                           "t:1:3: .Values.null is missing: it is null",
		`{{.Release.Name}}`:                          "t:1:3: .Release.Name is missing: Helm has it, render does not: make it a value, and write .Values.Release.Name",
	} {
		if _, err := render(t, engine.Options{}, text); fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestPartials names what is missing in a partial: by its own place, and the name that the file's dot gives it.
func TestPartials(t *testing.T) {
	partial := "{{define \"conn\"}}\n{{.user}}@{{.host}}{{end}}"
	_, err := render(t, engine.Options{}, `{{include "conn" .Values.db}}`, "_p.tpl", partial)
	if got, want := missing(err), "2:3 .Values.db.user"; got != want || !strings.HasPrefix(err.Error(), "_p.tpl:2:3: ") {
		t.Errorf("got %v, want %s in _p.tpl", err, want)
	}
	out, err := render(t, engine.Options{}, `{{include "_q.tpl" .Values.name}}{{template "x" 1}}`, "_q.tpl", `<{{.}}>{{define "x"}}x{{end}}`)
	if out != "<app>x" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestNoLeak parses and executes files that define templates of the same name.
func TestNoLeak(t *testing.T) {
	e := New(sample(), engine.Options{})
	if err := e.AddPartial("_p", `{{define "x"}}partial{{end}}`); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for text, want := range map[string]string{
			`{{define "x"}}own{{end}}{{define "y"}}y{{end}}{{include "x" .}}{{template "y"}}`: "owny",
			`{{include "x" .}}`: "partial",
			`{{tpl "{{define \"x\"}}tpl{{end}}{{include \"x\" .}}" .}} {{include "x" .}}`: "tpl partial",
		} {
			if got := execute(t, e, text); got != want {
				t.Errorf("%d: %s: got %q, want %q", i, text, got, want)
			}
		}
		tmpl, err := e.Parse("t", `{{include "y" .}}`)
		if err != nil {
			t.Fatal(err)
		}
		if err := tmpl.Execute(context.Background(), io.Discard); err == nil {
			t.Error("the template y of another file is known")
		}
	}
}

func execute(t testing.TB, e engine.Engine, text string) string {
	t.Helper()
	tmpl, err := e.Parse("t", text)
	if err != nil {
		t.Error(err)
		return ""
	}
	var out strings.Builder
	if err := tmpl.Execute(context.Background(), &out); err != nil {
		t.Error(err)
	}
	return out.String()
}

// TestConcurrent renders with one engine from many goroutines, and templates
// that change maps: neither the data nor another's result may change.
func TestConcurrent(t *testing.T) {
	data := sample()
	e := New(data, engine.Options{})
	if err := e.AddPartial("_p", `{{define "p"}}{{$_ := set .Values.db "host" "changed"}}{{.Values.db.host}}{{end}}`); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 20 {
				for text, want := range map[string]string{
					`{{.Values.db.host}}{{range .Values.hosts}}{{.name}}{{end}}`: "db.internalonetwo",
					`{{include "p" .}}{{.Values.db.host}}`:                       "changedchanged",
					fmt.Sprintf(`{{$_ := set .Values "n" %d}}{{.Values.n}}`, i):  fmt.Sprint(i),
					`{{mergeOverwrite .Values.db (dict "host" "m") | len}}`:      "3",
					`{{tpl "{{$_ := unset .Values \"name\"}}" .}}`:               "",
				} {
					if got := execute(t, e, text); got != want {
						t.Errorf("%s: got %q, want %q", text, got, want)
					}
				}
				tmpl, err := e.Parse("t", `{{.Values.x}}{{.Values.y}}`)
				if err != nil {
					t.Error(err)
					return
				}
				if err := tmpl.Execute(context.Background(), io.Discard); missing(err) != "1:3 .Values.x, 1:16 .Values.y" {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if want := sample(); !reflect.DeepEqual(data.Values, want.Values) {
		t.Errorf("the values changed: %v", data.Values)
	}
}

func TestInputs(t *testing.T) {
	e := New(sample(), engine.Options{})
	if err := e.AddPartial("_p", `{{define "p"}}{{.host}}{{with .tls}}{{.cert}}{{end}}{{end}}{{define "loop"}}{{include "loop" .x}}{{end}}`); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{{.Values.a}} {{.Values.b | default "x"}} {{.Env.HOME}} {{env "E" | default "x"}} {{.Pod.Name}}`:              ".Values.a .Values.b? .Env.HOME .Env.E? .Pod.Name",
		`{{index .Values "a" "b"}} {{index .Values.c 0}}`:                                                              ".Values.a.b .Values.c[0]",
		`{{with .Values.db}}{{.host}}{{end}}{{range $k, $v := .Values.m}}{{$v.x}}{{end}}`:                              ".Values.db .Values.db.host .Values.m .Values.m[*].x",
		`{{include "p" .Values.db}}{{template "p" .Values.cache}}`:                                                     ".Values.db .Values.db.host .Values.db.tls .Values.db.tls.cert .Values.cache .Values.cache.host .Values.cache.tls .Values.cache.tls.cert",
		`{{include "loop" .Values}}`:                                                                                   ".Values.x .Values.x.x ",
		`{{.Files.Get "a"}} {{expandenv "$A-${B}"}} {{required "m" .Values.r}}`:                                        `.Files.Get "a" .Env.A .Env.B .Values.r`,
		`{{get .Values "g"}} {{dig "a" "b" "d" .Values.dug}}`:                                                          ".Values.g? .Values.dug? .Values.dug.a.b?",
		`{{.Values.a | default .Values.b}} {{coalesce .Values.c .Values.d}} {{ternary .Values.e .Values.f .Values.g}}`: ".Values.a? .Values.b .Values.c? .Values.d .Values.e .Values.f .Values.g",
		`{{default (default .Values.c .Values.b) .Values.a}} {{.Values.d | default .Values.e | default "f"}}`:          ".Values.c .Values.b? .Values.a? .Values.d? .Values.e?",
		`{{default (env "B") (index .Values "a")}} {{required "m" (coalesce .Values.c .Values.d)}}`:                    ".Env.B .Values.a? .Values.c? .Values.d",
		`{{jvmHeap}}{{memMiB 50}}{{cpuCount}}{{ordinal}}`:                                                              ".Pod.Limits.memory .Pod.Limits.memory .Pod.Limits.cpu .Pod.Name",
		`{{ordinal "x-1"}}{{"x-1" | ordinal}}{{80 | hostport "x"}}`:                                                    "",
		`{{if and .Values.on (hasKey .Values.m "k")}}{{end}}`:                                                          ".Values.on .Values.m? .Values.m.k?",
	} {
		tmpl, err := e.Parse("t", text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, in := range tmpl.Inputs() {
			name := in.Name
			if in.Optional {
				name += "?"
			}
			got = append(got, name)
		}
		if joined := strings.Join(got, " "); joined != want && !(strings.Contains(text, "loop") && strings.HasPrefix(joined, want)) {
			t.Errorf("%s:\n got %s\nwant %s", text, joined, want)
		}
	}
}

func TestUnsteady(t *testing.T) {
	tmpl, err := New(sample(), engine.Options{}).Parse("t", `{{now | date "2006"}}{{uuidv4}}{{.Values.name | upper}}{{define "x"}}{{randAlphaNum 5}}{{end}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := tmpl.Unsteady(); !slices.Equal(got, []string{"now", "randAlphaNum", "uuidv4"}) {
		t.Errorf("got %v", got)
	}
}

func TestDockerize(t *testing.T) {
	for text, want := range map[string]string{
		`{{ default .Env.NO "d" }} {{ default .Env.HOME "d" }}`:                                                                  "d /root",
		`{{ if contains .Env "HOME" }}y{{ end }}{{ if contains .Env "NO" }}n{{ end }}`:                                           "y",
		`{{ range split "a,b" "," }}[{{ . }}]{{ end }}`:                                                                          "[a][b]",
		`{{ replace "aaa" "a" "b" 2 }} {{ replace "aaa" "a" "b" -1 }}`:                                                           "bba bbb",
		`{{ add 1 2 }} {{ atoi "5" }} {{ parseBool "true" }} {{ isTrue "on" }} {{ isTrue "x" }}`:                                 "3 5 true true false",
		`{{ (parseUrl "http://h:80/p").Host }} {{ lower "A" }}{{ upper "b" }}`:                                                   "h:80 aB",
		`{{ jsonQuery "{\"s\":[{\"p\":1}]}" "s.[0].p" }}`:                                                                        "1",
		`{{ range loop 3 }}{{ . }}{{ end }} {{ range $i := loop 5 8 }}{{ $i }}{{ end }} {{ range loop 0 10 4 }}{{ . }}{{ end }}`: "012 567 048",
		`{{ exists "c.txt" }} {{ exists "no" }}`:                                                                                 "true false",
		`{{ trunc 2 "abc" }}`:                                                                                                    "ab",
	} {
		got, err := render(t, engine.Options{Compat: "dockerize"}, text)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{{ .Env.NO }}`:           "t:1:4: .Env.NO is missing",
		`{{ exists "/etc/x" }}`:   "t:1:4: exists looks at .Files, not at the machine",
		`{{ loop 0 10 0 }}`:       "t:1:4: loop: does not end, or not soon",
		`{{ default .Env.NO }}`:   "t:1:4: default: the value is missing, and there is no fallback",
		`{{ jsonQuery "{}" "a"}}`: "t:1:4: jsonQuery: there is no a",
	} {
		if _, err := render(t, engine.Options{Compat: "dockerize"}, text); fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestDelims(t *testing.T) {
	got, err := render(t, engine.Options{Delims: []string{"<<", ">>"}}, `<<.Values.name>> {{x}}`)
	if got != "app {{x}}" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := render(t, engine.Options{Delims: []string{"[[", "]]"}}, `[[first .Values.none]]`); missing(err) != "1:3 first .Values.none" {
		t.Error(err)
	}
}

// TestZero is what --missing-key zero gives: what Helm does.
func TestZero(t *testing.T) {
	long := strings.Repeat("x", sinkSize-5)
	for text, want := range map[string]string{
		`[{{.Values.x}}] [{{.Values.null}}] [{{index .Values "x"}}] [{{env "NO"}}] [{{.Env.NO}}] [{{.Files.Get "no"}}]`: "[] [] [] [] [] []",
		`<no value>{{.Values.x | quote}}{{printf "%v" .Values.x}}`:                                                      "<nil>",
		long + `{{.Values.x}}` + long + `{{.Values.x}}` + long:                                                          long + long + long,
		long + "<no" + `{{.Values.x}}` + " value>":                                                                      long + "<no value>",
	} {
		got, err := render(t, engine.Options{MissingZero: true}, text)
		if err != nil || got != want {
			t.Errorf("%.80s: got %.80q, %v, want %.80q", text, got, err, want)
		}
	}
}

// TestResolve asks for addresses where it is allowed.
func TestResolve(t *testing.T) {
	data := sample()
	data.Resolve = func(_ context.Context, host string) ([]string, error) {
		if host != "db" {
			return nil, errors.New("no such name")
		}
		return []string{"::1", "127.0.0.1"}, nil
	}
	e := New(data, engine.Options{})
	if got := execute(t, e, `{{getHostByName "db"}} {{range resolve "db"}}{{hostport . 1}} {{end}}`); got != "::1 [::1]:1 127.0.0.1:1 " {
		t.Errorf("got %q", got)
	}
	tmpl, err := e.Parse("t", `{{resolve "no"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := tmpl.Execute(context.Background(), io.Discard); fmt.Sprint(err) != "t:1:3: resolve: resolving no: no such name" {
		t.Error(err)
	}
}
