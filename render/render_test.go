package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"initbox/render/engine"
	"initbox/render/values"
	"initbox/test/servers"
)

func TestParseSource(t *testing.T) {
	for text, want := range map[string]Source{"a:b": {"a", "b"}, "a": {"a", "-"}, "-": {"-", "-"}, "-:-": {"-", "-"}, "/a/b:/c/": {"/a/b", "/c/"}} {
		if got, err := ParseSource(text); err != nil || got != want {
			t.Errorf("ParseSource(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "a:", ":b", "a:b:c"} {
		if got, err := ParseSource(text); err == nil {
			t.Errorf("ParseSource(%q) = %v, want an error", text, got)
		}
	}
}

func TestCut(t *testing.T) {
	o := Options{Suffixes: map[string]string{".template": Envsubst, ".sh.template": Jinja, "-in": GoTemplate}}
	for name, want := range map[string][2]string{
		"a.conf.tmpl": {"a.conf", GoTemplate}, "a.tpl": {"a", GoTemplate}, "a.gotmpl": {"a", GoTemplate}, "a.yaml.j2": {"a.yaml", Jinja},
		"a.conf.template": {"a.conf", Envsubst}, "a.sh.template": {"a", Jinja}, ".template": {".template", ""}, "a-in": {"a", GoTemplate},
		"a.conf": {"a.conf", ""}, ".tmpl": {".tmpl", ""}, ".j2": {".j2", ""}, "a.tmpl.bak": {"a.tmpl.bak", ""},
	} {
		if result, language := o.cut(name); result != want[0] || language != want[1] {
			t.Errorf("cut(%q) = %q, %q, want %q", name, result, language, want)
		}
	}
}

func TestParseSuffix(t *testing.T) {
	for text, want := range map[string][2]string{".template": {".template", GoTemplate}, ".x.jinja2=jinja": {".x.jinja2", Jinja}, "-in=envsubst": {"-in", Envsubst}} {
		if suffix, language, err := ParseSuffix(text); suffix != want[0] || language != want[1] || err != nil {
			t.Errorf("ParseSuffix(%q) = %q, %q, %v, want %q", text, suffix, language, err, want)
		}
	}
	for _, text := range []string{"", ".", "=jinja", ".x=", ".x=jinja2", "a/b"} {
		if suffix, language, err := ParseSuffix(text); err == nil {
			t.Errorf("ParseSuffix(%q) = %q, %q, want an error", text, suffix, language)
		}
	}
}

// tree writes files, and returns their directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rendered runs o with the templates given, and returns what is there then.
func rendered(t *testing.T, o Options, templates map[string]string) (map[string]string, []Change, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	o.Sources = []Source{{tree(t, templates), out}}
	o.Limits = engine.DefaultLimits
	changes, err := Run(context.Background(), o)
	got := map[string]string{}
	filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := os.ReadFile(name)
			rel, _ := filepath.Rel(out, name)
			stat, _ := d.Info()
			got[rel] = stat.Mode().String()[1:] + " " + string(text)
		}
		return nil
	})
	return got, changes, err
}

func set(pairs ...string) (sources []values.Source) {
	for _, pair := range pairs {
		sources = append(sources, values.Source{Kind: values.Set, Text: pair})
	}
	return sources
}

// TestSecretIsWhatDependsOnOne pins that a result is secret if it depends on a
// secret, in whatever form, and not if it only could.
func TestSecretIsWhatDependsOnOne(t *testing.T) {
	o := Options{Values: append(set("host=db"), values.Source{Kind: values.Set, Text: "password=hunter22", Secret: true})}
	const private, public = "rw------- ", "rw-r--r-- "
	for text, want := range map[string]string{
		"{{ .Values.password }}":                                    private,
		"{{ .Values.password | b64enc | b64enc }}":                  private,
		"{{ .Values.password | sha256sum }}":                        private,
		"{{ toYaml .Values }}":                                      private,
		"{{ len .Values.password }}":                                public,
		"{{ if .Values.password }}set{{ end }}":                     public,
		"{{ if eq .Values.password \"hunter22\" }}guessed{{ end }}": private,
		"{{ .Values.host }}":                                        public,
		"{{ $x := .Values.password }}{{ .Values.host }}":            public,
		"{{ if ne (upper .Values.password) \"HUNTER22\" }}{{ fail \"another one\" }}{{ end }}": private,
	} {
		got, changes, err := rendered(t, o, map[string]string{"a.tmpl": text})
		if err != nil || !strings.HasPrefix(got["a"], want) {
			t.Errorf("%s: %q, %v, want %s", text, got["a"], err, want)
		}
		if len(changes) != 1 || changes[0].Secret != (want == private) {
			t.Errorf("%s: %+v", text, changes)
		}
	}
}

