package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/lint"
	"initbox/cmd/kubectl-initbox/manifest"
)

const root = "../.."

// TestNoFalseAlarms pins that lint finds nothing in the manifests that users copy, whose containers all work: test/e2e
// runs them. Each directory is what one applies.
func TestNoFalseAlarms(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", root, "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "examples/*.yaml", "deploy/*.yaml", "test/chart/testdata/golden/*.yaml").Output()
	if err != nil {
		t.Fatal(err)
	}
	byDir := map[string][]string{}
	for _, file := range strings.Fields(string(out)) {
		if !strings.Contains(file, "/templates/") { // of a chart, which are not YAML
			dir := filepath.Dir(file)
			byDir[dir] = append(byDir[dir], filepath.Join(root, file))
		}
	}
	containers := 0
	for dir, files := range byDir {
		objects, err := manifest.ReadFiles(files, nil)
		if err != nil {
			t.Error(err)
		}
		containers += lint.Containers(objects, lint.Options{})
		for _, f := range lint.Check(objects, lint.Options{}) {
			// The chart's own tests have containers apart that could be one.
			if f.Severity == lint.Error || !strings.HasPrefix(dir, "test/chart") {
				t.Errorf("%s:%d:%d: %s: %s [%s]", f.File, f.Line, f.Column, f.Container, f.Message, f.Rule)
			}
		}
	}
	if containers < 30 {
		t.Errorf("only %d containers of initbox in %d directories", containers, len(byDir))
	}
}
