package dirfd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/test/servers"
)

// opened opens a directory until the end of the test.
func opened(t *testing.T, path string) *os.File {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// Files below /proc cannot be removed, by anyone: the error names the first.
func TestRemoveAllFails(t *testing.T) {
	self := opened(t, "/proc/self")
	for name, prefix := range map[string]string{"comm": "/proc/self/comm", "task": "/proc/self/task/"} {
		var path *fs.PathError
		if err := RemoveAll(t.Context(), self, name); !errors.As(err, &path) || !strings.HasPrefix(path.Path, prefix) {
			t.Errorf("%s: %v", name, err)
		}
	}
	closed := opened(t, t.TempDir())
	closed.Close()
	var path *fs.PathError
	if err := (&remover{ctx: t.Context()}).directory(closed, "x"); !errors.As(err, &path) || path.Op != "remove" {
		t.Errorf("in a closed directory: %v", err)
	}
	dir := t.TempDir()
	servers.Tmpfs(t, filepath.Join(dir, "a/mounted"), "size=1m")
	if err := os.WriteFile(dir+"/a/mounted/f", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(t.Context(), opened(t, dir), "a"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("with a mount point in it: %v", err)
	}
	if _, err := os.Stat(dir + "/a/mounted/f"); err != nil {
		t.Errorf("a file of another mount: %v", err)
	}
}

// RemoveAll removes directories that are nested deeper than the number of files that may be open.
func TestRemoveDeep(t *testing.T) {
	dir := t.TempDir()
	for _, deep := range []int{3 * deepest, deepest + 5} {
		if err := os.MkdirAll(filepath.Join(dir, "a", strings.Repeat("d/", deep)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveAll(t.Context(), opened(t, dir), "a"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
