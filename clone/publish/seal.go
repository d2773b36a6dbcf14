package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"initbox/clone/object"
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

// walk computes a seal. Several goroutines read directories.
type walk struct {
	root *os.File
	skip func(name string) bool // at the top

	mu      sync.Mutex
	more    sync.Cond
	todo    []directory
	busy    int
	err     error
	digests []digest
	sum     seal
	newest  string // path of the newest file
	inode   int64  // the newest change of the inode of a file, ns since 1970
	changed string // path of that file

	content      *object.Content // of the files outside .git; nil unless it is to be computed
	repositories []string
}

type directory struct {
	path string
	part part
}

type digest struct {
	path string
	sum  [sha256.Size]byte
}

// sealOf computes the seal of a tree or a repository.
func sealOf(root *os.File, of part, skip func(name string) bool) (*walk, error) {
	w := &walk{root: root, skip: skip}
	return w, w.run(of)
}

// run walks over the files.
func (w *walk) run(of part) error {
	w.todo = []directory{{part: of}}
	w.more.L = &w.mu
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		all.Go(w.work)
	}
	all.Wait()
	slices.SortFunc(w.digests, func(a, b digest) int { return cmp.Compare(a.path, b.path) })
	h := sha256.New()
	for _, d := range w.digests {
		h.Write(d.sum[:])
	}
	w.sum.Digest = hex.EncodeToString(h.Sum(nil))
	return w.err
}

func (w *walk) work() {
	r := &reader{walk: w, dirents: make([]byte, 32<<10)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.todo) == 0 && w.busy > 0 && w.err == nil {
			w.more.Wait()
		}
		if len(w.todo) == 0 || w.err != nil {
			w.more.Broadcast()
			return
		}
		last := len(w.todo) - 1
		next := w.todo[last]
		w.todo = w.todo[:last]
		w.busy++
		w.mu.Unlock()
		err := r.read(next)
		w.mu.Lock()
		w.busy--
		w.take(r, err)
	}
}

// take adds what a reader found in a directory.
func (w *walk) take(r *reader, err error) {
	if err != nil && w.err == nil {
		w.err = err
	}
	w.todo = append(w.todo, r.directories...)
	if r.objects {
		w.repositories = append(w.repositories, r.at.path)
	}
	if r.sealed {
		w.digests = append(w.digests, digest{r.at.path, r.sum})
	}
	w.sum.Files += r.files
	if r.newest > w.sum.Newest {
		w.sum.Newest, w.newest = r.newest, r.newestPath
	}
	if r.inode > w.inode {
		w.inode, w.changed = r.inode, r.changedPath
	}
	if len(r.directories) > 0 || w.busy == 0 {
		w.more.Broadcast()
	}
}

// reader reads one directory after another.
type reader struct {
	*walk
	dirents []byte
	entries []entry
	record  []byte

	at          directory
	directories []directory
	sealed      bool
	objects     bool // it is a repository with objects
	sum         [sha256.Size]byte
	files       int
	newest      int64
	newestPath  string
	inode       int64
	changedPath string
	buffer      []byte
}

type entry struct {
	name string
	kind byte
	part part
}

func (r *reader) read(at directory) error {
	r.at, r.directories, r.entries, r.files, r.newest, r.inode, r.objects = at, r.directories[:0], r.entries[:0], 0, 0, 0, false
	// An os.File would cost two more system calls for each directory.
	dir, err := dirfd.OpenFD(r.root, cmp.Or(at.path, "."), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := r.list(dir); err != nil {
		return err
	}
	slices.SortFunc(r.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	r.record = append(append(r.record[:0], at.path...), 0)
	for _, e := range r.entries {
		if err := r.add(dir, e); err != nil {
			return err
		}
	}
	r.sealed = at.part != repository || r.files > 0
	r.sum = sha256.Sum256(r.record)
	return nil
}

// list collects the entries that are sealed.
func (r *reader) list(dir dirfd.FD) error {
	var failed error
	err := dirfd.ReadDir(dir, r.dirents, func(name string, kind byte) {
		if r.at.path == "" && r.skip(name) {
			return
		}
		if kind == unix.DT_UNKNOWN {
			stat, err := dirfd.Lstat(dir, name)
			if err != nil {
				failed = err
			}
			kind = byte(stat.Mode & unix.S_IFMT >> 12) // as in dirent(3)
		}
		if r.at.part == repository && name == "objects" {
			r.objects = true
		}
		if p, ok := r.at.part.of(r.at.path, name, kind == unix.DT_DIR); ok {
			r.entries = append(r.entries, entry{name, kind, p})
		}
	})
	return cmp.Or(err, failed)
}

// add adds an entry to the record of its directory.
func (r *reader) add(dir dirfd.FD, e entry) error {
	if e.kind == unix.DT_DIR {
		r.directories = append(r.directories, directory{below(r.at.path, e.name), e.part})
		if r.at.part == repository || e.part == repository {
			return nil // it is recorded only if a file in it is
		}
	}
	r.record = append(append(append(r.record, e.kind), e.name...), 0)
	switch e.kind {
	case unix.DT_LNK:
		target, err := dirfd.Readlink(dir, e.name)
		if err != nil {
			return err
		}
		r.files++
		r.record = append(append(r.record, target...), 0)
	case unix.DT_REG:
		s, err := dirfd.Lstat(dir, e.name)
		if err != nil {
			return err
		}
		r.files++
		seconds, nanoseconds := s.Mtim.Unix()
		time := seconds*1e9 + nanoseconds
		if time > r.newest {
			r.newest, r.newestPath = time, below(r.at.path, e.name)
		}
		seconds, nanoseconds = s.Ctim.Unix()
		if inode := seconds*1e9 + nanoseconds; inode > r.inode {
			r.inode, r.changedPath = inode, below(r.at.path, e.name)
		}
		if r.walk.content != nil {
			if err := r.hash(dir, e.name, s.Size); err != nil {
				return err
			}
		}
		r.record = append(r.record, byte(s.Mode>>6&1))
		r.record = binary.BigEndian.AppendUint64(r.record, uint64(s.Size))
		r.record = binary.BigEndian.AppendUint64(r.record, uint64(time))
	}
	return nil
}

// below joins two clean paths; the first may be empty.
func below(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
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
		return nil, failure.Printable(w.newest) + " was written", nil
	case now.Files != s.Files:
		return nil, fmt.Sprintf("it has %d files instead of %d", now.Files, s.Files), nil
	}
	return nil, "a file was removed, renamed or made executable", nil
}
