package publish

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/internal/dirfd"
)

// Whatever a program changes in the tree is noticed, and said.
func TestChanged(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	for what, c := range map[string]struct {
		do  func(dir string) error
		say string
	}{
		"content":           {func(dir string) error { return os.WriteFile(dir+"/a", []byte("2"), 0o644) }, "a was written"},
		"content deep":      {func(dir string) error { return os.WriteFile(dir+"/sub/b", []byte("longer"), 0o644) }, "sub/b was written"},
		"removed":           {func(dir string) error { return os.Remove(dir + "/sub/b") }, "instead of"},
		"directory removed": {func(dir string) error { return os.Remove(dir + "/empty") }, "removed"},
		"added":             {func(dir string) error { return os.WriteFile(dir+"/new", nil, 0o644) }, "new was written"},
		"added with\nline":  {func(dir string) error { return os.WriteFile(dir+"/new\nline", nil, 0o644) }, `new\nline was written`},
		"directory added":   {func(dir string) error { return os.Mkdir(dir+"/sub/new", 0o755) }, "removed"},
		"renamed":           {func(dir string) error { return os.Rename(dir+"/a", dir+"/z") }, "renamed"},
		"executable":        {func(dir string) error { return os.Chmod(dir+"/a", 0o755) }, "executable"},
		"time":              {func(dir string) error { return os.Chtimes(dir+"/a", past, past) }, ""},
		"link":              {func(dir string) error { os.Remove(dir + "/sub/c"); return os.Symlink("a", dir+"/sub/c") }, ""},
		"link to file": {func(dir string) error {
			os.Remove(dir + "/sub/c")
			return os.WriteFile(dir+"/sub/c", []byte("1"), 0o644)
		}, "sub/c was written"},
		"HEAD":   {func(dir string) error { return os.WriteFile(dir+"/.git/HEAD", []byte("x"), 0o644) }, ".git/HEAD was written"},
		"branch": {func(dir string) error { return os.WriteFile(dir+"/.git/refs/heads/main", []byte("x"), 0o644) }, "refs/heads/main was written"},
		"branch of a submodule": {func(dir string) error {
			return os.WriteFile(dir+"/.git/modules/x/y/refs/heads/new", []byte("x"), 0o644)
		}, "modules/x/y/refs/heads/new"},
		"pack":                {func(dir string) error { return os.Remove(dir + "/.git/objects/pack/pack-1.pack") }, "pack-1.pack has changed"},
		"pack cut":            {func(dir string) error { return os.Truncate(dir+"/.git/objects/pack/pack-1.pack", 1) }, "pack-1.pack has changed"},
		"pack of a submodule": {func(dir string) error { return os.Remove(dir + "/.git/modules/x/y/objects/pack/pack-3.pack") }, "pack-3.pack has changed"},
		"marker":              {func(dir string) error { return os.WriteFile(dir+"/.git/initbox.json", []byte("{}"), 0o644) }, "another version"},
		"marker gone":         {func(dir string) error { return os.Remove(dir + "/.git/initbox.json") }, "has no marker"},
		"marker huge":         {func(dir string) error { return os.Truncate(dir+"/.git/initbox.json", 1<<30) }, "another version"},
		"marker a link": {func(dir string) error {
			os.Rename(dir+"/.git/initbox.json", dir+"/../m")
			return os.Symlink("../../m", dir+"/.git/initbox.json")
		}, "symbolic links"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "app")
			o := Options{Dir: dir}
			put(t, o, sha1, withModules)
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			o.Replace = true
			target := open(t, o)
			defer target.Close()
			if r, reason := target.current(); r != nil || !strings.Contains(reason, c.say) || reason == "" {
				t.Errorf("%+v, reason %q, want %q", r, reason, c.say)
			}
			if target.Current() != nil {
				t.Error("current")
			}
		})
	}
}

var withModules = withGit1.with(tree{
	".git/modules/x/y/HEAD": "3", ".git/modules/x/y/refs/heads/m": "3", ".git/modules/x/y/objects/pack/pack-3.pack": "p3", ".git/modules/x/y/index": "i",
})

