package gotemplate

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"initbox/render/engine"
)

// bombs are templates that would run for long, or take much memory.
var bombs = []string{
	`{{range until 1000000000}}{{end}}`,
	`{{range 1000000000}}{{end}}`,
	`{{range 1000000000}}x{{end}}`,
	`{{range untilStep 0 9223372036854775807 9223372036854775806}}{{end}}`,
	`{{untilStep 0 1000000000 1}}`,
	`{{seq 1 1000000000}}`,
	`{{seq 1 1 9223372036854775807}}`,
	`{{range 100000}}{{range 100000}}{{end}}{{end}}`,
	`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`,
	`{{define "a"}}{{include "a" .}}{{end}}{{include "a" .}}`,
	`{{define "a"}}{{template "b" .}}{{end}}{{define "b"}}{{include "a" .}}{{end}}{{include "a" .}}`,
	`{{tpl "{{tpl .t .}}" (dict "t" "{{tpl .t .}}")}}`,
	`{{$d := dict}}{{$_ := set $d "t" "{{tpl .t .}}"}}{{tpl "{{tpl .t .}}" $d}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = print $s $s}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = printf "%s%s" $s $s}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = cat $s $s}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = replace "1" $s $s}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = join $s (list $s $s)}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = quote $s $s}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = regexReplaceAll "." $s "$0$0"}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = regexReplaceAllLiteral "." $s $s}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = toJson (list $s $s)}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = toYaml (list $s $s)}}{{end}}`,
	`{{$s := "0123456789"}}{{range 100}}{{$s = wrapWith 1 $s $s}}{{end}}`,
	`{{$s := "a\nb"}}{{range 100}}{{$s = indent 1000000 $s}}{{end}}`,
	`{{$s := "a\nb"}}{{range 100}}{{$s = nindent 1000000 $s}}{{end}}`,
	`{{$s := "&&&&"}}{{range 100}}{{$s = html $s $s}}{{end}}`,
	`{{$s := "&&&&"}}{{range 100}}{{$s = js $s}}{{end}}`,
	`{{$s := "&&&&"}}{{range 100}}{{$s = urlquery $s $s}}{{end}}`,
	`{{$s := "0123456789"}}{{range 1000}}{{$s = b64enc $s}}{{end}}`,
	`{{$s := "0123456789"}}{{range 1000}}{{$s = include "i" $s}}{{end}}{{define "i"}}{{.}}{{.}}{{end}}`,
	`{{$l := list 1 2}}{{range 100}}{{$l = concat $l $l}}{{end}}`,
	`{{$l := list 1 2}}{{range 10000000}}{{$l = append $l 1}}{{end}}`,
	`{{$l := list 1 2}}{{range 100}}{{$l = list $l $l}}{{end}}{{$l}}`,
	`{{$l := list 1 2}}{{range 100}}{{$l = list $l $l}}{{end}}{{toJson $l}}`,
	`{{$l := list 1 2}}{{range 100}}{{$l = list $l $l}}{{end}}{{toYaml $l}}`,
	`{{$l := list 1 2}}{{range 100}}{{$l = list $l $l}}{{end}}{{print $l}}`,
	`{{$l := list 1 2}}{{range 100}}{{$l = list $l $l}}{{end}}{{quote $l}}`,
	`{{$l := list 1 2}}{{range 100}}{{$l = list $l $l}}{{end}}{{deepCopy $l | len}}`,
	`{{$l := list 1 2}}{{range 100}}{{$l = list $l $l}}{{end}}{{dict $l 1 | len}}`,
	`{{$l := list 1 2}}{{range 100000}}{{$l = list $l}}{{end}}{{toJson $l}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{$d}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{toYaml $d}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{toToml $d}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{merge $d $d | len}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{printf "%v" $d}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{toPrettyJson $d}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{toRawJson $d}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{jsonquote $d}}`,
	`{{$d := dict}}{{$_ := set $d "self" $d}}{{toDecimal $d}}`,
	`{{repeat 1000000000 "x"}}`,
	`{{repeat 9223372036854775807 "xx"}}`,
	`{{randAlphaNum 1000000000}}`,
	`{{randBytes 1000000000}}`,
	`{{indent 1000000000 "x"}}`,
	`{{printf "%1000000d" 1 | repeat 1000}}`,
	`{{printf "%*d" 1000000 1 | repeat 1000}}`,
	`{{printf (repeat 1000 "%1000000d") 1}}`,
	`{{range 1000000}}{{genPrivateKey "ecdsa"}}{{end}}`,
	`{{splitList "" (repeat 60000 "x") | len}}`,
	`{{fromYaml "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"}}`,
	`{{fromToml (print "a = " (repeat 1000000 "["))}}`,
	`{{fromJson (repeat 1000000 "[")}}`,
	`{{range chunk 0 (list 1 2)}}{{end}}`,
	`{{repeat -1 "x"}}`,
	`{{div 1 0}}`,
	`{{substr 5 2 "x"}}`,
	`{{index (list 1) -1}}`,
	`{{slice (list 1) 5 7}}`,
	`{{rest nil}}`,
	`{{dig "a"}}`,
	`{{call 1}}`,
	`{{randInt 5 5}}`,
	`{{loop 1}}`,
	`{{$s := repeat 60000 "a"}}{{regexFindAll "" $s -1 | len}}`,
	`{{$s := repeat 60000 "a"}}{{regexSplit "a" $s -1 | len}}`,
	`{{$s := repeat 60000 "a"}}{{regexReplaceAll "" $s "0123456789"}}`,
	strings.Repeat(`{{if 1}}`, 20_000),
	`{{` + strings.Repeat("(", 100_000) + `1` + strings.Repeat(")", 100_000) + `}}`,
}

