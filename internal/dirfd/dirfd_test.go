package dirfd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Example replaces a file so that a reader finds the old content or the new one.
func Example() {
	path, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(path)
	dir, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()

	f, err := Open(dir, "config.new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err == nil {
		_, err = f.WriteString("new")
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = Rename(dir, "config.new", dir, "config")
	}
	if err == nil {
		err = Sync(dir)
	}
	names, _ := Names(dir)
	fmt.Println(names, err)
	// Output: [config] <nil>
}

// tempDir returns an open directory with the files a ("A"), b ("B"), sub/c, and a link to each of a and sub.
func tempDir(t *testing.T) *os.File {
	t.Helper()
	path := t.TempDir()
	for _, err := range []error{
		os.WriteFile(path+"/a", []byte("A"), 0o644), os.WriteFile(path+"/b", []byte("B"), 0o644),
		os.Mkdir(path+"/sub", 0o755), os.WriteFile(path+"/sub/c", nil, 0o644),
		os.Symlink("a", path+"/to-a"), os.Symlink("sub", path+"/to-sub"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

func read(t *testing.T, dir *os.File, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir.Name(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestRetry(t *testing.T) {
	calls := 0
	err := retry(func() error {
		if calls++; calls < 3 {
			return unix.EINTR
		}
		return unix.EIO
	})
	if calls != 3 || err != unix.EIO {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// No function opens a link: another user may have chosen its target.
func TestOpenFollowsNoLink(t *testing.T) {
	dir := tempDir(t)
	if _, err := Open(dir, "to-a", unix.O_RDONLY, 0); err != unix.ELOOP {
		t.Errorf("a link to a file: %v", err)
	}
	if _, err := OpenDir(dir, "to-sub"); err != unix.ENOTDIR && err != unix.ELOOP {
		t.Errorf("a link to a directory: %v", err)
	}
	if _, err := OpenDir(dir, "a"); err != unix.ENOTDIR {
		t.Errorf("a file as a directory: %v", err)
	}
	f, err := OpenDir(dir, "sub")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if want := filepath.Join(dir.Name(), "sub"); f.Name() != want {
		t.Errorf("name %s, want %s", f.Name(), want)
	}
}

func TestOpenDoesNotWaitForAPipe(t *testing.T) {
	dir := tempDir(t)
	if err := unix.Mkfifo(dir.Name()+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir, "pipe", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Open(dir, "pipe", unix.O_WRONLY, 0); err != unix.ENXIO {
		t.Errorf("%v, want that there is no reader", err)
	}
}

func TestStat(t *testing.T) {
	dir := tempDir(t)
	whole, err := Stat(dir)
	if err != nil || !IsDir(whole) {
		t.Errorf("mode %o, %v", whole.Mode, err)
	}
	link, err := Lstat(dir, "to-sub")
	if err != nil || link.Mode&unix.S_IFMT != unix.S_IFLNK || IsDir(link) {
		t.Errorf("mode %o, %v", link.Mode, err)
	}
	if _, err := Lstat(dir, "none"); err != unix.ENOENT {
		t.Error(err)
	}
}

// An open directory stays the same when its path leads to another one.
func TestDirectoryIsReplaced(t *testing.T) {
	dir := tempDir(t)
	sub, err := OpenDir(dir, "sub")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := errors.Join(Rename(dir, "sub", dir, "moved"), Symlink("/", dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := Mkdir(sub, "made", 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := os.Stat(dir.Name() + "/moved/made"); err != nil || s.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%v, %v", s, err)
	}
}

func TestNamesOfFiles(t *testing.T) {
	dir := tempDir(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	check(Exchange(dir, "a", dir, "b"))
	if got := read(t, dir, "a") + read(t, dir, "b"); got != "BA" {
		t.Errorf("exchanged: %s", got)
	}
	check(Link(dir, "a", dir, "second"))
	check(Rename(dir, "a", dir, "b"))
	if got := read(t, dir, "b") + read(t, dir, "second"); got != "BB" {
		t.Errorf("renamed: %s", got)
	}
	if target, err := Readlink(dir, "to-a"); target != "a" || err != nil {
		t.Errorf("target %q, %v", target, err)
	}
	if err := Remove(dir, "sub"); err != unix.EISDIR && err != unix.EPERM {
		t.Errorf("remove a directory as a file: %v", err)
	}
	if err := RemoveDir(dir, "sub"); err != unix.ENOTEMPTY {
		t.Errorf("remove a directory with a file: %v", err)
	}
	sub, err := OpenDir(dir, "sub")
	check(err)
	check(Remove(sub, "c"))
	check(sub.Close())
	check(RemoveDir(dir, "sub"))
	check(Remove(dir, "to-sub"))
	for range 2 { // from the start each time
		names, err := Names(dir)
		slices.Sort(names)
		if want := []string{"b", "second", "to-a"}; !slices.Equal(names, want) || err != nil {
			t.Errorf("names %q, want %q, %v", names, want, err)
		}
	}
}

func TestChmodAndChown(t *testing.T) {
	dir := tempDir(t)
	if err := Chmod(dir, "a", 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Lstat(dir, "a"); err != nil || s.Mode&0o777 != 0o600 {
		t.Errorf("mode %o, %v", s.Mode, err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	if err := Chown(dir, "to-a", 1234, -1); err != nil {
		t.Fatal(err)
	}
	link, _ := Lstat(dir, "to-a")
	file, _ := Lstat(dir, "a")
	if link.Uid != 1234 || link.Gid != file.Gid || file.Uid == 1234 {
		t.Errorf("owner of the link %d:%d, of the file %d", link.Uid, link.Gid, file.Uid)
	}
}

func TestAccess(t *testing.T) {
	dir := tempDir(t)
	if err := errors.Join(Access(dir, "a", unix.R_OK|unix.W_OK), Access(dir, "to-sub", unix.X_OK)); err != nil {
		t.Error(err)
	}
	if err := Access(dir, "to-a", unix.X_OK); err != unix.EACCES { // also for root
		t.Errorf("%v for a file that is not executable", err)
	}
}

func TestLinkOpen(t *testing.T) {
	dir := tempDir(t)
	f, err := Open(dir, "b", unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := LinkOpen(f, dir, "sub/second"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, "sub/second"); got != "B" {
		t.Errorf("content %q", got)
	}
	if err := LinkOpen(f, dir, "a"); err != unix.EEXIST {
		t.Errorf("%v where a file has that name", err)
	}
}

func TestReadDir(t *testing.T) {
	dir := tempDir(t)
	kinds := map[string]byte{}
	if err := ReadDir(dir, make([]byte, 64), func(name string, kind byte) { kinds[name] = kind }); err != nil {
		t.Fatal(err)
	}
	want := map[string]byte{
		"a": unix.DT_REG, "b": unix.DT_REG, "sub": unix.DT_DIR, "to-a": unix.DT_LNK, "to-sub": unix.DT_LNK,
	}
	if len(kinds) != len(want) {
		t.Errorf("entries %v", kinds)
	}
	for name, kind := range want {
		if got := kinds[name]; got != kind && got != unix.DT_UNKNOWN {
			t.Errorf("%s is of type %d, want %d", name, got, kind)
		}
	}
	file, err := os.Open(dir.Name() + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := ReadDir(file, make([]byte, 64), func(string, byte) {}); err != unix.ENOTDIR {
		t.Errorf("a file: %v", err)
	}
	if names, err := Names(file); err != unix.ENOTDIR {
		t.Errorf("names %q in a file, %v", names, err)
	}
}

func TestFD(t *testing.T) {
	dir := tempDir(t)
	fd, err := OpenFD(dir, "new", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := fd.Write([]byte("content")); n != 7 || err != nil {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	if _, err := unix.Seek(int(fd), 0, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(fd); string(got) != "content" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if err := errors.Join(fd.Chown(os.Geteuid(), -1), fd.Chmod(0o640)); err != nil {
		t.Error(err)
	}
	if s, err := Stat(fd); err != nil || s.Mode&0o777 != 0o640 {
		t.Errorf("mode %o, %v", s.Mode, err)
	}
	full, err := unix.Open("/dev/full", unix.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	defer FD(full).Close()
	if n, err := FD(full).Write([]byte("x")); n != 0 || err != unix.ENOSPC {
		t.Errorf("wrote %d bytes to a full disk, %v", n, err)
	}
	if err := FD(-1).Close(); err != unix.EBADF {
		t.Errorf("closing nothing: %v", err)
	}
	if n, err := fd.Read(nil); n != 0 || err != nil {
		t.Errorf("reading no bytes: %d, %v", n, err)
	}
	if err := fd.Close(); err != nil {
		t.Error(err)
	}
	if n, err := FD(-1).Read(make([]byte, 1)); n != 0 || err != unix.EBADF {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
}

func TestLock(t *testing.T) {
	dir := tempDir(t)
	open := func() *os.File {
		f, err := Open(dir, "a", unix.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	if err := Lock(first, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := Lock(second, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("%v, want that it is locked", err)
	}
	first.Close()
	if err := Lock(second, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("%v, after the lock was released", err)
	}
	// A copy of the descriptor, as a child has until it execs.
	child, err := unix.FcntlInt(second.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	third := open()
	Unlock(second)
	if err := Lock(third, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("%v, after Unlock", err)
	}
}

type syncer struct{ err error }

func (s syncer) Sync() error { return s.err }

// An error of the disk is returned; that a file system cannot sync directories is not an error.
func TestSync(t *testing.T) {
	failed := &fs.PathError{Op: "sync", Path: "/data", Err: unix.EIO}
	if err := Sync(syncer{failed}); !errors.Is(err, unix.EIO) {
		t.Errorf("%v, want the error of the disk", err)
	}
	if err := Sync(syncer{&fs.PathError{Op: "sync", Path: "/data", Err: unix.EINVAL}}); err != nil {
		t.Errorf("%v, where directories cannot be synced", err)
	}
	dir := tempDir(t)
	if err := errors.Join(Sync(dir), Syncfs(dir)); err != nil {
		t.Error(err)
	}
	dir.Close()
	if Sync(dir) == nil {
		t.Error("no error for a closed directory")
	}
}

func TestInspect(t *testing.T) {
	dir := tempDir(t)
	for _, inspect := range []func(Dir, string) (Info, error){Inspect, inspectWithoutMount} {
		whole, err := inspect(dir, "")
		if err != nil || whole.Kind() != unix.S_IFDIR {
			t.Errorf("%+v, %v", whole, err)
		}
		file, err := inspect(dir, "a")
		if err != nil || file.Kind() != unix.S_IFREG || file.Mode&0o777 != 0o644 || file.Size != 1 ||
			file.UID != os.Geteuid() || file.Mount != whole.Mount || file.MountRoot {
			t.Errorf("%+v, %v", file, err)
		}
		link, err := inspect(dir, "to-sub")
		if err != nil || link.Kind() != unix.S_IFLNK {
			t.Errorf("%+v, %v", link, err)
		}
		if _, err := inspect(dir, "none"); err != unix.ENOENT {
			t.Error(err)
		}
	}
}

// OpenBelow goes through directories that cannot be read, and through no link, wherever it is in the path.
func TestOpenBelow(t *testing.T) {
	top := t.TempDir()
	if err := errors.Join(os.MkdirAll(top+"/a/b/c", 0o755), os.Symlink("b", top+"/a/link"), os.Symlink("a", top+"/link"),
		os.WriteFile(top+"/a/b/file", nil, 0o644), os.Chmod(top+"/a", 0o311)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(top+"/a", 0o755)
	root, err := os.OpenFile(top, os.O_RDONLY|unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]string{".": "a link", "a/b": "c file", "a/b/c": "", "link/b": "-", "a/link": "-", "a/link/c": "-", "a/b/file": "-", "a/none": "-"} {
		got := "-"
		if dir, err := OpenBelow(root, name); err == nil {
			names, _ := Names(dir)
			dir.Close()
			slices.Sort(names)
			got = strings.Join(names, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
