package publish

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/servers"
)

// A mount point keeps its inode, its permissions, lost+found and what is mounted in it; all else becomes the tree.
func TestMountPoint(t *testing.T) {
	for _, kind := range []string{"tmpfs", "bind", "without exchange"} {
		t.Run(kind, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "app")
			if kind == "tmpfs" {
				servers.Tmpfs(t, dir, "size=10m,mode=0777")
			} else {
				os.Mkdir(filepath.Join(top, "volume"), 0o755)
				os.Chmod(filepath.Join(top, "volume"), 0o777)
				servers.Mount(t, filepath.Join(top, "volume"), dir, "", unix.MS_BIND, "")
			}
			tree{"old": "x", "a/b": "x", "sub": "x", "lost+found/": ""}.write(t, dir)
			servers.Tmpfs(t, filepath.Join(dir, "mounted"), "size=1m")
			stay := tree{"mounted/f": "f", "lost+found/": ""}
			tree{"mounted/f": "f"}.write(t, dir)
			before, _ := os.Stat(dir)
			o := Options{Dir: dir, Replace: true}
			publish := func(sha string, what tree) {
				t.Helper()
				target := open(t, o)
				defer target.Close()
				target.noExchange = kind == "without exchange"
				s, err := target.Stage()
				if err != nil {
					t.Fatal(err)
				}
				what.write(t, s.Tree)
				if err := target.Publish(context.Background(), s, Marker{SHA: sha}); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				publish(sha1, withGit1)
				requireTree(t, dir, withGit1.with(inGit).with(stay))
				if got := current(t, o); got != sha1 {
					t.Errorf("current %q", got)
				}
				publish(sha2, withGit2)
				requireTree(t, dir, withGit2.with(inGit).with(stay))
				publish(sha1, bare1)
				requireTree(t, dir, bare1.with(stay).with(tree{".initbox.json": "marker"}))
				if got := current(t, o); got != sha1 {
					t.Errorf("current %q", got)
				}
				publish(sha2, bare2)
				if got := current(t, o); got != sha2 {
					t.Errorf("current %q", got)
				}
			}
			if after, _ := os.Stat(dir); !os.SameFile(before, after) || after.Mode() != before.Mode() {
				t.Errorf("the directory is another, or has mode %v", after.Mode())
			}
		})
	}
}

// What is mounted further down would go with its directory: refused before anything is
// made, and so is a tree that has a mount's name.
func TestMountsInTheWay(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "app")
	old := tree{"x": "x", "a b/y": "y"}
	old.write(t, dir)
	servers.Tmpfs(t, filepath.Join(dir, "a"), "size=1m")
	err := tryPut(t, Options{Dir: dir, Replace: true}, sha1, withGit1)
	requireRefused(t, err, "mounted")
	servers.Tmpfs(t, filepath.Join(dir, "a b", "c"), "size=1m")
	err = tryPut(t, Options{Dir: dir, Replace: true}, sha1, withGit1)
	requireRefused(t, err, "a b/c is mounted in")
	requireTree(t, top, prefixed("app", old.with(tree{"a/": "", "a b/c/": ""})))
}

// Full disks are found, and leave the old tree.
func TestFullDisk(t *testing.T) {
	for _, in := range []string{".", "app"} {
		dir := t.TempDir()
		servers.Tmpfs(t, dir, "size=256k")
		o := Options{Dir: filepath.Join(dir, in)}
		put(t, o, sha1, withGit1)
		before := read(t, dir)
		target := open(t, o)
		s, err := target.Stage()
		if err != nil {
			t.Fatal(err)
		}
		withGit2.write(t, s.Tree)
		for { // the marker has no room either
			f, err := s.Temp()
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Write(make([]byte, 4096))
			f.Close()
			if err != nil {
				break
			}
		}
		var f *failure.Failure
		err = target.Publish(context.Background(), s, Marker{SHA: sha2})
		if !errors.As(err, &f) || f.Class != failure.DiskFull || f.Hint == "" || poll.IsPermanent(err) {
			t.Errorf("error %v, want that the disk is full", err)
		}
		target.Close()
		requireTree(t, dir, before)
		if got := current(t, o); got != sha1 {
			t.Errorf("current %q", got)
		}
	}
}

