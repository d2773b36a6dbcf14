package mounts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/test/servers"
)

func TestAll(t *testing.T) {
	all := All()
	if !slices.ContainsFunc(all, func(p Point) bool { return p.Path == "/proc" && p.Root == "/" && p.Type == "proc" }) {
		t.Errorf("/proc is not among the mounts %v", all)
	}
}

// volume returns a directory with a mounted volume called vol in it, and a link to that called image.
func volume(t *testing.T) string {
	t.Helper()
	vol, outside := servers.Volume(t)
	top := filepath.Dir(vol)
	for _, err := range []error{
		os.MkdirAll(vol+"/sub/deep", 0o755), os.WriteFile(vol+"/file", nil, 0o644),
		os.Symlink("volume", top+"/image"), os.Symlink("sub", vol+"/inside"), os.Symlink(outside, vol+"/outside"),
		os.Symlink("loop", top+"/loop"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// Links are followed in the directories of a path that exist, and not in its last element.
func TestResolve(t *testing.T) {
	top := volume(t)
	for path, want := range map[string]string{
		"": "", "/none/there": "/none/there", "/volume/none/there": "/volume/none/there", "/image/none": "/volume/none",
		"/image": "/image", "/volume/outside": "/volume/outside", "/volume/outside/none": "/outside/none",
	} {
		if got, err := resolve(top + path); got != top+want || err != nil {
			t.Errorf("%s: %q, %v, want %q", path, got, err, top+want)
		}
	}
}

func TestOpenDir(t *testing.T) {
	top := volume(t)
	isLink := func(link string) func(error) bool {
		return func(err error) bool {
			var e *LinkError
			return errors.As(err, &e) && e.Link == top+link && e.Point == top+"/volume" && e.Hint() != ""
		}
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	for _, test := range []struct {
		path   string
		follow bool
		want   func(error) bool
	}{
		{"", false, nil},
		{"/volume/sub/deep", false, nil},
		{"/volume/../volume/./sub", false, nil},
		{"/image/sub", false, nil},
		{"/volume/inside", false, isLink("/volume/inside")},
		{"/image/inside/deep", false, isLink("/volume/inside")},
		{"/volume/outside", false, isLink("/volume/outside")},
		{"/volume/outside", true, nil},
		{"/volume/inside/deep", true, nil},
		{"/volume/none/there", false, is(fs.ErrNotExist)},
		{"/volume/file", false, is(unix.ENOTDIR)},
		{"/loop", false, is(unix.ELOOP)},
	} {
		dir, err := OpenDir(top+test.path, test.follow)
		if err == nil {
			defer dir.Close()
		}
		if test.want == nil && err != nil || test.want != nil && (err == nil || !test.want(err)) {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		if err != nil {
			continue
		}
		want, err := os.Stat(top + test.path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := dirfd.Stat(dir)
		if err != nil || info.Ino != inode(want) {
			t.Errorf("%s: another directory, %v", test.path, err)
		}
	}
}

// Missing directories are made one by one, and not through a link.
func TestMakeDirs(t *testing.T) {
	top := volume(t)
	var made []string
	mkdir := func(parent *os.File, name string) error {
		made = append(made, strings.TrimPrefix(filepath.Join(parent.Name(), name), top))
		return dirfd.Mkdir(parent, name, 0o755)
	}
	dir, err := MakeDirs(top+"/volume/sub/a/b", false, mkdir)
	if err != nil {
		t.Fatal(err)
	}
	dir.Close()
	if want := []string{"/volume/sub/a", "/volume/sub/a/b"}; !slices.Equal(made, want) || dir.Name() != top+want[1] {
		t.Errorf("made %v and opened %s, want %v", made, dir.Name(), want)
	}
	if dir, err := MakeDirs(top+"/volume/outside/a", false, mkdir); !errors.As(err, new(*LinkError)) || len(made) != 2 {
		t.Errorf("through a link: %v, %v, %v", dir, err, made)
	}
	if _, err := MakeDirs(top+"/volume/file/a", false, mkdir); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	full := func(*os.File, string) error { return unix.ENOSPC }
	if _, err := MakeDirs(top+"/volume/new/a", false, full); err == nil || err.Error() != "make "+top+"/volume/new: no space left on device" {
		t.Errorf("a directory that cannot be made: %v", err)
	}
}

// The kernel's own links are followed.
func TestOpenKernelLinks(t *testing.T) {
	dir, err := OpenDir("/proc/self/task", false)
	if err != nil {
		t.Fatal(err)
	}
	dir.Close()
}

func inode(info fs.FileInfo) uint64 {
	s, _ := info.Sys().(*syscall.Stat_t)
	if s == nil {
		return 0
	}
	return s.Ino
}

func TestOpenParent(t *testing.T) {
	top := volume(t)
	for _, err := range []error{
		os.Symlink("outside/file", top+"/to-file"), os.Symlink("../outside/none", top+"/volume/to-none"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		path   string
		follow bool
		want   string // directory and name
		link   bool
	}{
		{"/volume/new", false, "/volume/new", false},
		{"/image/new", false, "/volume/new", false},
		{"/to-file", false, "/outside/file", false},
		{"/volume/to-none", false, "/volume/to-none", true},
		{"/volume/to-none", true, "/outside/none", false},
		{"/volume/outside", false, "/volume/outside", true},
	} {
		dir, name, link, err := OpenParent(top+test.path, test.follow)
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		dir.Close()
		if got := filepath.Join(dir.Name(), name); got != top+test.want || (link != nil) != test.link {
			t.Errorf("%s: %s, %v, want %s", test.path, got, link, test.want)
		}
	}
	if _, _, _, err := OpenParent(top+"/loop", false); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
	if _, _, _, err := OpenParent(top+"/none/file", false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}
