package publish

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
)

// seal is a digest by which a later run sees whether a tree has changed: the names of files, their executable bits,
// sizes and modification times, and the targets of links. It leaves out what the kubelet changes at each mount (fsGroup
// changes the group, the permissions and the inode's time, see checkInodes), and the parts of .git that even reading
// commands such as git status write.
type seal struct {
	Digest string           `json:"digest"`
	Files  int              `json:"files"`
	Newest int64            `json:"newest"` // modification time of the newest file, ns since 1970
	Packs  map[string]int64 `json:"packs,omitempty"`

	Indexes []string `json:"indexes,omitempty"` // git's indexes: their content may change, but not be lost
}

// part selects which entries of a directory are sealed.
type part int

const (
	whole      part = iota // all
	repository             // in .git and .git/modules/*: HEAD and the branches
	refs                   // in .git/refs: the branches
)

// repositoryFiles are sealed, and so are locks, which block git and may be stale. Other
// files are not: git status writes the index, and git fetch writes many more.
var repositoryFiles = []string{"HEAD", "packed-refs", "shallow"}

// repositorySkipped are the directories of a repository that are not sealed.
var repositorySkipped = []string{"hooks", "info", "lfs", "logs", "objects", "worktrees"}

// of returns which part of an entry is sealed, and whether any is.
func (p part) of(at, name string, directory bool) (part, bool) {
	switch p {
	case repository:
		if !directory {
			return whole, slices.Contains(repositoryFiles, name) || strings.HasSuffix(name, ".lock")
		}
		if name == "refs" {
			return refs, true
		}
		return repository, !slices.Contains(repositorySkipped, name)
	case refs:
		return whole, directory && name == "heads"
	}
	if at == "" && name == gitName && directory {
		return repository, true
	}
	return whole, true
}

// packs adds the sizes of the packs of the tree's repositories, and the paths of their indexes. They are not part of
// the digest, because git may add packs later.
func (w *walk) packs() error {
	w.sum.Packs = map[string]int64{}
	for _, repo := range w.repositories {
		if index := path.Join(repo, "index"); isIndex(w.root, index) {
			w.sum.Indexes = append(w.sum.Indexes, index)
		}
		if err := w.packsOf(path.Join(repo, "objects/pack")); err != nil {
			return err
		}
	}
	return nil
}

// packsOf adds the packs in one directory.
func (w *walk) packsOf(at string) error {
	dir, err := openDir(w.root, at)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	all, err := names(dir)
	if err != nil {
		return err
	}
	for _, name := range all {
		stat, err := dirfd.Lstat(dir, name)
		if err != nil {
			return err
		}
		w.sum.Packs[path.Join(at, name)] = stat.Size
	}
	return nil
}

// isIndex returns whether the file called name has the header of an index, see gitformat-index(5). After a power cut,
// a file that git was writing may be empty, or full of zeros.
func isIndex(dir *os.File, name string) bool {
	f, err := openAt(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return errors.Is(err, unix.EACCES)
	}
	defer f.Close()
	const smallest = 4 + 4 + 4 + len(plumbing.ZeroHash)
	var header [4]byte
	stat, err := f.Stat()
	if err != nil || !stat.Mode().IsRegular() || stat.Size() < int64(smallest) {
		return false
	}
	_, err = f.ReadAt(header[:], 0)
	return err == nil && string(header[:]) == "DIRC"
}

// difference returns how a tree differs from what was sealed, or "", and what it has read.
func (s seal) difference(root *os.File, of part, skip func(name string) bool) (*walk, string, error) {
	for pack, size := range s.Packs {
		if stat, err := dirfd.Lstat(root, pack); err != nil || stat.Size != size {
			return nil, pack + " has changed", nil
		}
	}
	for _, index := range s.Indexes {
		if !isIndex(root, index) {
			return nil, index + " is missing or damaged", nil
		}
	}
	w, err := sealOf(root, of, skip)
	now := w.sum
	switch {
	case err != nil:
		return nil, "", err
	case now.Digest == s.Digest:
		return w, "", nil
	case now.Newest > s.Newest:
		return nil, failure.Printable(w.newest.path()) + " was written", nil
	case now.Files != s.Files:
		return nil, fmt.Sprintf("it has %d files instead of %d", now.Files, s.Files), nil
	}
	return nil, "a file was removed, renamed or made executable", nil
}
