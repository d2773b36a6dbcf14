// Package dirfd works on files by their name in an open directory, as openat(2) and its relatives do. A program that
// holds the descriptor of a directory keeps working in that directory, even if another process renames it or replaces a
// part of its path with a symbolic link. A name may be a path below the directory: the kernel follows links in it, but
// a link as its last element is followed by [Access] and [Chmod] only.
//
//	dir, err := os.Open("/data")
//	...
//	f, err := dirfd.Open(dir, "config.new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
//	... // write, f.Sync and f.Close
//	err = dirfd.Rename(dir, "config.new", dir, "config") // readers see the old file or the new one
//	err = dirfd.Sync(dir)                                // and so they do after a power cut
//
// Each call is repeated while a signal interrupts it. Errors are bare errnos: the caller knows the operation and
// the user's path of the file.
package dirfd

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Dir is an open directory: an [os.File], or an [FD].
type Dir interface{ Fd() uintptr }

// FD is the descriptor of an open file or directory, for callers that cannot afford an [os.File] for each.
type FD int

// Fd returns the descriptor.
func (fd FD) Fd() uintptr { return uintptr(fd) }

// Read reads at most len(p) bytes, as an [io.Reader] does.
func (fd FD) Read(p []byte) (n int, err error) {
	err = retry(func() error {
		n, err = unix.Read(int(fd), p)
		return err
	})
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return max(n, 0), err
}

// Write writes all of p, unless there is an error.
func (fd FD) Write(p []byte) (written int, err error) {
	for written < len(p) && err == nil {
		err = retry(func() error {
			n, err := unix.Write(int(fd), p[written:])
			written += max(n, 0)
			return err
		})
	}
	return written, err
}

// Chmod sets the mode of the file.
func (fd FD) Chmod(mode uint32) error {
	return do(fd, func(fd int) error { return unix.Fchmod(fd, mode) })
}

// Chown sets the owner of the file; -1 leaves the user or the group as it is.
func (fd FD) Chown(uid, gid int) error {
	return do(fd, func(fd int) error { return unix.Fchown(fd, uid, gid) })
}

// Skip moves n bytes forward without writing: if nothing is written there later, and [FD.Truncate] sets a larger size,
// they are a hole.
func (fd FD) Skip(n int64) error {
	return do(fd, func(fd int) error {
		_, err := unix.Seek(fd, n, io.SeekCurrent)
		return err
	})
}

// Truncate sets the size of the file.
func (fd FD) Truncate(size int64) error {
	return do(fd, func(fd int) error { return unix.Ftruncate(fd, size) })
}

// Sync writes the file to the disk, as [Fsync] does.
func (fd FD) Sync() error { return Fsync(fd) }

// Close closes the file. If a signal interrupts that, Linux has closed it nevertheless.
func (fd FD) Close() error {
	if err := unix.Close(int(fd)); err != unix.EINTR {
		return err
	}
	return nil
}

// retry repeats a call while a signal interrupts it (EINTR). File systems such as FUSE and NFS return that, and the Go
// runtime sends itself many signals.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// do makes a call with the descriptor of dir, which stays open until the call returns.
func do(dir Dir, call func(fd int) error) error {
	err := retry(func() error { return call(int(dir.Fd())) })
	runtime.KeepAlive(dir)
	return err
}

// do2 is do for a call with two directories.
func do2(a, b Dir, call func(a, b int) error) error {
	err := retry(func() error { return call(int(a.Fd()), int(b.Fd())) })
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	return err
}

