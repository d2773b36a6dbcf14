package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

// lock is held by whoever works on a folder. It is a file, since NFS has no locks
// on folders, and beside the folder, which is replaced. The kernel ends the lock
// with its process; the file that a killed one leaves is nobody's, and the next
// takes it.
type lock struct {
	dir  *os.File
	name string
	file *os.File
	none bool // the file system has no locks
}

// errLocked means that somebody else has the lock.
type errLocked struct{ holder string }

func (e errLocked) Error() string {
	if e.holder == "" {
		return "another run is at work on it"
	}
	return "another run, on " + e.holder + ", is at work on it"
}

// wait takes the lock as soon as it is free. tell is called once if it is not.
func (l *lock) wait(ctx context.Context, tell func(error)) error {
	err := l.try()
	if !errors.As(err, new(errLocked)) {
		return err
	}
	tell(err)
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
		l.release() // taken as the wait ended
	}
	return err
}

// try takes the lock, or says who has it.
func (l *lock) try() error {
	const tries = 100 // each is lost to another run that ends
	for range tries {
		f, err := l.open()
		if err != nil {
			return err
		}
		err = dirfd.Lock(f, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case isAny(err, unix.ENOLCK, unix.ENOTSUP, unix.ENOSYS):
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
		f.Close() // whoever had it has removed it; there may be a new one
	}
	return errLocked{}
}

// open makes the file unless it is there. Everybody may take it: a volume may be
// written to by several users.
func (l *lock) open() (*os.File, error) {
	for {
		f, err := openAt(l.dir, l.name, unix.O_RDWR, 0)
		if errors.Is(err, unix.EACCES) {
			f, err = openAt(l.dir, l.name, unix.O_RDONLY, 0) // does, but on NFS
		}
		if err == nil {
			return f, regular(f)
		}
		if !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
		f, err = openAt(l.dir, l.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o666)
		if err == nil {
			f.Chmod(0o666) // whatever the umask; at worst another user waits for an error
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

// is reports whether f is what has the lock's name: it may have been removed
// between open and flock.
func (l *lock) is(f *os.File) bool {
	opened, err := dirfd.Stat(f)
	if err != nil {
		return false
	}
	now, err := dirfd.Lstat(l.dir, l.name)
	return err == nil && now.Dev == opened.Dev && now.Ino == opened.Ino
}

// sign says in the file who has the lock, for those who wait: unless somebody has
// given another file that name too.
func (l *lock) sign() {
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

// release removes the file while it is locked: whoever has opened it meanwhile
// finds that it is not the one of that name any more.
func (l *lock) release() {
	if l.file == nil {
		return
	}
	if l.is(l.file) {
		dirfd.Remove(l.dir, l.name)
	}
	l.file.Close()
	l.file = nil
}
