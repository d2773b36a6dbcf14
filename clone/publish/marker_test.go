package publish

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/clone/access"
)

// A marker may be read by everyone who may read the tree, whatever the umask, and belongs to the tree's owner.
func TestMarkerAccess(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	owner := &access.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	if owner.UID == 0 {
		owner = &access.Owner{UID: 1234, GID: 5678}
	}
	for name, what := range map[string]tree{"app/.git/initbox.json": withGit1, ".app.initbox.json": bare1} {
		for _, o := range []*access.Owner{nil, owner} {
			top := t.TempDir()
			put(t, Options{Dir: filepath.Join(top, "app"), Access: access.Access{Owner: o}}, sha1, what)
			info, err := os.Stat(filepath.Join(top, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != 0o644 {
				t.Errorf("%s has the mode %v", name, info.Mode())
			}
			want := access.Owner{UID: os.Geteuid(), GID: os.Getegid()}
			if o != nil {
				want = *o
			}
			stat := info.Sys().(*syscall.Stat_t)
			if got := (access.Owner{UID: int(stat.Uid), GID: int(stat.Gid)}); got != want {
				t.Errorf("%s belongs to %v, want %v", name, got, want)
			}
		}
	}
}
