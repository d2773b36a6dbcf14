package lint

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

// hostile are manifests that no one writes by mistake.
var hostile = []string{
	"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: initbox, args: []}]}",
	"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: initbox, args: [null, 1, {a: b}, [c]]}]}",
	"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: initbox, command: [''], args: ['']}, null, 1]}",
	"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: initbox, args: [wait-for-service, --, '']}]}",
	"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: initbox, args: [sleep, '1', --, --]}]}",
	"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: initbox, args: [\"\\x1b[31m\", \"$($(A))\", \"${env:\"], env: [{name: A, value: $(A)}, {name: '=', value: b}]}]}",
	"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: initbox, volumeMounts: [{name: a, mountPath: ''}], args: [copy, ':', '/a:/b']}]}",
	"apiVersion: v1\nkind: Pod\nmetadata: {annotations: {initbox.dev/ignore-: a, initbox.dev/ignore-no-shell: [b]}}\nspec: {containers: [{image: initbox}]} # initbox:ignore",
	"apiVersion: v1\nkind: Pod\nspec: {containers: [{image: initbox, args: [prepare, '/a{1..9999999}'], resources: {limits: {memory: -1e99}}}]}",
	"apiVersion: v1\nkind: Pod\nspec: {initContainers: [{image: initbox, args: &a [sleep, '1'], restartPolicy: Always, startupProbe: {httpGet: {port: {}}}}, {image: initbox, args: *a}]}",
}

func FuzzCheck(f *testing.F) {
	for _, pattern := range []string{"testdata/mistakes", "testdata/right"} {
		entries, err := os.ReadDir(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(pattern + "/" + e.Name())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := manifest.Read("a.yaml", strings.NewReader(text))
		if err != nil {
			return
		}
		before := os.Getenv("PATH")
		findings := Check(objects, Options{})
		if os.Getenv("PATH") != before {
			t.Fatal("the environment has changed")
		}
		lines := strings.Count(text, "\n") + 1
		for _, finding := range findings {
			if finding.Line < 1 || finding.Line > lines || finding.Column < 1 || ruleByID(finding.Rule) == nil || finding.Message == "" {
				t.Errorf("%+v", finding)
			}
		}
		for _, format := range Formats {
			var b bytes.Buffer
			if err := Write(&b, format, findings); err != nil {
				t.Error(err)
			}
			if strings.ContainsRune(b.String(), '\x1b') && format == "text" {
				t.Errorf("%s has an escape sequence: %q", format, b.String())
			}
		}
	})
}
