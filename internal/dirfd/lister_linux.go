package dirfd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lstat is [Lstat] for an entry of dir. It does not copy the name.
func (e *Entry) Lstat(dir FD, s *unix.Stat_t) error {
	if e.path == nil {
		return unix.ENOENT
	}
	return retry(func() error {
		_, _, errno := unix.Syscall6(fstatat, uintptr(dir), uintptr(unsafe.Pointer(e.path)), uintptr(unsafe.Pointer(s)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
}
