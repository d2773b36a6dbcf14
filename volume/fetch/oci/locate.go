package oci

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// Whiteouts: entries that delete what lower layers have (https://github.com/opencontainers/image-spec, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq" // all that lower layers have in the directory
)

// spot is a directory of the image, or a file, that holds what was asked for.
type spot struct {
	path  string // without the slash before it
	above int    // only the layers above this one, counted from the topmost, have it there
}

// location is where the path leads.
type location struct {
	spots []spot // the real one is the last; others lead there by a link that a layer did not have yet
	file  bool
}

const maxLinks = 40 // the limit of Linux

// locate follows the links on the way to the path, and the path itself, within the image. It reads as many layers as
// that needs.
func (i *Image) locate(ctx context.Context) (location, error) {
	var at location
	want := strings.TrimPrefix(path.Clean("/"+i.o.Path), "/")
	for range maxLinks {
		w := newWay(want)
		for depth := range i.layers {
			if err := w.read(ctx, i, depth); err != nil {
				return at, err
			}
			if w.settled() {
				break
			}
		}
		n, leads, err := w.follow(i)
		if err != nil {
			return at, err
		}
		if n == 0 {
			at.spots = append(at.spots, spot{want, math.MaxInt})
			at.file = w.steps[len(w.steps)-1].isFile()
			return at, nil
		}
		if s := w.steps[n]; s.implied >= 0 {
			at.spots = append(at.spots, spot{want, s.depth})
		}
		want = leads
	}
	return at, poll.Permanent(failure.New(failure.Missing, "%s: %s leads through more than %d symbolic links", i, failure.Printable(i.o.Path), maxLinks))
}

// way is what the layers that were read so far have on the way to a path.
type way struct {
	path  string
	steps []step // the root, the first directory, …, the path itself
	limit int    // how many of the steps lower layers can have something for
	near  map[string]map[string]bool
}

// step is one directory on the way, or the path itself.
type step struct {
	path    string
	header  *tar.Header // of the topmost layer that has an entry for it, or nil
	depth   int         // of that layer
	implied int         // the topmost layer that has an entry below it, without one for it, or -1
}

func (s step) isFile() bool { return s.header != nil && s.header.Typeflag != tar.TypeDir }

func newWay(want string) *way {
	w := &way{path: want, near: map[string]map[string]bool{}}
	w.steps = append(w.steps, step{header: &tar.Header{Typeflag: tar.TypeDir}, implied: -1})
	for n := range len(want) + 1 {
		if want != "" && (n == len(want) || want[n] == '/') {
			w.steps = append(w.steps, step{path: want[:n], implied: -1})
		}
	}
	w.limit = len(w.steps)
	return w
}

// settled returns whether no lower layer can change where the path leads.
func (w *way) settled() bool {
	for _, s := range w.steps[:w.limit] {
		if s.header == nil {
			return false
		}
	}
	return true
}

// read reads one layer.
func (w *way) read(ctx context.Context, i *Image, depth int) error {
	limit := w.limit
	err := i.layer(ctx, depth, func(h *tar.Header, name string, _ io.Reader) error {
		dir, base := path.Split(name)
		dir = strings.TrimSuffix(dir, "/")
		if base == opaque {
			if n, exact := w.shared(dir); exact {
				limit = min(limit, n+1)
			}
			return nil
		}
		if gone, ok := strings.CutPrefix(base, whiteout); ok {
			if n, exact := w.shared(path.Join(dir, gone)); exact {
				limit = min(limit, n)
			}
			return nil
		}
		n, exact := w.shared(name)
		w.passed(dir, base)
		for k := 1; k <= n && k < w.limit; k++ {
			s := &w.steps[k]
			itself := exact && k == n
			if itself && h.Typeflag != tar.TypeDir {
				limit = min(limit, k+1)
			}
			switch {
			case itself && s.header != nil && s.depth < depth: // a higher layer has it
			case itself && s.implied >= 0 && s.implied < depth && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink: // it was replaced by a directory
			case itself:
				s.header, s.depth = h, depth
			case s.header == nil && s.implied < 0:
				s.implied = depth
			}
		}
		return nil
	})
	w.limit = min(w.limit, limit)
	return err
}

// shared returns how many steps of the way a name shares, and whether it is the last of them itself.
func (w *way) shared(name string) (n int, exact bool) {
	for k, s := range w.steps[1:] {
		rel, ok := within(name, s.path)
		if !ok {
			break
		}
		n, exact = k+1, rel == "."
	}
	return n, exact || name == ""
}

// maxNear is how many names are remembered for a suggestion.
const maxNear = 200

// passed remembers the names beside the way.
func (w *way) passed(dir, base string) {
	if _, ok := within(w.path, dir); !ok || base == "" || dir == w.path {
		return
	}
	names := w.near[dir]
	if names == nil {
		names = map[string]bool{}
		w.near[dir] = names
	}
	if len(names) < maxNear {
		names[base] = true
	}
}

// follow returns the first step that is a symbolic link, and where the whole path leads by it. Without a link, the step
// is 0.
func (w *way) follow(i *Image) (int, string, error) {
	for n, s := range w.steps {
		last := n == len(w.steps)-1
		switch {
		case n == 0:
		case s.header == nil && s.implied < 0:
			return 0, "", w.missing(i, w.steps[n-1].path)
		case s.header != nil && s.header.Typeflag == tar.TypeSymlink:
			target := s.header.Linkname
			if !path.IsAbs(target) {
				target = path.Join(path.Dir("/"+s.path), target)
			}
			return n, strings.TrimPrefix(path.Join("/", target, strings.TrimPrefix(w.path, s.path)), "/"), nil
		case s.isFile() && !last:
			return 0, "", w.missing(i, s.path)
		}
	}
	return 0, "", nil
}

// missing is the error for a path that the image does not have, of which it has dir.
func (w *way) missing(i *Image, dir string) error {
	f := failure.New(failure.Missing, "%s: the image has no %s", i, failure.Printable("/"+w.path))
	if i.o.Path = path.Clean("/" + i.o.Path); i.o.Path != "/"+w.path {
		f.Text = fmt.Sprintf("%s: %s of the image leads to %s, which it does not have", i, failure.Printable(i.o.Path), failure.Printable("/"+w.path))
	}
	names := slices.Sorted(maps.Keys(w.near[dir]))
	rest := strings.TrimPrefix(strings.TrimPrefix(w.path, dir), "/")
	next, _, _ := strings.Cut(rest, "/")
	const some = 12
	f.Hint = suggest.Question(next, names, path.Join("/", dir)+"/")
	if len(names) > some {
		names = append(names[:some], "…")
	}
	if len(names) > 0 {
		f.Hint += "/" + dir + " has " + words.List(names)
	}
	f.Hint = failure.Printable(f.Hint)
	return poll.Permanent(f)
}
