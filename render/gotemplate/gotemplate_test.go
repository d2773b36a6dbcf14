package gotemplate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"initbox/render/engine"
)

// sample is what the templates of most tests see.
func sample() *engine.Data {
	return &engine.Data{
		Values: map[string]any{
			"name": "app", "port": 8080, "debug": false, "empty": "", "zero": 0, "null": nil,
			"a-b":   "dashed",
			"db":    map[string]any{"host": "db.internal", "port": 5432, "null": nil},
			"hosts": []any{map[string]any{"name": "one", "port": 1}, map[string]any{"name": "two"}},
			"list":  []any{"x", "y"},
			"none":  []any{},
		},
		Env:   map[string]any{"HOME": "/root", "EMPTY": ""},
		Pod:   map[string]any{"Name": "app-2", "Labels": map[string]any{"app.kubernetes.io/name": "web"}},
		Files: fstest.MapFS{"conf/a.ini": {Data: []byte("x=1\ny=2\n")}, "conf/b.ini": {Data: []byte("z=3")}, "c.txt": {Data: []byte("c")}},
	}
}

// render renders one template with partials, which are name and text in turn.
func render(t testing.TB, o engine.Options, text string, partials ...string) (string, error) {
	t.Helper()
	e := New(sample(), o)
	for i := 0; i < len(partials); i += 2 {
		if err := e.AddPartial(partials[i], partials[i+1]); err != nil {
			return "", err
		}
	}
	tmpl, err := e.Parse("t", text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = tmpl.Execute(context.Background(), &out)
	return out.String(), err
}

func TestRender(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{{.Values.name}}:{{.Values.port}}`, "app:8080"},
		{`{{index .Values "a-b"}} {{index .Values.list 1}} {{index .Values.hosts 0 "name"}}`, "dashed y one"},
		{`{{with .Values.db}}{{.host}}{{end}}`, "db.internal"},
		{`{{range $i, $h := .Values.hosts}}{{$i}}={{$h.name}} {{end}}`, "0=one 1=two "},
		{`{{range .Values.none}}x{{else}}none{{end}}`, "none"},
		{`{{$x := .Values.db.host}}{{$x}} {{$x | upper}}`, "db.internal DB.INTERNAL"},
		{`{{define "p"}}<{{.}}>{{end}}{{template "p" .Values.name}}{{include "p" .Values.port}}`, "<app><8080>"},
		{`{{tpl "{{.Values.name}}-{{ include \"q\" . }}{{define \"q\"}}Q{{end}}" .}}`, "app-Q"},
		{`{{tpl .Values.name .}}`, "app"},
		{`{{.Env.HOME}} {{env "HOME"}} {{expandenv "$HOME/x"}}`, "/root /root /root/x"},
		{`{{.Files.Get "c.txt"}} {{range .Files.Lines "conf/a.ini"}}[{{.}}]{{end}}`, "c [x=1][y=2]"},
		{`{{(.Files.Glob "conf/*").AsConfig}}`, "a.ini: |\n  x=1\n  y=2\nb.ini: z=3"},
		{`{{range $p, $_ := .Files.Glob "**.ini"}}{{$p}} {{end}}`, "conf/a.ini conf/b.ini "},
		{`{{(.Files.Glob "c.txt").AsSecrets}}`, "c.txt: Yw=="},
		{`{{toYaml .Values.db}}`, "host: db.internal\n\"null\": null\nport: 5432"},
		{`{{.Template.Name}} {{ordinal}}`, "t 2"},
		{`{{if .Values.debug}}x{{else if eq .Values.port 8080}}y{{end}}`, "y"},
		{`{{and .Values.name .Values.port}} {{or .Values.empty "z"}} {{not .Values.debug}}`, "8080 z true"},
		{`{{$d := dict "a" 1}}{{$_ := set $d "b" 2}}{{$d | toJson}}`, `{"a":1,"b":2}`},
		{`{{$_ := set .Values "new" 1}}{{.Values.new}}`, "1"},
		{`{{index .Pod.Labels "app.kubernetes.io/name"}}`, "web"},
		{`{{keys .Values.db | join ","}} {{values (dict "b" 2 "a" 1)}}`, "host,null,port [1 2]"},
		{`{{range $k, $v := dict "x" 1}}{{$k}}{{$v}}{{end}}{{range 3}}{{.}}{{end}}`, "x1012"},
		{`{{range until 5}}{{if eq . 3}}{{break}}{{end}}{{if eq . 1}}{{continue}}{{end}}{{.}}{{end}}`, "02"},
		{`{{(semver "1.2.3").Major}} {{(toDate "2006-01-02" "2020-02-03").Year}} {{(toDate "2006-01-02" "2020-02-03").Format "2006"}}`, "1 2020 2020"},
		{`{{block "b" .Values.name}}[{{.}}]{{end}}`, "[app]"},
		{"{{/* a comment */ -}}\n x", "x"},
		{`{{seq 1 2 7}} {{seq 3}} {{seq 5 1}} {{untilStep 0 10 3}} {{untilStep 5 0 -2}} {{until -3}}`, "1 3 5 7 1 2 3 5 4 3 2 1 [0 3 6 9] [5 3 1] [0 -1 -2]"},
		// Optional
		{`{{.Values.x.y | default "d"}} {{default "e" .Values.x}} {{.Values.empty | default "f"}}`, "d e f"},
		{`{{(index .Values "x").y | default "d"}}{{index .Values "x" "y" | default "i"}}`, "di"},
		{`{{coalesce .Values.x .Values.y.z "c"}} {{empty .Values.x}} {{ternary .Values.x "no" false}}`, "c true no"},
		{`{{hasKey .Values "x"}} {{hasKey .Values.x "y"}} {{get .Values "x" | quote}} {{dig "x" "y" "d" .Values}} {{dig "x" "d" .Values.z}}`, `false false "" d d`},
		{`{{kindIs "invalid" .Values.x}} {{if ne .Values.x nil}}there{{end}} {{eq nil .Values.x}}`, "true  true"},
		{`{{env "NO" | default "n"}} {{.Env.NO | default "m"}} {{.Files.Get "no" | default "f"}}`, "n m f"},
		{`{{required "say" .Values.name}} {{with .Values.x | default (dict "k" "v")}}{{.k}}{{end}}`, "app v"},
		{`{{range .Values.null}}{{end}}{{if .Values.null}}{{end}}{{toYaml .Values.null}}`, "null"},
		{`{{hostport "::1" 80}} {{shquote "a b"}}`, "[::1]:80 'a b'"},
		{`{{ printf "%d" .Values.port }} {{ .Values.port | int64 | mul 2 }}`, "8080 16160"},
	} {
		got, err := render(t, engine.Options{}, test.text)
		if err != nil || got != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.text, got, err, test.want)
		}
	}
}

// missing returns what of the data a template misses, each as line:column name.
func missing(err error) string {
	m := (*engine.MissingError)(nil)
	if !errors.As(err, &m) {
		return fmt.Sprint(err)
	}
	var names []string
	for _, in := range m.Missing {
		names = append(names, fmt.Sprintf("%d:%d %s", in.Line, in.Column, in.Name))
	}
	return strings.Join(names, ", ")
}

func TestStrict(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{{.Values.x}}`, "1:3 .Values.x"},
		{"a\n  {{ .Values.db.x }}", "2:6 .Values.db.x"},
		{`{{.Values.x.y.z}}`, "1:3 .Values.x.y.z"},
		{`{{.Value.x}}`, "1:3 .Value.x"},
		{`{{$.Values.x}}`, "1:3 .Values.x"},
		{`{{index .Values "x"}}`, "1:3 .Values.x"},
		{`{{index .Values "x" "y"}}`, "1:3 .Values.x"},
		{`{{index .Values "x.y"}}`, `1:3 (index .Values "x.y")`},
		{`{{index .Values.list 5}}`, "1:3 .Values.list[5]"},
		{`{{index .Values.x "y"}}`, "1:9 .Values.x"},
		{`{{.Values.x | upper}}`, "1:3 .Values.x"},
		{`{{upper .Values.x}}`, "1:9 .Values.x"},
		{`{{quote .Values.x}}`, "1:9 .Values.x"},
		{`{{printf "%s" .Values.x}}`, "1:15 .Values.x"},
		{`{{if .Values.x}}{{end}}`, "1:6 .Values.x"},
		{`{{if not .Values.x}}{{end}}`, "1:10 .Values.x"},
		{`{{if and .Values.name .Values.x}}{{end}}`, "1:23 .Values.x"},
		{`{{if or .Values.x .Values.name}}{{end}}`, "1:9 .Values.x"},
		{`{{if eq .Values.x "a"}}{{end}}`, "1:9 .Values.x"},
		{`{{with .Values.x}}{{end}}`, "1:8 .Values.x"},
		{`{{range .Values.x}}{{end}}`, "1:9 .Values.x"},
		{`{{range $k, $v := .Values.x}}{{end}}`, "1:19 .Values.x"},
		{`{{$y := .Values.x}}`, "1:9 .Values.x"},
		{`{{with .Values.db}}{{.x}}{{end}}`, "1:22 .Values.db.x"},
		{`{{with $d := .Values.db}}{{$d.x}}{{end}}`, "1:28 .Values.db.x"},
		{`{{$d := .Values.db}}{{$d.x}}`, "1:23 .Values.db.x"},
		{`{{range .Values.hosts}}{{.port}}{{end}}`, "1:26 .Values.hosts[*].port"},
		{`{{range $h := .Values.hosts}}{{$h.port}}{{end}}`, "1:32 .Values.hosts[*].port"},
		{`{{(index .Values.hosts 1).port}}`, "1:4 .Values.hosts[1].port"},
		{`{{(.Values.db).x}}`, "1:4 .Values.db.x"},
		{`{{.Env.NO}}`, "1:3 .Env.NO"},
		{`{{env "NO"}}`, "1:3 .Env.NO"},
		{`{{expandenv "$NO $HOME $ALSO"}}`, "1:3 .Env.NO, 1:3 .Env.ALSO"},
		{`{{.Pod.Labels.x}}`, "1:3 .Pod.Labels.x"},
		{`{{.Files.Get "no"}}`, `1:3 .Files.Get "no"`},
		{`{{.Release.Name}}`, "1:3 .Release.Name"},
		{`{{.Values.null}}`, "1:3 .Values.null"},
		{`{{.Values.db.null.x}}`, "1:3 .Values.db.null.x"},
		{`{{first .Values.none}}`, "1:3 first .Values.none"},
		{`{{.Values.x | default .Values.y}}`, "1:23 .Values.y"},
		{`{{default .Values.y .Values.x | quote}}`, "1:11 .Values.y"},
		{`{{default (default .Values.z .Values.y) .Values.x}}{{.Values.w}}`, "1:20 .Values.z, 1:54 .Values.w"},
		{`{{default .Values.y .Values.name}}{{default .Values.y .Values.empty | quote}}`, "1:45 .Values.y"},
		{`{{coalesce .Values.x .Values.y}}`, "1:22 .Values.y"},
		{`{{ternary .Values.x .Values.y true | quote}}{{ternary .Values.x .Values.name false}}`, "1:11 .Values.x"},
		{`{{ternary .Values.x "no" true}}`, "1:11 .Values.x"},
		{`{{$x := .Values.x | default .Values.y}}{{$x.z}}`, "1:29 .Values.y"},
		{`{{required "give it" .Values.x}}`, "1:3 .Values.x"},
		{`{{include "p" .Values.db}}{{define "p"}}{{.x}}{{end}}`, "1:43 .Values.db.x"},
		{`{{template "p" .Values.db}}{{define "p"}}{{.x}}{{end}}`, "1:44 .Values.db.x"},
		{`{{include "p" .}}{{define "p"}}{{.Values.x}}{{end}}`, "1:34 .Values.x"},
		{`{{include "p" (dict "root" $ "d" .Values.db)}}{{define "p"}}{{.root.Values.x}}{{.d.y}}{{end}}`, "1:63 .Values.x, 1:81 .Values.db.y"},
		{`{{include "p" .Values.x}}{{define "p"}}{{.y}}{{end}}`, "1:15 .Values.x"},
		{`{{tpl "{{.Values.x}}" .}}`, "1:3 .Values.x"},
		{`{{toYaml .Values.x}}`, "1:10 .Values.x"},
		{`{{list .Values.x .Values.y}}`, "1:8 .Values.x, 1:18 .Values.y"},
		{`{{dict "a" .Values.x}}`, "1:12 .Values.x"},
		{`{{.Values.x}} {{.Values.name}} {{.Values.y | upper | trunc 3}} {{index .Values "z"}}`, "1:3 .Values.x, 1:34 .Values.y, 1:66 .Values.z"},
		{`{{if .Values.x}}{{else}}{{.Values.y}}{{end}}{{range .Values.z}}{{end}}{{.Values.w}}`, "1:6 .Values.x, 1:27 .Values.y, 1:53 .Values.z, 1:73 .Values.w"},
		{`{{atoi .Values.x | add 1}}{{fail "later"}}{{.Values.y}}`, "1:8 .Values.x, 1:45 .Values.y"},
		{`{{range .Values.list}}{{$.Values.x}}{{end}}`, "1:25 .Values.x"},
		{`{{required "m" .Values.x}}{{.Values.y}}`, "1:3 .Values.x, 1:29 .Values.y"},
	} {
		got, err := render(t, engine.Options{}, test.text)
		if missing(err) != test.want {
			t.Errorf("%s: got %q, %s, want %s", test.text, got, missing(err), test.want)
		}
		if strings.Contains(test.text, "required") && !strings.Contains(fmt.Sprint(err), "give it") && !strings.Contains(fmt.Sprint(err), ": m") {
			t.Errorf("%s: no message of its own: %v", test.text, err)
		}
	}
}

