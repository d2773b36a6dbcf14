//go:build !linux

package dirfd

import "golang.org/x/sys/unix"

// CopyRange is not supported: Pods run on Linux.
func CopyRange(Dir, Dir, int) (int, error) { return 0, unix.ENOTSUP }

// Clone is not supported.
func Clone(Dir, Dir) error { return unix.ENOTSUP }

// NextData is not supported.
func NextData(Dir, int64) (start, end int64, err error) { return 0, 0, unix.ENOTSUP }

// OmitTime as the nanoseconds of a time leaves that time as it is.
const OmitTime = -2

// SetTimes is not supported.
func SetTimes(Dir, string, unix.Timespec, unix.Timespec) error { return unix.ENOTSUP }

// WriteBack does nothing.
func WriteBack(Dir, int64, int64, bool) error { return nil }

// Xattrs returns none.
func Xattrs(Dir) (map[string]string, error) { return nil, nil }

// SetXattr is not supported.
func SetXattr(Dir, string, string) error { return unix.ENOTSUP }

// Xattr returns nothing.
func Xattr(Dir, string, string) (string, error) { return "", nil }

// SetXattrOf is not supported.
func SetXattrOf(Dir, string, string, string) error { return unix.ENOTSUP }
