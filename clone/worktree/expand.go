package worktree

import (
	"bytes"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"initbox/clone/object"
	"initbox/clone/pack"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

const (
	maxHeld   = 8 << 20 // bytes of content that is kept until it is known to be wanted
	maxReread = 1 << 20 // bytes of a blob that is read again into memory, not copied
)

// emptyTree exists in every repository, whether somebody has stored it or not.
var emptyTree = plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")

// Root says which tree is wanted, once: before, during or after pack.Read.
func (t *Tree) Root(tree plumbing.Hash) error {
	top := &Entry{ID: tree, Mode: filemode.Dir}
	top.sub = &folder{entry: top, verdict: t.Sparse.top()}
	t.mu.Lock()
	t.top = top
	ready := t.want(top, nil)
	t.mu.Unlock()
	return t.takeAll(ready)
}

// Add takes an object of a pack: it places a blob everywhere it belongs, or makes
// what a tree names wanted. It refuses, for good:
//   - names that Git refuses (see checkName) or that no file system takes;
//   - what is twice in a tree, or not in order;
//   - unknown modes; targets of symbolic links that are empty, longer than 4095
//     bytes or hold a NUL;
//   - more than MaxSize, MaxFiles or the memory for entries allow: a tree of
//     1 kB can stand for any number of files;
//   - an object of another kind than the tree says.
func (t *Tree) Add(_ int, o *pack.Object, c pack.Content) error {
	if o.Kind != plumbing.TreeObject && o.Kind != plumbing.BlobObject {
		return nil
	}
	t.mu.Lock()
	waiting := t.pending[o.ID]
	delete(t.pending, o.ID)
	if t.arrived != nil {
		t.arrived[o.ID] = o
		if (waiting == nil || o.Kind == plumbing.TreeObject) && t.holds+len(c.Bytes) <= maxHeld {
			t.held[o.ID] = bytes.Clone(c.Bytes)
			t.holds += len(c.Bytes)
		}
	}
	t.mu.Unlock()
	return t.take(waiting, o, c)
}

// take does what is to be done with an object for all entries that waited for it.
func (t *Tree) take(waiting *Entry, o *pack.Object, c pack.Content) error {
	var ready []arrival
	for e := waiting; e != nil; {
		next := e.next // which expand may set anew
		e.next = nil
		if err := e.check(o); err != nil {
			return err
		}
		var err error
		if e.sub != nil {
			ready, err = t.expand(e, c.Bytes, ready)
		} else {
			err = t.place(e, o, c)
		}
		if err != nil {
			return err
		}
		e = next
	}
	return t.takeAll(ready)
}

// check refuses an object that is none of the kind that the entry is for.
func (e *Entry) check(o *pack.Object) error {
	if (e.sub != nil) != (o.Kind == plumbing.TreeObject) {
		return refuse("%s is a %s, which is not what the tree says", e.printable(), o.Kind)
	}
	return nil
}

// arrival is an object that came before an entry wanted it.
type arrival struct {
	entry   *Entry
	object  *pack.Object // nil for the empty tree
	content []byte       // nil if it is to be read again
}

// want has an entry wait for its object, or appends it to ready if that has come.
// t.mu is locked.
func (t *Tree) want(e *Entry, ready []arrival) []arrival {
	if e.sub != nil {
		t.expected++
		if e.ID == emptyTree {
			return append(ready, arrival{entry: e})
		}
	}
	o := t.arrived[e.ID]
	if o == nil {
		e.next = t.pending[e.ID]
		t.pending[e.ID] = e
		return ready
	}
	content := t.held[e.ID]
	if e.sub == nil { // trees stay: they are small, and nowhere else but in the pack
		delete(t.held, e.ID)
		t.holds -= len(content)
	}
	return append(ready, arrival{e, o, content})
}

// takeAll takes what came before it was wanted: trees first, so that the blobs
// that are still to come find their entries waiting.
func (t *Tree) takeAll(ready []arrival) (err error) {
	ready, blobs := setApart(ready, 0, nil)
	for len(ready) > 0 {
		last := len(ready) - 1
		if ready, err = t.expandAgain(ready[last], ready[:last]); err != nil {
			return err
		}
		ready, blobs = setApart(ready, last, blobs)
	}
	var buf []byte
	for _, a := range blobs {
		if buf, err = t.placeAgain(a, buf); err != nil {
			return err
		}
	}
	return nil
}

// setApart moves the blobs from that place on to a list of their own, in their
// order: the first for an object has its content.
func setApart(ready []arrival, from int, blobs []arrival) (trees, _ []arrival) {
	trees = ready[:from]
	for _, a := range ready[from:] {
		if a.entry.sub == nil {
			blobs = append(blobs, a)
		} else {
			trees = append(trees, a)
		}
	}
	return trees, blobs
}

// expandAgain expands a tree that came before it was wanted, or was wanted before.
func (t *Tree) expandAgain(a arrival, ready []arrival) (_ []arrival, err error) {
	if a.object == nil {
		return t.expand(a.entry, nil, ready)
	}
	if err := a.entry.check(a.object); err != nil {
		return nil, err
	}
	if a.content == nil {
		if a.content, err = a.object.Content(nil); err != nil {
			return nil, err
		}
	}
	return t.expand(a.entry, a.content, ready)
}

// placeAgain places a blob whose content is in a file already, or in the pack. It
// returns a buffer for the next.
func (t *Tree) placeAgain(a arrival, buf []byte) (_ []byte, err error) {
	o := a.object
	if err := a.entry.check(o); err != nil {
		return nil, err
	}
	if a.content == nil && o.Size <= maxReread {
		var found bool
		if buf, found = t.Base(o, buf); !found {
			buf, err = o.Content(buf)
		}
		if err != nil {
			return nil, err
		}
		a.content = buf
	}
	return buf, t.place(a.entry, o, pack.Content{Bytes: a.content, Size: o.Size})
}

// expand makes entries of the content of the tree that e stands for, and has them
// wait for their objects. What has come is appended to ready.
func (t *Tree) expand(e *Entry, content []byte, ready []arrival) ([]arrival, error) {
	if e.in == nil && t.depth < len(t.subdir) {
		return t.descend(e, content, ready)
	}
	f := e.sub
	if err := t.parse(f, content); err != nil {
		return nil, err
	}
	if err := t.makeFolders(f); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range f.entries {
		if c := &f.entries[i]; !c.Skipped && c.Mode != filemode.Submodule {
			ready = t.want(c, ready)
		}
	}
	t.expanded()
	return ready, nil
}

// expanded is called when the entries of a wanted tree are waiting themselves.
// After the last, what is not waited for is not wanted. t.mu is locked.
func (t *Tree) expanded() {
	if t.expected--; t.expected == 0 {
		t.arrived, t.held, t.holds = nil, nil, 0
	}
}

// descend goes on from the tree at the top to the next folder of Subdir.
func (t *Tree) descend(top *Entry, content []byte, ready []arrival) ([]arrival, error) {
	name := t.subdir[t.depth]
	var near []string
	for c, err := range object.Entries(content) {
		if err != nil {
			return nil, refuse("%s: %v", top.printable(), err)
		}
		if c.Mode != filemode.Dir {
			continue
		}
		if c.Name != name {
			near = append(near, failure.Printable(t.prefix()+c.Name))
			continue
		}
		t.mu.Lock()
		top.sub.verdict = t.Sparse.verdict(t.prefix()+name, filemode.Dir, top.sub.verdict)
		t.depth++
		top.ID = c.ID
		ready = t.want(top, ready)
		t.expanded()
		t.mu.Unlock()
		return ready, nil
	}
	path := failure.Printable(t.prefix() + name)
	f := failure.New(failure.Missing, "the revision has no folder %s", path)
	if meant := suggest.Closest(path, near); meant != "" {
		f.Hint = "did you mean " + meant + "?"
	} else if len(near) > 0 {
		f.Hint = "there is " + words.List(near)
	}
	return nil, poll.Permanent(f)
}

// prefix is the path from the root of the tree to what top stands for, with a
// slash after it; "" for the root.
func (t *Tree) prefix() string {
	if t.depth == 0 {
		return ""
	}
	return strings.Join(t.subdir[:t.depth], "/") + "/"
}
