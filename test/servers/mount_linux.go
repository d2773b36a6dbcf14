package servers

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Mount calls mount(2) for the duration of a test, in a new directory if target does not exist. Without the permission
// to mount, the test is skipped, see [Absent].
func Mount(t testing.TB, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if os.Getuid() != 0 {
		Absent(t, "mounting needs root")
	}
	if _, err := os.Stat(target); err != nil {
		if err := os.MkdirAll(target, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		Absent(t, "cannot mount here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
}

// Tmpfs mounts an empty file system for the duration of a test, with options such as "size=1m".
func Tmpfs(t testing.TB, target, options string) {
	t.Helper()
	Mount(t, "tmpfs", target, "tmpfs", 0, options)
}

// Volume mounts an empty volume for the duration of a test, as the kubelet does, and returns its path and that of a
// directory on the root file system, beside it. $TMPDIR may itself be mounted.
func Volume(t testing.TB) (volume, outside string) {
	t.Helper()
	if testing.Short() {
		t.Skip("mounts")
	}
	top, err := os.MkdirTemp("/var", "initbox-test-")
	if err != nil {
		Absent(t, "%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(top) }) // after it is unmounted
	var root, here unix.Stat_t
	if err := errors.Join(unix.Stat("/", &root), unix.Stat(top, &here)); err != nil || root.Dev != here.Dev {
		Absent(t, "%s is not on the root file system, %v", top, err)
	}
	if err := os.Mkdir(top+"/outside", 0o777); err != nil {
		t.Fatal(err)
	}
	Tmpfs(t, top+"/volume", "size=64m")
	return top + "/volume", top + "/outside"
}
