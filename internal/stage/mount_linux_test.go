package stage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/test/servers"
)

func bind(t *testing.T, source, target string) {
	t.Helper()
	servers.Mount(t, source, target, "", unix.MS_BIND, "")
}

func readOnly(t *testing.T, dir string) {
	t.Helper()
	bind(t, dir, dir)
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

// On a full disk there is a clear error at the latest before the first file is replaced, and everything is as it was.
func TestStageOnFullDisk(t *testing.T) {
	for name, data := range map[string]string{"blocks": "size=128k", "inodes": "nr_inodes=12"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			servers.Tmpfs(t, dir, data)
			write(t, dir, Options{Prune: true}, "a", "b", "sub/c")
			before := tree(t, dir)
			for _, names := range [][]string{{"a", "b", "new/1/2", "sub/c"}, {"a", "1/2/3/4/5/6/7/8/9"}} {
				s := openStage(t, dir, Options{Prune: true})
				var err error
				for _, name := range names {
					if _, err = s.Put(name, make([]byte, 50<<10), plain); err != nil {
						break
					}
				}
				if _, failed := s.Commit(); err == nil {
					err = failed
				}
				s.Close()
				if err == nil { // two of 50 kB, or few directories, have room
					write(t, dir, Options{Prune: true}, "a", "b", "sub/c")
				} else if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("error %v, want no space left", err)
				}
				same(t, before, tree(t, dir))
			}
			write(t, dir, Options{Prune: true}, "a", "d")
		})
	}
}

// A destination that cannot be written to is an error that changes nothing,
// unless there is nothing to be changed; and it can be compared with.
func TestReadOnlyDestination(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, Options{Prune: true}, "a", "sub/b", "c")
	before := tree(t, dir)
	readOnly(t, dir)
	if got := write(t, dir, Options{Prune: true}, "a", "sub/b", "c"); got != "" {
		t.Errorf("done %s", got)
	}
	for _, name := range []string{"a", "sub/b", "sub/new", "new/d"} {
		s := openStage(t, dir, Options{})
		if _, err := s.Put(name, []byte("new"), plain); !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: error %v, want a read-only file system", name, err)
		}
	}
	s := openStage(t, filepath.Join(dir, "x/y"), Options{})
	if _, err := s.Put("z", nil, plain); !errors.Is(err, syscall.EROFS) {
		t.Errorf("error %v, want a read-only file system", err)
	}
	s = openStage(t, dir, Options{Prune: true})
	put(t, s, "a", "content of a")
	if done, err := s.Commit(); err == nil || len(done) > 0 {
		t.Errorf("pruned %v, %v", done, err)
	}
	s = openStage(t, dir, Options{Prune: true, DryRun: true})
	put(t, s, "a", "content of a")
	if plan, err := s.Plan(); err != nil || text(plan) != "c removed, sub/b removed" {
		t.Errorf("plan %s, %v", text(plan), err)
	}
	same(t, before, tree(t, dir))
}

// A draft of a file that is a mount of its own is written in place.
func TestDraftOfMountedFile(t *testing.T) {
	top := t.TempDir()
	write(t, top, Options{}, "d/f", "volume/f")
	bind(t, top+"/volume/f", top+"/d/f")
	s := openStage(t, top+"/d", Options{})
	if c := drafted(t, s, "f", "new content"); !c.InPlace {
		t.Errorf("f is %v", c)
	}
	if got := commitAll(t, s); got != "f changed in place" {
		t.Errorf("done: %s", got)
	}
	s.Close()
	if got := tree(t, top+"/volume")["f"]; got != "-rw-r--r-- new content" {
		t.Errorf("the volume has %s", got)
	}
}

// A file that is a mount of its own, as with a subPath, is written in place; so
// it is if the kernel tells only when it is to be replaced.
func TestMountedFile(t *testing.T) {
	for _, told := range []bool{true, false} {
		top := t.TempDir()
		dir := filepath.Join(top, "d")
		write(t, top, Options{}, "d/f", "d/g", "volume/f")
		bind(t, top+"/volume/f", dir+"/f")
		inode := lstatFile(t, dir+"/f").Ino
		for _, content := range []string{"new, and longer than before", "short", ""} {
			s := openStage(t, dir, Options{Prune: true})
			if !told {
				pretendNotMounted(t, s, "f", content)
			} else if c := put(t, s, "f", content); !c.InPlace {
				t.Errorf("f is %v", c)
			}
			put(t, s, "g", content)
			if got := commitAll(t, s); got != "f changed in place, g changed" {
				t.Errorf("done %s", got)
			}
			s.Close()
			if got, err := os.ReadFile(top + "/volume/f"); string(got) != content || err != nil {
				t.Errorf("the volume has %q, %v", got, err)
			}
			if got := write(t, dir, Options{}); got != "" || len(tree(t, dir)) != 3 {
				t.Errorf("directory holds %v", tree(t, dir))
			}
		}
		s := openStage(t, dir, Options{Prune: true})
		if _, err := s.Put("f", []byte("secret"), Attr{0o600, -1, -1}); err != nil {
			t.Fatal(err)
		}
		commitAll(t, s) // g was pruned
		if now := lstatFile(t, dir+"/f"); now.Ino != inode || now.Mode&0o777 != 0o600 {
			t.Errorf("f is another file, or has mode %o", now.Mode)
		}
		s = openStage(t, dir, Options{Prune: true})
		put(t, s, "h", "h")
		if got := commitAll(t, s); got != "h created" { // f cannot be removed
			t.Errorf("done %s", got)
		}
		if list, _, err := s.listed(); err != nil || strings.Join(list, " ") != "f h" {
			t.Errorf("list %q, %v", list, err)
		}
	}
}

