package publish

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// named wraps err with the operation and the path of the file.
func named(op string, dir *os.File, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: filepath.Join(dir.Name(), name), Err: err}
}

func openAt(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	f, err := dirfd.Open(dir, name, flags, mode)
	return f, named("open", dir, name, err)
}

func openDir(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// makeDir creates a directory with exactly these permissions, plus an inherited setgid bit, and opens it.
func makeDir(dir *os.File, name string, mode fs.FileMode) (*os.File, error) {
	if err := dirfd.Mkdir(dir, name, uint32(mode.Perm())); err != nil {
		return nil, named("make", dir, name, err)
	}
	made, err := openDir(dir, name)
	if err != nil {
		return nil, err
	}
	stat, err := made.Stat()
	if want := mode | fs.ModeDir | stat.Mode()&fs.ModeSetgid; err == nil && stat.Mode() != want {
		err = made.Chmod(want)
	}
	if err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

func rename(from *os.File, old string, to *os.File, name string) error {
	return named("replace", to, name, dirfd.Rename(from, old, to, name))
}

func exchange(a *os.File, name string, b *os.File, with string) error {
	return named("replace", b, with, dirfd.Exchange(a, name, b, with))
}

func names(dir *os.File) ([]string, error) {
	all, err := dirfd.Names(dir)
	return all, named("read", dir, "", err)
}

func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}
