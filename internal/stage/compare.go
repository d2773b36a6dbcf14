package stage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// present describes the existing file at a destination.
type present struct {
	dirfd.Info
	missing bool
	dir     *os.File // the directory; nil if that is missing too
	base    string
}

func (p present) close() { p.dir.Close() }

// lookUp finds the file called name, whose directory is d. It fails if the file cannot be replaced with another.
func (s *Stage) lookUp(d *directory, name string) (p present, err error) {
	p = present{base: path.Base(name), missing: true}
	if !d.exists {
		return p, nil
	}
	p.dir, err = openDir(s.old, path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil // removed after d was read
	}
	if err != nil {
		return p, err
	}
	p.Info, err = dirfd.Inspect(p.dir, p.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil
	case err != nil:
	case s.link != "" && p.Kind() != unix.S_IFREG:
		return p, nil // it is not copied to the new version
	case p.Kind() == unix.S_IFDIR:
		err = errors.New("it is a directory")
	case p.Kind() != unix.S_IFREG && p.Kind() != unix.S_IFLNK, s.base == "/dev" && p.Kind() == unix.S_IFLNK:
		err = errors.New("it exists and is not a regular file")
	}
	if err != nil {
		p.close()
	}
	p.missing = false
	return p, err
}

// compare returns what a change to that content changes.
func (p present) compare(c *change, content Content) (Kind, error) {
	switch {
	case c.target != "":
		if now, err := dirfd.Readlink(p.dir, p.base); err == nil && now == c.target {
			return Unchanged, nil
		}
		if p.missing {
			return Created, nil
		}
		return Changed, nil
	case p.missing:
		return Created, nil
	case p.Kind() != unix.S_IFREG || !c.attr.isOf(p.Info):
		return Changed, nil
	}
	same, err := p.holds(content)
	if err != nil {
		return "", fmt.Errorf("compare: %w", bare(err))
	}
	if same {
		return Unchanged, nil
	}
	return Changed, nil
}

// holds returns whether a regular file has that content. It returns false if the file cannot be read: perhaps only
// other users can.
func (p present) holds(content Content) (bool, error) {
	r, size, err := content()
	if err != nil {
		return false, err
	}
	defer r.Close()
	if size > 0 && size != p.Size {
		return false, nil
	}
	f, err := dirfd.Open(p.dir, p.base, unix.O_RDONLY, 0)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	return equal(f, r)
}

// isOf returns whether a file has these attributes.
func (a Attr) isOf(i dirfd.Info) bool {
	return i.Mode&0o7777 == uint32(a.Mode.Perm()) && (a.UID == -1 || a.UID == i.UID) && (a.GID == -1 || a.GID == i.GID)
}

func attrOf(i dirfd.Info) Attr { return Attr{fs.FileMode(i.Mode & 0o777), i.UID, i.GID} }

// writable returns why the file cannot be written in place, or nil; denied is why it cannot be replaced.
func (p present) writable(denied error) error {
	if p.missing || p.Kind() != unix.S_IFREG {
		return denied
	}
	return dirfd.Access(p.dir, p.base, unix.W_OK)
}

type buffer = [64 << 10]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func equal(a, b io.Reader) (bool, error) {
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	return dirfd.Same(a, b, buf[:])
}

// Holds returns whether a file exists and has that content, whatever its attributes are.
func (s *Stage) Holds(name string, content Content) (bool, error) {
	old, _, err := s.Old(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer old.Close()
	r, _, err := content()
	if err != nil {
		return false, err
	}
	defer r.Close()
	return equal(old, r)
}

// Old opens the current file of that name, and returns its attributes. The error is [fs.ErrNotExist] if it is missing,
// or is a link that would be replaced.
func (s *Stage) Old(name string) (*os.File, Attr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, attr, err := s.openOld(name)
	if err != nil {
		err = &fs.PathError{Op: "read", Path: s.shown(name), Err: bare(err)}
	}
	return f, attr, err
}

func (s *Stage) openOld(name string) (*os.File, Attr, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, Attr{}, errors.New("not a name below the directory")
	}
	f, err := s.directory(path.Dir(name))
	if err != nil {
		return nil, Attr{}, err
	}
	p, err := s.lookUp(f, name)
	if err != nil {
		return nil, Attr{}, err
	}
	defer p.close()
	if p.missing || p.Kind() != unix.S_IFREG {
		return nil, Attr{}, fs.ErrNotExist
	}
	old, err := dirfd.Open(p.dir, p.base, unix.O_RDONLY, 0)
	return old, attrOf(p.Info), err
}
