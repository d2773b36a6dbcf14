package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

const maxLinks = 40 // the limit of Linux

// way is what there is on the way to a path, and beside it.
type way struct {
	*Image
	names
	path  string
	links map[string]string          // targets of symbolic links
	near  map[string]map[string]bool // names in the directories on the way
	used  bool                       // this layer has something on the way or at the path
}

// location is where the path leads.
type location struct {
	path   string
	file   bool
	unused map[int]bool // layers that have nothing there
}

// locate follows the links on the way to the path, and the path itself, within the image. It reads as many layers as
// that needs.
func (i *Image) locate(ctx context.Context) (location, error) {
	at := location{path: clean(i.o.Path)}
	for range maxLinks {
		w := &way{Image: i, names: newNames(), path: at.path, links: map[string]string{}, near: map[string]map[string]bool{}}
		at.unused = map[int]bool{}
		for depth := 0; depth < len(i.layers) && !w.settled(); depth++ {
			w.depth, w.used = depth, false
			if err := i.layer(ctx, depth, w.entry); err != nil && !errors.Is(err, errSettled) {
				return at, err
			}
			at.unused[depth] = !w.used
			w.depth++
		}
		leads, err := w.follow()
		if err != nil {
			return at, err
		}
		if leads == "" {
			at.file = w.has[at.path].kind == other
			return at, nil
		}
		at.path = leads
	}
	return at, poll.Permanent(failure.New(failure.Missing, "%s: %s leads through more than %d symbolic links", i, failure.Printable(i.o.Path), maxLinks))
}

// errSettled ends the reading of a layer that has an entry for each step.
var errSettled = errors.New("nothing more to find")

// settled returns whether lower layers cannot change where the path leads.
func (w *way) settled() bool {
	for step := w.path; step != "."; step = path.Dir(step) {
		if !w.hidden(step, true) {
			return false
		}
	}
	return w.depth > 0
}

// entry notes an entry of a layer.
func (w *way) entry(h *tar.Header, name string, _ io.Reader) error {
	if target, itself, ok := deletion(name); ok {
		_, above := within(w.path, target)
		_, below := within(target, w.path)
		if w.used = w.used || above || below; above {
			w.delete(target, itself)
		}
		return nil
	}
	w.pass(name)
	step := w.path // the last that the name shares
	for ; ; step = path.Dir(step) {
		if _, ok := within(name, step); ok {
			break
		}
	}
	is := directory
	switch {
	case step != name:
		is = implied
	case h.Typeflag != tar.TypeDir:
		is = other
	}
	w.used = w.used || step == name || step == w.path
	visible, err := is == implied && !w.hidden(step, true), error(nil)
	if is != implied {
		visible, err = w.visible(name, h)
	}
	has := w.has[step].kind
	if err != nil || !visible || is == implied && has != 0 && has != gone {
		return err
	}
	w.add(step, is)
	delete(w.links, step)
	if h.Typeflag == tar.TypeSymlink && is == other {
		w.links[step] = h.Linkname
	}
	if is != implied && w.complete() {
		return errSettled
	}
	return nil
}

// complete returns whether there is an entry for each step.
func (w *way) complete() bool {
	for step := w.path; step != "."; step = path.Dir(step) {
		if is := w.has[step].kind; is != directory && is != other {
			return false
		}
	}
	return true
}

// follow returns where the path leads by the first link on the way, or "" without one.
func (w *way) follow() (string, error) {
	for end := range len(w.path) + 1 {
		if end < len(w.path) && w.path[end] != '/' {
			continue
		}
		step := w.path[:end]
		is := w.has[step].kind
		target, link := w.links[step]
		switch {
		case link:
			if !path.IsAbs(target) {
				target = path.Join(path.Dir(step), target)
			}
			return clean(path.Join("/", target, w.path[end:])), nil
		case is == 0 || is == gone || is == other && step != w.path:
			return "", w.missing(path.Dir(step))
		}
	}
	return "", nil
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

// missing is the error for a path of which the image has no more than dir.
func (w *way) missing(dir string) error {
	f := failure.New(failure.Missing, "%s: the image has no %s", w.Image, failure.Printable("/"+w.path))
	if clean(w.o.Path) != w.path {
		f.Text = fmt.Sprintf("%s: %s of the image leads to %s, which it does not have", w.Image, failure.Printable(w.o.Path), failure.Printable("/"+w.path))
	}
	known := slices.Sorted(maps.Keys(w.near[dir]))
	rest, _ := within(w.path, dir)
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
