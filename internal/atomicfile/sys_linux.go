package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lstat describes the file called base in dir ("" is dir itself), not what a link
// leads to. Where
// the kernel cannot tell mounts (before Linux 5.8, in gVisor, or where a seccomp
// profile forbids statx), rename will: EBUSY, EXDEV.
func lstat(dir *os.File, base string) (info, error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT
	var x unix.Statx_t
	err := retry(func() error {
		return unix.Statx(int(dir.Fd()), base, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &x)
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return fstatat(dir, base)
	}
	if err != nil {
		return info{}, err
	}
	i := info{
		mode: uint32(x.Mode), uid: int(x.Uid), gid: int(x.Gid), size: int64(x.Size),
		mount:   mount{dev: unix.Mkdev(x.Dev_major, x.Dev_minor)},
		mounted: x.Attributes&x.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0,
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		i.mount.id = x.Mnt_id
	}
	return i, nil
}

func syncfs(dir *os.File) error { return unix.Syncfs(int(dir.Fd())) }

// reserve finds a full disk before anything is overwritten. Not every file
// system can.
func reserve(f *os.File, size int64) error {
	err := retry(func() error { return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, max(size, 1)) })
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return nil
}
