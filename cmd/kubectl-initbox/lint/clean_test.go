package lint

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

const root = "../../.."

// TestClean pins that there is no finding in the manifests of this project: people copy them.
func TestClean(t *testing.T) {
	checked := 0
	for _, dir := range []string{"examples", "deploy", "test/chart/testdata/golden"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			slash := filepath.ToSlash(name)
			if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" || strings.Contains(slash, "/chart/templates/") || strings.Contains(slash, "/compose/") {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			objects, err := manifest.Read(slash, bytes.NewReader(text))
			if err != nil {
				t.Logf("not read: %v", err)
				return nil
			}
			checked += Containers(objects, Options{})
			for _, f := range Check(objects, Options{}) {
				if strings.HasSuffix(f.File, "golden/wait.yaml") && f.Rule == "merge-waits" {
					continue // its step has merge: false, to test that
				}
				t.Error(f)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if checked < 80 {
		t.Errorf("only %d containers were checked", checked)
	}
}

// TestPages pins that there is no finding in the YAML blocks of the pages.
func TestPages(t *testing.T) {
	block := regexp.MustCompile("(?ms)^( *)```ya?ml\n(.*?)^ *```")
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob(filepath.Join(root, "examples/*/README.md"))
	pages = append(append(pages, more...), filepath.Join(root, "README.md"))
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllSubmatchIndex(text, -1) {
			line := bytes.Count(text[:m[4]], []byte("\n"))
			indent := strings.Repeat(" ", m[3]-m[2])
			var lines []string
			for _, l := range strings.Split(string(text[m[4]:m[5]]), "\n") {
				lines = append(lines, strings.TrimPrefix(l, indent))
			}
			objects, err := manifest.Read(filepath.ToSlash(page), strings.NewReader(strings.Repeat("#\n", line)+whole(strings.Join(lines, "\n"))))
			if err != nil {
				continue // an excerpt
			}
			checked += Containers(objects, Options{})
			for _, f := range Check(objects, Options{}) {
				t.Error(f)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d containers were checked", checked)
	}
}

// whole makes an excerpt of a Pod's specification a Pod.
func whole(text string) string {
	if strings.Contains(text, "apiVersion:") {
		return text
	}

	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "spec:"):
			return "apiVersion: v1\nkind: Pod\nmetadata: {name: excerpt}\n" + text
		case strings.HasPrefix(line, "  initContainers:"), strings.HasPrefix(line, "  containers:"):
			return "apiVersion: v1\nkind: Pod\nmetadata: {name: excerpt}\nspec:\n" + text
		case strings.HasPrefix(line, "initContainers:"), strings.HasPrefix(line, "containers:"):
			return "apiVersion: v1\nkind: Pod\nmetadata: {name: excerpt}\nspec:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
		}
	}
	return text
}
