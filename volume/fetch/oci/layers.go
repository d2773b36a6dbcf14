package oci

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

const maxLinks = 40 // the limit of Linux

// overlay is what is at a path, and on the way to it, of the layers that were read so far.
type overlay struct {
	*Image
	names
	way
	call  Put
	begun bool                    // something is put
	file  bool                    // the path is one of a file
	over  bool                    // this layer has nothing more of it, except what hard links lead to
	wait  map[string][]tar.Header // hard links to a file that was not put, by its name in the image
	added bool                    // to wait, in this pass over the layer
}

// extract calls put for what is at the path, or where the symbolic links on the way lead.
func (i *Image) extract(ctx context.Context, put Put) error {
	at := clean(i.o.Path)
	for range maxLinks {
		o := &overlay{Image: i, names: newNames(), way: newWay(at), call: put, wait: map[string][]tar.Header{}}
		leads, err := o.read(ctx)
		if err != nil || leads == "" {
			return err
		}
		at = leads
	}
	return poll.Permanent(failure.New(failure.Missing, "%s: %s leads through more than %d symbolic links", i, failure.Printable(i.o.Path), maxLinks))
}

// read reads the layers from the topmost, passes over names that a higher layer has or has deleted, and ends when the
// lower ones can have nothing more. It returns where the path leads if there is a symbolic link on the way. Then
// nothing was put: where a higher layer has something below a name, a link of that name is an error.
func (o *overlay) read(ctx context.Context) (leads string, err error) {
	for depth := range o.layers {
		o.depth = depth
		if o.over = o.closed(o.path); o.over && len(o.wait) == 0 {
			break
		}
		visit := o.entry
		for pass := 0; pass == 0 || o.added && pass < maxLinks; pass++ { // what a hard link leads to may come before it
			o.added = false
			if err := o.layer(ctx, depth, visit); err != nil {
				return "", err
			}
			visit = func(h *tar.Header, name string, r io.Reader) error { return o.awaited(h, name, r, "") }
		}
		if leads, err := o.leads(); leads != "" || err != nil {
			return leads, err
		}
		if o.begun {
			o.drop(o.layers[:depth+1]...)
		}
	}
	for name, links := range o.wait {
		return "", o.broken("%s is a hard link to /%s, which is not there", links[0].Name, name)
	}
	if is := o.has[o.path].kind; is == 0 || is == gone {
		return "", o.missing()
	}
	o.single = o.file
	return "", nil
}

// layer calls visit for each entry of a layer, counted from the topmost.
func (i *Image) layer(ctx context.Context, depth int, visit visit) error {
	what := fmt.Sprintf("layer %d of %d", len(i.layers)-depth, len(i.layers))
	file, err := i.fetch(ctx, i.layers[depth], what)
	if err != nil {
		return err
	}
	if err := entries(ctx, file, visit); err != nil {
		return fmt.Errorf("%s, %s: %w", i, what, err)
	}
	return nil
}

// entry handles one entry of a layer.
func (o *overlay) entry(h *tar.Header, name string, r io.Reader) error {
	if o.room < 0 {
		return fmt.Errorf("the names at the path take more than %d MiB of memory", maxNames>>20)
	}
	if target, itself, ok := deletion(name); ok {
		_, above := within(o.path, target)
		_, below := within(target, o.path)
		if above || below {
			o.delete(target, itself)
		}
		return nil
	}
	rel, inside := within(name, o.path)
	visible, err := false, error(nil)
	switch {
	case !inside || rel == ".":
		visible, err = o.step(h, name)
		visible = visible && inside && !o.over && h.Typeflag != tar.TypeSymlink
		dir := h.Typeflag == tar.TypeDir
		if visible && o.begun && dir == o.file {
			return o.conflict(name)
		}
		o.file = o.file || visible && !dir
	case !o.over && !o.file:
		visible, err = o.visible(name, h)
	}
	switch {
	case err != nil:
		return err
	case !visible:
		return o.awaited(h, name, r, "")
	}
	if err := o.put(h, name, rel, r); err != nil {
		return err
	}
	return o.awaited(h, name, nil, rel)
}

// put puts an entry that is part of the result, and remembers it.
func (o *overlay) put(h *tar.Header, name, rel string, r io.Reader) error {
	o.begun = true
	out := *h
	if out.Name = rel; o.file {
		out.Name = path.Base(clean(o.o.Path))
	}
	is := other
	switch h.Typeflag {
	case tar.TypeDir:
		is = directory
	case tar.TypeSymlink:
		out.Linkname = o.symlink(h.Linkname, rel)
	case tar.TypeLink:
		target := clean(h.Linkname)
		to, ok := within(target, o.path)
		if out.Linkname = to; !ok || o.file || o.has[target] != (mark{other, o.depth}) {
			o.wait[target] = append(o.wait[target], out)
			o.added = true
			o.room -= 5 * besides
			o.add(name, later)
			return nil
		}
	}
	o.add(name, is)
	return o.call(&out, r)
}

// awaited puts the hard links to an entry, which itself was put as rel or, if that is "", was not. Then the first of
// them becomes the file.
func (o *overlay) awaited(h *tar.Header, name string, r io.Reader, rel string) error {
	links := o.wait[name]
	if len(links) == 0 || h.Typeflag == tar.TypeDir {
		return nil
	}
	delete(o.wait, name)
	if h.Typeflag == tar.TypeLink { // to another one
		o.wait[clean(h.Linkname)] = append(o.wait[clean(h.Linkname)], links...)
		o.added = true
		return nil
	}
	for _, link := range links {
		out := *h
		out.Name = link.Name
		if rel != "" {
			out.Typeflag, out.Linkname, out.Size, r = tar.TypeLink, rel, 0, strings.NewReader("")
		} else if rel = link.Name; h.Typeflag == tar.TypeSymlink {
			out.Linkname = o.symlink(h.Linkname, rel)
		}
		if err := o.call(&out, r); err != nil {
			return err
		}
	}
	return nil
}

// symlink returns the target of a link at rel. An absolute one is relative to the root of the image, so that one to
// something at the path must lead there in the result, too.
func (o *overlay) symlink(target, rel string) string {
	to, ok := within(clean(target), o.path)
	if !path.IsAbs(target) || !ok || o.file {
		return target
	}
	short, err := filepath.Rel(path.Dir(rel), to)
	if err != nil {
		return target
	}
	return short
}
