package publish

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// asGitSync makes what git-sync leaves in a directory: a repository, a worktree of its commit in the directory trees of
// that one, and the link current to it. It returns the path of the worktree in the directory.
func asGitSync(t *testing.T, dir, branch, trees string) string {
	t.Helper()
	git := func(args ...string) string {
		cmd := exec.Command(servers.Need(t, "git"), append([]string{"-C", dir}, args...)...)
		cmd.Env = servers.GitEnv()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return strings.TrimSpace(string(out))
	}
	must(t, os.MkdirAll(dir, 0o777))
	git("init", "-q", "-b", branch)
	git("commit", "-q", "--allow-empty", "-m", "first")
	hash := git("rev-parse", "HEAD")
	tree := filepath.Join(trees, hash)
	git("worktree", "add", "-q", "--detach", filepath.Join(dir, tree), hash)
	must(t, os.Symlink(tree, filepath.Join(dir, "current")))
	return tree
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAfterGitSync pins that what git-sync left is removed once nothing needs it, and only that.
func TestAfterGitSync(t *testing.T) {
	for name, c := range map[string]struct {
		branch, trees string
		keep          bool
	}{"version 4": {"git-sync", worktrees, false}, "kept": {"git-sync", worktrees, true}, "version 3": {"main", "", false}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			old := asGitSync(t, dir, c.branch, c.trees)
			mine := tree{"mine": "x"}
			mine.write(t, dir)
			must(t, os.Symlink(filepath.Join(worktrees, sha2), filepath.Join(dir, "other")))
			o := Options{Dir: dir, Link: "current", Keep: c.keep}
			must(t, os.Symlink(old, filepath.Join(dir, tmpLink)))
			if current(t, o) != "" {
				t.Error("git-sync's tree is taken for ours")
			}
			if _, err := os.Stat(filepath.Join(dir, ".git", "HEAD")); err != nil {
				t.Error("it was removed while the link led to its worktree")
			}
			put(t, o, sha1, withGit1)
			for range 2 { // sweeps the repository that was kept, and then the tree that a link of git-sync led to
				if current(t, o) != sha1 {
					t.Error("not published")
				}
			}
			want := mine.with(tree{"current": "-> .worktrees/" + sha1, "other": "-> .worktrees/" + sha2})
			requireTree(t, dir, want.with(prefixed(".worktrees/"+sha1, withGit1.with(inGit))))
		})
	}
}

// TestNotGitSyncs pins that a repository that git-sync may not have made stays, and so does what another link needs.
func TestNotGitSyncs(t *testing.T) {
	for name, change := range map[string]func(dir, tree string){
		"another branch": func(dir, tree string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".git", "worktrees")))
			must(t, os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o666))
		},
		"another worktree": func(dir, _ string) {
			must(t, os.MkdirAll(filepath.Join(dir, ".git", "worktrees", "x"), 0o777))
			must(t, os.WriteFile(filepath.Join(dir, ".git", "worktrees", "x", "gitdir"), []byte("/home/me/x/.git\n"), 0o666))
		},
		"another link": func(dir, tree string) { must(t, os.Symlink("./"+tree, filepath.Join(dir, "other"))) },
		"a file": func(dir, _ string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".git")))
			must(t, os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: /x\n"), 0o666))
		},
	} {
		dir := t.TempDir()
		tree := asGitSync(t, dir, "git-sync", worktrees)
		change(dir, tree)
		o := Options{Dir: dir, Link: "current"}
		put(t, o, sha1, withGit1)
		current(t, o)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, tree)); name == "another link" && err != nil {
			t.Error(err)
		}
	}
}
