//go:build !linux

package publish

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func exchange(*os.File, string, *os.File, string) error { return unix.ENOTSUP }

func syncfs(*os.File) error { return errors.ErrUnsupported }

type mount struct {
	dev, id uint64
	root    bool
}

func mountOf(dir *os.File, name string) (mount, error) {
	s, err := lstat(dir, name)
	return mount{dev: uint64(s.Dev)}, err
}

func readDir(dir int, buf []byte, each func(name string, kind byte)) error {
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil || n == 0 {
			return err
		}
		_, _, all := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range all {
			each(name, unix.DT_UNKNOWN)
		}
	}
}
