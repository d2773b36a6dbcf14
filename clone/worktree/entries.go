package worktree

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"initbox/clone/object"
)

const (
	maxMemory = 256 << 20 // bytes of entries
	maxName   = 255       // bytes, NAME_MAX
	maxPath   = 4095      // bytes, PATH_MAX less the NUL

	entrySize    = int64(unsafe.Sizeof(Entry{})) + 64 // with its share in the maps
	minTreeEntry = len("0 x\x00") + 20                // bytes of an entry in a tree object
)

// parse makes the entries of a directory and checks them.
func (t *Tree) parse(d *directory, content []byte) error {
	count := min(bytes.Count(content, []byte{0}), len(content)/minTreeEntry) // at most
	if err := t.afford(int64(count)*entrySize + int64(len(content))); err != nil {
		return err
	}
	d.entries = make([]Entry, 0, count) // must not grow, because there are pointers to its elements
	files, last := 0, Entry{}
	for c, err := range object.Entries(content) {
		if err != nil {
			return refuse("%s: %v", d.printable(), err)
		}
		e := Entry{ID: c.ID, Mode: canonical(c.Mode), name: c.Name, in: d}
		if err := d.check(&e, &last, c.Mode); err != nil {
			return err
		}
		last = e
		if !t.enter(d, e) {
			continue
		}
		if added := &d.entries[len(d.entries)-1]; added.sub == nil && !added.Skipped && added.Mode != filemode.Submodule {
			files++
		}
	}
	return t.countFiles(files)
}

// enter adds an entry to its directory if it is placed or belongs in the index, and returns whether it did.
func (t *Tree) enter(d *directory, e Entry) bool {
	verdict := d.verdict
	if !verdict.final() {
		verdict = t.Sparse.verdict(t.prefix()+e.Path(), e.Mode, verdict)
	}
	if verdict == noneBelow && !t.Stat || e.Mode != filemode.Dir && !verdict.placed() && !t.Stat {
		return false
	}
	e.Skipped = e.Mode != filemode.Dir && !verdict.placed()
	d.entries = append(d.entries, e)
	if e.Mode == filemode.Dir {
		added := &d.entries[len(d.entries)-1]
		added.sub = &directory{entry: added, length: d.length + len(e.name) + 1, verdict: verdict}
	}
	return true
}

// check refuses an entry of d that Git would not write, or that cannot be placed.
func (d *directory) check(e, last *Entry, mode filemode.FileMode) error {
	if err := checkName(e.name, e.Mode); err != nil {
		return refuse("%s has the name %s, which is refused: %v", d.printable(), printable(e.name), err)
	}
	switch {
	case e.Mode == filemode.Empty:
		return refuse("%s has the mode %06o, which Git does not know", e.printable(), uint32(mode))
	case len(e.name) > maxName:
		return refuse("%s has a name of %d bytes; file systems allow %d", e.printable(), len(e.name), maxName)
	case d.length+len(e.name) > maxPath:
		return refuse("%s has a path of %d bytes; Linux allows %d", e.printable(), d.length+len(e.name), maxPath)
	case last.name != "" && compare(last.name, last.Mode, e.name, e.Mode) >= 0:
		return refuse("%s is a duplicate in its directory, or not in Git's order", e.printable())
	}
	if e.Mode == filemode.Dir { // a file of that name would come earlier, perhaps before a.b
		_, found := slices.BinarySearchFunc(d.entries, e.name, func(e Entry, name string) int {
			return compare(e.name, e.Mode, name, filemode.Regular)
		})
		if found {
			return refuse("%s is a file and a directory", e.printable())
		}
	}
	return nil
}

// compare orders entries as in a tree object: by the bytes of their names, with a slash after the names of directories.
func compare(a string, aMode filemode.FileMode, b string, bMode filemode.FileMode) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return cmp.Compare(after(a[n:], aMode), after(b[n:], bMode))
}

// after returns the next byte of a name.
func after(rest string, mode filemode.FileMode) byte {
	switch {
	case rest != "":
		return rest[0]
	case mode == filemode.Dir:
		return '/'
	}
	return 0
}

// canonical returns the mode that Git uses for a mode in a tree, or Empty for an unknown one.
func canonical(mode filemode.FileMode) filemode.FileMode {
	const kind, executable = 0o170000, 0o100
	switch {
	case mode > 0o177777:
		return filemode.Empty
	case mode&kind == filemode.Regular&kind && mode&executable != 0:
		return filemode.Executable
	case mode&kind == filemode.Regular&kind:
		return filemode.Regular
	case mode&kind == filemode.Dir, mode&kind == filemode.Symlink, mode&kind == filemode.Submodule:
		return mode & kind
	}
	return filemode.Empty
}
