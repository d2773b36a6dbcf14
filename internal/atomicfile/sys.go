package atomicfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// info is what matters of a file.
type info struct {
	mode     uint32 // st_mode
	uid, gid int
	size     int64
	mount    mount
	mounted  bool // something is mounted here, so that rename(2) says EBUSY
}

// mount identifies where something is mounted: between two of them there is no
// rename(2), even of the same file system (EXDEV).
type mount struct{ dev, id uint64 }

func (i info) perm() fs.FileMode { return fs.FileMode(i.mode & 0o777) }
func (i info) kind() uint32      { return i.mode & unix.S_IFMT }

func (i info) attr() Attr { return Attr{i.perm(), i.uid, i.gid} }

func fstatat(dir *os.File, base string) (info, error) {
	var s unix.Stat_t
	err := retry(func() error {
		if base == "" {
			return unix.Fstat(int(dir.Fd()), &s)
		}
		return unix.Fstatat(int(dir.Fd()), base, &s, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return info{}, err
	}
	return info{
		mode: uint32(s.Mode), uid: int(s.Uid), gid: int(s.Gid), size: s.Size,
		mount: mount{dev: uint64(s.Dev)},
	}, nil
}

// openAt opens the file called base in dir, without following a link and
// without waiting for the other end of a pipe.
func openAt(dir *os.File, base string, flags int) (*os.File, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat(int(dir.Fd()), base, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), base), nil
}

func renameAt(from *os.File, old string, to *os.File, base string) error {
	return retry(func() error { return unix.Renameat(int(from.Fd()), old, int(to.Fd()), base) })
}

// remove removes a file, or an empty folder with [unix.AT_REMOVEDIR]; a link is
// not followed.
func remove(dir *os.File, base string, flags int) error {
	return retry(func() error { return unix.Unlinkat(int(dir.Fd()), base, flags) })
}

// retry is for file systems whose calls a signal interrupts (FUSE, NFS; the Go
// runtime sends many).
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lock takes the lock of f, which ends with its process. It fails with
// EWOULDBLOCK if another has it.
func lock(f *os.File, how int) error {
	return retry(func() error { return unix.Flock(int(f.Fd()), how) })
}
