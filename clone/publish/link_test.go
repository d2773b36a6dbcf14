package publish

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestLink(t *testing.T) {
	for _, keep := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "root")
		mine := tree{"mine": "x"}
		mine.write(t, dir)
		o := Options{Dir: dir, Link: "current", Keep: keep}
		if got := current(t, o); got != "" {
			t.Errorf("current %q of nothing", got)
		}
		requireTree(t, dir, mine)
		at := func(sha string, what tree) tree {
			return mine.with(tree{"current": "-> .worktrees/" + sha}).with(prefixed(".worktrees/"+sha, what))
		}
		put(t, o, sha1, withGit1)
		requireTree(t, dir, at(sha1, withGit1.with(inGit)))
		if got := current(t, o); got != sha1 {
			t.Errorf("current %q", got)
		}
		put(t, o, sha2, withGit2)
		want := at(sha2, withGit2.with(inGit))
		if keep {
			requireTree(t, dir, want.with(prefixed(".worktrees/"+sha1, withGit1.with(inGit))))
		} else {
			requireTree(t, dir, want)
		}
		if got := current(t, o); got != sha2 {
			t.Errorf("current %q", got)
		}
		requireTree(t, dir, want)
		tree{"sub/mine": "x"}.write(t, filepath.Join(dir, "current"))
		if got := current(t, o); got != "" {
			t.Errorf("current %q after a change", got)
		}
		put(t, o, sha2, withGit2)
		requireTree(t, dir, want)
		put(t, o, sha2, bare2)
		requireTree(t, dir, at(sha2, bare2).with(tree{".worktrees/." + sha2 + ".initbox.json": "marker"}))
		if got := current(t, o); got != sha2 {
			t.Errorf("current %q", got)
		}
		other := o
		other.Link = "other"
		put(t, other, sha1, withGit1)
		if got := current(t, o); got != sha2 {
			t.Errorf("current %q: gone with another link's", got)
		}
	}
}

// Old trees stay for the time given since they were replaced, whichever run looks; a tree that is current again is not
// removed by the note of its earlier end.
func TestKeepOld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	o := Options{Dir: dir, Link: "current", KeepOld: time.Minute}
	trees := func(want ...string) {
		t.Helper()
		all, _ := filepath.Glob(filepath.Join(dir, worktrees, "[0-9a-f]*"))
		for i := range all {
			all[i] = filepath.Base(all[i])
		}
		if !slices.Equal(all, want) {
			t.Errorf("trees %q, want %q", all, want)
		}
	}
	age := func(sha string, by time.Duration) {
		t.Helper()
		then := time.Now().Add(-by)
		must(t, os.Chtimes(filepath.Join(dir, worktrees, oldNote(sha)), then, then))
	}
	put(t, o, sha1, withGit1)
	put(t, o, sha2, bare2)
	trees(sha1, sha2)
	age(sha1, 50*time.Second)
	current(t, o)
	trees(sha1, sha2)
	put(t, o, sha1, withGit1) // back again
	trees(sha1, sha2)
	if _, err := os.Lstat(filepath.Join(dir, worktrees, oldNote(sha1))); !os.IsNotExist(err) {
		t.Errorf("the current tree has a note: %v", err)
	}
	age(sha2, 61*time.Second)
	current(t, o)
	requireTree(t, dir, tree{"current": "-> .worktrees/" + sha1}.with(prefixed(".worktrees/"+sha1, withGit1.with(inGit))))

	put(t, o, sha2, bare2)
	o.KeepOld = 0
	current(t, o)
	requireTree(t, dir, tree{"current": "-> .worktrees/" + sha2, ".worktrees/." + sha2 + ".initbox.json": "marker"}.with(prefixed(".worktrees/"+sha2, bare2)))
}

// A kept tree that is still as its run left it becomes the current one as it is: who reads it, goes on reading it. One
// that was changed does not.
func TestReuse(t *testing.T) {
	for _, what := range []tree{withGit1, bare1} {
		dir := filepath.Join(t.TempDir(), "root")
		o := Options{Dir: dir, Link: "current", KeepOld: time.Minute}
		back := func(sha string) (found bool) {
			t.Helper()
			target := open(t, o)
			defer target.Close()
			if m := target.Earlier(sha); m == nil || m.SHA != sha {
				return false
			}
			s, err := target.Stage()
			must(t, err)
			must(t, target.Reuse(t.Context(), s, sha))
			return true
		}
		put(t, o, sha1, what)
		if back(sha1) || back(sha2) {
			t.Error("the current tree, or one that is not there, is an earlier one")
		}
		put(t, o, sha2, withGit2)
		reader, err := os.Open(filepath.Join(dir, worktrees, sha1))
		must(t, err)
		defer reader.Close()
		if !back(sha1) || current(t, o) != sha1 {
			t.Fatalf("the current tree is %q", current(t, o))
		}
		if there, err := os.Open(filepath.Join(dir, "current")); err != nil || !isSame(reader, there.Name()) {
			t.Errorf("the tree was replaced: %v", err)
		}
		if _, err := os.Lstat(filepath.Join(dir, worktrees, oldNote(sha1))); !os.IsNotExist(err) {
			t.Errorf("the current tree has a note: %v", err)
		}
		tree{"a": "changed"}.write(t, filepath.Join(dir, worktrees, sha2))
		if back(sha2) {
			t.Error("a tree that was changed is reused")
		}
		o.Unchecked = true
		if !back(sha2) || current(t, o) != sha2 {
			t.Error("a tree that may be changed is not reused")
		}
	}
}

