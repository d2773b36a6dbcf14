// Package worktree makes the files of a revision from its objects, in whatever order they arrive, and Git's index of
// them.
//
//	tree := worktree.New(worktree.Options{Dir: dir})
//	if err := tree.Root(commit.Tree); err != nil {
//		return err
//	}
//	if _, err := pack.Read(ctx, server, pack.Options{Sink: tree, ...}); err != nil {
//		return err
//	}
//	return tree.Finish() // makes the symbolic links
//
// The content of a repository is not trusted: see [Tree.Add] for what is refused. Files are created relative to the
// descriptor of one directory, under names that did not exist. Symbolic links are made last, so that nothing can be
// written through one.
package worktree

import (
	"iter"
	"maps"
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
	// Dir is an open directory. Existing files in it are left alone; a tree that has a
	// file of the same name is refused.
	Dir *os.File

	Subdir                 string  // of the tree: only the content of that directory is placed in Dir
	Sparse                 *Sparse // which files are placed, by path from the root of the tree; nil for all
	Access                 access.Access
	RejectEscapingSymlinks bool  // refuse links that point outside Dir; see [Tree.Finish]
	MaxSize                int64 // bytes of all files; 0 for any
	MaxFiles               int   // files and links; 0 for as many as fit into 256 MiB of memory: more than a million
	Stat                   bool  // collect what [Tree.WriteIndex] needs
}

// Tree is the tree of a revision that is being placed. It is the Sink of [pack.Read], for
// one pack or for several, one after another.
type Tree struct {
	Options
	root   dirfd.FD // of Dir
	subdir []string // names of the directories
	limit  int64    // of memory

	mu       sync.Mutex                     // guards the fields down to written
	top      *Entry                         // the tree that Dir becomes; nil until Root
	depth    int                            // of top, in directories of Subdir
	pending  map[plumbing.Hash]*Entry       // entries that wait for an object: lists, linked by next
	arrived  map[plumbing.Hash]*pack.Object // objects that may be wanted later; nil when all wanted ones are known
	held     map[plumbing.Hash]pack.Content // the content of some of those
	holds    int                            // bytes in held
	expected int                            // trees that are wanted and not yet expanded
	bases    []*Entry                       // indexed by Object.Placed - 1
	links    []link
	deferred []*directory // whose mode and owner are set at the end; parents come first
	memory   int64        // estimate of the memory for entries
	files    int64
	size     int64
	written  map[*Entry]plumbing.Hash // the IDs of files that were replaced

	replaced atomic.Bool // files on disk may differ from the repository
	modeless atomic.Bool // the file system does not keep modes
}

// Entry is a file, symbolic link or submodule of the tree. Directories have entries too, which are not exported.
type Entry struct {
	ID      plumbing.Hash
	Mode    filemode.FileMode // Regular, Executable, Symlink or Submodule (or Dir)
	Skipped bool              // sparse: it is in the index, but not in Dir

	name string
	in   *directory // its parent; nil for the top
	sub  *directory // nil unless it is a directory
	next *Entry     // waits for the same object
	stat stat
}

// directory is the directory of a tree object.
type directory struct {
	entry   *Entry
	entries []Entry // as in the tree
	length  int     // of the path, with the slash after it; 0 at the top
	verdict verdict // of Sparse
	made    sync.Once
	err     error // of making it
}

// New returns a Tree for o.Dir.
func New(o Options) *Tree {
	t := &Tree{
		Options: o,
		root:    dirfd.FD(o.Dir.Fd()),
		limit:   max(maxMemory, 2*(entrySize+maxName)*int64(o.MaxFiles)),
		pending: make(map[plumbing.Hash]*Entry),
		arrived: make(map[plumbing.Hash]*pack.Object),
		held:    make(map[plumbing.Hash]pack.Content),
		written: make(map[*Entry]plumbing.Hash),
	}
	for name := range strings.SplitSeq(o.Subdir, "/") {
		if name != "" && name != "." {
			t.subdir = append(t.subdir, name)
		}
	}
	return t
}

// Name returns the last name of the path.
func (e *Entry) Name() string { return e.name }

// Path returns the path of the entry in Dir: names and slashes, of any bytes except NUL.
func (e *Entry) Path() string {
	var buf [pathBuffer]byte
	return string(e.appendPath(buf[:0]))
}

const pathBuffer = 256 // longer paths take another allocation

// appendPath appends the path, from its end to its start.
func (e *Entry) appendPath(path []byte) []byte {
	if e.in == nil {
		return path
	}
	at := len(path) + e.in.length + len(e.name)
	path = slices.Grow(path, at-len(path))[:at]
	for at -= copy(path[at-len(e.name):], e.name); e.in.entry.in != nil; at -= len(e.name) + 1 {
		e = e.in.entry
		path[at-1] = '/'
		copy(path[at-1-len(e.name):], e.name)
	}
	return path
}

// Entries returns the entries except directories, in the order of an index: by the bytes of their paths.
func (t *Tree) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		if t.top != nil && t.top.sub != nil {
			t.top.sub.each(yield)
		}
	}
}

func (d *directory) each(yield func(*Entry) bool) bool {
	for i := range d.entries {
		e := &d.entries[i]
		if e.sub != nil && !e.sub.each(yield) || e.sub == nil && !yield(e) {
			return false
		}
	}
	return true
}

// Missing returns the sorted ids of the objects that the tree still needs after pack.Read:
// with a filter, the blobs to be fetched next.
func (t *Tree) Missing() []plumbing.Hash {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Keys(t.pending), compareIDs)
}
