package publish

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// A directory with files that no run has published is refused, and stays as it is.
func TestForeign(t *testing.T) {
	top := t.TempDir()
	servers.Tmpfs(t, filepath.Join(top, "volume"), "size=1m")
	tree{
		"few/a": "x", "few/b\nc": "x", "few/link": "-> a", "many/": "", "deep/a/b/file": "x", "link/now": "-> releases/5", "repo/.git/HEAD": "x", "repo/file": "x",
		"app/": "", "theirs/HEAD": "x", "volume/data": "x", "volume/lost+found/": "", "worktree/.git": "gitdir: " + top + "/repo/.git/worktrees/x", "git/.git": "no link",
	}.write(t, top)
	for _, name := range strings.Split("abcdefghijkl", "") {
		tree{name: ""}.write(t, filepath.Join(top, "many"))
	}
	before := read(t, top)
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"few":      {Options{Dir: "few"}, `few has files that no git-clone wrote: a, b\nc, link`},
		"many":     {Options{Dir: "many"}, "wrote: a, b, c, d, e, f, g, h and 4 more"},
		"deep":     {Options{Dir: "deep"}, "wrote: a"},
		"git's":    {Options{Dir: "repo"}, "wrote: .git, file"},
		"volume":   {Options{Dir: "volume"}, "wrote: data"},
		"GitDir":   {Options{Dir: "app", GitDir: "theirs"}, "theirs has files that no git-clone wrote: HEAD"},
		"link":     {Options{Dir: "link", Link: "now"}, "is a link to releases/5, which no git-clone made"},
		"worktree": {Options{Dir: "worktree"}, "wrote: .git"},
		"no link":  {Options{Dir: "git"}, "wrote: .git"},
	} {
		c.o.Dir = filepath.Join(top, c.o.Dir)
		if c.o.GitDir != "" {
			c.o.GitDir = filepath.Join(top, c.o.GitDir)
		}
		_, err := Open(t.Context(), c.o)
		requireRefused(t, err, c.want)
		if after := read(t, top); !maps.Equal(after, before) {
			t.Fatalf("%s: there is\n%v", name, after)
		}
		c.o.Replace = true
		target, s := staged(t, c.o, bare1)
		target.options.Replace = false // files that appear while the tree is made are as good
		if target.git != nil {
			target.git.options.Replace = false
		}
		requireRefused(t, target.Publish(t.Context(), s, Marker{SHA: sha1}), c.want)
		target.Close()
		delete(before, "link/.worktrees/")
		if after := read(t, top); !maps.Equal(after, before) {
			t.Fatalf("%s: there is\n%v", name, after)
		}
	}
	for _, o := range []Options{{Dir: "few"}, {Dir: "volume"}, {Dir: "link", Link: "now"}} {
		o.Dir, o.Replace = filepath.Join(top, o.Dir), true
		put(t, o, sha1, bare1)
		if o.Replace = false; current(t, o) != sha1 {
			t.Errorf("%s: not current", o.Dir)
		}
	}
}

// What is no reason to refuse a directory.
func TestNotForeign(t *testing.T) {
	for name, what := range map[string]tree{
		"missing":           {},
		"empty":             {"app/": ""},
		"empty directories": {"app/a/b/": "", "app/c/": ""},
		"killed run's":      {"app/.initbox-abcdefghijkl/tree/f": "x", ".app.initbox-abcdefghijkl/tree/f": "x", ".app.initbox-lock": ""},
	} {
		top := t.TempDir()
		what.write(t, top)
		put(t, Options{Dir: filepath.Join(top, "app")}, sha1, withGit1)
		requireTree(t, top, prefixed("app", withGit1.with(inGit)))
		if t.Failed() {
			t.Fatal(name)
		}
	}
	top := t.TempDir()
	servers.Tmpfs(t, top, "size=1m")
	tree{"lost+found/": "", ".initbox-abcdefghijkl/tree/f": "x", ".initbox-lock": ""}.write(t, top)
	put(t, Options{Dir: top}, sha1, bare1)
	requireTree(t, top, bare1.with(tree{"lost+found/": "", ".initbox.json": "marker"}))
}

// A directory that a run has published is known, wherever its marker is, whatever was added, and however the next run
// keeps .git.
func TestOurs(t *testing.T) {
	for _, place := range []string{"directory", "mount point"} {
		top := t.TempDir()
		dir := filepath.Join(top, "app")
		if place == "mount point" {
			servers.Tmpfs(t, dir, "size=1m")
		}
		kept, removed, elsewhere := Options{Dir: dir}, Options{Dir: dir}, Options{Dir: dir, GitDir: filepath.Join(top, "git")}
		gitFile := tree{".git": "gitdir: " + elsewhere.GitDir + "\n"}
		for i, step := range []func(){
			func() { put(t, kept, sha1, withGit1) }, func() { put(t, removed, sha1, bare1) }, func() { put(t, kept, sha2, withGit2) },
			func() { putGit(t, elsewhere, sha2, bare2.with(gitFile)) }, func() { put(t, kept, sha1, withGit1) },
			func() { os.RemoveAll(elsewhere.GitDir); putGit(t, elsewhere, sha1, bare1.with(gitFile)) },
			func() { put(t, removed, sha1, bare1) }, func() { putGit(t, elsewhere, sha2, bare2.with(gitFile)) },
		} {
			step()
			if t.Failed() {
				t.Fatalf("%s, step %d", place, i)
			}
			tree{"__pycache__/x": "x"}.write(t, dir)
		}
	}
}

