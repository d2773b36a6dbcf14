// Package worktree makes the files of a revision out of its objects, in whatever
// order they arrive, and the index that Git keeps of them.
//
// Nothing in a repository is trusted: see [Tree.Add] for what is refused. Files
// are made relative to the descriptor of one folder, each in a name that was free;
// symbolic links are made last of all, so that nothing can be written through one.
package worktree

import (
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"initbox/clone/access"
	"initbox/clone/pack"
	"initbox/internal/dirfd"
)

// Options of [New].
type Options struct {
	// Dir is an open folder. What is in it is left alone; what the tree would put
	// in its place is refused.
	Dir *os.File

	Subdir                 string  // of the tree: only the content of that folder is placed, in Dir
	Sparse                 *Sparse // what is placed, by its path from the root of the tree; nil for all
	Access                 access.Access
	RejectEscapingSymlinks bool  // refuse links that lead out of Dir; see [Tree.Finish]
	MaxSize                int64 // bytes of all files; 0 for any
	MaxFiles               int   // files and links; 0 for as many as fit into 256 MiB of memory, which is more than a million
	Stat                   bool  // gather what [Tree.WriteIndex] needs
}

// Tree is the tree of a revision that is being placed. It is the Sink of
// [pack.Read], of one pack or of several, one after the other.
type Tree struct {
	Options
	root   dirfd.FD // of Dir
	subdir []string // names of the folders
	limit  int64    // of memory

	mu       sync.Mutex                     // guards what follows, down to size
	top      *Entry                         // the tree that Dir becomes; nil until Root
	depth    int                            // of what top stands for now, in folders of Subdir
	pending  map[plumbing.Hash]*Entry       // what waits for an object: a list, by next
	arrived  map[plumbing.Hash]*pack.Object // what may be wanted yet; nil when it is known what is
	held     map[plumbing.Hash][]byte       // the content of some of those
	holds    int                            // bytes in held
	expected int                            // trees that are wanted, and not expanded
	bases    []*Entry                       // what Object.Placed, less 1, stands for
	links    []link
	crooked  []*folder // which have yet to get their mode and owner; those above come first
	memory   int64     // about what the entries take
	files    int
	size     int64

	replaced atomic.Bool // what is on disk need not be what is in the repository
	modeless atomic.Bool // the file system does not keep modes
}

// Entry is one file, symbolic link or submodule of the tree; folders have one
// too, which is not told of.
type Entry struct {
	ID      plumbing.Hash
	Mode    filemode.FileMode // Regular, Executable, Symlink or Submodule (or Dir)
	Skipped bool              // sparse: it is in the index, but not in Dir

	name string
	in   *folder // that it is in; nil for the top
	sub  *folder // that it is; nil if it is no folder
	next *Entry  // that waits for the same object
	stat stat
}

// folder is what a tree became.
type folder struct {
	entry   *Entry
	entries []Entry // as in the tree
	length  int     // of the path, with the slash after it; 0 at the top
	verdict verdict // of Sparse
	made    sync.Once
	err     error // of that
}

// New returns a Tree that is to be placed in o.Dir.
func New(o Options) *Tree {
	t := &Tree{
		Options: o,
		root:    dirfd.FD(o.Dir.Fd()),
		limit:   max(maxMemory, 2*(entrySize+maxName)*int64(o.MaxFiles)),
		pending: make(map[plumbing.Hash]*Entry),
		arrived: make(map[plumbing.Hash]*pack.Object),
		held:    make(map[plumbing.Hash][]byte),
	}
	for name := range strings.SplitSeq(o.Subdir, "/") {
		if name != "" && name != "." {
			t.subdir = append(t.subdir, name)
		}
	}
	return t
}

// Path of the entry in Dir: names and slashes, any bytes but NUL.
func (e *Entry) Path() string { return string(e.appendPath(nil)) }

func (e *Entry) appendPath(path []byte) []byte {
	if e.in == nil {
		return path
	}
	return append(e.in.appendPath(path), e.name...)
}

// appendPath appends the path with a slash after it, or nothing at the top.
func (f *folder) appendPath(path []byte) []byte {
	if f.entry.in == nil {
		return path
	}
	return append(f.entry.appendPath(path), '/')
}

// Entries returns what the tree has but folders, in the order of an index, which
// is that of the bytes of the paths.
func (t *Tree) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		if t.top != nil && t.top.sub != nil {
			t.top.sub.each(yield)
		}
	}
}

func (f *folder) each(yield func(*Entry) bool) bool {
	for i := range f.entries {
		e := &f.entries[i]
		if e.sub != nil && !e.sub.each(yield) || e.sub == nil && !yield(e) {
			return false
		}
	}
	return true
}

// Missing returns the ids of the objects that the tree has yet to get, in their
// order, after pack.Read: where a filter was asked for, blobs to be fetched next.
func (t *Tree) Missing() []plumbing.Hash {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]plumbing.Hash, 0, len(t.pending))
	for id := range t.pending {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

// KeepsModes reports, after Finish, whether the file system knows which files are
// executable. Where it does not, Git wants core.fileMode to be false.
func (t *Tree) KeepsModes() bool { return !t.modeless.Load() }
