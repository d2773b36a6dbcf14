package dirfd

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CopyRange copies at most n bytes from the position of one file to that of another within the kernel, and returns how
// many it copied, 0 at the end; see copy_file_range(2). A file system may share the blocks of both.
func CopyRange(from, to Dir, n int) (copied int, err error) {
	err = do2(from, to, func(from, to int) (err error) {
		copied, err = unix.CopyFileRange(from, nil, to, nil, n, 0)
		return err
	})
	return max(copied, 0), err
}

// Clone makes an empty file share the content of another, see ioctl_ficlone(2).
func Clone(from, to Dir) error {
	return do2(from, to, func(from, to int) error { return unix.IoctlFileClone(to, from) })
}

// NextData returns where the next part of a file that is not a hole begins, at offset or behind it, and where it ends;
// see lseek(2). Behind the last one, the error is ENXIO.
func NextData(f Dir, offset int64) (start, end int64, err error) {
	err = do(f, func(fd int) error {
		if start, err = unix.Seek(fd, offset, unix.SEEK_DATA); err == nil {
			end, err = unix.Seek(fd, start, unix.SEEK_HOLE)
		}
		return err
	})
	return start, end, err
}

// OmitTime as the nanoseconds of a time leaves that time as it is; see [SetTimes].
const OmitTime = unix.UTIME_OMIT

// SetTimes sets when the file called name, or f itself if name is empty, was read and written, to nanoseconds. It does
// not follow a link of that name.
func SetTimes(f Dir, name string, read, written unix.Timespec) error {
	times := []unix.Timespec{read, written}
	return do(f, func(fd int) error {
		if name != "" {
			return unix.UtimesNanoAt(fd, name, times, unix.AT_SYMLINK_NOFOLLOW)
		}
		// As futimens(3): AT_EMPTY_PATH would need Linux 5.8.
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
}

// WriteBack has the kernel begin to write a part of an open file to the disk, or, with wait, waits until it has written
// it; see sync_file_range(2). It is not durable: that takes [Fsync].
func WriteBack(f Dir, offset, size int64, wait bool) error {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	return do(f, func(fd int) error { return unix.SyncFileRange(fd, offset, size, flags) })
}

// Xattrs returns the extended attributes of an open file, see xattr(7), its ACL among them. A file system without them
// has none.
func Xattrs(f Dir) (map[string]string, error) {
	var list []byte
	err := sized(f, &list, func(fd int, buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
	if err == unix.ENOTSUP {
		return nil, nil
	}
	if err != nil || len(list) == 0 {
		return nil, err
	}
	all := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		var value []byte
		err := sized(f, &value, func(fd int, buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
		if err != nil && err != unix.ENODATA { // removed meanwhile
			return nil, err
		}
		all[name] = string(value)
	}
	return all, nil
}

// sized reads what a call returns whose buffer must be large enough, which is asked for before.
func sized(f Dir, into *[]byte, call func(fd int, buf []byte) (int, error)) error {
	for {
		n := 0
		err := do(f, func(fd int) (err error) { n, err = call(fd, nil); return err })
		if err != nil || n == 0 {
			return err
		}
		*into = make([]byte, n)
		err = do(f, func(fd int) (err error) { n, err = call(fd, *into); return err })
		if err == unix.ERANGE {
			continue // it has grown meanwhile
		}
		*into = (*into)[:max(n, 0)]
		return err
	}
}

// SetXattr sets an extended attribute of an open file.
func SetXattr(f Dir, name, value string) error {
	return do(f, func(fd int) error { return unix.Fsetxattr(fd, name, []byte(value), 0) })
}

// Xattr returns an extended attribute, of up to 4 KiB, of the file called name, which may be a link, or of f itself if
// name is empty; "" if it has none of that name.
func Xattr(f Dir, name, attribute string) (value string, err error) {
	buf := make([]byte, 4<<10) // the longest label is shorter
	err = byPath(f, name, func(path string) error {
		n, err := unix.Getxattr(path, attribute, buf)
		value = string(buf[:max(n, 0)])
		return err
	})
	if err == unix.ENODATA || err == unix.ENOTSUP {
		err = nil
	}
	return value, err
}

// SetXattrOf is [SetXattr] for the file called name, which may be a link, or of f itself if name is empty.
func SetXattrOf(f Dir, name, attribute, value string) error {
	return byPath(f, name, func(path string) error { return unix.Setxattr(path, attribute, []byte(value), 0) })
}
