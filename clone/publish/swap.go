package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// swap replaces an old tree with a staged one: atomically, or where that is impossible in
// steps, each of which can be undone.
type swap struct {
	*Target
	s     *Stage
	hash  string // of the commit
	outer bool   // the marker is neither in the tree nor in GitDir
	last  string // the entry that is replaced last, because it is or contains the marker
	reuse bool   // the tree is not the staged one, but that of an earlier run

	freed int
	undo  []func() error
	files []*os.File // that undo needs
}

func (w *swap) close() {
	for _, f := range w.files {
		f.Close()
	}
}

func (w *swap) open(dir *os.File, name string) (*os.File, error) {
	f, err := openDir(dir, name)
	if err == nil {
		w.files = append(w.files, f)
	}
	return f, err
}

func (w *swap) run() error {
	if w.link() {
		return w.flip()
	}
	if !w.inside() && !w.here && len(w.mounts) == 0 {
		if done, err := w.replace(); done || err != nil {
			return err
		}
	}
	return w.fill()
}

// back undoes what was done if err is not nil, and returns it.
func (w *swap) back(err error) error {
	if err == nil {
		return nil
	}
	for _, step := range slices.Backward(w.undo) {
		if failed := step(); failed != nil {
			return fmt.Errorf("%w; and what was done cannot be undone: %w", err, failed)
		}
	}
	return err
}

// move renames an entry to a free name, or to that of an empty directory.
func (w *swap) move(from *os.File, name string, to *os.File, as string) error {
	err := rename(from, name, to, as)
	if err == nil {
		w.undo = append(w.undo, func() error { return rename(to, as, from, name) })
	}
	return err
}

func (w *swap) exchange(a *os.File, name string, b *os.File, with string) error {
	if w.noExchange {
		return unix.ENOSYS
	}
	err := exchange(a, name, b, with)
	if err == nil {
		w.undo = append(w.undo, func() error { return exchange(a, name, b, with) })
	}
	return err
}

// free moves the entry called name in dir out of the way, and returns whether there was one.
func (w *swap) free(dir *os.File, name string) (bool, error) {
	w.freed++
	err := w.move(dir, name, w.s.dir, fmt.Sprintf("old-%d", w.freed))
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if errors.Is(err, unix.EXDEV) {
		// A directory of an image's lower layer cannot be renamed, only removed.
		err = dirfd.RemoveAll(context.Background(), dir, name)
	}
	return true, err
}

// begin leaves a note that vouches for the directory while no marker does: if this run is killed, the next one knows
// that what is there may be replaced. It is on the disk before anything changes. Target.finished removes it.
func (w *swap) begin() error {
	if w.link() {
		return nil
	}
	f, err := openAt(w.base, w.note(), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if errors.Is(err, unix.EEXIST) {
		return nil // another run's, which was killed, or this one's
	}
	if err != nil {
		return err
	}
	w.undo = append(w.undo, func() error { return dirfd.Remove(w.base, w.note()) })
	return errors.Join(f.Close(), dirfd.Sync(w.base))
}

// finished removes the notes of begin: there are markers again.
func (t *Target) finished() {
	if !t.link() {
		dirfd.Remove(t.base, t.note())
	}
	if t.git != nil {
		t.git.finished()
	}
}

// showMarker makes an outer marker visible.
func (w *swap) showMarker() error {
	if !w.outer {
		return nil
	}
	if err := w.move(w.s.dir, readyName, w.base, w.outerMarker(w.hash)); err != nil {
		return err
	}
	return dirfd.Sync(w.base)
}

// replace gives the staged tree the directory's name, atomically: a reader sees the old tree
// or the new one. It returns false where the file system cannot do that.
func (w *swap) replace() (done bool, err error) {
	if w.outer || isFile(w.base, w.outerMarker("")) {
		if err := w.begin(); err != nil {
			return false, err
		}
	}
	if _, err := w.free(w.base, w.outerMarker("")); err != nil { // before the tree it vouches for
		return false, err
	}
	err = w.move(w.s.dir, treeName, w.base, w.name) // over nothing, or an empty directory
	if isAny(err, unix.ENOTEMPTY, unix.EEXIST) {
		err = w.exchange(w.s.dir, treeName, w.base, w.name)
	}
	switch {
	case isAny(err, unix.EINVAL, unix.ENOSYS, unix.ENOTSUP): // NFS, vfat, older kernels
		return false, nil
	case isAny(err, unix.EXDEV, unix.EBUSY, unix.EACCES, unix.EPERM):
		// A directory of an image's lower layer; a mount that the kernel did not report;
		// another user's directory, which this one may write to.
		return false, nil
	case err != nil:
		return false, err
	}
	if err := dirfd.Sync(w.base); err != nil { // so that the new name is on the disk before its marker
		return true, err
	}
	return true, w.showMarker()
}

// fill replaces the content of the directory, entry by entry. Meanwhile there is no marker;
// .git comes last, and with it the new marker.
func (w *swap) fill() error {
	dir, err := w.open(w.base, w.name)
	if err != nil {
		return err
	}
	if err := w.retire(); err != nil {
		return err
	}
	fresh, err := names(w.s.tree)
	if err != nil {
		return err
	}
	for _, name := range fresh {
		if name != w.last {
			if err := w.put(dir, name); err != nil {
				return err
			}
		}
	}
	if err := w.clear(dir, fresh); err != nil {
		return err
	}
	if err := dirfd.Sync(dir); err != nil { // before a marker that vouches for it
		return err
	}
	if slices.Contains(fresh, w.last) {
		err = w.put(dir, w.last)
	} else {
		_, err = w.free(dir, w.last)
	}
	if err == nil {
		err = dirfd.Sync(dir)
	}
	if err == nil {
		err = w.showMarker()
	}
	return err
}

// retire removes the markers of the old tree, on the disk too, before anything else changes.
func (w *swap) retire() error {
	dir, err := w.open(w.base, w.name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		err = w.begin()
	}
	if err == nil {
		_, err = w.free(w.base, w.outerMarker(""))
	}
	inner := w.last == gitMarker
	if err == nil && !inner && hasGit(dir) {
		inner = true
		dir, err = w.open(dir, gitName)
	}
	if err == nil && inner {
		_, err = w.free(dir, gitMarker)
	}
	if err != nil {
		return err
	}
	return errors.Join(dirfd.Sync(dir), dirfd.Sync(w.base))
}

// put moves an entry of the staged tree to its place.
func (w *swap) put(dir *os.File, name string) error {
	err := w.exchange(w.s.tree, name, dir, name)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.ENOENT) { // the file system cannot
		if _, err := w.free(dir, name); err != nil {
			return err
		}
	}
	return w.move(w.s.tree, name, dir, name)
}

// clear moves entries that the new tree does not have out of the directory.
func (w *swap) clear(dir *os.File, fresh []string) error {
	all, err := names(dir)
	if err != nil {
		return err
	}
	for _, name := range all {
		if slices.Contains(fresh, name) || name == w.last || w.keeps(name) {
			continue
		}
		if _, err := w.free(dir, name); errors.Is(err, unix.EBUSY) {
			w.log.Warn(fmt.Sprintf("%s: something is mounted at %s in it, which stays", w.options.Dir, name))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// keeps returns whether an entry of the directory is not part of the tree, and stays.
func (t *Target) keeps(name string) bool {
	return t.inside() && (t.reserved(name) || name == "lost+found") || slices.Contains(t.mounts, name)
}
