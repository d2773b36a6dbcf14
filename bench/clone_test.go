package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
)

// TestMain lets the test's program be the server of Git that a benchmark starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveGitCommand {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestEveryClonerNamesAKnownTool(t *testing.T) {
	b := everything()
	b.tools[goGit] = tool{name: goGit}
	rows := map[string]bool{}
	for _, s := range settings {
		for _, c := range b.clonersFor(s) {
			rows[c.name] = true
		}
	}
	for _, c := range append(cloners, pinnedCloner) {
		if !rows[c.name] && c.name != oursPinned {
			t.Errorf("%s is never run: is %s a known tool?", c.name, c.tool)
		}
		delete(rows, c.name) // a second one of that name would be missing
		work := cloning{cloner: c, url: "http://host/x", dir: "/dir", repo: new(repository)}
		for _, again := range []bool{false, true} {
			line := strings.Join(c.argv("/tool", work.vars(), again), " ")
			if !strings.Contains(line, "/tool") || strings.Contains(line, "{") {
				t.Errorf("%s does not run its tool, or has a placeholder left: %s", c.name, line)
			}
		}
	}
}

// cloneBench has git, a plain program with go-git and a server with one repository.
func cloneBench(t *testing.T) (*bench, *gitServer, *repository) {
	t.Helper()
	b := newTestBench(t)
	b.tools = map[string]tool{"git": {path: servers.Need(t, "git")}}
	b.trials = 2
	tree := filepath.Join(b.dir, "tree")
	for name, text := range map[string]string{"sub/one": "1\n", "sub/directory/two": "2\n", "other": "not in it\n"} {
		if err := writeBelow(filepath.Join(tree, name), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("one", filepath.Join(tree, "sub/link")); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(b.dir, "repositories")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := commitDirs(t.Context(), filepath.Join(root, "made"), tree, "sub", "absent"); err != nil {
		t.Fatal(err)
	}
	server, err := b.startGitServer(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.close)
	all := []*repository{{name: "a repository", path: "made"}}
	if err := headsOf(t.Context(), root, all); err != nil {
		t.Fatal(err)
	}
	return b, server, all[0]
}

func TestCloneIn(t *testing.T) {
	b, server, r := cloneBench(t)
	if err := b.buildGoGit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.tree, err = b.reference(t.Context(), server, r); err != nil {
		t.Fatal(err)
	}
	if want := (census{files: 2, directories: 2, links: 1, bytes: 4}); r.tree != want {
		t.Fatalf("git leaves %+v, want %+v", r.tree, want)
	}
	before, _ := server.fresh(t.Context())
	costs, err := b.cloneIn(t.Context(), server, r, replayed, b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{gitClone, goGit} {
		if f := costs[name]; f == nil || f.err != nil || len(f.wall) != b.cloneRounds() || f.wall.median() <= 0 || f.peak <= 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if err := server.sameAs(t.Context(), before); err == nil {
		t.Error("a repository was cloned that no client had requested")
	}
	before, _ = server.fresh(t.Context())
	if _, err := b.cloneIn(t.Context(), server, r, replayedOneCore, b.dir); err != nil || server.sameAs(t.Context(), before) != nil {
		t.Errorf("once more: %v, or not replayed", err)
	}
	again, err := b.cloneIn(t.Context(), server, r, live, b.dir)
	if err != nil || len(again) != 1 || again[gitClone].err != nil {
		t.Errorf("live: %v, %v", again, err)
	}
	b.tools[ours] = b.tools[goGit] // the plain program takes other arguments, and fails
	if _, err := b.cloneAgain(t.Context(), server, r); err == nil {
		t.Error("initbox failed, and the run went on")
	}
	delete(b.tools, ours)
	if left, _ := filepath.Glob(filepath.Join(b.dir, "initbox-bench-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCheckOfAClone(t *testing.T) {
	b, server, r := cloneBench(t)
	c, err := b.newCloning(cloners[1], server, r, live, b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.clone(t.Context(), c, false); err != nil {
		t.Fatal(err)
	}
	if r.tree, err = count(c.directory()); err != nil {
		t.Fatal(err)
	}
	if err := c.check(t.Context()); err != nil {
		t.Errorf("as it was cloned: %v", err)
	}
	one := filepath.Join(c.directory(), "sub/one")
	if err := os.Chmod(one, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.check(t.Context()); err == nil {
		t.Error("a file that became a program was not found")
	}
	if err := os.Chmod(one, 0o644); err != nil {
		t.Fatal(err)
	}
	r.commit = strings.Repeat("0", 40)
	if err := c.check(t.Context()); err == nil {
		t.Error("another commit was not found")
	}
	c.url += "/nowhere"
	if _, err := b.clone(t.Context(), c, false); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a repository that is not there: %v", err)
	}
}

func TestChartsAreTheSameEachTime(t *testing.T) {
	var one, two bytes.Buffer
	if err := errors.Join(writeCharts(2)(&one), writeCharts(2)(&two)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two runs make two trees")
	}
	dir := filepath.Join(t.TempDir(), "charts")
	servers.Need(t, "git")
	if err := importFiles(t.Context(), dir, writeCharts(2)); err != nil {
		t.Fatal(err)
	}
	names, err := gitIn(t.Context(), dir, nil, "ls-tree", "-r", "--name-only", "HEAD")
	if err != nil || strings.Count(names, "\n") != 2*chartVersions*chartFiles {
		t.Errorf("%d files, %v", strings.Count(names, "\n"), err)
	}
}

func TestLinkRepositories(t *testing.T) {
	root, dir := t.TempDir(), filepath.Join(t.TempDir(), "app.git")
	servers.Need(t, "git")
	if err := importFiles(t.Context(), dir, writeCharts(1)); err != nil {
		t.Fatal(err)
	}
	all, err := linkRepositories(t.Context(), root, dir+",other="+dir)
	if err != nil || len(all) != 2 || all[0].name != "app" || all[1].name != "other" || len(all[1].commit) != 40 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := linkRepositories(t.Context(), t.TempDir(), filepath.Dir(dir)); err == nil {
		t.Error("a directory that is not a repository was accepted")
	}
}

func TestOnOneCore(t *testing.T) {
	var out []byte
	err := onOneCore(func() (err error) {
		out, err = exec.Command("sh", "-c", "nproc").Output()
		return err
	})
	if errors.Is(err, errSkipped) {
		t.Skip(err)
	}
	if err != nil || strings.TrimSpace(string(out)) != "1" {
		t.Errorf("%s processors, %v, want 1", out, err)
	}
}

func TestCloneTargets(t *testing.T) {
	of := func(wall, cpu time.Duration, kib int64) *renderCost {
		return &renderCost{cost: cost{wall: sample{wall}, cpu: sample{cpu}}, peak: kib}
	}
	c := &cloneCosts{
		repository: &repository{name: "big", tree: census{files: largeTree + 1}},
		of: map[setting]map[string]*renderCost{
			replayed: {ours: of(51, 60, 1000), gitClone: of(100, 100, 1)},
			live:     {ours: of(100, 100, 70_000), gitClone: of(100, 100, 1)}, // more than 70 MB: KiB
		},
		again:  map[string]*renderCost{ours: of(50*time.Millisecond, 1, 1), oursPinned: of(11*time.Millisecond, 1, 1)},
		within: map[string]error{ours: errors.New("killed")},
	}
	met := map[string]bool{}
	for _, g := range c.targets() {
		met[g.what] = g.met
	}
	want := map[string]bool{
		"clone, big, replayed, in memory, wall":             false,
		"clone, big, replayed, in memory, cpu":              true,
		"clone, big, resident":                              false,
		"clone, big, live, in memory, wall":                 true,
		"clone, big, a second run of initbox":               true,
		"clone, big, a second run of initbox, --ref COMMIT": false,
		"clone, big, within 96 MiB":                         false,
	}
	for what, should := range want {
		if is, there := met[what]; !there || is != should {
			t.Errorf("%s: met %v (there: %v), want %v", what, is, there, should)
		}
	}
	if len(met) != len(want) {
		t.Errorf("%d targets, want %d: %v", len(met), len(want), met)
	}
	c.tree.files = largeTree // a small one has only to be no slower
	for _, g := range c.targets() {
		if g.what == "clone, big, replayed, in memory, wall" && !g.met {
			t.Errorf("of a small repository: %+v", g)
		}
	}
}
