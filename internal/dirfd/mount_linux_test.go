package dirfd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/test/servers"
)

// The same file system, mounted twice, is two mounts.
func TestMount(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts")
	}
	path := t.TempDir()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, name := range []string{"a", "b"} {
		if err := Mkdir(dir, name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	servers.Tmpfs(t, path+"/a", "size=1m")
	servers.Mount(t, path+"/a", path+"/b", "", unix.MS_BIND, "")
	above, err := Inspect(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	a, errA := Inspect(dir, "a")
	b, errB := Inspect(dir, "b")
	if errA != nil || errB != nil || !a.MountRoot || !b.MountRoot || above.MountRoot {
		t.Errorf("%+v, %v, %+v, %v, above %+v", a, errA, b, errB, above)
	}
	if a.Mount == b.Mount || a.Mount == above.Mount || a.Mount.dev != b.Mount.dev {
		t.Errorf("mounts %v and %v in %v", a.Mount, b.Mount, above.Mount)
	}
	if !OnTmpfs(path + "/a") {
		t.Error("it is a tmpfs")
	}
}

func TestOnTmpfs(t *testing.T) {
	if OnTmpfs("/proc/self") || OnTmpfs("/none") {
		t.Error("/proc is not a tmpfs")
	}
	memory, err := unix.MemfdCreate("file", unix.MFD_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer FD(memory).Close()
	if !OnTmpfs(fmt.Sprintf("/proc/self/fd/%d", memory)) {
		t.Error("a file in memory is on a tmpfs")
	}
}

// Inspect returns the mount ID that /proc/self/fdinfo shows.
func TestMountID(t *testing.T) {
	dir := tempDir(t)
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", dir.Fd()))
	if err != nil || !strings.Contains(string(info), "mnt_id:") {
		t.Skipf("%s, %v", info, err)
	}
	i, err := Inspect(dir, "")
	if want := fmt.Sprintf("mnt_id:\t%d\n", i.Mount.id); err != nil || !strings.Contains(string(info), want) {
		t.Errorf("%+v, %v, want\n%s", i, err, info)
	}
}

// Old kernels do not have statx (ENOSYS), and old seccomp profiles forbid it (EPERM).
func TestInspectWithoutStatx(t *testing.T) {
	dir := tempDir(t)
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		var i Info
		err := servers.Without(t, unix.SYS_STATX, errno, func() (err error) {
			i, err = Inspect(dir, "a")
			return err
		})
		if err != nil || i.Kind() != unix.S_IFREG || i.Mount.id != 0 {
			t.Errorf("%v: %+v, %v", errno, i, err)
		}
	}
	if err := servers.Without(t, unix.SYS_STATX, unix.EIO, func() error { _, err := Inspect(dir, "a"); return err }); err != unix.EIO {
		t.Errorf("%v, want the error of the disk", err)
	}
}

// A disk without room is an error, and a file system that cannot reserve any is not.
func TestReserve(t *testing.T) {
	dir := tempDir(t)
	f, err := Open(dir, "a", unix.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before, _ := f.Stat()
	if err := Reserve(f, 1<<20); err != nil {
		t.Error(err)
	}
	if after, err := f.Stat(); err != nil || after.Size() != before.Size() {
		t.Errorf("size %d, %v: reserving must not change it", after.Size(), err)
	}
	for errno, want := range map[unix.Errno]error{
		unix.ENOSPC: unix.ENOSPC, unix.EDQUOT: unix.EDQUOT, unix.EFBIG: unix.EFBIG, unix.EOPNOTSUPP: nil, unix.ENOSYS: nil,
	} {
		if err := servers.Without(t, unix.SYS_FALLOCATE, errno, func() error { return Reserve(f, 1) }); err != want {
			t.Errorf("%v: %v, want %v", errno, err, want)
		}
	}
}

// SetMode and setModeByPath do the same, with and without fchmodat2: the mode of files, directories and what is open
// with O_PATH, but never of what a link leads to.
func TestSetMode(t *testing.T) {
	for name, set := range map[string]func(Dir, string, uint32) error{"fchmodat2": SetMode, "path": setModeByPath} {
		dir := tempDir(t)
		file, err := Open(dir, "file", unix.O_WRONLY|unix.O_CREAT, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		Symlink("file", dir, "link")
		if err := set(dir, "link", 0o777); err != unix.EOPNOTSUPP {
			t.Errorf("%s of a link: %v", name, err)
		}
		if err := set(dir, "none", 0o777); err != unix.ENOENT {
			t.Errorf("%s of nothing: %v", name, err)
		}
		if s, _ := Lstat(dir, "file"); s.Mode&0o7777 != 0o600 {
			t.Errorf("%s followed a link", name)
		}
		if err := set(dir, "file", 0o640); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		path, err := OpenFD(dir, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer path.Close()
		if err := set(path, "", 0o2710); err != nil {
			t.Errorf("%s of a path: %v", name, err)
		}
		file1, _ := Lstat(dir, "file")
		dir1, _ := Stat(dir)
		if file1.Mode&0o7777 != 0o640 || dir1.Mode&0o7777 != 0o2710 {
			t.Errorf("%s: modes %o and %o", name, file1.Mode, dir1.Mode)
		}
	}
}

// Xattr and SetXattrOf reach links themselves.
func TestXattrOfLinks(t *testing.T) {
	dir := tempDir(t)
	Symlink("/none", dir, "link")
	if err := SetXattrOf(dir, "link", "trusted.test", "yes"); err != nil {
		t.Skipf("needs a capability: %v", err)
	}
	if value, err := Xattr(dir, "link", "trusted.test"); value != "yes" || err != nil {
		t.Errorf("%q, %v", value, err)
	}
	if value, err := Xattr(dir, "", "trusted.test"); value != "" || err != nil {
		t.Errorf("of the directory: %q, %v", value, err)
	}
}