// TestFunctionsOnDemand pins that a worker which has rendered one template has the functions of the next ones, of
// partials, of definitions and of the texts of tpl, which may call any.
func TestFunctionsOnDemand(t *testing.T) {
	e := New(sample(), engine.Options{})
	if err := e.AddPartial("p", `{{define "shout"}}{{upper .}}{{end}}`); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ text, want string }{
		{`plain`, "plain"},
		{`{{lower "A"}}{{len "abc"}}`, "a3"},
		{`{{include "shout" "a"}}{{repeat 2 "x"}}`, "Axx"},
		{`{{define "own"}}{{title .}}{{end}}{{template "own" "word"}}{{printf "%02d" 3}}`, "Word03"},
		{`{{(semver "1.2.3").Minor}}{{ (list 1 2) | last }}`, "22"},
		{`{{define "own"}}{{tpl "{{ trunc 2 . }}{{ ordinal }}" .}}{{end}}{{template "own" "word"}}{{tpl "{{define \"x\"}}{{ substr 0 1 . }}{{end}}{{template \"x\" .}}{{tpl \"{{ b64enc . }}\" .}}" "yes"}}`, "wo2yeWVz"},
		{`{{env "HOME"}}{{untilStep 0 4 2}}`, "/root[0 2]"},
	} {
		parsed, err := e.Parse("t", test.text)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := parsed.Execute(context.Background(), &out); err != nil || out.String() != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.text, out.String(), err, test.want)
		}
	}
}
