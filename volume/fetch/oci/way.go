package oci

import (
	"archive/tar"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// way is what there is on the way to a path, and beside it.
type way struct {
	path  string
	links map[string]string          // targets of symbolic links on the way, and of the path itself
	near  map[string]map[string]bool // names in the directories on the way
}

func newWay(to string) way {
	return way{path: to, links: map[string]string{}, near: map[string]map[string]bool{}}
}

// step notes an entry that is not below the path, and returns whether it can be seen.
func (o *overlay) step(h *tar.Header, name string) (visible bool, err error) {
	o.pass(name)
	step := o.path // the last that the name shares
	for ; ; step = path.Dir(step) {
		if _, ok := within(name, step); ok {
			break
		}
	}
	if step != name {
		if has := o.has[step].kind; (has == 0 || has == gone) && !o.hidden(step, true) {
			o.add(step, implied)
		}
		return false, nil
	}
	if visible, err = o.visible(name, h); !visible {
		return false, err
	}
	is := other
	if h.Typeflag == tar.TypeDir {
		is = directory
	}
	o.add(name, is)
	delete(o.links, name)
	if h.Typeflag == tar.TypeSymlink {
		o.links[name] = h.Linkname
	}
	return true, nil
}

// leads returns where the first symbolic link on the way leads, or "" without one.
func (o *overlay) leads() (string, error) {
	for end := range len(o.path) + 1 {
		if end < len(o.path) && o.path[end] != '/' {
			continue
		}
		step := o.path[:end]
		target, link := o.links[step]
		switch file := step != o.path && o.has[step].kind == other; {
		case !link && !file:
		case o.begun:
			return "", o.conflict(step)
		case !link:
			return "", nil
		case !path.IsAbs(target):
			target = path.Join(path.Dir(step), target)
			fallthrough
		default:
			return clean(path.Join("/", target, o.path[end:])), nil
		}
	}
	return "", nil
}

// conflict is the error of a layer that has something below a file or a link.
func (o *overlay) conflict(name string) error {
	return o.broken("/%s is not a directory, and the same layer has files below it", name)
}

// pass remembers the names beside the way.
func (w *way) pass(name string) {
	const most = 200
	dir := path.Dir(name)
	if _, ok := within(w.path, dir); !ok {
		return
	}
	if w.near[dir] == nil {
		w.near[dir] = map[string]bool{}
	}
	if len(w.near[dir]) < most {
		w.near[dir][path.Base(name)] = true
	}
}

// missing is the error for a path that the image does not have.
func (o *overlay) missing() error {
	f := failure.New(failure.Missing, "%s: the image has no %s", o.Image, failure.Printable("/"+o.path))
	if clean(o.o.Path) != o.path {
		f.Text = fmt.Sprintf("%s: %s of the image leads to %s, which it does not have", o.Image, failure.Printable(o.o.Path), failure.Printable("/"+o.path))
	}
	dir := path.Dir(o.path) // the last on the way that the image has
	for dir != "." && (o.has[dir].kind == 0 || o.has[dir].kind == gone) {
		dir = path.Dir(dir)
	}
	known := slices.Sorted(maps.Keys(o.near[dir]))
	rest, _ := within(o.path, dir)
	next, _, _ := strings.Cut(rest, "/")
	f.Hint = suggest.Question(next, known, path.Join("/", dir)+"/")
	const some = 12
	if len(known) > some {
		known = append(known[:some], "…")
	}
	if len(known) > 0 {
		f.Hint += path.Join("/", dir) + " has " + words.List(known)
	}
	f.Hint = failure.Printable(f.Hint)
	return poll.Permanent(f)
}