// tight bounds are those of these tests: what they stop is the same.
var tight = engine.Limits{Bytes: 1 << 16, Depth: 50, Steps: 10_000}

func TestBombs(t *testing.T) {
	for _, o := range []engine.Options{{Limits: tight}, {Limits: tight, MissingZero: true}, {Limits: tight, Compat: "dockerize"}} {
		for _, text := range bombs {
			out, err := render(t, o, text)
			e := (*engine.Error)(nil)
			missing := (*engine.MissingError)(nil)
			switch {
			case strings.HasPrefix(text, "{{from") && err == nil: // Helm's way: the error is in the result
			case strings.Contains(text, "{{loop 1}}") && o.Compat != "":
			case strings.Contains(text, "922337203685477580") && strconv.IntSize == 32: // text/template keeps 32 bits
			case !errors.As(err, &e) && !errors.As(err, &missing):
				t.Errorf("%.100s: got %.100q, %v", text, out, err)
			case e != nil && (e.File != "t" || strings.Contains(e.Text, "executing") || strings.Contains(e.Text, "_")):
				t.Errorf("%.100s: the error is not for people: %v", text, err)
			case int64(len(out)) > tight.Bytes:
				t.Errorf("%.100s: %d bytes", text, len(out))
			}
		}
	}
}

// TestDefaultBounds renders some with the bounds of the product.
func TestDefaultBounds(t *testing.T) {
	for _, text := range []string{bombs[0], bombs[8], bombs[13], bombs[33], bombs[34], bombs[41]} {
		if _, err := render(t, engine.Options{}, text); err == nil {
			t.Errorf("%.100s: no error", text)
		}
	}
	for _, text := range []string{
		`{{$l := list}}{{range 3000}}{{$l = append $l .}}{{end}}{{len $l}}`,
		`{{$s := ""}}{{range 3000}}{{$s = print $s "line of a file\n"}}{{end}}{{len $s}}`,
		`{{range 20000}}line of a file {{.}}` + "\n" + `{{end}}`,
		`{{repeat 10000000 "x" | len}}`,
	} {
		if _, err := render(t, engine.Options{}, text); err != nil {
			t.Errorf("%.100s: %v", text, err)
		}
	}
}