// A run for which the directory is a mount point, or that may not write to the parent, finds the markers of others.
func TestMarkerOfAnotherUser(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	top := t.TempDir()
	o := Options{Dir: filepath.Join(top, "app")}
	put(t, o, sha1, bare1)
	tree{"app/theirs": "x"}.write(t, top)
	chmod(t, top, 0o555)
	put(t, o, sha2, bare2)
	tree{"app/theirs": "x"}.write(t, top)
	chmod(t, top, 0o755)
	os.Remove(filepath.Join(top, ".app.initbox.json"))
	put(t, o, sha1, bare1)
}

// A run that is killed between any two steps leaves a directory that the next run may replace.
func TestAbandoned(t *testing.T) {
	for name, c := range map[string]struct {
		before, after tree
		mounted, git  bool
		steps         func(tree, git *swap) error
	}{
		"first, into a volume": {nil, withGit1, true, false, func(w, _ *swap) error { return errors.Join(w.retire(), putOne(w, "a")) }},
		"a volume":             {withGit2, withGit1, true, false, func(w, _ *swap) error { return errors.Join(w.retire(), putOne(w, "a")) }},
		"a volume, no .git":    {bare2, bare1, true, false, func(w, _ *swap) error { return errors.Join(w.retire(), putOne(w, "a")) }},
		"first, no marker yet": {nil, bare1, false, false, func(w, _ *swap) error {
			w.outer, w.s.name = true, "x"
			_, err := w.replace()
			return ignoreMissing(err)
		}},
		"the marker is gone": {bare2, bare1, false, false, func(w, _ *swap) error { return w.retire() }},
		"first, .git elsewhere": {nil, bare1, false, true, func(w, g *swap) error {
			return errors.Join(w.begin(), g.retire(), w.run())
		}},
		".git elsewhere": {bare2, bare1, false, true, func(w, g *swap) error { return errors.Join(w.begin(), g.retire(), w.run()) }},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			o := Options{Dir: filepath.Join(top, "app")}
			if c.mounted {
				servers.Tmpfs(t, o.Dir, "size=1m")
			}
			publish := put
			if c.git {
				o.GitDir, publish = filepath.Join(top, "git"), putGit2
				gitFile := tree{".git": "gitdir: " + o.GitDir + "\n"}
				c.after = c.after.with(gitFile)
				if c.before != nil {
					c.before = c.before.with(gitFile)
				}
			}
			if c.before != nil {
				publish(t, o, sha1, c.before)
			}
			target, s := staged(t, o, c.after)
			w, g := &swap{Target: target, s: s, last: gitName}, &swap{Target: target.git, s: s.git, last: gitMarker}
			if err := c.steps(w, g); err != nil {
				t.Fatal(err)
			}
			if len(read(t, o.Dir)) == 0 {
				t.Error("nothing was begun")
			}
			target.Close()
			for range 2 { // the first run after it is killed, too, after it has swept
				if sha := current(t, o); sha != "" {
					t.Errorf("current %q", sha)
				}
			}
			publish(t, o, sha2, c.after)
			if sha := current(t, o); sha != sha2 {
				t.Errorf("current %q", sha)
			}
			for _, left := range []string{".app.initbox-unfinished", "app/.initbox-unfinished", ".git.initbox-unfinished"} {
				if _, err := os.Lstat(filepath.Join(top, left)); err == nil {
					t.Errorf("there is %s", left)
				}
			}
		})
	}
}

// A run that is killed between the last step and the removal of the note leaves it to the next run.
func TestNoteOfCompleteTree(t *testing.T) {
	top := t.TempDir()
	o := Options{Dir: filepath.Join(top, "app")}
	put(t, o, sha1, withGit1)
	tree{".app.initbox-unfinished": ""}.write(t, top)
	if sha := current(t, o); sha != sha1 {
		t.Errorf("current %q", sha)
	}
	requireTree(t, top, prefixed("app", withGit1.with(inGit)))
}

func putOne(w *swap, name string) error {
	dir, err := w.open(w.base, w.name)
	if err != nil {
		return err
	}
	return w.put(dir, name)
}

func putGit2(tb testing.TB, o Options, sha string, what tree) { putGit(tb.(*testing.T), o, sha, what) }

// ignoreMissing returns err unless it is that there was no marker to show.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
