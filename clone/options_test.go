package clone_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/clone"
	"initbox/clone/access"
)

// monorepo starts a server of a repository with several projects.
func monorepo(t *testing.T, dir string) string {
	t.Helper()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	for _, name := range []string{"README", "apps/README", "apps/shop/main.go", "apps/shop/deep/er/file", "apps/bank/main.go", "libs/a/a.go", "libs/b/b.go", "docs/index.md"} {
		put(t, origin, name, name+"\n")
	}
	commit(t, origin, "all")
	return serve(t, dir) + "/origin"
}

// TestSparse compares with git sparse-checkout.
func TestSparse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := monorepo(t, dir)
	for name, test := range map[string]struct {
		sparse   []string
		patterns bool
	}{
		"cone":            {[]string{"apps/shop"}, false},
		"two directories": {[]string{"apps/bank", "libs"}, false},
		"patterns":        {[]string{"/*", "!/apps/bank", "!docs", "*.md"}, true},
	} {
		for _, filter := range []string{"", "blob:none", "blob:limit=12", "tree:0"} {
			t.Run(name+" "+filter, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				got, want := filepath.Join(dir, "got"), filepath.Join(dir, "want")
				git(t, dir, "clone", "-q", "--no-checkout", "--depth", "1", at, want)
				mode := "--cone"
				if test.patterns {
					mode = "--no-cone"
				}
				git(t, want, append([]string{"sparse-checkout", "set", mode}, test.sparse...)...)
				git(t, want, "checkout", "-q")
				o := clone.Options{URL: at, Dir: got, Depth: 1, Sparse: test.sparse, Patterns: test.patterns, Filter: filter}
				if _, err := run(t, o); err != nil {
					t.Fatal(err)
				}
				sameTree(t, got, want)
				sound(t, got)
				if g, w := git(t, got, "ls-files", "-t"), git(t, want, "ls-files", "-t"); g != w {
					t.Errorf("git ls-files -t:\n%s\nwant:\n%s", g, w)
				}
				if filter != "" {
					missing := git(t, got, "rev-list", "--objects", "--missing=print", "HEAD")
					if !strings.Contains(missing, "\n?") {
						t.Error("nothing was left out of the pack")
					}
				}
				// The omitted files can be fetched later.
				git(t, got, "sparse-checkout", "disable")
				whole := filepath.Join(dir, "whole")
				git(t, dir, "clone", "-q", at, whole)
				sameTree(t, got, whole)
				sound(t, got)
			})
		}
	}
}

// TestFilteredHistory fetches all commits, and of the earlier ones only what the filter leaves.
func TestFilteredHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := monorepo(t, dir)
	origin := filepath.Join(dir, "origin")
	put(t, origin, "docs/index.md", "other\n")
	put(t, origin, "README", "a text of more than twelve bytes\n")
	commit(t, origin, "second")
	put(t, origin, "README", "third\n")
	commit(t, origin, "third")
	for filter, omitted := range map[string]int{"blob:none": 3, "blob:limit=12": 2, "tree:0": 2} {
		for _, url := range []string{at, "file://" + origin} {
			t.Run(filter+" "+url[:4], func(t *testing.T) {
				t.Parallel()
				got := filepath.Join(t.TempDir(), "got")
				if _, err := run(t, clone.Options{URL: url, Dir: got, Filter: filter}); err != nil {
					t.Fatal(err)
				}
				sameTree(t, got, origin)
				sound(t, got)
				if n := git(t, got, "rev-list", "--count", "HEAD"); strings.TrimSpace(n) != "3" {
					t.Errorf("%s commits", n)
				}
				missing := strings.Count("\n"+git(t, got, "rev-list", "--objects", "--missing=print", "HEAD"), "\n?")
				if limit := strings.HasPrefix(filter, "blob:limit") && url != at; !limit && missing != omitted || limit && missing != 0 {
					t.Errorf("%d objects are missing, want %d", missing, omitted)
				}
				if log := git(t, got, "log", "-p", "--format=%s", "README"); !strings.Contains(log, "twelve bytes") {
					t.Errorf("git log -p: %s", log)
				}
			})
		}
	}
}

// TestSubdir clones a directory of the repository.
func TestSubdir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := monorepo(t, dir)
	got := filepath.Join(dir, "got")
	if _, err := run(t, clone.Options{URL: at, Dir: got, Depth: 1, Subdir: "apps/shop", GitDir: clone.GitRemove}); err != nil {
		t.Fatal(err)
	}
	sameTree(t, got, filepath.Join(dir, "origin/apps/shop"))
	_, err := run(t, clone.Options{URL: at, Dir: got, Depth: 1, Subdir: "apps/shp", GitDir: clone.GitRemove})
	if err == nil || !strings.Contains(err.Error(), "apps/shp") {
		t.Errorf("%v", err)
	}
	sameTree(t, got, filepath.Join(dir, "origin/apps/shop"))
}

