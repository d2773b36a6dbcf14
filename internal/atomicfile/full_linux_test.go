package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"initbox/test/servers"
)

// On a full disk the old file stays, and nothing else does.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	servers.Tmpfs(t, dir, "size=64k")
	name := filepath.Join(dir, "f")
	if err := Write(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Write(name, make([]byte, 1<<20), 0o644)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want no space left", err)
	}
	if got, _ := os.ReadFile(name); string(got) != "old" {
		t.Errorf("file is %d bytes, want the old ones", len(got))
	}
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("directory holds %q", left)
	}
}
