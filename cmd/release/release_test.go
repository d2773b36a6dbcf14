package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
)

const root = "../.."

// repository makes a repository with the files at dir, in one commit with a fixed time.
func repository(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	servers.RunGit(t, dir, "init", "--quiet")
	servers.RunGit(t, dir, "add", "--all", "--force")
	servers.RunGit(t, dir, "commit", "--quiet", "--message", "x")
}

// A release is refused before anything is written, with a reason and a fix.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir, map[string]string{"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.0.0] - 2026-01-01\n", "a": "1"})
	for _, c := range []struct {
		name, version, want string
		before              func()
	}{
		{"a leading v", "v1.0.0", "without a leading v", nil},
		{"no version", "f59e177-dirty", "not a version", nil},
		{"a path", "../1.0.0", "not a version", nil},
		{"metadata that tags of images cannot have", "1.0.0+x", "not a version", nil},
		{"no changes documented", "1.2.0", "CHANGELOG.md has no section ## [1.2.0]", nil},
		{"another commit's tag", "1.0.0", "the tag is another commit", func() {
			servers.RunGit(t, dir, "tag", "v1.0.0")
			servers.RunGit(t, dir, "commit", "--quiet", "--allow-empty", "--message", "y")
		}},
		{"a changed file", "1.1.0-rc.1", "not clean", func() { os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o644) }},
		{"a new file", "1.1.0-rc.1", "?? b", func() {
			servers.RunGit(t, dir, "checkout", "--quiet", "a")
			os.WriteFile(filepath.Join(dir, "b"), nil, 0o644)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.before != nil {
				c.before()
			}
			dist := filepath.Join(t.TempDir(), "dist")
			var out bytes.Buffer
			err := run([]string{"-C", dir, "-o", dist, "-version", c.version, "--", "false"}, &out, &out)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "\nhint: ") {
				t.Errorf("got %v, want %q and a hint", err, c.want)
			}
			if _, err := os.Stat(dist); !errors.Is(err, os.ErrNotExist) {
				t.Error("something was written")
			}
		})
	}
}

// What make release makes has the same bytes on two paths, can be verified, and works.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program twice")
	}
	platform := "linux/" + runtime.GOARCH
	var sums []string
	var dist string
	for _, name := range []string{"one", "another/path"} {
		dir := filepath.Join(t.TempDir(), name)
		copyTree(t, dir)
		cmd := exec.Command("make", "--silent", "release", "VERSION=1.2.3-test", "PLATFORMS="+platform+",darwin/arm64", "SOURCE=https://example.com/initbox")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "files made") {
			t.Fatalf("make release: %v\n%s", err, out)
		}
		dist = filepath.Join(dir, "dist/1.2.3-test")
		text, err := os.ReadFile(filepath.Join(dist, checksums))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(text))
		later := time.Now().Add(time.Hour)
		os.Chtimes(filepath.Join(dir, "charts/initbox/Chart.yaml"), later, later)
	}
	if sums[0] != sums[1] {
		t.Fatalf("two builds differ:\n%s\n%s", sums[0], sums[1])
	}
	check := exec.Command("sha256sum", "--check", "--strict", checksums)
	check.Dir = dist
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v: %s", err, out)
	}
	testImages(t, filepath.Join(dist, "initbox-1.2.3-test-images.tar"), "1.2.3-test")
	testArchive(t, filepath.Join(dist, "initbox-1.2.3-test-linux-"+runtime.GOARCH+".tar.gz"))
	testChartArchive(t, filepath.Join(dist, "initbox-1.2.3-test.tgz"), "1.2.3-test")
	testPlugin(t, dist, platform, "darwin/arm64")
	testPluginRuns(t, filepath.Join(dist, "kubectl-initbox-1.2.3-test-linux-"+runtime.GOARCH+".tar.gz"))
}

// copyTree makes a repository of the files that git has or would have in this one, as they are now.
func copyTree(t *testing.T, dir string) {
	t.Helper()
	list, err := git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Split(strings.TrimRight(list, "\x00"), "\x00") {
		from, to := filepath.Join(root, name), filepath.Join(dir, name)
		info, err := os.Lstat(from)
		if errors.Is(err, os.ErrNotExist) { // removed, and git does not know it yet
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil && info.Mode()&os.ModeSymlink != 0 {
			var target string
			if target, err = os.Readlink(from); err == nil {
				err = os.Symlink(target, to)
			}
		} else if err == nil {
			var content []byte
			if content, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, content, info.Mode().Perm())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	repository(t, dir, nil)
}

// testImages requires that the images have the version, as the chart does.
func testImages(t *testing.T, archive, version string) {
	t.Helper()
	index, err := exec.Command("tar", "-xOf", archive, "index.json").CombinedOutput()
	for _, name := range []string{"initbox", "initbox-wait-for-dns", "initbox-install"} {
		if want := `"org.opencontainers.image.ref.name":"` + name + ":" + version + `"`; err != nil || !strings.Contains(string(index), want) {
			t.Errorf("the images: %v, without %s:\n%s", err, want, index)
		}
	}
}

// testArchive runs the program in an archive.
func testArchive(t *testing.T, archive string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "initbox"), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1.2.3-test") {
		t.Errorf("initbox --version: %v: %s", err, out)
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "completions/initbox.bash", "completions/_initbox", "completions/initbox.fish"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s in the archive: %v", name, err)
		} else if !info.ModTime().Equal(time.Unix(1700000000, 0)) {
			t.Errorf("%s has the time %v, not the commit's", name, info.ModTime())
		}
	}
}

