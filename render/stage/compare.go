package stage

import (
	"bytes"
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
	case p.Kind() != unix.S_IFREG && p.Kind() != unix.S_IFLNK:
		err = errors.New("it exists and is not a regular file")
	}
	if err != nil {
		p.close()
	}
	p.missing = false
	return p, err
}

// compare returns what the new content and attributes change.
func (p present) compare(content []byte, a Attr) (Kind, error) {
	switch {
	case p.missing:
		return Created, nil
	case p.Kind() != unix.S_IFREG || p.Size != int64(len(content)) || !a.isOf(p.Info):
		return Changed, nil
	}
	f, err := dirfd.Open(p.dir, p.base, unix.O_RDONLY, 0)
	if err != nil {
		return Changed, nil // perhaps only other users can read it
	}
	defer f.Close()
	same, err := equal(f, content)
	if err != nil {
		return "", fmt.Errorf("compare: %w", bare(err))
	}
	if same {
		return Unchanged, nil
	}
	return Changed, nil
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

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// equal returns whether f has that content, without reading all of it into memory.
func equal(f io.Reader, content []byte) (bool, error) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	for {
		n, err := f.Read(buffer[:])
		if !bytes.HasPrefix(content, buffer[:n]) {
			return false, nil
		}
		content = content[n:]
		if err == io.EOF {
			return len(content) == 0, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// largestOld bounds what Old reads: as much as render writes at most.
const largestOld = 64 << 20

// Old returns the current content and attributes of a file. The error is [fs.ErrNotExist] if the file is missing, or is
// a link that would be replaced. A file longer than 64 MiB is another error.
func (s *Stage) Old(name string) ([]byte, Attr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, attr, err := s.read(name)
	if err != nil {
		err = &fs.PathError{Op: "read", Path: s.shown(name), Err: bare(err)}
	}
	return content, attr, err
}

func (s *Stage) read(name string) ([]byte, Attr, error) {
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
	tooLong := fmt.Errorf("longer than %d bytes", largestOld)
	if p.Size > largestOld {
		return nil, Attr{}, tooLong
	}
	file, err := dirfd.Open(p.dir, p.base, unix.O_RDONLY, 0)
	if err != nil {
		return nil, Attr{}, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, largestOld+1))
	if err == nil && len(content) > largestOld {
		return nil, Attr{}, tooLong
	}
	return content, attrOf(p.Info), err
}
