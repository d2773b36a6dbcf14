package dirfd

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// PathOnly is the flag that opens a file as a place only, O_PATH, see open(2): that needs no permission to read it.
const PathOnly = unix.O_PATH

// emptyPath lets a system call with an empty name act on the descriptor itself.
const emptyPath = unix.AT_EMPTY_PATH

func access(fd int, name string, how uint32) error {
	err := unix.Faccessat2(fd, name, how, unix.AT_EACCESS)
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.8, or with an old seccomp profile
		err = unix.Faccessat(fd, name, how, 0) // of the real user, who is nearly always the effective one
	}
	return err
}

// Exchange gives two files each other's name, at once.
func Exchange(a Dir, name string, b Dir, with string) error {
	return do2(a, b, func(a, b int) error { return unix.Renameat2(a, name, b, with, unix.RENAME_EXCHANGE) })
}

// Syncfs flushes the file system of dir to the disk. Since Linux 5.8 it returns errors of the disk, also of files that
// other processes wrote.
func Syncfs(dir Dir) error { return do(dir, unix.Syncfs) }

// Reserve reserves space for a file of that size, so that a full disk is found before anything is overwritten. It
// returns no error where the file system cannot reserve space.
func Reserve(f Dir, size int64) error {
	err := do(f, func(fd int) error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, max(size, 1)) })
	if err == unix.ENOSPC || err == unix.EDQUOT || err == unix.EFBIG {
		return err
	}
	return nil
}

// Inspect describes the file called name in dir, or dir itself if name is empty.
func Inspect(dir Dir, name string) (Info, error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT
	var x unix.Statx_t
	err := do(dir, func(fd int) error {
		return unix.Statx(fd, name, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &x)
	})
	if err == unix.ENOSYS || err == unix.EPERM {
		return inspectWithoutMount(dir, name)
	}
	if err != nil {
		return Info{}, err
	}
	i := Info{
		Mode: uint32(x.Mode), UID: int(x.Uid), GID: int(x.Gid), Size: int64(x.Size),
		Mount:     Mount{dev: unix.Mkdev(x.Dev_major, x.Dev_minor)},
		MountRoot: x.Attributes&x.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0,
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		i.Mount.id = x.Mnt_id
	}
	return i, nil
}

// Entries calls each for the entries that [ReadSome] read into buf, with the type as in dirent(3), which may be
// DT_UNKNOWN.
func Entries(buf []byte, each func(name string, kind byte)) error {
	return entries(buf, func(name []byte, kind byte) { each(string(name), kind) })
}

func entries(buf []byte, each func(name []byte, kind byte)) error {
	for rest := buf; len(rest) > 0; {
		size := 0
		if len(rest) > direntName {
			size = int(binary.NativeEndian.Uint16(rest[direntSize:]))
		}
		if size <= direntName || size > len(rest) {
			return unix.EIO
		}
		name, _, _ := bytes.Cut(rest[direntName:size], []byte{0})
		if string(name) != "." && string(name) != ".." {
			each(name, rest[direntType])
		}
		rest = rest[size:]
	}
	return nil
}

// Offsets in struct linux_dirent64, see getdents64(2).
const direntSize, direntType, direntName = 16, 18, 19

// FileSystem returns the type of the file system that a path is on, such as unix.TMPFS_MAGIC, see statfs(2).
func FileSystem(path string) (int64, error) {
	var s unix.Statfs_t
	err := retry(func() error { return unix.Statfs(path, &s) })
	return int64(s.Type), err
}

// ReadOnly returns whether an open file is on a mount or a file system that is read-only.
func ReadOnly(f Dir) bool {
	var s unix.Statfs_t
	err := do(f, func(fd int) error { return unix.Fstatfs(fd, &s) })
	return err == nil && s.Flags&unix.ST_RDONLY != 0
}

// OnTmpfs returns whether a file is on a tmpfs.
func OnTmpfs(path string) bool {
	kind, err := FileSystem(path)
	return err == nil && kind == unix.TMPFS_MAGIC
}