// What is right already is right on a volume that can only be read.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	servers.Tmpfs(t, dir, "size=1m")
	for _, o := range []Options{{Dir: filepath.Join(dir, "app")}, {Dir: dir + "/link", Link: "current"}, {Dir: dir, Replace: true}} {
		put(t, o, sha1, withGit1)
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		if got := current(t, o); got != sha1 {
			t.Errorf("current %q", got)
		}
		requireRefused(t, tryPut(t, o, sha2, withGit2), "read-only")
		unix.Mount("", dir, "", unix.MS_REMOUNT, "")
		put(t, o, sha2, withGit2)
	}
}

// A directory of an image's lower layer cannot be renamed.
func TestLowerLayer(t *testing.T) {
	top := t.TempDir()
	servers.Tmpfs(t, top, "size=10m") // an overlay cannot be on an overlay
	tree{"lower/app/old/x": "x", "lower/app/sub/b": "x", "lower/app/a": "x", "lower/none/": "", "upper/": "", "work/": ""}.write(t, top)
	servers.Mount(t, "overlay", top+"/merged", "overlay", 0, "lowerdir="+top+"/lower,upperdir="+top+"/upper,workdir="+top+"/work")
	for _, name := range []string{"app", "none", "new"} {
		o := Options{Dir: filepath.Join(top, "merged", name), Replace: true}
		put(t, o, sha1, withGit1)
		requireTree(t, o.Dir, withGit1.with(inGit))
		if got := current(t, o); got != sha1 {
			t.Errorf("current %q", got)
		}
		put(t, o, sha2, withGit2)
		requireTree(t, o.Dir, withGit2.with(inGit))
		put(t, o, sha1, bare1)
		requireTree(t, o.Dir, bare1)
	}
}

// A link in a volume is refused: its owner may not be allowed to replace what it points to. A link outside is followed.
func TestLinkInVolume(t *testing.T) {
	top := t.TempDir()
	servers.Tmpfs(t, filepath.Join(top, "volume"), "size=10m,mode=0777")
	stay := tree{"victim/app/data": "x", "victim/.worktrees/x": "x"}
	stay.with(tree{
		"to": "-> volume/sub", "volume/sub/x": "x",
		"volume/app": "-> ../victim/app", "volume/way": "-> ../victim", "volume/near": "-> sub",
	}).write(t, top)
	all, err := filepath.Glob(filepath.Join(top, "volume/*"))
	for _, name := range all {
		err = errors.Join(err, os.Lchown(name, 1000, 1000))
	}
	if err = errors.Join(err, os.Chown(filepath.Join(top, "volume"), 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"the directory": {Dir: "volume/app"},
		"on the way":    {Dir: "volume/way/app"},
		"missing":       {Dir: "volume/way/new/app"},
		"near":          {Dir: "volume/near"},
		"link mode":     {Dir: "volume/way", Link: "current"},
		"outside first": {Dir: "to/../volume/app"},
		"GitDir":        {Dir: "volume/new", GitDir: "volume/way/git"},
	} {
		o.Dir = filepath.Join(top, o.Dir)
		if o.GitDir != "" {
			o.GitDir = filepath.Join(top, o.GitDir)
		}
		before := read(t, top)
		_, err := Open(t.Context(), o)
		requireRefused(t, err, "is a symbolic link in the volume "+filepath.Join(top, "volume"))
		if after := read(t, top); !maps.Equal(after, before) {
			t.Errorf("%s: there is\n%v", name, after)
		}
	}
	put(t, Options{Dir: filepath.Join(top, "to"), Replace: true}, sha1, bare1)
	requireTree(t, filepath.Join(top, "volume/sub"), bare1)
	requireTree(t, filepath.Join(top, "victim"), tree{"app/data": "x", ".worktrees/x": "x"})
	put(t, Options{Dir: filepath.Join(top, "volume/app"), Follow: true, Replace: true}, sha1, bare1)
	requireTree(t, filepath.Join(top, "victim/app"), bare1)
}