// testChartArchive compares a packed chart with what the real helm packs, and has helm read it.
func testChartArchive(t *testing.T, archive, version string) {
	t.Helper()
	helms, err := exec.Command(root + "/test/chart/build.sh").Output()
	if err != nil {
		t.Fatalf("test/chart/build.sh: %v", err)
	}
	for _, name := range []string{"helm3", "helm4"} {
		helm := filepath.Join(strings.TrimSpace(string(helms)), name)
		out, err := exec.Command(helm, "show", "chart", archive).CombinedOutput()
		for _, line := range []string{"name: initbox\n", "version: " + version + "\n", "appVersion: " + version + "\n"} {
			if err != nil || !strings.Contains("\n"+string(out), "\n"+line) {
				t.Errorf("%s show chart: %v, without %q:\n%s", name, err, line, out)
			}
		}
		if out, err := exec.Command(helm, "lint", archive).CombinedOutput(); err != nil {
			t.Errorf("%s lint: %v\n%s", name, err, out)
		}
		packed := t.TempDir()
		if out, err := exec.Command(helm, "package", root+"/charts/initbox", "--version", version, "--app-version", version, "-d", packed).CombinedOutput(); err != nil {
			t.Fatalf("%s package: %v\n%s", name, err, out)
		}
		ours, theirs := filesOf(t, archive), filesOf(t, filepath.Join(packed, "initbox-"+version+".tgz"))
		if a, b := slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(theirs)); !slices.Equal(a, b) {
			t.Errorf("the chart has %q, %s packs %q", a, name, b)
		}
		for name, content := range ours {
			if strings.Contains(content, developing) {
				t.Errorf("%s still has the version %s", name, developing)
			}
		}
	}
}

// filesOf returns the files of a compressed tar.
func filesOf(t *testing.T, archive string) map[string]string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	compressed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(r)
		files[header.Name] = string(content)
	}
}

// The chart's files have no times, owners or versions of their own.
func TestChart(t *testing.T) {
	files := map[string]string{
		"chart/Chart.yaml":      "apiVersion: v2\nname: small\nversion: 0.0.0-devel\nappVersion: \"0.0.0-devel\"\n",
		"chart/values.yaml":     "a: 1\n",
		"chart/templates/x.tpl": `{{ define "small.version" }}0.0.0-devel{{ end }}`,
	}
	var packed [][]byte
	for range 2 {
		dir := t.TempDir()
		repository(t, dir, files)
		os.WriteFile(filepath.Join(dir, "chart/not-in-git"), nil, 0o644)
		if err := packChart(filepath.Join(dir, "chart"), dir, "1.2.3", time.Unix(1700000000, 0)); err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(dir, "small-1.2.3.tgz")
		content, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		packed = append(packed, content)
		got := filesOf(t, archive)
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"small/Chart.yaml", "small/templates/x.tpl", "small/values.yaml"}) {
			t.Errorf("the chart has %q", names)
		}
		if text := got["small/templates/x.tpl"]; text != `{{ define "small.version" }}1.2.3{{ end }}` {
			t.Errorf("the version in the template: %s", text)
		}
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("two archives of the same chart differ")
	}
}

// A chart whose version is written out, or with an ignore file, which is not read, is refused.
func TestChartRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, content, want string }{
		"version": {"Chart.yaml", "name: x\nversion: 1.0.0\nappVersion: 0.0.0-devel\n", "version in Chart.yaml is 1.0.0, want 1.2.3"},
		"image":   {"Chart.yaml", "name: x\nversion: 0.0.0-devel\n", "appVersion in Chart.yaml is , want 1.2.3"},
		"ignored": {".helmignore", "*.orig\n", ".helmignore, which is not read"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			repository(t, dir, map[string]string{c.file: c.content})
			err := packChart(dir, t.TempDir(), "1.2.3", time.Now())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A release that is there is kept. If it has the same bytes, that is success.
func TestPublishKeeps(t *testing.T) {
	made, final := t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(made, checksums), []byte("1  a\n2  b\n"), 0o644)
	os.WriteFile(filepath.Join(final, checksums), []byte("1  a\n3  b\n"), 0o644)
	_, err := publish(made, final)
	if err == nil || !strings.Contains(err.Error(), "\n  2  b\nhint: ") || strings.Contains(err.Error(), "1  a") {
		t.Errorf("got %v", err)
	}
	outcome, err := publish(final, final)
	if err != nil || !strings.Contains(outcome, "nothing to change") {
		t.Errorf("the same again: %q, %v", outcome, err)
	}
}
