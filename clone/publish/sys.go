package publish

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// retry is for file systems whose calls a signal interrupts (FUSE, NFS; the Go
// runtime sends many).
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openAt opens what is called name in dir, without following a link and without
// waiting for the other end of a pipe.
func openAt(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	fd, err := openFD(int(dir.Fd()), name, flags, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
}

func openFD(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

func openDir(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// makeDir makes a folder with exactly these permissions, but for a setgid bit that
// it inherits, and opens it.
func makeDir(dir *os.File, name string, mode fs.FileMode) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	err := retry(func() error { return unix.Mkdirat(int(dir.Fd()), name, uint32(mode.Perm())) })
	if err != nil {
		return nil, &fs.PathError{Op: "make", Path: path, Err: err}
	}
	made, err := openDir(dir, name)
	if err != nil {
		return nil, err
	}
	stat, err := made.Stat()
	if want := mode | fs.ModeDir | stat.Mode()&fs.ModeSetgid; err == nil && stat.Mode() != want {
		err = made.Chmod(want)
	}
	if err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

func lstat(dir *os.File, name string) (unix.Stat_t, error) { return lstatAt(int(dir.Fd()), name) }

func lstatAt(dir int, name string) (s unix.Stat_t, err error) {
	err = retry(func() error { return unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW) })
	return s, err
}

func isDir(s unix.Stat_t) bool { return s.Mode&unix.S_IFMT == unix.S_IFDIR }

func rename(from *os.File, old string, to *os.File, name string) error {
	return moved(retry(func() error { return unix.Renameat(int(from.Fd()), old, int(to.Fd()), name) }), to, name)
}

func moved(err error, to *os.File, name string) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "replace", Path: filepath.Join(to.Name(), name), Err: err}
}

// remove removes a file, or an empty folder with [unix.AT_REMOVEDIR].
func remove(dir *os.File, name string, flags int) error {
	return retry(func() error { return unix.Unlinkat(int(dir.Fd()), name, flags) })
}

// syncDir makes a rename survive a crash. Some file systems cannot (EINVAL); there
// is nothing better to be done then.
func syncDir(dir *os.File) error {
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// names returns what is in dir, from the start.
func names(dir *os.File) ([]string, error) {
	list, err := openDir(dir, ".")
	if err != nil {
		return nil, err
	}
	defer list.Close()
	return list.Readdirnames(-1)
}

func isAny(err error, of ...error) bool {
	for _, e := range of {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func readlink(dir int, name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(dir, name, buf)
	return string(buf[:max(n, 0)]), err
}
