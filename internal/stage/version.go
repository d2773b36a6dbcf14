package stage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
)

// versionPrefix begins the names of the versions that a link may point to. The identifier of their area follows.
func versionPrefix(link string) string { return "." + link + ".initbox-" }

const longestName = 255 // bytes, on most file systems

// isVersion returns whether a name is that of a version of link, and not of another link
// whose name begins in the same way.
func isVersion(link, name string) bool {
	id, ok := strings.CutPrefix(name, versionPrefix(link))
	return ok && len(id) == idLength && path.Base(id) == id
}

// OpenVersion returns a stage for the files below link, a symbolic link to a directory beside it, .NAME.initbox-ID.
// Commit makes a new directory with the new files and, as hard links, the unchanged ones, and switches the link to it,
// so that a reader finds all files old or all new. Then it removes the old directory. Files that are not Put are not in
// the new directory. If nothing changes, nothing is touched. If link exists and is not such a link, OpenVersion fails.
//
// A power cut does no harm either: the new directory is on the disk before the link is
// switched, and the old one is removed after that.
func OpenVersion(link string, o Options) (*Stage, error) {
	link, _ = filepath.Abs(link) // nearest has the same error
	if link == filepath.Dir(link) {
		return nil, refused(link, "the root of the file system cannot be a link")
	}
	if len(filepath.Base(link)) > longestName-55 {
		return nil, refused(link, "the name is too long: the versions beside it have longer names")
	}
	s, err := nearest(filepath.Dir(link), o)
	if err != nil {
		return nil, err
	}
	s.link = filepath.Base(link)
	if s.base == s.home.Name() {
		if err := s.openCurrent(); err != nil {
			s.Close()
			return nil, err
		}
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	if s.base == s.home.Name() && !o.DryRun && s.directories["."].denied == nil {
		s.sweepVersions(s.home)
	}
	return s, nil
}

func refused(link, why string) error {
	return failure.WithHint(
		&fs.PathError{Op: "replace", Path: link, Err: errors.New(why)},
		"name a path that does not exist yet, for instance a directory in the mounted volume, or remove what is there",
	)
}

// current returns the name of the directory in base that the link points to, or "" without a link.
func (s *Stage) current(base *os.Root) (string, error) {
	dir, err := openDir(base, ".")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	i, err := dirfd.Inspect(dir, s.link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", &fs.PathError{Op: "open", Path: s.shown(""), Err: err}
	case i.MountRoot:
		return "", refused(s.shown(""), "something is mounted there, so it cannot be a link")
	case i.Kind() != unix.S_IFLNK:
		return "", refused(s.shown(""), "it exists and is not a symbolic link")
	}
	target, err := base.Readlink(s.link)
	if err == nil && (!isVersion(s.link, target)) {
		err = refused(s.shown(""), "the link leads to something that initbox did not make")
	}
	return target, err
}

// openCurrent opens the current version, and locks it so that no other stage removes it
// while this one compares with it.
func (s *Stage) openCurrent() error {
	for {
		name, err := s.current(s.home)
		if err != nil || name == "" {
			return err
		}
		root, err := s.home.OpenRoot(name)
		if errors.Is(err, fs.ErrNotExist) {
			if now, _ := s.current(s.home); now == name {
				return nil // a dangling link
			}
			continue
		}
		if err != nil {
			return err
		}
		dir, err := openDir(root, ".")
		if err != nil {
			root.Close()
			return err
		}
		dirfd.Lock(dir, unix.LOCK_SH) // without locks, the worst is an error later
		if now, err := s.current(s.home); now == name && err == nil {
			s.old, s.oldLock = root, dir
			return nil
		}
		dirfd.Unlock(dir)
		root.Close()
	}
}

// dropped returns the files of the old version that the new one does not have.
func (s *Stage) dropped() (names []string, err error) {
	err = fs.WalkDir(s.old.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !s.names[name] {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

func (c *commit) versionSteps() []func() error {
	return []func() error{
		c.needed, c.settle, c.makeVersion, c.sync, c.makeDirs,
		c.create, c.replace, c.keep, c.syncDirs, c.switchLink,
	}
}

// needed ends the commit if the current version is right.
func (c *commit) needed() (err error) {
	if c.stale, err = c.gone(); err != nil {
		return err
	}
	if len(c.changes)+len(c.stale) == 0 {
		return errNothingToDo
	}
	return nil
}

// makeVersion makes the new directory. It shares its identifier with an area beside it, whose lock shows that the
// writer lives. (The files wait in another area if the directory of the link was missing.)
func (c *commit) makeVersion() (err error) {
	if c.guard, err = newArea(c.top, "."); err != nil {
		return err
	}
	c.version = versionPrefix(c.link) + strings.TrimPrefix(c.guard.name, areaPrefix)
	c.undo = append(c.undo, func() { c.top.RemoveAll(c.version) })
	attr := Attr{UID: -1, GID: -1}
	if len(c.changes) > 0 {
		attr = c.changes[0].attr
	}
	c.touched["."] = true
	err = c.makeDir(c.top, c.version, attr)
	if err == nil {
		c.root, err = c.top.OpenRoot(c.version)
	}
	return err
}

// keep links the unchanged files into the new directory.
func (c *commit) keep() error {
	for _, name := range c.kept {
		err := c.ensure(path.Dir(name), Attr{UID: -1, GID: -1})
		if err == nil {
			err = c.keepOne(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("another process has removed it")
		}
		if err != nil {
			return &fs.PathError{Op: "keep", Path: c.shown(name), Err: bare(err)}
		}
	}
	return nil
}

func (c *commit) keepOne(name string) error {
	from, err := openDir(c.old, path.Dir(name))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := c.open(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	err = dirfd.Link(from, base, to, base)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The file system has no hard links, the file has too many, or it belongs to another
	// user (the sysctl protected_hardlinks): copy it.
	a, err := c.area(".")
	if err != nil {
		return err
	}
	old, attr, err := c.openOld(name)
	if err != nil {
		return err
	}
	return a.place(func() (io.ReadCloser, int64, error) { return old, 0, nil }, attr, to, base) // which closes it
}

// switchLink makes the link point to the new directory.
func (c *commit) switchLink() error {
	if _, err := c.current(c.top); err != nil {
		return err // another program has replaced the link
	}
	base, err := openDir(c.top, ".")
	if err != nil {
		return err
	}
	defer base.Close()
	if err := dirfd.Sync(base); err != nil {
		return err
	}
	err = dirfd.Symlink(c.version, c.guard.dir, "link")
	if err == nil {
		err = dirfd.Rename(c.guard.dir, "link", base, c.link)
	}
	if err != nil {
		return &fs.PathError{Op: "replace", Path: c.shown(""), Err: err}
	}
	c.begun = true
	for _, name := range c.stale {
		c.done = append(c.done, Change{Name: name, Kind: Removed})
	}
	if err := dirfd.Sync(base); err != nil {
		return err
	}
	c.discard()
	c.unguard()
	c.releaseOld(c.top)
	return nil
}

// unguard releases the lock of the new directory: from then on only the link protects it.
func (c *commit) unguard() {
	if c.guard != nil {
		c.guard.remove()
		c.guard = nil
	}
}

// releaseOld releases the old directory, and removes the unused versions:
// the last stage that compared with one does that.
func (s *Stage) releaseOld(base *os.Root) {
	dirfd.Unlock(s.oldLock)
	s.oldLock = nil
	if !s.options.DryRun {
		s.sweepVersions(base)
	}
}

// sweepVersions removes the versions that the link does not point to and that no stage writes or compares with.
func (s *Stage) sweepVersions(base *os.Root) {
	dir, err := openDir(base, ".")
	if err != nil {
		return
	}
	defer dir.Close()
	prefix := versionPrefix(s.link)
	each(dir, prefix, func(name string) {
		if !isVersion(s.link, name) || !sweepArea(dir, areaPrefix+strings.TrimPrefix(name, prefix)) {
			return // being written
		}
		for s.sweepVersion(base, dir, name) {
			if now, err := s.current(base); err != nil || now == name {
				return
			}
			// It was replaced just now, by a stage that found it locked.
		}
	})
}

// sweepVersion removes a version, and returns whether it stays because the link points to it.
func (s *Stage) sweepVersion(base *os.Root, dir *os.File, name string) (current bool) {
	version, err := dirfd.OpenDir(dir, name)
	if err != nil {
		return false
	}
	defer dirfd.Unlock(version)
	if errors.Is(dirfd.Lock(version, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return false // a stage compares with it, and will remove it
	}
	// Only its writer makes a version the current one, and its writer has ended: a
	// version that is not current now never will be.
	now, err := s.current(base)
	if err == nil && now != name {
		base.RemoveAll(name)
	}
	return err == nil && now == name
}
