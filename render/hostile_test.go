package render

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/render/engine"
	"initbox/render/values"
)

// TestPatience pins that what never ends is left behind when the context ends.
func TestPatience(t *testing.T) {
	cause := errors.New("the pod is going")
	ctx, cancel := context.WithCancelCause(context.Background())
	forever := make(chan struct{})
	defer close(forever)
	err := patiently(ctx, func() string { return "think" }, func() error {
		cancel(cause)
		<-forever
		return nil
	})
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "think") {
		t.Errorf("got %v", err)
	}
}

// TestTransformedSecretsInErrors pins that an error does not contain a secret in a
// form that cannot be foreseen, and that it still contains the rest.
func TestTransformedSecretsInErrors(t *testing.T) {
	o := Options{Values: []values.Source{{Kind: values.Set, Text: "password=Hunter2Secret", Secret: true}}}
	for text, want := range map[string]string{
		`{{ fail (print "wrong: " (upper .Values.password) " it is") }}`:      "1:4: wrong: […] it is",
		`{{ fail (trunc 6 .Values.password) }}`:                               "1:4: fail: […]",
		`{{ index .Values (upper .Values.password) }}`:                        "1:4: […] is missing",
		`{{ required (upper .Values.password) .Values.nope }}`:                ".Values.nope is missing: […]",
		`{{ include (upper .Values.password) . }}`:                            "there is no template […]",
		`{{ tpl (printf "{{ .Values.%s }}" (upper .Values.password)) . }}`:    "[…] is missing",
		`{{ mustRegexMatch (print "[" (upper .Values.password)) "x" }}`:       "error parsing regexp: missing closing ]: […]",
		`{{ fail (splitList "" .Values.password | reverse | join "") }}`:      "1:4: fail: […]",
		`{{ if hasPrefix "H" .Values.password }}{{ fail "secret" }}{{ end }}`: "1:43: fail: […]",
		`{{ .Values.password.x }}`:                                            "there is no x in a text",
	} {
		_, _, err := rendered(t, o, map[string]string{"a.tmpl": text})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
			continue
		}
		said := strings.ToLower(err.Error() + err.(interface{ Hint() string }).Hint())
		if strings.Contains(said, "hunter") || strings.Contains(said, "terces") {
			t.Errorf("%s: %s", text, said)
		}
	}
}

// TestSecretFiles pins that what .Files reads, and partials, can be secret.
func TestSecretFiles(t *testing.T) {
	files := tree(t, map[string]string{"secret": "hunter22", "public": "x", "p.tpl": `{{ define "p" }}hunter22{{ end }}{{ define "q" }}x{{ end }}`})
	for _, name := range []string{"secret", "p.tpl"} {
		if err := os.Chmod(filepath.Join(files, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const private, public = "rw------- ", "rw-r--r-- "
	for text, want := range map[string]string{
		`{{ .Files.Get "secret" }}`:                              private,
		`{{ .Files.Get "secret" | b64enc }}`:                     private,
		`{{ (.Files.Glob "s*").AsConfig }}`:                      private,
		`{{ .Files.Get "public" }}`:                              public,
		`{{ range $k, $v := .Files.Glob "*" }}{{ $k }}{{ end }}`: public,
	} {
		if got, _, err := rendered(t, Options{Files: files}, map[string]string{"a.tmpl": text}); err != nil || !strings.HasPrefix(got["a"], want) {
			t.Errorf("%s: %q, %v, want %s", text, got["a"], err, want)
		}
	}
	if _, _, err := rendered(t, Options{Files: files}, map[string]string{"a.tmpl": `{{ fail (.Files.Get "secret") }}`}); err == nil || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("fail: %v", err)
	}
	partials := Options{Partials: []string{filepath.Join(files, "p.tpl")}}
	if got, _, err := rendered(t, partials, map[string]string{"a.tmpl": `{{ include "p" . }}`, "b.tmpl": "x"}); err != nil || got["a"] != private+"hunter22" || got["b"] != public+"x" {
		t.Errorf("partial: %q, %v", got, err)
	}
}

// TestFilesOfAVolume pins that .Files reads one version of a mounted ConfigMap,
// and not what the kubelet keeps beside it.
func TestFilesOfAVolume(t *testing.T) {
	volume := tree(t, map[string]string{"..2026/a": "1", "..2026/b": "2"})
	for link, to := range map[string]string{"..data": "..2026", "a": "..data/a", "b": "..data/b"} {
		if err := os.Symlink(to, filepath.Join(volume, link)); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := rendered(t, Options{Files: volume}, map[string]string{"a.tmpl": `{{ .Files.AsConfig }}`})
	if want := "rw-r--r-- a: \"1\"\nb: \"2\""; err != nil || got["a"] != want {
		t.Errorf("%q, %v, want %q", got["a"], err, want)
	}
}

// TestOneDirectoryByTwoNames pins that two names of a directory are one destination:
// nothing is written twice, and with Prune none removes what the other put.
func TestOneDirectoryByTwoNames(t *testing.T) {
	src, dir := tree(t, map[string]string{"a": "1", "b": "2"}), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	run := func(first, second string) error {
		o := Options{Prune: true, Options: engine.Options{Limits: engine.DefaultLimits}, Sources: []Source{
			{filepath.Join(src, "a"), filepath.Join(dir, first)}, {filepath.Join(src, "b"), filepath.Join(dir, second)},
		}}
		_, err := Run(context.Background(), o)
		return err
	}
	if err := run("real/x", "link/x"); err == nil || !strings.Contains(err.Error(), "both be written") {
		t.Errorf("written twice: %v", err)
	}
	if err := run("real/x", "link/y"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"x", "y"} {
		if _, err := os.Stat(filepath.Join(dir, "real", name)); err != nil {
			t.Error(err)
		}
	}
}

// TestDiffHidesSecretsThatStay pins that a secret of today is hidden in what was
// there before, also if its file was open to all and its template has it no more.
func TestDiffHidesSecretsThatStay(t *testing.T) {
	dst := tree(t, map[string]string{"a": "password hunter22\nhost db\n"})
	var out bytes.Buffer
	o := Options{
		Diff: &out, DryRun: true, Options: engine.Options{Limits: engine.DefaultLimits},
		Values:  []values.Source{{Kind: values.Set, Text: "password=hunter22", Secret: true}},
		Sources: []Source{{tree(t, map[string]string{"a.tmpl": "host db\n"}), dst}},
	}
	if _, err := Run(context.Background(), o); err != nil || strings.Contains(out.String(), "hunter22") || !strings.Contains(out.String(), "-password […]") {
		t.Errorf("%v:\n%s", err, &out)
	}
}
