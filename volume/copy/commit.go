package copy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/perm"
	"initbox/internal/stage"
)

// few is how many new files are synced one by one. More are synced with their whole file system, which takes less time.
const few = 16

// late is what is set after the files are in place: what lies in a directory changes its times, and may need its mode.
type late struct {
	want attributes
	pair *Pair
	file identity // of a file; zero of a directory
	made bool     // by this run
}

func (t *target) later(name string, l late) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late[name] = l
}

// commit puts in place what was staged.
func (t *target) commit() error {
	switch {
	case t.top == nil:
		return nil
	case t.version != nil:
		return t.commitVersion()
	}
	gone, list, err := t.gone()
	if err != nil {
		return err
	}
	if t.DryRun {
		t.removed = len(gone)
		return t.setLate()
	}
	if t.staged.Load() > few { // else each is on the disk
		if err := stage.SyncMounts(t.areas, t.openBelow); err != nil {
			return t.unwritten(".", err)
		}
	}
	if t.prune && len(t.areas) > 0 {
		if err := t.writeList(append(slices.Clone(list), t.wanted(list)...)); err != nil {
			return err
		}
	}
	for _, step := range []func() error{t.renameAll, t.overwrite, func() error { return t.remove(gone) }, t.setLate, t.syncNames} {
		if err := step(); err != nil {
			return err
		}
	}
	if t.prune {
		if err := t.writeList(t.wanted(list)); err != nil {
			return err
		}
	}
	for _, name := range t.left {
		t.removeArea(".", name)
	}
	return nil
}

// syncNames makes the new names survive a power cut.
func (t *target) syncNames() error {
	return t.unwritten(".", stage.SyncDirs(t.areas, few, t.openBelow))
}

