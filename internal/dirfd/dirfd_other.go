//go:build !linux

package dirfd

import (
	"errors"

	"golang.org/x/sys/unix"
)

// PathOnly is a flag of Linux: elsewhere, a file that is opened with it needs the permission to read it.
const PathOnly = 0

// emptyPath is a flag of Linux: elsewhere, a system call with an empty name fails.
const emptyPath = 0

func access(fd int, name string, how uint32) error {
	return unix.Faccessat(fd, name, how, unix.AT_EACCESS)
}

// Exchange is not supported: Pods run on Linux.
func Exchange(Dir, string, Dir, string) error { return unix.ENOTSUP }

// Syncfs is not supported.
func Syncfs(Dir) error { return errors.ErrUnsupported }

// Reserve reserves nothing.
func Reserve(Dir, int64) error { return nil }

// Inspect describes the file called name in dir, or dir itself if name is empty.
func Inspect(dir Dir, name string) (Info, error) { return inspectWithoutMount(dir, name) }

// Entries calls each for the entries that [ReadSome] read into buf.
func Entries(buf []byte, each func(name string, kind byte)) error {
	return entries(buf, func(name []byte, kind byte) { each(string(name), kind) })
}

func entries(buf []byte, each func(name []byte, kind byte)) error {
	_, _, names := unix.ParseDirent(buf, -1, nil)
	for _, name := range names {
		each([]byte(name), unix.DT_UNKNOWN)
	}
	return nil
}

// FileSystem is not supported.
func FileSystem(string) (int64, error) { return 0, errors.ErrUnsupported }

// ReadOnly returns false.
func ReadOnly(Dir) bool { return false }

// OnTmpfs returns false.
func OnTmpfs(string) bool { return false }
