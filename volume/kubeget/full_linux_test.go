package kubeget

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDisk pins that nothing is replaced where not everything fits, and that the next run completes it.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	dst := t.TempDir()
	if err := unix.Mount("tmpfs", dst, "tmpfs", 0, "size=128k"); err != nil {
		t.Skip("mount: ", err)
	}
	t.Cleanup(func() { unix.Unmount(dst, unix.MNT_DETACH) })
	o, target := Options{Dst: dst, Prune: true}, parse(t, "k8s:secret/s")
	files := func(size int, fill string) []File {
		content := bytes.Repeat([]byte(fill), size)
		return []File{{Name: "a", Content: content, Secret: true, target: target}, {Name: "b", Content: content, Secret: true, target: target}}
	}
	if _, err := Write(o, files(1000, "1")); err != nil {
		t.Fatal(err)
	}
	_, err := Write(o, files(100<<10, "z"))
	hinted, ok := errors.AsType[interface {
		error
		Hint() string
	}](err)
	if !ok || !strings.Contains(err.Error(), "no space left") || !strings.Contains(hinted.Hint(), "make the volume larger") || strings.Contains(err.Error(), "zz") {
		t.Fatalf("%v, want the full disk with a hint", err)
	}
	for _, name := range []string{"a", "b"} {
		if got, err := os.ReadFile(filepath.Join(dst, name)); err != nil || !bytes.Equal(got, bytes.Repeat([]byte("1"), 1000)) {
			t.Errorf("%s: %.10q, %v, want the old content", name, got, err)
		}
	}
	if done, err := Write(o, files(2000, "3")); err != nil || done.Changed != 2 {
		t.Errorf("the next run: %v, %v", done, err)
	}
	if left, _ := os.ReadDir(dst); len(left) != 3 { // with the list
		t.Errorf("%d entries are left", len(left))
	}
}