// beside calls do with the directory in which a file below the target lies, and its name there.
func (t *target) beside(name string, do func(dir dirfd.FD, base string) error) error {
	dir, err := t.openBelow(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(dir, path.Base(name))
}

// unwritten returns the error, if any, of writing what is below the target.
func (t *target) unwritten(name string, err error) error {
	return perm.Failed("write", perm.Write, t.shown(name), err)
}

// renameAll gives all new files and directories their names.
func (t *target) renameAll() error {
	for _, at := range t.areas {
		if err := t.unwritten(at, t.renameIn(at)); err != nil {
			return err
		}
	}
	return nil
}

// renameIn does that in one directory.
func (t *target) renameIn(at string) error {
	dir, err := t.openBelow(at)
	if err != nil {
		return err
	}
	defer dir.Close()
	from, err := dirfd.OpenFD(dir, t.area, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	names, err := dirfd.Names(from)
	for _, name := range names {
		if err := t.rename(from, dir, at, name); err != nil {
			return err
		}
	}
	return err
}

// rename gives one its name. Where that is a mount, and the kernel has not reported it, its content is written there.
func (t *target) rename(from, dir dirfd.FD, at, name string) error {
	err := dirfd.Rename(from, name, dir, name)
	shown := path.Join(at, name)
	if err == unix.EBUSY || err == unix.EXDEV || err == unix.EPERM || err == unix.EACCES {
		s, errStat := dirfd.Lstat(from, name)
		src, errOpen := dirfd.OpenFD(from, name, unix.O_RDONLY, 0)
		if errStat == nil && errOpen == nil && s.Mode&unix.S_IFMT == unix.S_IFREG {
			want := attributes{Owner: perm.Owner{UID: -1, GID: -1}, mode: uint32(s.Mode) & 0o7777}
			c := &copying{walker: walker{target: t, pair: &Pair{}}, as: name, path: shown, stat: s, want: want}
			t.inPlace[shown] = &inPlace{c, src}
			return nil
		}
	}
	return t.unwritten(shown, err)
}

// inPlace is a file that cannot be replaced: it is a mount, or its directory is not writable. A reader may see part of
// it.
type inPlace struct {
	*copying
	src dirfd.FD
}

// overwrite writes the files that cannot be replaced.
func (t *target) overwrite() error {
	for _, name := range slices.Sorted(maps.Keys(t.inPlace)) {
		if err := t.unwritten(name, t.beside(name, t.inPlace[name].overwrite)); err != nil {
			return err
		}
		t.written = append(t.written, t.shown(name))
	}
	return nil
}

// overwrite writes to the file called name in dir.
func (w *inPlace) overwrite(dir dirfd.FD, name string) error {
	dst, err := dirfd.OpenFD(dir, name, unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer dst.Close()
	old, err := dirfd.Stat(dst)
	if err == nil && old.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errors.New("it exists and is not a regular file")
	}
	if err == nil && w.differs(w.want, old, dst) {
		err = w.set(dst, "", w.want) // before it holds anything secret
	}
	if err != nil {
		return err
	}
	content, size, err := w.content(w.src)
	if err != nil {
		return err
	}
	defer content.Close()
	err = dirfd.Overwrite(dst, content, size)
	w.bytes.Add(content.read)
	return err
}

// setLate sets attributes of what was there before, and of directories.
func (t *target) setLate() error {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(t.late))) { // what lies in a directory first
		if t.root == nil {
			return nil
		}
		err := t.beside(name, func(dir dirfd.FD, base string) error { return t.setOne(dir, base, name) })
		if err := t.unwritten(name, err); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) setOne(dir dirfd.FD, base, name string) error {
	l := t.late[name]
	isFile, flags := l.file != identity{}, unix.O_RDONLY
	if !isFile {
		flags |= unix.O_DIRECTORY // and not a link to the file of another user
	}
	f, err := dirfd.OpenFD(dir, base, flags, 0)
	if err != nil {
		return perm.Failed("open", perm.Read, t.shown(name), err)
	}
	defer f.Close()
	s, err := dirfd.Stat(f)
	if isFile && l.file != identityOf(s) {
		return errChanged
	}
	if !isFile {
		l.want.mode |= uint32(s.Mode) & unix.S_ISGID
		if l.pair.Keep&KeepMode == 0 && l.pair.DirMode == nil && !l.made {
			l.want.mode = uint32(s.Mode) & 0o7777
		}
	}
	if err != nil || !t.differs(l.want, s, f) {
		return err
	}
	if !t.DryRun {
		unkept := t.notKept.Load()
		if err := t.set(f, "", l.want); err != nil {
			return perm.Failed("change the attributes of", perm.Chmod, t.shown(name), err)
		}
		now, err := dirfd.Stat(f)
		if err != nil || t.notKept.Load() > unkept && now.Mode == s.Mode && now.Uid == s.Uid && now.Gid == s.Gid && now.Mtim == s.Mtim {
			return err // nothing could be changed
		}
	}
	if !l.made {
		t.attrOnly.Add(1)
	}
	if isFile {
		t.same.Add(-1)
	}
	return nil
}

// differs returns whether a file, which is open unless it is a link, has other attributes.
func (t *target) differs(a attributes, s unix.Stat_t, f dirfd.FD) bool {
	ignore := a.kept && t.noChown.Load()
	isLink := s.Mode&unix.S_IFMT == unix.S_IFLNK
	switch {
	case !ignore && (a.UID != -1 && a.UID != int(s.Uid) || a.GID != -1 && a.GID != int(s.Gid)),
		!isLink && a.mode != uint32(s.Mode)&0o7777,
		a.times != nil && a.times[1] != s.Mtim:
		return true
	case isLink || len(a.xattr) == 0:
		return false
	}
	now, err := dirfd.Xattrs(f)
	for name, value := range a.xattr {
		if err != nil || now[name] != value {
			return true
		}
	}
	return false
}

// set sets the attributes of an open file: the owner first, since that clears other attributes. No umask applies. With
// a name, it sets those that a symbolic link has, of the one of that name in the directory f.
func (t *target) set(f dirfd.FD, name string, a attributes) error {
	if a.UID != -1 || a.GID != -1 {
		err := dirfd.Chown(f, name, a.UID, a.GID)
		if a.kept && (err == unix.EPERM || err == unix.EINVAL) { // it was to be kept, but is not permitted
			t.noChown.Store(true)
			t.notKept.Add(1)
		} else if err != nil {
			return perm.Failed(fmt.Sprintf("change the owner to %s in", a.Owner), perm.Chown, t.path, err)
		}
	}
	if name == "" {
		if err := f.Chmod(a.mode); err != nil {
			return perm.Failed("change modes in", perm.Chmod, t.path, err)
		}
	}
	for key, value := range a.xattr {
		switch err := dirfd.SetXattr(f, key, value); err {
		case nil:
		case unix.ENOTSUP, unix.EPERM, unix.EACCES:
			t.notKept.Add(1)
		default:
			return fmt.Errorf("set the attribute %q: %w", key, err)
		}
	}
	if a.times != nil {
		return dirfd.SetTimes(f, name, a.times[0], a.times[1])
	}
	return nil
}

// gone returns the files that earlier runs copied and this one did not, and the list of those that earlier runs copied.
func (t *target) gone() (gone, list []string, err error) {
	if !t.prune || t.root == nil {
		return nil, nil, nil
	}
	if list, err = stage.ReadList(t.root); err != nil {
		return nil, nil, perm.Failed("read", perm.Read, t.shown(stage.ListName), err)
	}
	if t.incomplete {
		return nil, list, nil
	}
	return stage.Stale(t.root, list, func(name string) bool { _, found := t.names[name]; return found }), list, nil
}

// wanted returns the names for the list: not those of files that were there before and are not overwritten.
func (t *target) wanted(list []string) (names []string) {
	for name, ours := range t.names {
		if _, listed := slices.BinarySearch(list, name); ours || listed {
			names = append(names, name)
		}
	}
	if t.incomplete {
		names = append(names, list...)
	}
	return names
}

// writeList writes the list of the files that were copied, if it differs.
func (t *target) writeList(names []string) error {
	return t.unwritten(stage.ListName, stage.WriteList(t.root, names, t.top.place))
}

// remove removes files that earlier runs copied and this one does not, and directories that become empty.
func (t *target) remove(names []string) error {
	removed, mounted, err := stage.RemoveStale(t.root, names)
	t.removed = len(removed)
	for _, name := range mounted {
		t.names[name] = true
	}
	if p, isPath := errors.AsType[*fs.PathError](err); isPath {
		return perm.Failed("remove", perm.Remove, t.shown(p.Path), p.Err)
	}
	return t.unwritten(".", err)
}