// TestContext ends the context while a template loops, or makes a key.
func TestContext(t *testing.T) {
	cause := errors.New("the pod is going")
	for _, text := range []string{`{{started}}{{range 2000000000}}{{end}}`, `{{started}}{{range 1000}}{{genPrivateKey "dsa"}}{{end}}`, `{{started}}{{range 10000}}{{bcrypt "x"}}{{end}}`} {
		ctx, cancel := context.WithCancelCause(context.Background())
		data := sample()
		data.Resolve = func(context.Context, string) ([]string, error) { cancel(cause); return []string{"x"}, nil }
		e := New(data, engine.Options{Limits: engine.Limits{Bytes: 1 << 20, Depth: 10, Steps: 1 << 60}})
		tmpl, err := e.Parse("t", strings.Replace(text, "started", `resolve "x"`, 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := tmpl.Execute(ctx, io.Discard); !errors.Is(err, cause) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	tmpl, err := New(sample(), engine.Options{Limits: engine.Limits{Bytes: 1 << 20, Depth: 10, Steps: 1 << 60}}).Parse("t", `{{range 2000000000}}{{end}}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := tmpl.Execute(ctx, io.Discard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: got %v", err)
	}
}

// TestDeepBlocks nests blocks deeper than the parser's stack bears: more than that is refused, wherever comments,
// strings and blanks hide it. What is beside each other is not nested.
func TestDeepBlocks(t *testing.T) {
	for _, text := range []string{
		`{{if 1}}`, `{{- if 1 -}}`, `{{if 1}}{{/*{{end}}*/}}`, `{{if 1}}{{- /* {{end */ -}}`, `{{if 1}}{{"{{end}}"}}`, "{{if 1}}{{`{{end}}`}}", `{{if 1}}{{print "\"{{end"}}`,
		"{{" + strings.Repeat(" ", 70) + "if 1}}", "{{\nrange .}}", "{{if 1}}{{else" + strings.Repeat("\t", 70) + "if 1}}", `{{with 1}}{{else with 1}}`, `{{block "x" .}}`,
	} {
		var e *engine.Error
		if _, err := render(t, engine.Options{}, strings.Repeat(text, maxBlocks+1)); !errors.As(err, &e) || !strings.Contains(e.Text, "nested deeper") {
			t.Errorf("%s: got %.200v", text, err)
		}
	}
	for _, text := range []string{`{{if 1}}{{end}}`, `{{with 1}}{{else with 2}}{{else}}{{end}}`, `{{/* {{if 1}} */}}`, `{{if 1}}{{"{{if"}}{{- end}}`, "{{if 1}}{{`{{if`}}{{ end -}}"} {
		if _, err := render(t, engine.Options{}, strings.Repeat(text, maxBlocks+1)); err != nil {
			t.Errorf("%s: %.200v", text, err)
		}
	}
}

// TestLongChain reads a chain of fields, whose names must not cost its square.
func TestLongChain(t *testing.T) {
	for _, text := range []string{"{{.Values" + strings.Repeat(".a", 1<<20) + "}}", strings.Repeat("{{with .a.a.a.a}}", maxBlocks-1) + strings.Repeat("{{end}}", maxBlocks-1)} {
		var missing *engine.MissingError
		if _, err := render(t, engine.Options{}, text); !errors.As(err, &missing) || len(err.Error()) > 2000 {
			t.Errorf("%.40s: got %.200v", text, err)
		}
	}
}

// full is a writer without space.
type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriterFails(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("long", 100_000), `{{range 1000000}}0123456789{{end}}`} {
		tmpl, err := New(sample(), engine.Options{}).Parse("t", text)
		if err != nil {
			t.Fatal(err)
		}
		if err := tmpl.Execute(context.Background(), &full{left: 3}); !errors.Is(err, errFull) {
			t.Errorf("%.20s: got %v", text, err)
		}
	}
}

// FuzzTemplate renders any text, strictly and not: it ends, without panic, and within the bounds.
func FuzzTemplate(f *testing.F) {
	for _, text := range bombs[:len(bombs)-2] {
		f.Add(text)
	}
	f.Add(small)
	f.Add(`{{define "x"}}{{.}}{{end}}{{block "y" .Values}}{{.name}}{{end}}{{with $x := .Values.db}}{{$x.host | quote}}{{else}}{{end}}`)
	f.Add("{{- /* c */ -}} {{range $k, $v := .Values}}{{$k}}{{break}}{{end}}{{.Files.Get \"c.txt\"}}{{(.Files.Glob \"*\").AsConfig}}")
	limits := engine.Limits{Bytes: 1 << 16, Depth: 20, Steps: 5_000}
	f.Fuzz(func(t *testing.T, text string) {
		for _, o := range []engine.Options{{Limits: limits}, {Limits: limits, MissingZero: true}} {
			e := New(sample(), o)
			tmpl, err := e.Parse("t", text)
			if err != nil {
				placed(t, err)
				continue
			}
			tmpl.Inputs()
			tmpl.Unsteady()
			var out strings.Builder
			if err := tmpl.Execute(context.Background(), &out); err != nil {
				placed(t, err)
			}
			if int64(out.Len()) > limits.Bytes {
				t.Fatalf("%d bytes", out.Len())
			}
		}
	})
}

// placed fails unless the error says where it is.
func placed(t *testing.T, err error) {
	e, m := (*engine.Error)(nil), (*engine.MissingError)(nil)
	switch {
	case errors.As(err, &m):
		for _, in := range m.Missing {
			if in.File != "t" || in.Line < 1 || in.Column < 1 || in.Name == "" {
				t.Fatalf("a place without place: %#v", in)
			}
		}
	case errors.As(err, &e):
		if e.File != "t" || e.Text == "" {
			t.Fatalf("an error without place: %#v", e)
		}
	default:
		t.Fatalf("of type %T: %v", err, err)
	}
}
