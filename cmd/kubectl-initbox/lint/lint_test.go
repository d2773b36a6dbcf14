package lint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

// The tests set the environment of the process, as command.Inspect does, so they do not run in parallel.

func read(t *testing.T, name string) []*manifest.Object {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Read(name, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return names
}

var marked = regexp.MustCompile(`# finds ((?:[a-z0-9-]+ ?)+)$`)

// TestMistakes finds each mistake in testdata/mistakes on the line with its comment, and nothing else, and none in its
// correction in testdata/right. Each rule has both.
func TestMistakes(t *testing.T) {
	fired := map[string]bool{"ignore": true} // see TestSilence
	for _, name := range files(t, "testdata/mistakes/*.yaml") {
		text, _ := os.ReadFile(name)
		var wanted, got []string
		for i, line := range strings.Split(string(text), "\n") {
			if m := marked.FindStringSubmatch(line); m != nil {
				for rule := range strings.FieldsSeq(m[1]) {
					wanted = append(wanted, fmt.Sprintf("%d %s", i+1, rule))
				}
			}
		}
		findings := Check(read(t, name), Options{})
		for _, f := range findings {
			got = append(got, fmt.Sprintf("%d %s", f.Line, f.Rule))
			fired[f.Rule] = true
		}
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: found %q, want %q\n%v", name, got, wanted, findings)
		}
	}
	for _, r := range Rules() {
		if !fired[r.ID] {
			t.Errorf("no mistake in testdata/mistakes fires %s", r.ID)
		}
	}
	for _, name := range files(t, "testdata/right/*.yaml") {
		for _, f := range Check(read(t, name), Options{}) {
			t.Error("a false alarm: " + f.String())
		}
	}
}
