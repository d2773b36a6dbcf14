package worktree

import (
	"slices"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// makeDirs makes a directory if it contains files (Git makes no empty directories), and the
// empty directories of submodules in it.
func (t *Tree) makeDirs(d *directory) error {
	needed := d.entry.in == nil
	for i := range d.entries {
		needed = needed || d.entries[i].sub == nil && !d.entries[i].Skipped
	}
	if !needed {
		return nil
	}
	if err := t.makeDir(d); err != nil {
		return err
	}
	for i := range d.entries {
		if e := &d.entries[i]; e.Mode == filemode.Submodule && !e.Skipped {
			if err := t.mkdir(&directory{entry: e}); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeDir makes a directory and its parents, once. Several goroutines may call it.
func (t *Tree) makeDir(d *directory) error {
	d.made.Do(func() {
		if d.entry.in == nil { // the top exists
			t.deferMode(d)
			return
		}
		if d.err = t.makeDir(d.entry.in); d.err == nil {
			d.err = t.mkdir(d)
		}
	})
	return d.err
}

// mkdir makes a directory that must not exist. Its owner, and a mode that may prevent writing to it, are set later.
func (t *Tree) mkdir(d *directory) error {
	path := d.entry.Path()
	mode := modeOf(t.Access, filemode.Dir)
	if err := dirfd.Mkdir(t.root, path, mode&0o777|0o700); err != nil {
		return local("make the directory", d.entry, err)
	}
	s, err := dirfd.Lstat(t.root, path)
	if err != nil {
		return local("look at", d.entry, err)
	}
	if uint32(s.Mode)&0o700 != 0o700 { // because of an unusual umask
		if err := dirfd.Chmod(t.root, path, mode&0o777|0o700); err != nil && !hasNoModes(err) {
			return local("change the mode of", d.entry, err)
		}
	}
	if uint32(s.Mode)&0o7777 != mode|uint32(s.Mode)&unix.S_ISGID || gives(t.Access, s) {
		t.deferMode(d)
	}
	return nil
}

func (t *Tree) deferMode(d *directory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deferred = append(t.deferred, d)
}

// setModes sets the deferred modes and owners of directories, the deepest first.
func (t *Tree) setModes() error {
	for _, d := range slices.Backward(t.deferred) {
		path := d.entry.Path()
		if path == "" {
			path = "."
		}
		s, err := dirfd.Lstat(t.root, path)
		if err != nil {
			return local("look at", d.entry, err)
		}
		// The setgid bit that a directory inherits from the volume, as with fsGroup, stays.
		mode := modeOf(t.Access, filemode.Dir) | uint32(s.Mode)&unix.S_ISGID
		if uint32(s.Mode)&0o7777 != mode {
			err := dirfd.Chmod(t.root, path, mode)
			if err != nil && !hasNoModes(err) {
				return local("change the mode of", d.entry, err)
			}
		}
		if gives(t.Access, s) { // chown does not clear the setgid bit of directories
			o := t.Access.Owner
			if err := dirfd.Chown(t.root, path, o.UID, o.GID); err != nil {
				return t.notGiven(d.entry, err)
			}
		}
	}
	t.deferred = nil
	return nil
}