// Open opens the file called name in dir. It does not wait for the other end of a pipe.
func Open(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	fd, err := OpenFD(dir, name, flags, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
}

// OpenDir opens the directory called name in dir.
func OpenDir(dir *os.File, name string) (*os.File, error) {
	return Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// OpenFD is [Open] without the system calls that an [os.File] takes.
func OpenFD(dir Dir, name string, flags int, mode uint32) (opened FD, err error) {
	err = do(dir, func(fd int) error {
		n, err := unix.Openat(fd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
		opened = FD(n)
		return err
	})
	return opened, err
}

// Temp makes a file in dir that has no name.
func Temp(dir Dir) (*os.File, error) {
	name := ".initbox-" + rand.Text()
	fd, err := OpenFD(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Remove(dir, name); err != nil {
		fd.Close()
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// OpenFollow is [OpenFD] that follows a link of that name, to wherever it leads.
func OpenFollow(dir Dir, name string, flags int) (opened FD, err error) {
	err = do(dir, func(fd int) error {
		n, err := unix.Openat(fd, name, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		opened = FD(n)
		return err
	})
	return opened, err
}

// Seek sets the position of an open file to offset bytes from its start.
func Seek(f Dir, offset int64) error {
	return do(f, func(fd int) error { _, err := unix.Seek(fd, offset, 0); return err })
}

// Fsync writes an open file to the disk.
func Fsync(f Dir) error { return do(f, unix.Fsync) }

// Stat describes an open file.
func Stat(f Dir) (s unix.Stat_t, err error) {
	err = do(f, func(fd int) error { return unix.Fstat(fd, &s) })
	return s, err
}

// Lstat describes the file called name in dir.
func Lstat(dir Dir, name string) (s unix.Stat_t, err error) {
	err = do(dir, func(fd int) error { return unix.Fstatat(fd, name, &s, unix.AT_SYMLINK_NOFOLLOW) })
	return s, err
}

// Access returns an error unless this process, with its effective user and capabilities, may do to the file called name
// what how says: of [unix.R_OK], [unix.W_OK] and [unix.X_OK], all that are set. It follows a link of that name.
func Access(dir Dir, name string, how uint32) error {
	return do(dir, func(fd int) error { return access(fd, name, how) })
}

// IsDir returns whether s describes a directory.
func IsDir(s unix.Stat_t) bool { return s.Mode&unix.S_IFMT == unix.S_IFDIR }

// Mkdir makes a directory, whose mode the umask limits.
func Mkdir(dir Dir, name string, mode uint32) error {
	return do(dir, func(fd int) error { return unix.Mkdirat(fd, name, mode) })
}

// Symlink makes a symbolic link called name to target.
func Symlink(target string, dir Dir, name string) error {
	return do(dir, func(fd int) error { return unix.Symlinkat(target, fd, name) })
}

// Readlink returns the target of a symbolic link.
func Readlink(dir Dir, name string) (string, error) {
	buf := make([]byte, 4096) // PATH_MAX
	n := 0
	err := do(dir, func(fd int) (err error) {
		n, err = unix.Readlinkat(fd, name, buf)
		return err
	})
	return string(buf[:max(n, 0)]), err
}

// Link gives the file called old a second name.
func Link(from Dir, old string, to Dir, name string) error {
	return do2(from, to, func(from, to int) error { return unix.Linkat(from, old, to, name, 0) })
}

// LinkOpen gives an open file a name, also one that has none yet (O_TMPFILE). It fails where /proc is not mounted.
func LinkOpen(f *os.File, to Dir, name string) error {
	return do2(f, to, func(fd, to int) error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), to, name, unix.AT_SYMLINK_FOLLOW)
	})
}

// Rename gives the file called old another name. It replaces a file of that name, or, if old is a directory, an empty
// directory.
func Rename(from Dir, old string, to Dir, name string) error {
	return do2(from, to, func(from, to int) error { return unix.Renameat(from, old, to, name) })
}

// Remove removes a file that is not a directory.
func Remove(dir Dir, name string) error {
	return do(dir, func(fd int) error { return unix.Unlinkat(fd, name, 0) })
}

// RemoveDir removes an empty directory.
func RemoveDir(dir Dir, name string) error {
	return do(dir, func(fd int) error { return unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) })
}

// Chmod sets the mode of the file called name. It follows a link of that name: fchmodat(2) cannot change the mode of
// one.
func Chmod(dir Dir, name string, mode uint32) error {
	return do(dir, func(fd int) error { return unix.Fchmodat(fd, name, mode, 0) })
}

// SetMode sets the mode of the file called name, or of dir itself if name is empty, which may have been opened with
// O_PATH. Unlike [Chmod] it follows no link of that name: it fails on one, which has no mode to set.
func SetMode(dir Dir, name string, mode uint32) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | emptyPath
	err := do(dir, func(fd int) error { return unix.Fchmodat(fd, name, mode, flags) })
	if err == unix.EOPNOTSUPP || err == unix.EPERM { // before Linux 6.6, or with an old seccomp profile
		err = setModeByPath(dir, name, mode)
	}
	return err
}

// setModeByPath is [SetMode] where the kernel has no fchmodat2. Behind the path of the descriptor, no other link is
// followed.
func setModeByPath(dir Dir, name string, mode uint32) error {
	return byPath(dir, name, func(path string) error {
		var s unix.Stat_t
		if err := unix.Stat(path, &s); err != nil || s.Mode&unix.S_IFMT == unix.S_IFLNK {
			return cmp.Or(err, error(unix.EOPNOTSUPP))
		}
		return unix.Chmod(path, mode)
	})
}

// byPath makes a call with a path that leads to the file called name, even to a link of that name, or to dir itself if
// name is empty. It fails where /proc is not mounted.
func byPath(dir Dir, name string, call func(path string) error) error {
	if name == "" {
		return do(dir, func(fd int) error { return call("/proc/self/fd/" + strconv.Itoa(fd)) })
	}
	opened, err := OpenFD(dir, name, PathOnly, 0)
	if err != nil {
		return err
	}
	defer opened.Close()
	return byPath(opened, "", call)
}

// Chown sets the owner of the file called name, or of dir itself if name is empty, which may have been opened with
// O_PATH; -1 leaves the user or the group as it is.
func Chown(dir Dir, name string, uid, gid int) error {
	return do(dir, func(fd int) error {
		return unix.Fchownat(fd, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW|emptyPath)
	})
}

// Lock takes the lock of f, see flock(2): how is [unix.LOCK_EX] or [unix.LOCK_SH], with [unix.LOCK_NB] not to wait for
// it but to fail with EWOULDBLOCK. The kernel releases it with the last descriptor, and so when the process is killed.
func Lock(f *os.File, how int) error {
	return do(f, func(fd int) error { return unix.Flock(fd, how) })
}

// Unlock releases the lock of f and closes f. Closing alone is too late while another goroutine starts a process: the
// child has copies of all descriptors until it execs.
func Unlock(f *os.File) {
	Lock(f, unix.LOCK_UN)
	f.Close()
}

// Sync makes the names in a directory survive a crash. If the file system cannot do that (EINVAL), there is no
// alternative, and Sync returns no error.
func Sync(dir interface{ Sync() error }) error {
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// Names returns all names in dir, even if a part of it has been read already.
func Names(dir Dir) (names []string, err error) {
	list, err := OpenFD(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	err = ReadDir(list, make([]byte, 8<<10), func(name string, _ byte) { names = append(names, name) })
	return names, err
}

// ReadDir calls each for the entries of dir, from where it was read before, with the type as in dirent(3), which may be
// DT_UNKNOWN. The kernel fills buf.
func ReadDir(dir Dir, buf []byte, each func(name string, kind byte)) error {
	for {
		n, err := ReadSome(dir, buf)
		if err != nil || n == 0 {
			return err
		}
		if err := Entries(buf[:n], each); err != nil {
			return err
		}
	}
}

// ReadSome fills buf with entries of dir, from where it was read before, and returns how many bytes they take, or 0 at
// the end. [Entries] reads them.
func ReadSome(dir Dir, buf []byte) (n int, err error) {
	err = do(dir, func(fd int) (err error) {
		n, err = unix.ReadDirent(fd, buf)
		return err
	})
	return max(n, 0), err
}

// Info is what [Inspect] returns: the fields of stat(2) that matter, and the mount.
type Info struct {
	Mode      uint32 // st_mode
	UID, GID  int
	Size      int64
	Mount     Mount
	MountRoot bool // something is mounted on it, so that rename(2) fails with EBUSY
}

// Kind returns the type in the mode, such as [unix.S_IFREG].
func (i Info) Kind() uint32 { return i.Mode & unix.S_IFMT }

// Mount identifies a mount. There is no rename(2) from one to another, even of the same file system (EXDEV). Where the
// kernel does not report the mount (before Linux 5.8, in gVisor, or where a seccomp profile forbids statx), it is the
// device alone.
type Mount struct{ dev, id uint64 }

// inspectWithoutMount is [Inspect] where the kernel cannot tell mounts apart.
func inspectWithoutMount(dir Dir, name string) (Info, error) {
	s, err := unix.Stat_t{}, error(nil)
	if name == "" {
		s, err = Stat(dir)
	} else {
		s, err = Lstat(dir, name)
	}
	if err != nil {
		return Info{}, err
	}
	return Info{
		Mode: uint32(s.Mode), UID: int(s.Uid), GID: int(s.Gid), Size: s.Size, Mount: Mount{dev: uint64(s.Dev)},
	}, nil
}
