package dirfd

import (
	"os"
	"slices"
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
	if !slices.Contains(MountPoints(), MountPoint{Path: path + "/b", Root: "/", Type: "tmpfs"}) {
		t.Errorf("%s/b is not among the mounts", path)
	}
}

func TestOnTmpfs(t *testing.T) {
	if OnTmpfs("/proc/self") || OnTmpfs("/none") {
		t.Error("/proc is not a tmpfs")
	}
}
