package place

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
)

// apply does what was planned. The old record goes before anything changes, and the new one comes last: a record
// vouches for everything.
func (p *Place) apply(r *record, t *todo) (Summary, error) {
	if !t.any() {
		return t.sum, p.seals(r)
	}
	p.record = nil
	err := dirfd.Remove(p.base, r.file(p.prefix))
	if err == nil {
		err = dirfd.Sync(p.base)
	} else if err == unix.ENOENT {
		err = nil
	}
	if err != nil {
		return Summary{}, err
	}
	switch {
	case r.Replace && t.whole:
		err = p.replace()
	case t.whole:
		err = dirfd.Rename(p.stage.dir, treeName, p.parent, p.name) // over nothing
		if err == nil {
			err = dirfd.Sync(p.parent)
		} else if err == unix.ENOTEMPTY || err == unix.EEXIST { // another program has just made it
			if t, err = p.plan(r); err == nil {
				err = p.merge(r, t)
			}
		}
	default:
		err = p.merge(r, t)
	}
	if err != nil {
		return Summary{}, err
	}
	return t.sum, p.seals(r)
}

// seals writes the record of what has been published.
func (p *Place) seals(r *record) (err error) {
	if r.Seal, err = p.seal(r); err != nil {
		return err
	}
	if old := readRecord(p.base, r.file(p.prefix)); old != nil && old.Seal == r.Seal && slices.Equal(old.Fetch, r.Fetch) {
		p.record = old
		return nil
	}
	return p.writeRecord(r)
}

// merge renames the entries of the stage, one after the other.
func (p *Place) merge(r *record, t *todo) error {
	from, to := &dirfd.Descent{Root: p.stage.tree}, &dirfd.Descent{Root: p.parent}
	defer from.Close()
	defer to.Close()
	above := ""
	if r.Directory {
		above = p.name
	}
	touched := map[string]bool{}
	for _, m := range t.moves {
		a, err := from.To(m.dir)
		if err != nil {
			return err
		}
		b, err := to.To(path.Join(above, m.dir))
		if err != nil {
			return err
		}
		if err := p.put(a, m.name, b); err != nil {
			return fmt.Errorf("%s: %w", failure.Printable(path.Join(m.dir, m.name)), err)
		}
		touched[path.Join(above, m.dir)+"/"] = true
	}
	const few = 64
	if len(touched) > few {
		return dirfd.Syncfs(p.parent)
	}
	for dir := range touched {
		if err := syncOne(to, "./"+dir); err != nil && !errors.Is(err, unix.EACCES) {
			return err
		}
	}
	return nil
}

// put renames one entry. One that is mounted is written in place.
func (p *Place) put(from dirfd.Dir, name string, to dirfd.Dir) error {
	err := writable(from, name, func() error { return dirfd.Rename(from, name, to, name) })
	if err != unix.EBUSY && err != unix.EXDEV {
		return err
	}
	if failed := overwrite(from, to, name); failed != nil {
		return fmt.Errorf("it cannot be replaced (%w), and writing it in place failed: %w", err, failed)
	}
	p.log.Warn(failure.Printable(name) + " is a mount point, as with subPath, and was written in place: a reader may have seen half of it")
	return nil
}

// writable calls move, and if that fails because the entry called name is a directory that this user may not write to,
// calls it again while it may: moving a directory changes its "..".
func writable(dir dirfd.Dir, name string, move func() error) error {
	err := move()
	if err != unix.EACCES {
		return err
	}
	fd, failed := dirfd.OpenFD(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if failed != nil {
		return err
	}
	defer fd.Close()
	s, failed := dirfd.Stat(fd)
	if failed != nil || fd.Chmod(uint32(s.Mode)&0o7777|0o700) != nil {
		return err
	}
	err = move()
	return cmp.Or(err, fd.Chmod(uint32(s.Mode)&0o7777))
}

// replace makes the staged tree the directory: atomically where the kernel can do that, or entry by entry. The
// directory keeps its mode and owner.
func (p *Place) replace() error {
	if !p.inside && len(p.mounts) == 0 {
		if old, err := dirfd.Lstat(p.parent, p.name); err == nil && p.o.Owner == nil {
			tree := dirfd.FD(p.stage.tree.Fd())
			_ = tree.Chown(int(old.Uid), int(old.Gid)) // if this user may
			_ = tree.Chmod(uint32(old.Mode) & 0o7777)
		}
		err := dirfd.Rename(p.stage.dir, treeName, p.parent, p.name) // over nothing, or an empty directory
		if err == unix.ENOTEMPTY || err == unix.EEXIST {
			err = dirfd.Exchange(p.stage.dir, treeName, p.parent, p.name)
		}
		switch err {
		case unix.EINVAL, unix.ENOSYS, unix.ENOTSUP: // NFS, vfat, older kernels
		case unix.EXDEV, unix.EBUSY, unix.EACCES, unix.EPERM: // a directory of an image's lower layer, or another user's
		case nil:
			return dirfd.Sync(p.parent)
		default:
			return err
		}
	}
	return p.fill()
}

// fill replaces the content of the directory, entry by entry, each atomically where the kernel can do that.
func (p *Place) fill() error {
	directory, err := dirfd.OpenDir(p.parent, p.name)
	if err != nil {
		return err
	}
	defer directory.Close()
	fresh, err := dirfd.Names(p.stage.tree)
	if err != nil {
		return err
	}
	slices.Sort(fresh)
	for _, name := range fresh {
		if err := p.swap(directory, name); err != nil {
			return fmt.Errorf("%s: %w", failure.Printable(name), err)
		}
	}
	old, err := dirfd.Names(directory)
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, new := slices.BinarySearch(fresh, name); new || p.keeps(name) {
			continue
		}
		if err := p.free(directory, name); err == unix.EBUSY {
			p.log.Warn(fmt.Sprintf("%s: something is mounted at %s in it, which stays", failure.Printable(p.o.Dst), failure.Printable(name)))
		} else if err != nil {
			return fmt.Errorf("%s: %w", failure.Printable(name), err)
		}
	}
	return dirfd.Sync(directory)
}

// swap puts one entry of the stage into the directory. What has its name there comes into the stage.
func (p *Place) swap(directory *os.File, name string) error {
	err := writable(p.stage.tree, name, func() error { return dirfd.Exchange(p.stage.tree, name, directory, name) })
	if err == nil {
		return nil
	}
	if err != unix.ENOENT {
		if err := p.free(directory, name); err != nil && err != unix.ENOENT {
			return err
		}
	}
	return writable(p.stage.tree, name, func() error { return dirfd.Rename(p.stage.tree, name, directory, name) })
}

// free moves an entry out of the way.
func (p *Place) free(directory *os.File, name string) error {
	err := dirfd.Rename(directory, name, p.stage.dir, rand.Text())
	if err == unix.EXDEV { // a directory of an image's lower layer cannot be renamed, only removed
		err = dirfd.RemoveAll(context.Background(), directory, name)
	}
	return err
}
