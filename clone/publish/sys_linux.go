package publish

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange gives the two each other's name, at once.
func exchange(a *os.File, name string, b *os.File, with string) error {
	return moved(retry(func() error {
		return unix.Renameat2(int(a.Fd()), name, int(b.Fd()), with, unix.RENAME_EXCHANGE)
	}), b, with)
}

func syncfs(dir *os.File) error {
	return retry(func() error { return unix.Syncfs(int(dir.Fd())) })
}

// mount identifies what is mounted where a folder is. Between two mounts there is
// no rename(2), even of the same file system (EXDEV). Where the kernel cannot tell
// (before Linux 5.8, in gVisor, or where a seccomp profile forbids statx) it is the
// device alone.
type mount struct {
	dev, id uint64
	root    bool // it is where the mount begins
}

func mountOf(dir *os.File, name string) (mount, error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	var x unix.Statx_t
	err := retry(func() error { return unix.Statx(int(dir.Fd()), name, flags, unix.STATX_MNT_ID, &x) })
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		s, err := lstat(dir, name)
		return mount{dev: uint64(s.Dev)}, err
	}
	m := mount{dev: unix.Mkdev(x.Dev_major, x.Dev_minor)}
	m.root = x.Attributes&x.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
	if x.Mask&unix.STATX_MNT_ID != 0 {
		m.id = x.Mnt_id
	}
	return m, err
}

// readDir calls each for what is in dir, with its type as in dirent(3), which may
// be DT_UNKNOWN. The buffer is for the kernel to fill.
func readDir(dir int, buf []byte, each func(name string, kind byte)) error {
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.ReadDirent(dir, buf)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > direntName; {
			size := int(binary.NativeEndian.Uint16(rest[direntSize:]))
			if size <= direntName || size > len(rest) {
				return unix.EIO
			}
			name, _, _ := bytes.Cut(rest[direntName:size], []byte{0})
			if s := string(name); s != "." && s != ".." {
				each(s, rest[direntType])
			}
			rest = rest[size:]
		}
	}
}

// Offsets in struct linux_dirent64, see getdents64(2).
const direntSize, direntType, direntName = 16, 18, 19
