package publish

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"initbox/test/servers"
)

// The directory of .git is replaced with the tree, and vouches for both.
func TestGitDir(t *testing.T) {
	for _, c := range []struct {
		name, link string
		mounted    []string
	}{{name: "directories"}, {name: "link", link: "current"}, {name: "mount points", mounted: []string{"app", "git"}}, {name: "one of each", mounted: []string{"git"}}} {
		t.Run(c.name, func(t *testing.T) {
			top := t.TempDir()
			o := Options{Dir: filepath.Join(top, "app"), GitDir: filepath.Join(top, "git"), Link: c.link}
			for _, name := range c.mounted {
				servers.Tmpfs(t, filepath.Join(top, name), "size=1m")
			}
			where := filepath.Join(o.Dir, c.link)
			for range 2 {
				gitFile := tree{".git": "gitdir: " + o.GitDir + "\n"} // by which a later run knows that the tree is ours
				for sha, what := range map[string]tree{sha1: bare1.with(tree{"initbox.json": "marker"}).with(gitFile), sha2: bare2.with(gitFile)} {
					putGit(t, o, sha, what)
					real, err := filepath.EvalSymlinks(where)
					if err != nil {
						t.Fatal(err)
					}
					requireTree(t, real, what)
					requireTree(t, o.GitDir, tree{"HEAD": sha, "index": "x", "initbox.json": "marker", "objects/pack/pack-" + sha + ".pack": "p"})
					if got := current(t, o); got != sha {
						t.Errorf("current %q", got)
					}
				}
			}
			os.WriteFile(filepath.Join(o.GitDir, "index"), []byte("by git status"), 0o644)
			if got := current(t, o); got == "" {
				t.Error("not current since the index was written")
			}
			os.WriteFile(filepath.Join(o.GitDir, "HEAD"), []byte("by git switch"), 0o644)
			if got := current(t, o); got != "" {
				t.Errorf("current %q", got)
			}
			putGit(t, o, sha1, bare1.with(tree{".git": "gitdir: " + o.GitDir + "\n"}))
			os.WriteFile(filepath.Join(where, "a"), []byte("by another program"), 0o644)
			if got := current(t, o); got != "" {
				t.Errorf("current %q", got)
			}
			if left, _ := filepath.Glob(filepath.Join(top, ".*")); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}

func putGit(t *testing.T, o Options, sha string, what tree) {
	t.Helper()
	target := open(t, o)
	defer target.Close()
	s, err := target.Stage()
	if err != nil {
		t.Fatal(err)
	}
	what.write(t, s.Tree)
	tree{"HEAD": sha, "index": "x", "objects/pack/pack-" + sha + ".pack": "p"}.write(t, s.Git)
	if err := target.Publish(context.Background(), s, Marker{SHA: sha}); err != nil {
		t.Fatal(err)
	}
}

func TestGitDirIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, git := range []string{dir + "/app", dir + "/app/.git", dir} {
		_, err := Open(t.Context(), Options{Dir: dir + "/app", GitDir: git})
		if err == nil {
			t.Errorf("%s: no error", git)
		}
	}
}