// TestErrorsHideSecrets pins that nothing that fails tells a secret.
func TestErrorsHideSecrets(t *testing.T) {
	o := Options{Values: []values.Source{{Kind: values.Set, Text: "password=hunter22,n=77777777", Secret: true}}, Validate: true}
	for name, text := range map[string]string{
		"a.tmpl":                      "{{ fail .Values.password }}",
		"b.tmpl":                      "{{ fail (b64enc .Values.password) }}",
		"c.tmpl":                      "{{ index .Values .Values.password }}",
		"d.tmpl":                      "{{ atoi .Values.password | div 1 }}{{ fromJson .Values.password | toJson | fail }}",
		"e.json.tmpl":                 "{\"a\": {{ .Values.password }}}",
		"f.yaml.tmpl":                 "a: [{{ .Values.password }}",
		"g.toml.tmpl":                 "{{ .Values.password }}",
		"h.xml.tmpl":                  "<{{ .Values.password }}>",
		"i.j2":                        "{{ password.nothing.there }}",
		"{{ .Values.password }}.tmpl": "x",
		"k.tmpl":                      "{{ .Values.n | int64 | printf \"%d\" | fail }}",
	} {
		_, _, err := rendered(t, o, map[string]string{name: text})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		said := err.Error()
		var h interface{ Hint() string }
		if errors.As(err, &h) {
			said += h.Hint()
		}
		for _, secret := range []string{"hunter22", "aHVudGVyMjI", "77777777"} {
			if strings.Contains(said, secret) {
				t.Errorf("%s: %s", name, said)
			}
		}
	}
}

// TestNothingIsWritten pins that one wrong file among many keeps all others from being written.
func TestNothingIsWritten(t *testing.T) {
	templates := map[string]string{"z.tmpl": "{{ .Values.missing }}"}
	for i := range 50 {
		templates[strconv.Itoa(i)+".tmpl"] = "x"
	}
	got, _, err := rendered(t, Options{}, templates)
	if err == nil || len(got) != 0 {
		t.Errorf("%v, and there is %v", err, got)
	}
}

// TestReplacedVolume replaces a mounted ConfigMap in the middle of a run: what is written is of one of its versions.
func TestReplacedVolume(t *testing.T) {
	servers.Slow(t)
	files := map[string]string{"..1/-first.tmpl": `{{ resolve "x" }}`}
	for i := range 500 {
		files[fmt.Sprintf("..1/%d.tmpl", i)] = "1"
		files[fmt.Sprintf("..2/%d.tmpl", i)] = "2"
	}
	dir := tree(t, files)
	if err := os.Symlink("..1", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	replace := func(context.Context, string) ([]string, error) {
		os.Symlink("..2", filepath.Join(dir, "..new"))
		os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))
		os.RemoveAll(filepath.Join(dir, "..1"))
		return []string{"1"}, nil
	}
	out := filepath.Join(t.TempDir(), "out")
	o := Options{Sources: []Source{{dir, out}}, Resolve: replace}
	o.Limits = engine.DefaultLimits
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	want, _ := os.ReadFile(filepath.Join(out, "0"))
	for i := range 500 {
		if got, err := os.ReadFile(filepath.Join(out, strconv.Itoa(i))); err != nil || string(got) != string(want) {
			t.Fatalf("%d is %q, and 0 is %q: %v", i, got, want, err)
		}
	}
	t.Logf("version %s was written", want)
}

func TestTooLong(t *testing.T) {
	dir := tree(t, map[string]string{"a.tmpl": `{{ range 100 }}0123456789{{ end }}`, "a.j2": "{% for i in range(100) %}0123456789{% endfor %}", "a.env": "$LONG"})
	for name, language := range map[string]string{"a.tmpl": "", "a.j2": "", "a.env": Envsubst} {
		o := Options{Sources: []Source{{filepath.Join(dir, name), filepath.Join(dir, "out")}}, Engine: language, Environ: []string{"LONG=" + strings.Repeat("x", 1000)}}
		o.Limits = engine.DefaultLimits
		o.Limits.Bytes = 900
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestUnified(t *testing.T) {
	for _, c := range []struct {
		old    string
		res    result
		hidden bool // what was there was private
		want   string
	}{
		{"a\nb\n", result{content: []byte("a\nc\n")}, false, " a\n-b\n+c\n"},
		{"a\nold\n", result{content: []byte("a\nnew\n"), secret: true, shadow: []byte("a\nxxx\n")}, false, " a\n-" + hidden + "\n+" + hidden + "\n"},
		{"a\nold\n", result{content: []byte("a\nnew\n"), secret: true}, false, " " + hidden + "\n-" + hidden + "\n+" + hidden + "\n"},
		{"old\n", result{content: []byte("new\n")}, true, "-" + hidden + "\n+new\n"},
		{"\x00", result{content: []byte("new\n")}, false, "Binary files f differ\n"},
	} {
		got := unified("f", true, []byte(c.old), c.res, c.hidden)
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%q to %q:\n%swant the end\n%s", c.old, c.res.content, got, c.want)
		}
	}
}

func TestStdinAndStdout(t *testing.T) {
	var out bytes.Buffer
	o := Options{Sources: []Source{{"-", "-"}}, Stdin: strings.NewReader("{{ .Values.a }}"), Stdout: &out, Values: set("a=1")}
	o.Limits = engine.DefaultLimits
	if _, err := Run(context.Background(), o); err != nil || out.String() != "1" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
