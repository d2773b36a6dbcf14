package dirfd

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// RemoveAll removes a file, or a directory with its content, until ctx ends. It does not follow links, nor
// enter mount points: those are volumes. It makes read-only directories writable first. The error is an [fs.PathError].
func RemoveAll(ctx context.Context, dir *os.File, name string) error {
	stat, err := Lstat(dir, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil && !IsDir(stat) {
		err = Remove(dir, name)
	}
	if err != nil {
		return removing(dir, name, err)
	}
	here, err := Inspect(dir, ".")
	if err != nil {
		return removing(dir, name, err)
	}
	if IsDir(stat) {
		return (&remover{ctx: ctx, mount: here.Mount, buf: make([]byte, 32<<10)}).directory(dir, name)
	}
	return nil
}

func removing(dir *os.File, name string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "remove", Path: filepath.Join(dir.Name(), name), Err: err}
}

// remover removes directories on one mount.
type remover struct {
	ctx   context.Context
	mount Mount
	buf   []byte

	top    *os.File // the outermost directory that is being removed
	depth  int      // how many nested directories are open
	lifted []string // names, in top, of directories that were moved up from further down
}

// deepest is the largest number of nested directories that are open at once: a tree may be
// deeper than the number of files that a process may have open.
const deepest = 64

func (r *remover) directory(parent *os.File, name string) error {
	here, err := Inspect(parent, name)
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
	return removing(parent, name, RemoveDir(parent, name))
}

// lift moves a directory up to the top, where it is removed later, and returns whether it could.
func (r *remover) lift(parent *os.File, name string) bool {
	as := strings.ToLower(rand.Text())
	if Rename(parent, name, r.top, as) != nil {
		return false
	}
	r.lifted = append(r.lifted, as)
	return true
}

// empty removes the content of a directory.
func (r *remover) empty(parent *os.File, name string) error {
	unlock := func() bool { // only its owner may do that
		return Chmod(parent, name, 0o700) == nil
	}
	dir, err := OpenDir(parent, name)
	if errors.Is(err, unix.EACCES) && unlock() {
		dir, err = OpenDir(parent, name)
	}
	if err != nil {
		return removing(parent, name, err)
	}
	defer dir.Close()
	if r.depth++; r.depth == 1 {
		r.top = dir
	}
	defer func() { r.depth-- }()
	var directories, files []string
	err = ReadDir(dir, r.buf, func(entry string, kind byte) {
		if kind == unix.DT_UNKNOWN {
			if stat, err := Lstat(dir, entry); err == nil && IsDir(stat) {
				kind = unix.DT_DIR
			}
		}
		if kind == unix.DT_DIR {
			directories = append(directories, entry)
		} else {
			files = append(files, entry)
		}
	})
	if err != nil {
		return removing(parent, name, err)
	}
	for _, entry := range files {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		err := Remove(dir, entry)
		if errors.Is(err, unix.EACCES) && unlock() {
			err = Remove(dir, entry)
		}
		if err := removing(dir, entry, err); err != nil {
			return err
		}
	}
	slices.Sort(directories) // .git comes first: the pack is the largest file, and there may be no time for all
	for _, entry := range directories {
		err := r.directory(dir, entry)
		if errors.Is(err, unix.EACCES) && unlock() {
			err = r.directory(dir, entry)
		}
		if err != nil {
			return err
		}
	}
	for r.depth == 1 && len(r.lifted) > 0 {
		last := len(r.lifted) - 1
		next := r.lifted[last]
		r.lifted = r.lifted[:last]
		if err := r.directory(dir, next); err != nil {
			return err
		}
	}
	return nil
}
