package publish

import (
	"crypto/rand"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// removeAll removes a file, or a folder with all that is in it. It follows no link
// and enters nothing that is mounted there: that is somebody's volume. A folder
// that must not be written to is made one that may.
func removeAll(dir *os.File, name string) error {
	stat, err := dirfd.Lstat(dir, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil && !dirfd.IsDir(stat) {
		err = dirfd.Remove(dir, name)
	}
	if err != nil {
		return removing(dir, name, err)
	}
	here, err := dirfd.Inspect(dir, ".")
	if err != nil {
		return removing(dir, name, err)
	}
	if dirfd.IsDir(stat) {
		return (&remover{mount: here.Mount, buf: make([]byte, 32<<10)}).folder(dir, name)
	}
	return nil
}

func removing(dir *os.File, name string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return named("remove", dir, name, err)
}

// remover removes folders of one mount.
type remover struct {
	mount dirfd.Mount
	buf   []byte

	top    *os.File // the outermost of the folders that it is in
	depth  int      // how many these are; all are open
	lifted []string // names in top of folders that were further down
}

// deepest is how many folders are open at once: a tree may be deeper than a process
// may have files open.
const deepest = 64

func (r *remover) folder(parent *os.File, name string) error {
	here, err := dirfd.Inspect(parent, name)
	if err == nil && (here.MountRoot || here.Mount != r.mount) {
		err = unix.EBUSY
	}
	if err != nil {
		return removing(parent, name, err)
	}
	if r.depth == deepest && r.lift(parent, name) {
		return nil
	}
	if err := r.empty(parent, name); err != nil {
		return err
	}
	return removing(parent, name, dirfd.RemoveDir(parent, name))
}

// lift moves a folder up to the top, if it can, to be removed there.
func (r *remover) lift(parent *os.File, name string) bool {
	as := strings.ToLower(rand.Text())
	if rename(parent, name, r.top, as) != nil {
		return false
	}
	r.lifted = append(r.lifted, as)
	return true
}

// empty removes what is in a folder.
func (r *remover) empty(parent *os.File, name string) error {
	unlock := func() bool { // its owner may
		return dirfd.Chmod(parent, name, 0o700) == nil
	}
	dir, err := openDir(parent, name)
	if errors.Is(err, unix.EACCES) && unlock() {
		dir, err = openDir(parent, name)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if r.depth++; r.depth == 1 {
		r.top = dir
	}
	defer func() { r.depth-- }()
	var folders, files []string
	err = dirfd.ReadDir(dir, r.buf, func(entry string, kind byte) {
		if kind == unix.DT_UNKNOWN {
			if stat, err := dirfd.Lstat(dir, entry); err == nil && dirfd.IsDir(stat) {
				kind = unix.DT_DIR
			}
		}
		if kind == unix.DT_DIR {
			folders = append(folders, entry)
		} else {
			files = append(files, entry)
		}
	})
	if err != nil {
		return removing(parent, name, err)
	}
	for _, entry := range files {
		err := dirfd.Remove(dir, entry)
		if errors.Is(err, unix.EACCES) && unlock() {
			err = dirfd.Remove(dir, entry)
		}
		if err := removing(dir, entry, err); err != nil {
			return err
		}
	}
	for _, entry := range folders {
		err := r.folder(dir, entry)
		if errors.Is(err, unix.EACCES) && unlock() {
			err = r.folder(dir, entry)
		}
		if err != nil {
			return err
		}
	}
	for r.depth == 1 && len(r.lifted) > 0 {
		last := len(r.lifted) - 1
		next := r.lifted[last]
		r.lifted = r.lifted[:last]
		if err := r.folder(dir, next); err != nil {
			return err
		}
	}
	return nil
}