// pretendNotMounted is Put with a kernel that does not tell mounts.
func pretendNotMounted(t *testing.T, s *Stage, name, content string) {
	t.Helper()
	a, err := s.area(".")
	if err != nil {
		t.Fatal(err)
	}
	staged, _, err := a.write(Bytes([]byte(content)), plain)
	if err != nil {
		t.Fatal(err)
	}
	s.names[name] = true
	s.changes = append(s.changes, &change{Change: Change{Name: name, Kind: Changed}, attr: plain, area: a, staged: staged})
}

// A full disk under a file that cannot be replaced is found before that is cut.
func TestMountedFileOnFullDisk(t *testing.T) {
	top := t.TempDir()
	dir, volume := filepath.Join(top, "d"), filepath.Join(top, "volume")
	write(t, top, Options{}, "d/f", "d/g", "volume/x")
	servers.Tmpfs(t, volume, "size=64k")
	write(t, volume, Options{}, "f")
	bind(t, volume+"/f", dir+"/f")
	before := tree(t, dir)
	s := openStage(t, dir, Options{})
	if _, err := s.Put("f", make([]byte, 1<<20), Attr{0o600, -1, -1}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "g", "new")
	put(t, s, "new/h", "new")
	if done, err := s.Commit(); !errors.Is(err, syscall.ENOSPC) || len(done) > 0 {
		t.Errorf("done %v, error %v, want no space left", done, err)
	}
	same(t, before, tree(t, dir))
}

// Below the directory there may be other file systems, or other mounts of the same,
// and directories that cannot be written to: files wait where they can be renamed.
func TestMountedDirectories(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "d")
	write(t, top, Options{}, "d/tmpfs/x", "d/bound/x", "volume/sub/f", "d/ro/rw/x")
	servers.Tmpfs(t, dir+"/tmpfs", "size=1m")
	bind(t, top+"/volume", dir+"/bound")
	rw := filepath.Join(top, "rw")
	write(t, rw, Options{}, "f")
	bind(t, rw, dir+"/ro/rw")
	readOnlyBelow(t, dir+"/ro", rw)
	names := []string{"f", "tmpfs/a/b", "tmpfs/c", "bound/sub/f", "bound/sub/g", "ro/rw/f", "ro/rw/new/g"}
	for _, content := range []string{"one", "two"} {
		s := openStage(t, dir, Options{Prune: true})
		for _, name := range names {
			if c := put(t, s, name, content); c.InPlace {
				t.Errorf("%v: in place", c)
			}
		}
		commitAll(t, s)
		s.Close()
		for _, name := range names {
			if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != content || err != nil {
				t.Errorf("%s holds %q, %v", name, got, err)
			}
		}
	}
	if got, want := write(t, dir, Options{Prune: true}), "bound/sub/f removed"; !strings.HasPrefix(got, want) {
		t.Errorf("done %s", got)
	}
	for name := range tree(t, top) {
		if strings.Contains(name, areaPrefix) {
			t.Errorf("%s stays", name)
		}
	}
}

// readOnlyBelow makes dir read-only, except for what is mounted in it from rw.
func readOnlyBelow(t *testing.T, dir, rw string) {
	t.Helper()
	readOnly(t, dir)
	bind(t, rw, filepath.Join(dir, "rw"))
}

// A killed stage's files are found on another file system, too.
func TestSweepOfMountedDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	servers.Tmpfs(t, dir+"/sub", "size=1m")
	s := openStage(t, dir, Options{})
	put(t, s, "sub/a/b", "x")
	for at, a := range s.areas {
		if at != "sub" {
			t.Errorf("files wait in %s", at)
		}
		a.lock.Close()
	}
	write(t, dir, Options{}, "sub/a/b")
	for name := range tree(t, dir) {
		if strings.Contains(name, areaPrefix) {
			t.Errorf("%s stays", name)
		}
	}
}

func TestVersionIsNotForMounts(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	if err := os.Mkdir(link, 0o755); err != nil {
		t.Fatal(err)
	}
	servers.Tmpfs(t, link, "size=64k")
	_, err := OpenVersion(link, Options{})
	var hint interface{ Hint() string }
	if err == nil || !strings.Contains(err.Error(), "mounted") || !errors.As(err, &hint) {
		t.Errorf("error %v", err)
	}
}

func TestVersionOnFullOrReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	servers.Tmpfs(t, dir, "size=128k")
	link := filepath.Join(dir, "conf")
	version(t, link, "a", "b")
	before := tree(t, dir)
	s, err := OpenVersion(link, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put("a", make([]byte, 1<<20), plain); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want no space left", err)
	}
	s.Close()
	same(t, before, tree(t, dir))
	readOnly(t, dir)
	if got := version(t, link, "a", "b"); got != "" {
		t.Errorf("done %s", got)
	}
	s, err = OpenVersion(link, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put("a", nil, plain); !errors.Is(err, syscall.EROFS) {
		t.Errorf("error %v, want a read-only file system", err)
	}
	same(t, before, tree(t, dir))
}
