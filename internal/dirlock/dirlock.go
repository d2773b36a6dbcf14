// Package dirlock lets one run at a time work on a directory, on all machines that the volume is mounted on.
//
//	lock := dirlock.New(parent, ".app.initbox-lock")
//	err := lock.Wait(ctx, func(busy error) { log.Info("waiting", "reason", busy) })
//	...
//	defer lock.Release()
package dirlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Lock is held by the run that works on a directory. It is a file, because NFS has no locks
// on directories, and it is beside the directory, because that is replaced. The kernel releases
// the lock when the process ends; the next run locks the file that a killed one left.
type Lock struct {
	dir  *os.File
	name string
	file *os.File
	none bool // the file system has no locks
}

// New returns a lock that is a file called name in dir. It is not taken yet.
func New(dir *os.File, name string) *Lock { return &Lock{dir: dir, name: name} }

// Held returns whether the lock is taken.
func (l *Lock) Held() bool { return l.file != nil }

// None returns whether the file system has no locks: then Wait returns no error, and the lock is not held.
func (l *Lock) None() bool { return l.none }

// errLocked means that another run holds the lock.
type errLocked struct{ holder string }

func (e errLocked) Error() string {
	if e.holder == "" {
		return "another run holds its lock"
	}
	return "another run, on " + e.holder + ", holds its lock"
}

// Wait takes the lock as soon as it is free. It calls report once if it has to wait.
func (l *Lock) Wait(ctx context.Context, report func(error)) error {
	err := l.try()
	if !errors.As(err, new(errLocked)) {
		return err
	}
	report(err)
	var (
		mu   sync.Mutex
		over bool
	)
	err = poll.Until(ctx, poll.Policy{Seed: uint64(os.Getpid())}, func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return errLocked{}
		}
		err := l.try()
		if err != nil && !errors.As(err, new(errLocked)) {
			return poll.Permanent(err)
		}
		return err
	})
	mu.Lock()
	defer mu.Unlock()
	if over = true; err != nil {
		l.Release() // an attempt succeeded just as the wait ended
	}
	return err
}

// try takes the lock, or returns an errLocked that names the host of its holder.
func (l *Lock) try() error {
	const tries = 100 // each fails because another run ends just then
	for range tries {
		f, err := l.open()
		if err != nil {
			return err
		}
		err = dirfd.Lock(f, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
			l.none = true
		case errors.Is(err, unix.EWOULDBLOCK):
			defer f.Close()
			return errLocked{holder(f)}
		case errors.Is(err, unix.ESTALE): // removed on another machine
			f.Close()
			continue
		case err != nil:
			f.Close()
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if l.is(f) {
			l.file = f
			l.sign()
			return nil
		}
		f.Close() // its holder has removed it; there may be a new file
	}
	return errLocked{}
}

// open opens the file, and creates it if it is missing. Every user may lock it: several users may write to a volume.
func (l *Lock) open() (*os.File, error) {
	for {
		f, err := open(l.dir, l.name, unix.O_RDWR, 0)
		if errors.Is(err, unix.EACCES) {
			f, err = open(l.dir, l.name, unix.O_RDONLY, 0) // enough, except on NFS
		}
		if err == nil {
			return f, regular(f)
		}
		if !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
		f, err = open(l.dir, l.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o666)
		if err == nil {
			f.Chmod(0o666) // whatever the umask; at worst another user gets an error
			return f, nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
}

func regular(f *os.File) error {
	stat, err := f.Stat()
	if err == nil && !stat.Mode().IsRegular() {
		err = poll.Permanent(fmt.Errorf("%s is not a regular file", f.Name()))
	}
	if err != nil {
		f.Close()
	}
	return err
}

// is returns whether f is the file that has the lock's name: it may have been removed between open and flock.
func (l *Lock) is(f *os.File) bool {
	opened, err := dirfd.Stat(f)
	if err != nil {
		return false
	}
	now, err := dirfd.Lstat(l.dir, l.name)
	return err == nil && now.Dev == opened.Dev && now.Ino == opened.Ino
}

// sign writes this host's name into the file, for the messages of runs that wait. It
// does not write to a file with a second name: that may be a link to any file.
func (l *Lock) sign() {
	if stat, err := dirfd.Stat(l.file); err != nil || stat.Nlink != 1 {
		return
	}
	if host, err := os.Hostname(); err == nil && l.file.Truncate(0) == nil {
		l.file.WriteAt([]byte(host), 0)
	}
}

func holder(f *os.File) string {
	const longest = 253 // of a host's name
	name, err := io.ReadAll(io.NewSectionReader(f, 0, longest))
	if err != nil {
		return ""
	}
	return failure.Printable(string(name))
}

// Release gives the lock up. It removes the file while it is locked: a run that has opened it meanwhile finds
// that it no longer has the lock's name.
func (l *Lock) Release() {
	if l.file == nil {
		return
	}
	if l.is(l.file) {
		dirfd.Remove(l.dir, l.name)
	}
	l.file.Close()
	l.file = nil
}

// open opens a file, and names it in the error.
func open(dir *os.File, name string, flags int, mode uint32) (*os.File, error) {
	f, err := dirfd.Open(dir, name, flags, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return f, nil
}
