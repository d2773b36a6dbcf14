package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"initbox/internal/perm"
	"initbox/internal/secret"
	"initbox/internal/stage"
	"initbox/render/engine"
	"initbox/render/values"
	"initbox/test/soak"
)

// password is a value from a Secret.
var password = values.Source{Kind: values.Set, Text: "password=hunter22", Secret: true}

// TestNames pins what is written for a name that is a template, or what the error says.
func TestNames(t *testing.T) {
	host := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(host, []byte("db\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := Options{Values: append(set("name=web", "none="), password), Environ: []string{"DB_HOST_FILE=" + host}}
	for name, want := range map[string]string{
		"{{ .Values.name }}.conf.tmpl":       "web.conf",
		"{{ .Values.name }}/x/{{ 1 }}/plain": "web/x/1/plain",
		"{{ .Values.none }}/a":               "",
		"x/{{ .Values.none }}/a":             "",
		"x/{{ .Values.none }}":               "",
		"x/{{ .Values.absent }}/y/a":         "error: x/{{ .Values.absent }}:1",
		"{{ .Values.absent }}":               "error: .Values.absent is missing",
		"{{ print `..` }}/a":                 "error: start with two dots",
		`{{ print "a\x2fb" }}`:               "error: contains a slash",
		"{{ .Values.password }}/a":           "error: contains a value from a Secret",
		"{{ .Env.DB_HOST }}/a":               "error: contains a value from a Secret",
		"{{ .Env.DB_HOST }}.tmpl":            "error: contains a value from a Secret",
	} {
		got, _, err := rendered(t, o, map[string]string{name: "x"})
		names := slices.Collect(func(yield func(string) bool) {
			for name := range got {
				yield(name)
			}
		})
		message, fails := strings.CutPrefix(want, "error: ")
		switch {
		case fails && (err == nil || !strings.Contains(err.Error(), message)):
			t.Errorf("%s: %v, want %q", name, err, message)
		case !fails && (err != nil || strings.Join(names, " ") != want):
			t.Errorf("%s: %q, %v, want %q", name, names, err, want)
		}
	}
}

// TestTwoSourcesOfOneFile pins that neither of them wins by chance.
func TestTwoSourcesOfOneFile(t *testing.T) {
	got, _, err := rendered(t, Options{}, map[string]string{"a": "1", "a.tmpl": "2"})
	if err == nil || !strings.Contains(err.Error(), "would both be written to") || len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
}

// TestNoOverwrite pins that a file that exists is left alone, whatever would be in it.
func TestNoOverwrite(t *testing.T) {
	out := tree(t, map[string]string{"a": "old"})
	o := Options{Sources: []Source{{tree(t, map[string]string{"a": "new", "b": "new"}), out}}, NoOverwrite: true}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(filepath.Join(out, "a"))
	b, _ := os.ReadFile(filepath.Join(out, "b"))
	if string(a) != "old" || string(b) != "new" {
		t.Errorf("a is %s, b is %s", a, b)
	}
}

// TestModes pins who may read and run a file.
func TestModes(t *testing.T) {
	dir := tree(t, map[string]string{
		"plain": "x", "script.tmpl": "x", "private": "x", "private.x.tmpl": "x", "secret.sh.tmpl": "{{ .Values.password }}", "named.tmpl": "{{ .Values.password }}",
	})
	for name, mode := range map[string]fs.FileMode{"plain": 0o644, "script.tmpl": 0o755, "private": 0o600, "private.x.tmpl": 0o600, "secret.sh.tmpl": 0o755} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	named, err := perm.ParseMode("0640")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Sources: []Source{{dir, out}}, Values: []values.Source{password}, Modes: []perm.Rule[perm.Mode]{{Pattern: "named", Value: named}},
		Options: engine.Options{Limits: engine.DefaultLimits},
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		"plain": 0o644, "script": 0o755, "private": 0o600, "private.x": 0o600, "secret.sh": 0o700, "named": 0o640,
	} {
		if stat, err := os.Stat(filepath.Join(out, name)); err != nil || stat.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, stat.Mode(), err, want)
		}
	}
	r := &run{Options: Options{Owners: []perm.Rule[perm.Owner]{{Pattern: "a", Value: perm.Owner{UID: 1, GID: 2}}}}}
	if got, want := r.modeAndOwner("a", false, 0o644), (stage.Attr{Mode: 0o644, UID: 1, GID: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := r.modeAndOwner("b", false, 0o644), (stage.Attr{Mode: 0o644, UID: -1, GID: -1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestStdinIsReadOnce renders a template twice, because it needs the file that a variable names.
func TestStdinIsReadOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter22\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := Options{
		Sources: []Source{{"-", "-"}}, Stdin: strings.NewReader("{{ .Env.DB_PASSWORD }}"), Stdout: &out,
		Environ: []string{"DB_PASSWORD_FILE=" + file}, Options: engine.Options{Limits: engine.DefaultLimits},
	}
	if _, err := Run(t.Context(), o); err != nil || out.String() != "hunter22" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestLongSource pins the limit of what is read.
func TestLongSource(t *testing.T) {
	for size, want := range map[int64]string{maxSource: "", maxSource + 1: "stdin is longer than 64 MiB"} {
		it := &item{shown: "stdin"}
		text, err := it.read(io.LimitReader(zeros{}, size))
		if want == "" && (err != nil || int64(len(text)) != size) {
			t.Errorf("%d bytes of %d, %v", len(text), size, err)
		}
		if want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
	}
	broken := errors.New("broken")
	if _, err := (&item{shown: "stdin"}).read(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// TestSyntaxError pins that nothing is rendered if a template, or one that others may include, is wrong.
func TestSyntaxError(t *testing.T) {
	for _, name := range []string{"_part.tmpl", "b.tmpl", "c.j2", "{{ if }}.tmpl"} {
		got, _, err := rendered(t, Options{}, map[string]string{name: "{{ if }}", "a.tmpl": "x"})
		if err == nil || !strings.Contains(err.Error(), name) || len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestWrongResult pins that the error tells what is wrong, and no value of a Secret, however it was transformed.
func TestWrongResult(t *testing.T) {
	o := Options{Values: []values.Source{password}, Validate: true}
	for text, want := range map[string]string{
		`{"a": nope}`: "the result is invalid: line 1, column 8: neither true, false nor null",
		`{"{{ .Values.password | b64enc }}": 1, "{{ .Values.password | b64enc }}": 2}`: secret.Mark,
	} {
		for _, o := range []Options{o, {Validate: true}} {
			if strings.Contains(text, "password") && o.Values == nil {
				continue
			}
			_, _, err := rendered(t, o, map[string]string{"a.json.tmpl": text})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
}

// TestUnsteady pins that a function whose result differs at each run is reported once.
func TestUnsteady(t *testing.T) {
	var log bytes.Buffer
	o := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	if _, _, err := rendered(t, o, map[string]string{"a.tmpl": "{{ randAlphaNum 5 }}", "b.tmpl": "{{ randAlphaNum 5 }}", "c.tmpl": "{{ randAlphaNum 5 }}"}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "uses randAlphaNum"); n != 1 {
		t.Errorf("reported %d times: %s", n, &log)
	}
}

// TestCanceled pins that a run that is over renders nothing, and gives the reason.
func TestCanceled(t *testing.T) {
	over := errors.New("it is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := Options{Values: []values.Source{password}, Options: engine.Options{Limits: engine.DefaultLimits}}
	o.Resolve = func(context.Context, string) ([]string, error) { cancel(over); return []string{"10.1.2.3"}, nil }
	r, err := prepare(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if res, err := r.execute(ctx, GoTemplate, "a", `{{ resolve "x" }}`, nil); !errors.Is(err, over) || !strings.Contains(err.Error(), "render a:") {
		t.Errorf("%s, %v", res.content, err)
	}
	if err := r.render(ctx, &item{shown: "b"}); !errors.Is(err, over) || !strings.Contains(err.Error(), "render b:") {
		t.Error(err)
	}
	r.busy.Store("b", true)
	r.busy.Store("a", true)
	if got := r.atWork(); got != "render a, b" {
		t.Errorf("at work: %s", got)
	}
}

// TestStoppedInAStep pins that a run whose time is over does not wait for a step that goes on, and writes nothing.
func TestStoppedInAStep(t *testing.T) {
	over, ended := errors.New("it is over"), make(chan struct{})
	defer close(ended)
	ctx, cancel := context.WithCancelCause(t.Context())
	out := filepath.Join(t.TempDir(), "out")
	o := Options{Inline: []Inline{{out, `{{ resolve "x" }}`}}, Options: engine.Options{Limits: engine.DefaultLimits}}
	o.Resolve = func(context.Context, string) ([]string, error) {
		cancel(over)
		<-ended
		return nil, over
	}
	if _, err := Run(ctx, o); !errors.Is(err, over) || !strings.Contains(err.Error(), "stopped in the middle of a step") {
		t.Error(err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was written, or %v", err)
	}
}

// TestBounded pins that what is written in pieces is whole, and no longer than the limit.
func TestBounded(t *testing.T) {
	r := soak.Rand(t)
	text := make([]byte, 20<<10)
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	b := bounded{limit: int64(len(text))}
	if len(b.Bytes()) != 0 {
		t.Errorf("there is %q before anything is written", b.Bytes())
	}
	for rest := text; len(rest) > 0; {
		n, err := b.Write(rest[:min(1+r.IntN(1000), len(rest))])
		if err != nil || n == 0 {
			t.Fatalf("wrote %d bytes, %v", n, err)
		}
		rest = rest[n:]
		if got := b.Bytes(); !bytes.Equal(got, text[:len(text)-len(rest)]) {
			t.Fatalf("%d bytes differ from what was written", len(got))
		}
	}
	if n, err := b.WriteString("x"); n != 0 || !errors.Is(err, errTooLong) {
		t.Errorf("wrote %d bytes beyond the limit, %v", n, err)
	}
	if n := cap(b.pieces[0]); len(b.pieces) > 4 || n != firstPiece {
		t.Errorf("%d pieces, the first of which has room for %d bytes", len(b.pieces), n)
	}
}

// TestLongResults pins that results which do not stay in memory are the same as those that do, are left alone if they
// are right, and leave nothing behind if they fail.
func TestLongResults(t *testing.T) {
	const lines = 100_000
	line := strings.Repeat("x", 50)
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "%s%d\n", line, i)
	}
	templates := map[string]string{
		"go.tmpl":  "{{ range until 100000 }}" + line + "{{ . }}\n{{ end }}",
		"j.j2":     "{% for i in range(100000) %}" + line + "{{ i }}\n{% endfor %}",
		"small.j2": "{{ 1 }}",
	}
	out := filepath.Join(t.TempDir(), "out")
	o := Options{Sources: []Source{{tree(t, templates), out}}, Options: engine.Options{Limits: engine.DefaultLimits}}
	for _, wanted := range []int{3, 0} {
		if changes, err := Run(t.Context(), o); err != nil || len(changes) != wanted {
			t.Fatalf("got %v, %v", changes, err)
		}
	}
	for name, content := range map[string]string{"go": want.String(), "j": want.String(), "small": "1"} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != content {
			t.Errorf("%s: got %d bytes, %v", name, len(got), err)
		}
	}
	// The same in memory: with a secret, with a check, and with a difference.
	var diff strings.Builder
	for name, change := range map[string]func(*Options){
		"secret": func(o *Options) { o.Values = []values.Source{password} },
		"diff":   func(o *Options) { o.Diff = &diff },
		"dry":    func(o *Options) { o.DryRun = true },
	} {
		o := o
		change(&o)
		if changes, err := Run(t.Context(), o); err != nil || len(changes) != 0 {
			t.Errorf("%s: got %v, %v", name, changes, err)
		}
	}
	for text, reason := range map[string]string{
		"{{ range until 100000 }}" + line + "\n{{ end }}{{ fail \"late\" }}":                           "late",
		"{{ range until 100000 }}" + line + "\n{{ end }}{{ .Values.none }}":                            ".Values.none is missing",
		"{{ range until 1000 }}" + strings.Repeat(line, 20) + strings.Repeat(line, 20) + "\n{{ end }}": "longer than",
	} {
		o := o
		o.Limits.Bytes = 8 << 20
		if reason == "longer than" {
			o.Limits.Bytes = 3 << 19
		}
		o.Sources = []Source{{tree(t, map[string]string{"go.tmpl": text, "new.tmpl": "x"}), out}}
		if changes, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), reason) && reason != "longer than" {
			t.Errorf("%s: got %v, %v", reason, changes, err)
		}
		if entries, err := os.ReadDir(out); err != nil || len(entries) != 3 {
			t.Errorf("%s: there is %v, %v", reason, entries, err)
		}
	}
}
