package oci

import (
	"archive/tar"
	"fmt"
	"path"
	"strings"

	"initbox/internal/failure"
)

// names is what the layers that were read so far, from the topmost, have on the way to a path and below it.
type names struct {
	depth int             // of the layer that is read, counted from the topmost
	has   map[string]mark // by the name in the image; its root is "."
	bare  map[string]int  // directories whose content in lower layers is hidden, and since which layer
	room  int             // bytes that more of them may take
}

// Of the memory that names may take: a name, and what is remembered beside it.
const (
	maxNames = 256 << 20
	maxName  = 4096 // PATH_MAX
	besides  = 100
)

// mark is what the topmost layer that has something of a name has.
type mark struct {
	kind  kind
	depth int
}

type kind byte

const (
	implied   kind = iota + 1 // a directory in which there is something
	directory                 // one with an entry
	other                     // a file, a link, …
	later                     // a hard link that is put when what it leads to is found
	gone                      // deleted
)

func newNames() names { return names{has: map[string]mark{}, bare: map[string]int{}, room: maxNames} }

// clean returns the name below the root that a name in a layer stands for, or a target of a link.
func clean(name string) string {
	if name = path.Clean("/" + name); name == "/" {
		return "."
	}
	return name[1:]
}

// within returns the name relative to a directory, or "." for the directory itself, and whether it is in it.
func within(name, dir string) (string, bool) {
	switch {
	case name == dir:
		return ".", true
	case dir == ".":
		return name, true
	}
	return strings.CutPrefix(name, dir+"/")
}

// Entries that delete what lower layers have, see "Whiteouts" in
// https://github.com/opencontainers/image-spec/blob/main/layer.md.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// deletion returns what an entry deletes: a file or a directory, or only what is in it.
func deletion(name string) (target string, itself, ok bool) {
	dir, base := path.Split(name)
	if base == opaque {
		return clean(dir), false, true
	}
	base, ok = strings.CutPrefix(base, whiteout)
	return path.Join(dir, base), true, ok
}

// delete remembers that lower layers have nothing of a name, or nothing in that directory.
func (n *names) delete(name string, itself bool) {
	if itself && n.has[name].kind == 0 {
		n.set(name, gone)
	}
	n.empty(name)
}

func (n *names) empty(dir string) {
	if _, before := n.bare[dir]; !before {
		n.bare[dir] = n.depth
		n.room -= len(dir) + besides
	}
}

// add remembers an entry that is visible, and that it is in directories.
func (n *names) add(name string, is kind) {
	n.set(name, is)
	for name != "." {
		if name = path.Dir(name); n.has[name].kind == 0 || n.has[name].kind == gone {
			n.set(name, implied)
		}
	}
}

func (n *names) set(name string, is kind) {
	if n.has[name].kind == 0 {
		n.room -= len(name) + besides
	}
	n.has[name] = mark{is, n.depth}
}

// hidden returns whether a higher layer has something in place of an entry.
func (n *names) hidden(name string, dir bool) bool {
	is, ok := n.has[name]
	if ok && is.depth < n.depth && !(is.kind == implied && dir) {
		return true
	}
	return name != "." && n.closed(path.Dir(name))
}

// visible returns whether an entry can be seen below what higher layers have. If it is not a directory, what lower
// layers have below its name cannot be, either.
func (n *names) visible(name string, h *tar.Header) (bool, error) {
	dir := h.Typeflag == tar.TypeDir
	switch hidden := n.hidden(name, dir); {
	case !hidden:
		return true, nil
	case n.has[name].kind == implied && h.Typeflag == tar.TypeSymlink:
		return false, fmt.Errorf("/%s is a symbolic link, and a higher layer has files below it without a directory of that name", failure.Printable(name))
	case !dir:
		n.empty(name)
	}
	return false, nil
}

// closed returns whether a higher layer hides what this one has in a directory.
func (n *names) closed(dir string) bool {
	for ; ; dir = path.Dir(dir) {
		is, ok := n.has[dir]
		since, bare := n.bare[dir]
		if ok && is.depth < n.depth && is.kind >= other || bare && since < n.depth {
			return true
		}
		if dir == "." {
			return false
		}
	}
}