// Links in other directories lead to the same trees. No run removes the tree that another's link leads to.
func TestLinkElsewhere(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "root")
	here := Options{Dir: dir, Link: "current"}
	below := Options{Dir: dir, Link: "sub/dir/current"}
	beside := Options{Dir: dir, Link: filepath.Join(top, "other/dir/current")}
	up := Options{Dir: dir, Link: "../up"}
	want := func(links tree) {
		t.Helper()
		got := tree{}
		for _, o := range []Options{here, below, beside, up} {
			if to, err := os.Readlink(o.linkPath()); err == nil {
				name, _ := filepath.Rel(top, o.linkPath())
				got[name] = to
			}
		}
		if !maps.Equal(got, links) {
			t.Fatalf("the links are\n%s\nwant\n%s", got, links)
		}
		for name, to := range links {
			if _, err := os.Stat(filepath.Join(top, name, "a")); err != nil {
				t.Errorf("%s, to %s: %v", name, to, err)
			}
		}
	}
	put(t, beside, sha1, withGit1)
	put(t, below, sha2, withGit2)
	put(t, here, sha2, withGit2)
	put(t, up, sha1, withGit1)
	at := tree{"other/dir/current": "../../root/.worktrees/" + sha1, "root/sub/dir/current": "../../.worktrees/" + sha2, "root/current": ".worktrees/" + sha2, "up": "root/.worktrees/" + sha1}
	want(at)
	for _, o := range []Options{beside, up} {
		if got := current(t, o); got != sha1 {
			t.Errorf("%s: current %q", o.Link, got)
		}
	}
	put(t, beside, sha2, withGit2)
	at["other/dir/current"] = "../../root/.worktrees/" + sha2
	want(at)
	put(t, up, sha2, withGit2)
	at["up"] = "root/.worktrees/" + sha2
	want(at)
	if _, err := os.Lstat(filepath.Join(dir, worktrees, sha1)); !os.IsNotExist(err) {
		t.Errorf("the tree that no link leads to: %v", err)
	}

	// A claim that is lost, and what a killed run leaves.
	all := claimsIn(t, dir)
	if len(all) != 3 {
		t.Fatalf("claims %q", all)
	}
	for _, name := range all {
		must(t, os.Rename(name, name+nextSuffix))
	}
	must(t, os.Symlink("x", filepath.Join(top, "other/dir/.current.initbox-link")))
	for _, o := range []Options{beside, below, up} {
		current(t, o)
	}
	if again := claimsIn(t, dir); !slices.Equal(again, all) {
		t.Errorf("claims %q, then %q", all, again)
	}
	id, err := os.ReadFile(filepath.Join(top, "other/dir/.current.initbox-id"))
	must(t, err)
	requireTree(t, filepath.Join(top, "other/dir"), tree{"current": "-> ../../root/.worktrees/" + sha2, ".current.initbox-id": string(id)})
	put(t, here, sha1, withGit1)
	at["root/current"] = ".worktrees/" + sha1
	want(at)
}

func TestLinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/", "a/..", "..", dir, ".", ".worktrees", ".worktrees/a", "/"} {
		_, err := Open(t.Context(), Options{Dir: dir, Link: name})
		requireRefused(t, err, "link")
	}
	tree{"directory/x": "x", "file": "x"}.write(t, dir)
	before := read(t, dir)
	for _, name := range []string{"directory", "file"} {
		_, err := Open(t.Context(), Options{Dir: dir, Link: name})
		requireRefused(t, err, "not a symbolic link")
		requireTree(t, dir, before)
	}
	// As git-sync 3 made them.
	os.Symlink("elsewhere", filepath.Join(dir, "link"))
	_, err := Open(t.Context(), Options{Dir: dir, Link: "link"})
	requireRefused(t, err, "link to elsewhere, which no git-clone made")
	for _, name := range []string{"directory/link", dir + "/directory/link"} {
		os.Symlink("../.worktrees/other", filepath.Join(dir, "directory/link"))
		_, err := Open(t.Context(), Options{Dir: dir, Link: name})
		requireRefused(t, err, "link to ../.worktrees/other, which no git-clone made")
	}
	must(t, os.Remove(filepath.Join(dir, "directory/link")))
	os.Symlink("../other/.worktrees/"+sha1, filepath.Join(dir, "directory/link"))
	_, err = Open(t.Context(), Options{Dir: dir, Link: "directory/link"})
	requireRefused(t, err, "a tree that was made for another directory than "+dir)
	must(t, os.Remove(filepath.Join(dir, "directory/link")))
	tree{".worktrees/file": "x", ".worktrees/directory/x": "x", ".worktrees/.mine": "x"}.write(t, dir)
	put(t, Options{Dir: dir, Link: "other"}, sha1, bare1)
	requireTree(t, filepath.Join(dir, ".worktrees"), tree{"file": "x", "directory/x": "x", ".mine": "x"}.with(prefixed(sha1, bare1)).with(tree{"." + sha1 + ".initbox.json": "marker"}))
	put(t, Options{Dir: dir, Link: "link", Replace: true}, sha1, bare1)
	requireTree(t, filepath.Join(dir, ".worktrees"), tree{".mine": "x"}.with(prefixed(sha1, bare1)).with(tree{"." + sha1 + ".initbox.json": "marker"}))
}