// TestGitDir keeps .git, puts it elsewhere, or omits it.
func TestGitDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := monorepo(t, dir)
	origin := filepath.Join(dir, "origin")
	withSubmodules(t, newRepository(t, filepath.Join(dir, "outer")))
	for name, test := range map[string]struct{ gitDir, is string }{
		"keep":      {clone.GitKeep, "got/.git"},
		"elsewhere": {filepath.Join(dir, "elsewhere/data"), "elsewhere/data"},
		"remove":    {clone.GitRemove, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := filepath.Join(dir, "got")
			sub := clone.Options{URL: serve(t, dir) + "/outer", Dir: got, Depth: 1, GitDir: test.gitDir, Submodules: clone.SubmodulesRecursive}
			if _, err := run(t, sub); err != nil {
				t.Fatal(err)
			}
			if test.is != "" {
				sound(t, got)
				sound(t, filepath.Join(got, "modules/middle/lib/inner"))
				if status := git(t, got, "submodule", "status", "--recursive"); strings.ContainsAny(status, "+-U") {
					t.Errorf("git submodule status:\n%s", status)
				}
			}
			o := clone.Options{URL: at, Dir: got, Depth: 1, GitDir: test.gitDir}
			for range 2 {
				if _, err := run(t, o); err != nil {
					t.Fatal(err)
				}
			}
			sameTree(t, got, origin)
			if test.is == "" {
				if _, err := os.Lstat(filepath.Join(got, ".git")); err == nil {
					t.Error(".git is there")
				}
				return
			}
			sound(t, got)
			is := strings.TrimSpace(git(t, got, "rev-parse", "--absolute-git-dir"))
			if want := filepath.Join(dir, test.is); is != want {
				t.Errorf("the repository is %s, want %s", is, want)
			}
			if again, err := run(t, o); err != nil || again.Changed {
				t.Errorf("again: changed %t, %v", again.Changed, err)
			}
		})
	}
}

// TestWhatIsThere clones into directories in every state.
func TestWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := monorepo(t, dir)
	got := filepath.Join(dir, "got")
	o := clone.Options{URL: at, Dir: got, Depth: 1, Replace: true}
	for name, spoil := range map[string]func(){
		"absent":              func() {},
		"empty":               func() { _ = os.Mkdir(got, 0o777) },
		"something else":      func() { put(t, got, "x/y/z", "something else") },
		"a changed file":      func() { put(t, got, "README", "changed") },
		"a new file":          func() { put(t, got, "apps/shop/new", "new") },
		"a missing file":      func() { _ = os.Remove(filepath.Join(got, "docs/index.md")) },
		"a missing directory": func() { _ = os.RemoveAll(filepath.Join(got, "apps")) },
		"no .git":             func() { _ = os.RemoveAll(filepath.Join(got, ".git")) },
		"an index.lock":       func() { put(t, got, ".git/index.lock", "") },
		"a broken .git":       func() { put(t, got, ".git/HEAD", "broken") },
	} {
		t.Run(name, func(t *testing.T) {
			spoil()
			if _, err := run(t, o); err != nil {
				t.Fatal(err)
			}
			sameTree(t, got, filepath.Join(dir, "origin"))
			sound(t, got)
			if again, err := run(t, o); err != nil || again.Changed {
				t.Errorf("again: changed %t, %v", again.Changed, err)
			}
			for _, pattern := range []string{".got*", "got/.initbox*", "got/.git/*.lock"} {
				if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			}
		})
	}
}

// TestAccess pins the modes of files and directories.
func TestAccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	put(t, origin, "directory/file", "file")
	put(t, origin, "tool", "tool")
	if err := os.Chmod(filepath.Join(origin, "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	commit(t, origin, "modes")
	at := serve(t, dir) + "/origin"
	for name, test := range map[string]struct {
		access                access.Access
		directory, file, tool fs.FileMode
	}{
		"default":     {access.Access{Umask: 0o022}, 0o755, 0o644, 0o755},
		"private":     {access.Access{Umask: 0o077}, 0o700, 0o600, 0o700},
		"group write": {access.Access{Umask: 0o027, GroupWrite: true}, 0o770 | fs.ModeSetgid, 0o660, 0o770},
	} {
		t.Run(name, func(t *testing.T) {
			got := filepath.Join(t.TempDir(), "got")
			if _, err := run(t, clone.Options{URL: at, Dir: got, Depth: 1, Access: test.access}); err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]fs.FileMode{"": test.directory, "directory": test.directory, "directory/file": test.file, "tool": test.tool, ".git": test.directory, ".git/HEAD": test.file, ".git/index": test.file} {
				info, err := os.Stat(filepath.Join(got, path))
				if err != nil {
					t.Fatal(err)
				}
				if is := info.Mode() & (fs.ModePerm | fs.ModeSetgid); is != want {
					t.Errorf("%s has the mode %v, want %v", path, is, want)
				}
			}
			sound(t, got)
		})
	}
}
