package kustomize_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"initbox/test/servers"
)

// TestCharts pins that the patches for each chart replace the init containers of that chart and of no other, that what
// they do not name stays, and that the program takes the command lines.
func TestCharts(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	program, err := servers.Initbox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := os.ReadFile("testdata/rendered.yaml")
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]string{} // by workload and container: the chart
	charts := directories(t, filepath.Join(root, "examples/charts"))
	for _, chart := range charts {
		dir := copyWith(t, filepath.Join(root, "examples/charts", chart), "rendered.yaml", rendered)
		for _, o := range kustomize(t, dir) {
			pod := o.template()
			for _, c := range pod.Spec.InitContainers {
				where := o.Metadata.Name + "/" + c.Name
				if c.Image == "old" || slices.Contains(c.Command, "old") || c.Name == "copyutil" && len(c.Command) == 0 {
					continue // another chart's
				}
				if other := replaced[where]; other != "" {
					t.Errorf("%s and %s both replace %s", chart, other, where)
				}
				replaced[where] = chart
				if slices.Contains(c.Args, "old") {
					t.Errorf("%s: %s still has the original's arguments: %q", chart, where, c.Args)
				}
				if len(c.Mounts) == 0 {
					t.Errorf("%s: %s has lost its volume mounts", chart, where)
				}
				if len(c.Command) > 0 && path.Base(c.Command[0]) != "initbox" || len(c.Command) == 0 && !strings.HasPrefix(c.Image, "registry.example/initbox:") {
					t.Errorf("%s: %s does not run initbox, but %q in %s", chart, where, c.Command, c.Image)
				}
				check(t, program, chart, pod, c)
			}
		}
	}
	for _, o := range parse(t, string(rendered)) {
		for _, c := range o.pod().InitContainers {
			if where := o.Metadata.Name + "/" + c.Name; replaced[where] == "" {
				t.Errorf("no patch replaces %s", where)
			}
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "examples/charts/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, chart := range charts {
		if !strings.Contains(string(readme), "]("+chart+"/) |") {
			t.Errorf("README.md has no row for %s", chart)
		}
	}
}

// directories returns the names of the directories in dir.
func directories(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// copyWith returns a copy of dir that has one more file.
func copyWith(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}
