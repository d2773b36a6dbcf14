package oci

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// layer calls visit for each entry of a layer, counted from the topmost, with its name below the root.
func (i *Image) layer(ctx context.Context, depth int, visit func(h *tar.Header, name string, r io.Reader) error) error {
	number := len(i.layers) - depth
	what := fmt.Sprintf("layer %d of %d", number, len(i.layers))
	file, err := i.fetch(ctx, i.layers[depth], what)
	if err != nil {
		return err
	}
	i.o.Log.Debug("reading "+what, "image", i.String(), "bytes", i.layers[depth].Size)
	if err := entries(ctx, file, visit); err != nil {
		return fmt.Errorf("%s, %s: %w", i, what, err)
	}
	return nil
}

// overlay is what the layers that were read so far have at a path.
type overlay struct {
	*Image
	location
	put Put

	depth int             // of the layer that is read, counted from the topmost
	has   map[string]mark // by the name relative to the path
	bare  map[string]int  // directories whose content in lower layers is hidden, and since which layer
	over  bool            // lower layers can have nothing at the path
	done  bool            // and this is one of them, which may have what hard links lead to

	wait  map[string][]tar.Header // hard links to a file that was not put, by its name in the image
	added bool                    // to wait, in this pass over the layer
}

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

// extract calls put for what is at the path. It reads the layers from the topmost, passes over names that a higher
// layer has or has deleted, and ends when the lower ones can have nothing more.
func (i *Image) extract(ctx context.Context, put Put) error {
	at, err := i.locate(ctx)
	if err != nil {
		return err
	}
	o := &overlay{Image: i, location: at, put: put, has: map[string]mark{}, bare: map[string]int{}, wait: map[string][]tar.Header{}}
	for depth, d := range i.layers {
		o.depth, o.added = depth, false
		if err := i.layer(ctx, depth, o.entry); err != nil {
			return err
		}
		// What a hard link leads to may come before it.
		for range maxLinks {
			if !o.added {
				break
			}
			o.added = false
			err := i.layer(ctx, depth, func(h *tar.Header, name string, r io.Reader) error { return o.awaited(h, name, r, "") })
			if err != nil {
				return err
			}
		}
		i.drop(d)
		if o.done = o.over; o.done && len(o.wait) == 0 {
			return nil
		}
	}
	for name, links := range o.wait {
		return i.broken("%s is a hard link to /%s, which is not there", links[0].Name, name)
	}
	return nil
}

// entry handles one entry of a layer.
func (o *overlay) entry(h *tar.Header, name string, r io.Reader) error {
	if n := len(o.has) + len(o.bare); o.o.MaxFiles > 0 && n > 4*o.o.MaxFiles {
		return o.broken("its layers have more than %d entries and deleted names at the path", n)
	}
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	if base == opaque {
		o.hide(dir, false)
		return nil
	}
	if deleted, ok := strings.CutPrefix(base, whiteout); ok {
		o.hide(path.Join(dir, deleted), true)
		return nil
	}
	rel, inside := o.rel(name)
	inside = inside && !o.done && !(o.file && rel != ".")
	if !inside && !o.over && h.Typeflag != tar.TypeDir {
		_, o.over = within(o.spots[len(o.spots)-1].path, name) // and higher layers had a directory there
	}
	if dir := h.Typeflag == tar.TypeDir; inside && o.hidden(rel, dir) {
		inside = false
		if o.has[rel].kind == implied && h.Typeflag == tar.TypeSymlink {
			return o.broken("/%s is a symbolic link, and a higher layer has files below it without a directory of that name", name)
		}
		if _, before := o.bare[rel]; !dir && !before { // a directory of a higher layer took its place
			o.bare[rel] = o.depth
		}
	}
	if !inside {
		return o.awaited(h, name, r, "")
	}
	if err := o.visible(h, rel, r); err != nil {
		return err
	}
	return o.awaited(h, name, nil, rel)
}

