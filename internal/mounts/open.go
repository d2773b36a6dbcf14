package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// LinkError is the error of a path that leads through a symbolic link in a volume.
type LinkError struct {
	Link  string // its path
	Point string // where the volume is mounted
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s is a symbolic link in the volume %s, which another program may have made", e.Link, e.Point)
}

// Hint returns what to do about it.
func (e *LinkError) Hint() string {
	return "name the directory itself, or remove the link; --follow follows it"
}

// maxLinks is how many symbolic links the kernel follows in one path, see path_resolution(7).
const maxLinks = 40

// OpenDir opens a directory, to be used with internal/dirfd: names in it can be opened, made and renamed, but the
// directory itself cannot be listed or synced (O_PATH). A symbolic link in a volume is not followed, whether it is the
// directory or leads to it, and the error is a [*LinkError]: any program that writes to the volume may have made it.
// Links on the root file system belong to the image, and are followed, as are all links if follow is set. Each
// directory on the way is opened by its name in the one above, so that a link that is put there meanwhile is noticed.
func OpenDir(path string, follow bool) (*os.File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	const flags = dirfd.PathOnly | unix.O_DIRECTORY
	at, err := os.OpenFile("/", flags, 0)
	if err != nil {
		return nil, err
	}
	links := 0
	for rest := strings.Split(path, "/"); err == nil && len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next, failed := dirfd.Open(at, name, flags, 0)
		if failed != nil {
			target, noLink := dirfd.Readlink(at, name)
			if noLink != nil {
				err = &fs.PathError{Op: "open", Path: path, Err: failed}
				break
			}
			if links++; links > maxLinks {
				err = &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
				break
			}
			if err = mayFollow(at, name); err != nil && !follow {
				break
			}
			err = nil
			rest = append(strings.Split(target, "/"), rest...)
			if !filepath.IsAbs(target) {
				continue
			}
			if next, err = os.OpenFile("/", flags, 0); err != nil {
				break
			}
		}
		at.Close()
		at = next
	}
	if err != nil {
		at.Close()
		return nil, err
	}
	return at, nil
}

// MakeDirs opens a directory as [OpenDir] does, after it has created those that are missing on the way by mkdir, whose
// error it gives the path of the directory.
func MakeDirs(path string, follow bool, mkdir func(parent *os.File, name string) error) (*os.File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir, err := OpenDir(path, follow)
	if path == "/" || !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	parent, err := MakeDirs(filepath.Dir(path), follow, mkdir)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := filepath.Base(path)
	if err := mkdir(parent, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &fs.PathError{Op: "make", Path: path, Err: err}
	}
	dir, err = dirfd.Open(parent, name, dirfd.PathOnly|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return dir, nil
}

// OpenParent opens the directory of a file that is to be written, as [OpenDir] does, and returns the file's name in it.
// A symbolic link with that name is followed as OpenDir would follow it, to the directory and the name of its target.
// One that OpenDir would refuse is returned as link, a [*LinkError]: the caller replaces it or returns that error.
func OpenParent(path string, follow bool) (dir *os.File, name string, link, err error) {
	path, err = filepath.Abs(path)
	for range maxLinks {
		if err != nil {
			return nil, "", nil, err
		}
		if dir, err = OpenDir(filepath.Dir(path), follow); err != nil {
			return nil, "", nil, err
		}
		name = filepath.Base(path)
		target, noLink := dirfd.Readlink(dir, name)
		if noLink != nil {
			return dir, name, nil, nil
		}
		if link = mayFollow(dir, name); link != nil && !follow {
			return dir, name, link, nil
		}
		if path = target; !filepath.IsAbs(path) {
			path = filepath.Join(dir.Name(), path)
		}
		dir.Close()
	}
	return nil, "", nil, &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// mayFollow returns a [*LinkError] if the link called name in dir is in a volume, and does not belong to the kernel.
func mayFollow(dir *os.File, name string) error {
	root, err := os.OpenFile("/", dirfd.PathOnly|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	top, errTop := dirfd.Inspect(root, "")
	here, errHere := dirfd.Inspect(dir, "")
	kernels := dir.Name() == "/dev" || within("/proc", dir.Name()) || within("/sys", dir.Name())
	if err := errors.Join(errTop, errHere); err != nil || here.Mount == top.Mount || kernels {
		return err
	}
	return &LinkError{Link: filepath.Join(dir.Name(), name), Point: pointOf(All(), dir.Name())}
}
