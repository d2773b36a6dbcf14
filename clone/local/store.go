package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"initbox/internal/readfile"
)

// store reads a repository's objects: from packs and files, its own and those of the repositories that it borrows from.
type store struct {
	dirs  []string        // of objects
	packs []*packFile     // never reordered, so that an object is always found in the same one
	known map[string]bool // indexes of packs

	inflater
	cache cache
	delta []byte // the instructions that are being applied
}

// maxAlternates is how many alternates git follows from one repository to the next.
const maxAlternates = 5

func openStore(dir string) (*store, error) {
	s := &store{known: make(map[string]bool)}
	if err := s.borrow(dir, 0); err != nil {
		return nil, err
	}
	return s, s.scan()
}

func (s *store) close() {
	for _, p := range s.packs {
		p.close()
	}
	s.packs = nil
}

// release returns the memory of the indexes to the kernel, which maps it again when needed:
// sending objects reads little of what finding them has read.
func (s *store) release() {
	for _, p := range s.packs {
		unix.Madvise(p.index, unix.MADV_DONTNEED)
	}
}

// borrow adds a directory of objects, and the directories that its info/alternates names, see gitrepository-layout(5).
func (s *store) borrow(dir string, depth int) error {
	if slices.Contains(s.dirs, dir) {
		return nil
	}
	s.dirs = append(s.dirs, dir)
	alternates, err := readFile(filepath.Join(dir, "info/alternates"), readfile.Limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(alternates), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if depth == maxAlternates {
			return fmt.Errorf("%s borrows objects through more than %d repositories", s.dirs[0], maxAlternates)
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, line)
		}
		if err := s.borrow(filepath.Clean(line), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// scan opens the packs that are new.
func (s *store) scan() error {
	var found []*packFile
	for _, dir := range s.dirs {
		names, err := os.ReadDir(filepath.Join(dir, "pack"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, entry := range names {
			index := filepath.Join(dir, "pack", entry.Name())
			if !strings.HasSuffix(index, ".idx") || s.known[index] {
				continue
			}
			p, err := openPack(index)
			if errors.Is(err, fs.ErrNotExist) {
				continue // the pack has just been replaced, or is not complete yet
			}
			if err != nil {
				return err
			}
			s.known[index] = true
			found = append(found, p)
		}
	}
	// The largest pack most likely has the wanted objects.
	slices.SortStableFunc(found, func(a, b *packFile) int { return b.count - a.count })
	s.packs = append(s.packs, found...)
	return nil
}

// place is where an object is: in a pack, or, if that is nil, in a file.
type place struct {
	pack *packFile
	at   int    // in the pack's index
	file string // the name
}

// find looks for an object, again after git gc may have moved it.
func (s *store) find(id plumbing.Hash) (place, error) {
	where, ok := s.look(id)
	if ok {
		return where, nil
	}
	if err := s.scan(); err != nil {
		return place{}, err
	}
	if where, ok = s.look(id); ok {
		return where, nil
	}
	return place{}, &MissingError{ID: id}
}

func (s *store) look(id plumbing.Hash) (place, bool) {
	for _, p := range s.packs {
		if at, ok := p.find(id); ok {
			return place{pack: p, at: at}, true
		}
	}
	name := id.String()
	for _, dir := range s.dirs {
		file := filepath.Join(dir, name[:2], name[2:])
		if _, err := os.Stat(file); err == nil {
			return place{file: file}, true
		}
	}
	return place{}, false
}

// MissingError says that a repository does not have an object.
type MissingError struct {
	ID     plumbing.Hash
	Wanted bool // the request named it; otherwise a requested object refers to it
}

func (e *MissingError) Error() string {
	if e.Wanted {
		return "there is no object " + e.ID.String()
	}
	return "the repository is incomplete: there is no object " + e.ID.String()
}

// openFile opens a regular file to read it. Another program that writes to the volume may
// have replaced it with a pipe, where opening would block forever, or with a device.
func openFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("not a file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readFile reads a file with [openFile], up to a limit in bytes.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readfile.Rest(f, limit)
}