// What does not change the tree is ignored.
func TestUnchanged(t *testing.T) {
	for what, do := range map[string]func(dir string) error{
		"nothing":             func(string) error { return nil },
		"permissions (group)": func(dir string) error { return os.Chmod(dir+"/a", 0o664) },
		"a directory's":       func(dir string) error { return os.Chmod(dir+"/sub", 0o2775) },
		"a directory's time":  func(dir string) error { return os.Chtimes(dir+"/sub", time.Time{}, time.Now()) },
		"the index":           func(dir string) error { return os.WriteFile(dir+"/.git/index", []byte("as git status does"), 0o644) },
		"index of a submodule": func(dir string) error {
			return os.WriteFile(dir+"/.git/modules/x/y/index", []byte("as git status does"), 0o644)
		},
		"what git fetch writes": func(dir string) error {
			for _, name := range []string{"FETCH_HEAD", "refs/remotes/origin/main", "refs/tags/v1", "logs/HEAD", "objects/pack/pack-9.pack", "objects/ab/cd"} {
				name = filepath.Join(dir, ".git", name)
				os.MkdirAll(filepath.Dir(name), 0o755)
				if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "app")
			o := Options{Dir: dir}
			put(t, o, sha1, withModules)
			if err := do(dir); err != nil {
				t.Fatal(err)
			}
			target := open(t, o)
			defer target.Close()
			r, reason := target.current()
			if r == nil || r.SHA != sha1 || r.Ref != "refs/heads/main" || string(r.Result) != `{"a":1}` {
				t.Errorf("%+v: %s", r, reason)
			}
		})
	}
}

// The digest does not depend on who comes first.
func TestSealIsTheSame(t *testing.T) {
	dir := t.TempDir()
	what := tree{}
	for _, a := range "abcdefgh" {
		for _, b := range "abcdefgh" {
			what[string(a)+"/"+string(b)+"/f"] = "x"
		}
	}
	what.write(t, dir)
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	none := func(string) bool { return false }
	first, err := sealOf(root, whole, none)
	if err != nil || first.sum.Files != 64 {
		t.Fatalf("%+v, %v", first.sum, err)
	}
	for range 50 {
		if w, err := sealOf(root, whole, none); err != nil || w.sum.Digest != first.sum.Digest {
			t.Fatalf("%+v, %v", w.sum, err)
		}
	}
}

// Old trees go, whatever their permissions; what links in them lead to stays.
func TestRemoveAll(t *testing.T) {
	top := t.TempDir()
	stay := tree{"stay/f": "f"}
	stay.with(tree{"old/a/b/c": "c", "old/a/l": "-> ../../stay", "old/m": "-> ../stay/f", "old/x": "x"}).write(t, top)
	os.Chmod(top+"/old/a/b", 0o555)
	os.Chmod(top+"/old/a", 0)
	dir, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for range 2 {
		if err := dirfd.RemoveAll(t.Context(), dir, "old"); err != nil {
			t.Fatal(err)
		}
	}
	requireTree(t, top, stay)
}

// What there is no time to remove is removed by the next run.
func TestRemovedLater(t *testing.T) {
	top := t.TempDir()
	o := Options{Dir: filepath.Join(top, "app")}
	target, s := staged(t, o, withGit1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	target.drop(over)
	target.Close()
	if left := read(t, filepath.Join(top, s.name)); len(left) != len(withGit1) {
		t.Errorf("left %v", left)
	}
	if later, err := openPlace(over, o, mustFind(t, o), false); err == nil { // stopped while it removes
		later.Close()
	}
	put(t, o, sha2, withGit2)
	requireTree(t, top, prefixed("app", withGit2.with(inGit)))
}

func mustFind(t *testing.T, o Options) *place {
	t.Helper()
	p, err := find(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A publication that fails leaves the old tree, with its marker.
func TestUndone(t *testing.T) {
	for name, how := range map[string]func(*Target){
		"at once":      func(*Target) {},
		"step by step": func(t *Target) { t.noExchange = true },
	} {
		for _, old := range []tree{withGit1, bare1} {
			t.Run(name, func(t *testing.T) {
				top := t.TempDir()
				o := Options{Dir: filepath.Join(top, "app")}
				put(t, o, sha1, old)
				before := read(t, top)
				target := open(t, o)
				how(target)
				s, err := target.Stage()
				if err != nil {
					t.Fatal(err)
				}
				bare2.write(t, s.Tree)
				// All goes well until there is no marker to be shown.
				step := &swap{Target: target, s: s, outer: true, last: gitName}
				if err := step.run(); err == nil || step.back(err) != err {
					t.Fatalf("error %v", err)
				}
				target.Close()
				requireTree(t, top, before)
				if got := current(t, o); got != sha1 {
					t.Errorf("current %q", got)
				}
			})
		}
	}
}

func TestCancelled(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "app")}
	target := open(t, o)
	s, err := target.Stage()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := target.Publish(ctx, s, Marker{}); err == nil {
		t.Error("published")
	}
	target.Close()
	requireTree(t, filepath.Dir(o.Dir), tree{})
}
