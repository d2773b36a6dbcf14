package stage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// reserve finds a full disk before anything is overwritten. Not every file system can.
func reserve(f *os.File, size int64) error {
	err := dirfd.Retry(func() error { return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, max(size, 1)) })
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return nil
}
