package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
)

// Publish puts what is in the stage in place, and remembers the caller's record of it. If it cannot, because a file is
// where a directory is to be, or the reverse, nothing has changed. Once it has begun, the end of ctx does not stop it.
// If it is killed while it adds entries to a directory, there is no record, and the next run adds the others. The stage
// may have only a part of what an earlier run with the same Key has added to a directory: the record is of all of it.
//
// A file that is itself a mount point, such as a subPath of Kubernetes, is written in place.
func (p *Place) Publish(ctx context.Context, fetch json.RawMessage) (Summary, error) {
	if p.stage == nil {
		return Summary{}, errors.New("there is no stage")
	}
	names, err := list(p.stage.tree, nil)
	if err != nil {
		return Summary{}, p.failed("publish", err)
	}
	if !p.o.Directory && len(names) == 1 && names[0] != p.name && !strings.HasSuffix(names[0], "/") {
		if err := dirfd.Rename(p.stage.tree, names[0], p.stage.tree, p.name); err != nil {
			return Summary{}, p.failed("publish", err)
		}
		names[0] = p.name
	}
	if err := p.checkNames(names); err != nil {
		return Summary{}, err
	}
	r := p.newRecord(fetch)
	r.Names = []byte(strings.Join(names, "\x00"))
	todo, err := p.plan(r)
	if err != nil {
		return Summary{}, p.failed("publish", err)
	}
	if todo.any() {
		err = p.stage.sync(names)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Summary{}, p.failed("publish", err)
	}
	if p.record != nil && r.Directory && !r.Replace { // what is not published again is still there
		names = slices.Concat(names, p.record.names())
		slices.Sort(names)
		r.Names = []byte(strings.Join(slices.Compact(names), "\x00"))
	}
	sum, err := p.apply(r, todo)
	p.drop(ctx)
	return sum, p.failed("publish", err)
}

// checkNames refuses names that cannot be published.
func (p *Place) checkNames(names []string) error {
	if !p.o.Directory {
		if !slices.Equal(names, []string{p.name}) {
			return permanent("%s is to be a file, and what was fetched is not", p.o.Dst)
		}
		return nil
	}
	for _, name := range names {
		if p.inside && strings.HasPrefix(name, mine) {
			return permanent("there is %s at the top, a name that initbox needs in %s", name, p.o.Dst)
		}
		if top, _, _ := strings.Cut(name, "/"); p.o.Replace && slices.Contains(p.mounts, top) {
			return permanent("there is %s at the top, and something is mounted there in %s", top, p.o.Dst)
		}
	}
	return nil
}

// keeps returns whether an entry of the directory is not part of its content.
func (p *Place) keeps(name string) bool {
	return p.inside && (strings.HasPrefix(name, mine) || name == "lost+found") || slices.Contains(p.mounts, name)
}

// todo is how the directory, or the file, changes.
type todo struct {
	sum   Summary
	moves []move
	whole bool // the directory is replaced
}

func (t *todo) any() bool { return t.whole || len(t.moves) > 0 }

// move renames an entry of the stage.
type move struct{ dir, name string }

// plan finds out what has to be done, and whether it can be.
func (p *Place) plan(r *record) (*todo, error) {
	t := &todo{}
	if !r.Directory {
		return t, p.planEntry(t, r, p.stage.tree, p.parent, "", p.name)
	}
	directory, err := dirfd.OpenFD(p.parent, p.name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		t.whole, t.sum.Added = true, files(r.names())
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	if !r.Replace {
		return t, p.planDir(t, r, p.stage.tree, directory, "")
	}
	old, err := list(directory, p.keeps)
	if err != nil {
		return nil, err
	}
	fresh := r.names()
	if slices.Equal(old, fresh) && p.planDir(t, r, p.stage.tree, directory, "") == nil && len(t.moves) == 0 {
		return t, nil
	}
	if p.deep != "" {
		return nil, permanent("%s is mounted in %s, whose content is to be replaced", p.deep, p.o.Dst)
	}
	*t = todo{whole: true, sum: Summary{Added: files(fresh), Removed: files(old)}}
	for _, name := range fresh {
		if _, both := slices.BinarySearch(old, name); both && !strings.HasSuffix(name, "/") {
			t.sum.Added, t.sum.Removed, t.sum.Replaced = t.sum.Added-1, t.sum.Removed-1, t.sum.Replaced+1
		}
	}
	return t, nil
}

// files counts what is not a directory.
func files(names []string) (n int) {
	for _, name := range names {
		if !strings.HasSuffix(name, "/") {
			n++
		}
	}
	return n
}

// planDir compares a directory of the stage with the existing one.
func (p *Place) planDir(t *todo, r *record, from, to dirfd.Dir, dir string) error {
	names, err := dirfd.Names(from)
	if err != nil {
		return err
	}
	slices.Sort(names)
	before := len(t.moves)
	for _, name := range names {
		if err := p.planEntry(t, r, from, to, dir, name); err != nil {
			return err
		}
	}
	if len(t.moves) > before {
		if err := dirfd.Access(to, ".", unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("%s: %w", failure.Printable(path.Join(p.o.Dst, dir)), err)
		}
	}
	return nil
}

func (p *Place) planEntry(t *todo, r *record, from, to dirfd.Dir, dir, name string) error {
	s, err := dirfd.Inspect(from, name)
	if err != nil {
		return err
	}
	shown := path.Join(p.o.Dst, dir, name)
	if !r.Directory {
		shown = p.o.Dst
	}
	old, err := dirfd.Inspect(to, name)
	switch isDir := s.Kind() == unix.S_IFDIR; {
	case err == unix.ENOENT && isDir:
		t.sum.Added += below(r.names(), path.Join(dir, name))
	case err == unix.ENOENT:
		t.sum.Added++
	case err != nil:
		return err
	case isDir && old.Kind() == unix.S_IFDIR:
		return inBoth(from, name, to, name, func(a, b dirfd.FD) error {
			return p.planDir(t, r, a, b, path.Join(dir, name))
		})
	case isDir:
		return permanent("%s exists and is not a directory, and what was fetched has a directory of that name", shown)
	case old.Kind() != unix.S_IFREG && old.Kind() != unix.S_IFLNK:
		return permanent("%s exists and is not a file, and what was fetched has a file of that name", shown)
	case r.NoOverwrite:
		t.sum.Kept++
		return nil
	default:
		if same(from, to, name, s, old) {
			t.sum.Same++
			return nil
		}
		t.sum.Replaced++
	}
	t.moves = append(t.moves, move{dir, name})
	return nil
}

// below counts the files in a directory.
func below(names []string, dir string) (n int) {
	from, _ := slices.BinarySearch(names, dir+"/")
	for ; from < len(names) && strings.HasPrefix(names[from], dir+"/"); from++ {
		if !strings.HasSuffix(names[from], "/") {
			n++
		}
	}
	return n
}

// same returns whether two files have the same bytes, mode and owner.
func same(from, to dirfd.Dir, name string, a, b dirfd.Info) bool {
	if a.Mode != b.Mode || a.UID != b.UID || a.GID != b.GID || a.Size != b.Size {
		return false
	}
	if a.Kind() == unix.S_IFLNK {
		x, err := dirfd.Readlink(from, name)
		y, failed := dirfd.Readlink(to, name)
		return err == nil && failed == nil && x == y
	}
	x, err := dirfd.OpenFD(from, name, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer x.Close()
	y, err := dirfd.OpenFD(to, name, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer y.Close()
	same, err := dirfd.Same(x, y, make([]byte, 2*min(a.Size+1, 64<<10)))
	return same && err == nil
}
