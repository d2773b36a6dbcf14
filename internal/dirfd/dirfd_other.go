//go:build !linux

package dirfd

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Exchange is not supported: Pods run on Linux.
func Exchange(Dir, string, Dir, string) error { return unix.ENOTSUP }

// Syncfs is not supported.
func Syncfs(Dir) error { return errors.ErrUnsupported }

// Reserve reserves nothing.
func Reserve(Dir, int64) error { return nil }

// Inspect describes the file called name in dir, or dir itself if name is empty.
func Inspect(dir Dir, name string) (Info, error) { return inspectWithoutMount(dir, name) }

// ReadDir calls each for the entries of dir.
func ReadDir(dir Dir, buf []byte, each func(name string, kind byte)) error {
	for {
		n := 0
		err := do(dir, func(fd int) (err error) {
			n, err = unix.ReadDirent(fd, buf)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			each(name, unix.DT_UNKNOWN)
		}
	}
}

// FileSystem is not supported.
func FileSystem(string) (int64, error) { return 0, errors.ErrUnsupported }

// OnTmpfs returns false.
func OnTmpfs(string) bool { return false }
