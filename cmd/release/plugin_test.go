package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// testPlugin checks the archives of the kubectl plugin and the manifest with which Krew installs them, as Krew does.
func testPlugin(t *testing.T, dist string, platforms ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "initbox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m krewManifest
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "initbox" || m.Spec.Version != "v1.2.3-test" {
		t.Errorf("the manifest:\n%s", text)
	}
	if s := m.Spec.ShortDescription; s == "" || len(s) > 50 || strings.ContainsAny(s, "\n") {
		t.Errorf("short description: %q", s)
	}
	var found []string
	for _, p := range m.Spec.Platforms {
		found = append(found, p.Selector.MatchLabels["os"]+"/"+p.Selector.MatchLabels["arch"])
		base, archive, _ := strings.Cut(p.URI, "/v1.2.3-test/")
		if base != "https://example.com/initbox/releases/download" {
			t.Errorf("URI: %s", p.URI)
		}
		sum, err := digest(filepath.Join(dist, archive))
		if err != nil || sum != p.SHA256 || !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(sum) {
			t.Errorf("%s: %v, sha256 %s, in the manifest %s", archive, err, sum, p.SHA256)
		}
		files := filesOf(t, filepath.Join(dist, archive))
		installed := map[string]bool{}
		for _, f := range p.Files {
			if files[f.From] == "" || f.To != "." {
				t.Errorf("%s has no %s", archive, f.From)
			}
			installed[filepath.Base(f.From)] = true
		}
		if !installed[p.Bin] || !installed["LICENSE"] {
			t.Errorf("%s: bin %s, files %v", archive, p.Bin, p.Files)
		}
		if _, err := os.Stat(filepath.Join(dist, strings.TrimSuffix(archive, ".tar.gz")+".cdx.json")); err != nil {
			t.Error(err)
		}
	}
	if got, want := strings.Join(found, " "), strings.Join(platforms, " "); got != want {
		t.Errorf("platforms %s, want %s", got, want)
	}
}

// testPluginRuns runs the plugin in an archive, with its name as kubectl gives it.
func testPluginRuns(t *testing.T, archive string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, pluginName), "version").CombinedOutput()
	if err != nil || string(out) != "kubectl initbox version 1.2.3-test\n" {
		t.Errorf("%s version: %v: %s", pluginName, err, out)
	}
	for _, name := range []string{"LICENSE", "completions/kubectl-initbox.bash", "completions/_kubectl-initbox", "completions/kubectl-initbox.fish"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s in the archive: %v", name, err)
		}
	}
}
