package servers

import (
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
