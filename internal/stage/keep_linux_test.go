package stage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/test/servers"
)

// Where hard links are impossible, a new version contains copies.
func TestVersionWithoutHardLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	version(t, link, "a", "sub/b")
	if err := os.Chmod(filepath.Join(link, "sub/b"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := servers.Without(t, unix.SYS_LINKAT, unix.EPERM, func() error {
		s, err := OpenVersion(link, Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Put("sub/b", []byte("content of sub/b"), Attr{0o600, -1, -1})
		if _, failed := s.Put("a", []byte("new"), plain); err == nil {
			err = failed
		}
		done, failed := s.Commit()
		if got := text(done); got != "a changed" {
			t.Errorf("done %s", got)
		}
		return errors.Join(err, failed)
	})
	if err != nil {
		t.Fatal(err)
	}
	got := tree(t, dir)
	target, _ := os.Readlink(link)
	if len(got) != 5 || got[target+"/sub/b"] != "-rw------- content of sub/b" || got[target+"/a"] != "-rw-r--r-- new" {
		t.Errorf("there is %v", got)
	}
}

// An error of the disk while a directory is inspected is reported.
func TestLookFails(t *testing.T) {
	dir := t.TempDir()
	err := servers.Without(t, unix.SYS_STATX, unix.EIO, func() error { _, err := Open(dir, Options{}); return err })
	if !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
}

// If a file cannot be kept in a new version, the old version stays, with and without hard links.
func TestKeepFails(t *testing.T) {
	for _, number := range []uint32{unix.SYS_LINKAT, unix.SYS_REBOOT} { // which is not called
		dir := t.TempDir()
		link := filepath.Join(dir, "conf")
		version(t, link, "a", "b")
		before := tree(t, dir)
		s, err := OpenVersion(link, Options{})
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", "new")
		put(t, s, "b", "content of b")
		if err := os.Remove(filepath.Join(link, "b")); err != nil {
			t.Fatal(err)
		}
		err = servers.Without(t, number, unix.EPERM, func() error { _, err := s.Commit(); return err })
		if err == nil || !strings.Contains(err.Error(), "another process has removed it") {
			t.Errorf("error %v", err)
		}
		s.Close()
		if err := os.WriteFile(filepath.Join(link, "b"), []byte("content of b"), 0o644); err != nil {
			t.Fatal(err)
		}
		same(t, before, tree(t, dir))
	}
}