// visible puts an entry that is part of the result, and remembers it.
func (o *overlay) visible(h *tar.Header, rel string, r io.Reader) error {
	is := other
	if h.Typeflag == tar.TypeDir {
		is = directory
	}
	o.has[rel] = mark{is, o.depth}
	for up := rel; up != "."; {
		if up = path.Dir(up); o.has[up].kind == 0 || o.has[up].kind == gone {
			o.has[up] = mark{implied, o.depth}
		}
	}
	out := *h
	if out.Name = rel; o.file {
		out.Name = path.Base(path.Clean(o.o.Path))
		o.over = true
	}
	switch h.Typeflag {
	case tar.TypeLink:
		return o.hardLink(out, rel)
	case tar.TypeSymlink:
		out.Linkname = o.symlink(h.Linkname, rel)
	}
	return o.put(&out, r)
}

// hardLink puts a hard link, if the file that it leads to was put from the same layer; otherwise it is the file itself.
func (o *overlay) hardLink(h tar.Header, rel string) error {
	target := strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
	if to, ok := o.rel(target); ok && o.has[to] == (mark{other, o.depth}) && !o.file {
		h.Linkname = to
		return o.put(&h, strings.NewReader(""))
	}
	o.has[rel] = mark{later, o.depth}
	o.wait[target] = append(o.wait[target], h)
	o.added = true
	return nil
}

// awaited puts the hard links to an entry, which itself was put as rel or, if that is "", was not.
func (o *overlay) awaited(h *tar.Header, name string, r io.Reader, rel string) error {
	links := o.wait[name]
	if len(links) == 0 || h.Typeflag == tar.TypeDir {
		return nil
	}
	delete(o.wait, name)
	if h.Typeflag == tar.TypeLink { // to another one
		target := strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
		o.wait[target] = append(o.wait[target], links...)
		o.added = true
		return nil
	}
	for n, link := range links {
		out := *h
		out.Name = link.Name
		if rel != "" || n > 0 {
			out.Typeflag, out.Linkname, out.Size = tar.TypeLink, rel, 0
			r = strings.NewReader("")
		} else if rel = link.Name; h.Typeflag == tar.TypeSymlink {
			out.Linkname = o.symlink(h.Linkname, link.Name)
		}
		if err := o.put(&out, r); err != nil {
			return err
		}
	}
	return nil
}

// symlink returns the target of a link at rel. An absolute one is relative to the root of the image, so that one to
// something at the path must lead there in the result, too.
func (o *overlay) symlink(target, rel string) string {
	if !path.IsAbs(target) || o.file {
		return target
	}
	to, ok := o.rel(strings.TrimPrefix(path.Clean(target), "/"))
	if !ok {
		return target
	}
	short, err := filepath.Rel(path.Dir("/"+rel), path.Join("/", to))
	if err != nil {
		return target
	}
	return short
}

// rel returns the name relative to the path, and whether it is at the path.
func (o *overlay) rel(name string) (string, bool) {
	for n, s := range slices.Backward(o.spots) {
		if rel, ok := within(name, s.path); ok && (o.depth < s.above || n == len(o.spots)-1) {
			return rel, true
		}
	}
	return "", false
}

// hide remembers that lower layers have nothing of a name, or only nothing in that directory.
func (o *overlay) hide(name string, itself bool) {
	if _, ok := within(o.spots[len(o.spots)-1].path, name); ok {
		o.over = true // the path, or a directory that it is in
	}
	rel, ok := o.rel(name)
	if !ok {
		return
	}
	if itself && o.has[rel].kind == 0 {
		o.has[rel] = mark{gone, o.depth}
	}
	if _, before := o.bare[rel]; !before {
		o.bare[rel] = o.depth
	}
}

// hidden returns whether a higher layer has something in place of an entry.
func (o *overlay) hidden(rel string, dir bool) bool {
	if is := o.since(rel); is.depth < o.depth && !(is.kind == implied && dir) {
		return true
	}
	for rel != "." {
		rel = path.Dir(rel)
		if is := o.since(rel); is.depth < o.depth && is.kind >= other {
			return true
		}
		if depth, ok := o.bare[rel]; ok && depth < o.depth {
			return true
		}
	}
	return false
}

func (o *overlay) since(rel string) mark {
	if is, ok := o.has[rel]; ok {
		return is
	}
	return mark{depth: math.MaxInt}
}
