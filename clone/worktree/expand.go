package worktree

import (
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
	maxHeld   = 8 << 20 // bytes of content that are kept until it is known whether they are wanted
	maxReread = 1 << 20 // bytes of a blob that is read into memory again, not copied from a file
)

// emptyTree exists in every repository, whether it is stored or not.
var emptyTree = plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")

// Root sets which tree is wanted. Call it once: before, during or after pack.Read.
func (t *Tree) Root(tree plumbing.Hash) error {
	top := &Entry{ID: tree, Mode: filemode.Dir}
	top.sub = &directory{entry: top, verdict: t.Sparse.top()}
	t.mu.Lock()
	t.top = top
	ready := t.want(top, nil)
	t.mu.Unlock()
	return t.takeAll(ready)
}

// Add takes an object of a pack: it writes a blob to every file that has it, or requests
// the entries of a tree. It fails, with a permanent error, for:
//   - names that Git refuses (see checkName) or that no file system takes;
//   - entries that are duplicate, or not in order;
//   - unknown modes; targets of symbolic links that are empty, longer than 4095
//     bytes or hold a NUL;
//   - more than MaxSize, MaxFiles or the memory for entries allow: a tree of
//     1 kB can stand for any number of files;
//   - an object whose kind differs from the one in the tree.
func (t *Tree) Add(_ int, o *pack.Object, c pack.Content) error {
	if o.Kind != plumbing.TreeObject && o.Kind != plumbing.BlobObject {
		return nil
	}
	t.mu.Lock()
	waiting := t.pending[o.ID]
	delete(t.pending, o.ID)
	if t.arrived != nil {
		t.arrived[o.ID] = o
		if (waiting == nil || o.Kind == plumbing.TreeObject) && c.File == nil && t.holds+len(c.Bytes) <= maxHeld {
			t.hold(o.ID, c)
		}
	}
	t.mu.Unlock()
	return t.take(waiting, o, c)
}

// hold keeps the content of an object, once. t.mu is locked.
func (t *Tree) hold(id plumbing.Hash, c pack.Content) {
	if _, again := t.held[id]; !again {
		t.held[id] = c.Keep()
		t.holds += len(c.Bytes)
	}
}

// take processes an object for all entries that waited for it.
func (t *Tree) take(waiting *Entry, o *pack.Object, c pack.Content) error {
	var ready []arrival
	for e := waiting; e != nil; {
		next := e.next // expand may set it again
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

// check refuses an object whose kind is not the one that the entry has in the tree.
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
	content pack.Content // without Bytes if it has to be read again; of a blob, to be released
}

// want makes an entry wait for its object, or appends it to ready if the object has arrived. t.mu is locked.
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
	if e.sub == nil { // trees stay: they are small, and otherwise only in the pack
		delete(t.held, e.ID)
		t.holds -= len(content.Bytes)
	}
	return append(ready, arrival{e, o, content})
}

// takeAll processes objects that arrived before they were wanted: trees first, so that the
// entries of blobs that arrive later are waiting.
func (t *Tree) takeAll(ready []arrival) (err error) {
	ready, blobs := setApart(ready, 0, nil)
	for len(ready) > 0 {
		last := len(ready) - 1
		if ready, err = t.expandAgain(ready[last], ready[:last]); err != nil {
			return err
		}
		ready, blobs = setApart(ready, last, blobs)
	}
	for _, a := range blobs {
		if err = t.placeAgain(a); err != nil {
			return err
		}
	}
	return nil
}

// setApart moves the blobs from that index on to another list, in order: the first one for an object has its content.
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

// expandAgain expands a tree that arrived before it was wanted, or that was wanted before.
func (t *Tree) expandAgain(a arrival, ready []arrival) (_ []arrival, err error) {
	if a.object == nil {
		return t.expand(a.entry, nil, ready)
	}
	if err := a.entry.check(a.object); err != nil {
		return nil, err
	}
	content := a.content.Bytes
	if content == nil {
		if content, err = a.object.Content(nil); err != nil {
			return nil, err
		}
	}
	return t.expand(a.entry, content, ready)
}

// placeAgain places a blob whose content is already in a file, or in the pack.
func (t *Tree) placeAgain(a arrival) error {
	o := a.object
	if err := a.entry.check(o); err != nil {
		return err
	}
	content := a.content
	if content.Bytes == nil && o.Size <= maxReread {
		var err error
		if content, err = o.Load(t); err != nil {
			return err
		}
	}
	defer content.Release()
	content.Size = o.Size
	return t.place(a.entry, o, content)
}

// expand makes entries from the tree object of e, and makes them wait for their objects. It
// appends those whose objects have arrived to ready.
func (t *Tree) expand(e *Entry, content []byte, ready []arrival) ([]arrival, error) {
	if e.in == nil && t.depth < len(t.subdir) {
		return t.descend(e, content, ready)
	}
	d := e.sub
	if err := t.parse(d, content); err != nil {
		return nil, err
	}
	if err := t.makeDirs(d); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range d.entries {
		if c := &d.entries[i]; !c.Skipped && c.Mode != filemode.Submodule {
			ready = t.want(c, ready)
		}
	}
	t.expanded()
	return ready, nil
}

// expanded counts a wanted tree whose entries are waiting. After the last one, objects that
// no entry waits for are not wanted. t.mu is locked.
func (t *Tree) expanded() {
	if t.expected--; t.expected == 0 {
		t.arrived, t.held, t.holds = nil, nil, 0
	}
}

// descend moves top to the next directory of Subdir.
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
	f := failure.New(failure.Missing, "the revision has no directory %s", path)
	if meant := suggest.Closest(path, near); meant != "" {
		f.Hint = "did you mean " + meant + "?"
	} else if len(near) > 0 {
		f.Hint = "there is " + words.List(near)
	}
	return nil, poll.Permanent(f)
}

// prefix returns the path from the root of the tree to top, with a slash after it, or "" for the root.
func (t *Tree) prefix() string {
	if t.depth == 0 {
		return ""
	}
	return strings.Join(t.subdir[:t.depth], "/") + "/"
}
