package publish

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/clone/access"
)

func TestPrecious(t *testing.T) {
	for _, dir := range []string{"/", "/proc", "/etc", "/usr/lib/..", "//var/log/"} {
		_, err := Open(t.Context(), Options{Dir: dir})
		requireRefused(t, err, "part of the system")
	}
}

func TestNotADirectory(t *testing.T) {
	dir := t.TempDir()
	tree{"file": "x", "dangling": "-> nowhere", "loop": "-> loop"}.write(t, dir)
	before := read(t, dir)
	for name, text := range map[string]string{"file": "not a directory", "dangling": "nowhere, which does not exist"} {
		_, err := Open(t.Context(), Options{Dir: filepath.Join(dir, name)})
		requireRefused(t, err, text)
	}
	for _, name := range []string{"file/x", "loop"} {
		if _, err := Open(t.Context(), Options{Dir: filepath.Join(dir, name)}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	_, err := Open(t.Context(), Options{})
	if err == nil {
		t.Error("no directory: no error")
	}
	requireTree(t, dir, before)
}

// A link to a directory is followed: the directory becomes the tree, the link stays.
func TestLinkToDirectory(t *testing.T) {
	dir := t.TempDir()
	tree{"real/app/old": "x", "to": "-> real/app"}.write(t, dir)
	for range 2 {
		put(t, Options{Dir: filepath.Join(dir, "to"), Replace: true}, sha1, withGit1)
		requireTree(t, dir, prefixed("real/app", withGit1.with(inGit)).with(tree{"to": "-> real/app"}))
	}
	t.Chdir(filepath.Join(dir, "real/app"))
	for range 2 { // and the working directory stays
		put(t, Options{Dir: "."}, sha2, withGit2)
		requireTree(t, filepath.Join(dir, "real/app"), withGit2.with(inGit))
		requireTree(t, ".", withGit2.with(inGit))
		put(t, Options{Dir: filepath.Join(dir, "to")}, sha1, bare1)
		requireTree(t, ".", bare1)
		requireTree(t, filepath.Join(dir, "real"), prefixed("app", bare1).with(tree{".app.initbox.json": "marker"}))
	}
}

// Only what is ours is swept away.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	stay := tree{
		".app.initbox-short/f": "x", ".app.initbox-ABCDEFGHIJKL/f": "x", ".other.initbox-abcdefghijkl/f": "x",
		".app.initbox-abcdefghijkl-not/f": "x", ".initbox-abcdefghijkl/f": "x", "app/.initbox-abcdefghijkl/f": "x",
	}
	stay.with(tree{".app.initbox-abcdefghijkl/tree/f": "x", ".app.initbox-234567234567": "x", ".app.initbox-lock": "dead"}).write(t, dir)
	open(t, Options{Dir: filepath.Join(dir, "app")}).Close()
	requireTree(t, dir, stay)
}

func TestLongName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 255))
	for range 2 {
		put(t, Options{Dir: dir}, sha1, withGit1)
		requireTree(t, dir, withGit1.with(inGit))
	}
}

func TestMode(t *testing.T) {
	for mode, a := range map[os.FileMode]access.Access{
		0o755:                 {Umask: 0o022},
		0o700:                 {Umask: 0o077},
		0o770 | os.ModeSetgid: {Umask: 0o027, GroupWrite: true},
	} {
		o := Options{Dir: filepath.Join(t.TempDir(), "app"), Access: a}
		put(t, o, sha1, bare1)
		put(t, o, sha2, bare2)
		if stat, err := os.Stat(o.Dir); err != nil || stat.Mode() != mode|os.ModeDir {
			t.Errorf("mode %v, want %v, %v", stat.Mode(), mode, err)
		}
	}
}

// Files for which there is no place yet are made in the stage, and go with it.
func TestTemp(t *testing.T) {
	top := t.TempDir()
	target := open(t, Options{Dir: top + "/app"})
	s, err := target.Stage()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f, err := s.Temp()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("x"), 0); err != nil {
			t.Error(err)
		}
		if err := os.Link(f.Name(), s.Tree+"/f"); err != nil {
			os.Remove(f.Name())
		}
	}
	if _, err := target.Stage(); err == nil {
		t.Error("two stages")
	}
	if err := target.Publish(t.Context(), s, Marker{}); err != nil {
		t.Error(err)
	}
	target.Close()
	requireTree(t, top, tree{"app/f": "x", ".app.initbox.json": "marker"})
}

// Where a whole file system cannot be brought to the disk, each file is, and the error of one is not lost.
func TestSyncAll(t *testing.T) {
	for _, fails := range []bool{false, true} {
		top := t.TempDir()
		withGit1.with(tree{"dangling": "-> nowhere"}).write(t, top)
		if fails {
			if err := unix.Mkfifo(filepath.Join(top, ".git/objects/pack/a"), 0o600); err != nil { // fsync(2) of it fails
				t.Fatal(err)
			}
		}
		dir, err := os.Open(top)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if err := syncAll(dir); (err != nil) != fails {
			t.Errorf("error %v", err)
		}
	}
}

// TestOthersLink has another user put a link into a directory that all may write to.
func TestOthersLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes links of others")
	}
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := errors.Join(os.Mkdir(victim, 0o755), os.Symlink(victim, filepath.Join(dir, "app"))); err != nil {
		t.Fatal(err)
	}
	open := func() error {
		target, err := Open(t.Context(), Options{Dir: filepath.Join(dir, "app")})
		if err == nil {
			target.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Errorf("our own link: %v", err)
	}
	if err := os.Lchown(filepath.Join(dir, "app"), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "user 1000") {
		t.Errorf("another's link: %v", err)
	}
	if target, err := Open(t.Context(), Options{Dir: filepath.Join(dir, "app"), Follow: true}); err != nil {
		t.Errorf("another's link, insisted on: %v", err)
	} else {
		target.Close()
	}
	if err := os.Chown(dir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Errorf("the link of the directory's owner: %v", err)
	}
}

// Parents that were created for a directory that does not become a tree are removed, others stay.
func TestParents(t *testing.T) {
	top := t.TempDir()
	tree{"there/": ""}.write(t, top)
	for _, o := range []Options{{Dir: "there/a/b/app"}, {Dir: "there/a/b", Link: "current"}, {Dir: "there/app", GitDir: "there/a/b/git"}} {
		o.Dir = filepath.Join(top, o.Dir)
		if o.GitDir != "" {
			o.GitDir = filepath.Join(top, o.GitDir)
		}
		target, _ := staged(t, o, bare1)
		if err := target.Close(); err != nil {
			t.Error(err)
		}
		requireTree(t, top, tree{"there/": ""})
	}
	target := open(t, Options{Dir: filepath.Join(top, "there/a/b/app")})
	tree{"there/a/theirs": "x"}.write(t, top)
	target.Close()
	requireTree(t, top, tree{"there/a/theirs": "x"})
}
