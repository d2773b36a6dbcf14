package mounts

import (
	"errors"
	"io/fs"
	"os"
	"slices"
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
	if testing.Short() {
		t.Skip("mounts")
	}
	top, err := os.MkdirTemp("/var", "initbox-test-") // not in a $TMPDIR that is itself mounted
	if err != nil {
		servers.Absent(t, "%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	if point, ok, err := Below(top); ok || err != nil {
		servers.Absent(t, "%s is on the mount %s, %v", top, point, err)
	}
	servers.Tmpfs(t, top+"/vol", "size=1m")
	for _, err := range []error{
		os.MkdirAll(top+"/vol/sub/deep", 0o755), os.Mkdir(top+"/other", 0o755), os.WriteFile(top+"/vol/file", nil, 0o644),
		os.Symlink("vol", top+"/image"), os.Symlink("sub", top+"/vol/inside"), os.Symlink(top+"/other", top+"/vol/outside"),
		os.Symlink("loop", top+"/loop"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func TestBelow(t *testing.T) {
	top := volume(t)
	for path, want := range map[string]string{
		"": "", "/none/there": "", "/vol": "/vol", "/vol/none/there": "/vol", "/image/none": "/vol",
		"/image": "", "/vol/outside": "/vol", "/vol/outside/none": "",
	} {
		if want != "" {
			want = top + want
		}
		point, ok, err := Below(top + path)
		if err != nil || ok != (want != "") || ok && point != want {
			t.Errorf("%s: %q, %v, %v, want %q", path, point, ok, err, want)
		}
	}
}

func TestOpenDir(t *testing.T) {
	top := volume(t)
	isLink := func(link string) func(error) bool {
		return func(err error) bool {
			var e *LinkError
			return errors.As(err, &e) && e.Link == top+link && e.Point == top+"/vol" && e.Hint() != ""
		}
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	for _, test := range []struct {
		path   string
		follow bool
		want   func(error) bool
	}{
		{"", false, nil},
		{"/vol/sub/deep", false, nil},
		{"/vol/../vol/./sub", false, nil},
		{"/image/sub", false, nil},
		{"/vol/inside", false, isLink("/vol/inside")},
		{"/image/inside/deep", false, isLink("/vol/inside")},
		{"/vol/outside", false, isLink("/vol/outside")},
		{"/vol/outside", true, nil},
		{"/vol/inside/deep", true, nil},
		{"/vol/none/there", false, is(fs.ErrNotExist)},
		{"/vol/file", false, is(unix.ENOTDIR)},
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
