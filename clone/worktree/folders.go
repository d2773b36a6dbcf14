package worktree

import (
	"slices"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// makeFolders makes a directory if it contains files (Git makes no empty directories), and the
// empty directories of submodules in it.
func (t *Tree) makeFolders(f *directory) error {
	needed := f.entry.in == nil
	for i := range f.entries {
		needed = needed || f.entries[i].sub == nil && !f.entries[i].Skipped
	}
	if !needed {
		return nil
	}
	if err := t.makeFolder(f); err != nil {
		return err
	}
	for i := range f.entries {
		if e := &f.entries[i]; e.Mode == filemode.Submodule && !e.Skipped {
			if err := t.mkdir(&directory{entry: e}); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeFolder makes a directory and its parents, once. Several goroutines may call it.
func (t *Tree) makeFolder(f *directory) error {
	f.made.Do(func() {
		if f.entry.in == nil { // the top exists
			t.deferMode(f)
			return
		}
		if f.err = t.makeFolder(f.entry.in); f.err == nil {
			f.err = t.mkdir(f)
		}
	})
	return f.err
}

// mkdir makes a directory that must not exist. Its owner, and a mode that may prevent writing to it, are set later.
func (t *Tree) mkdir(f *directory) error {
	path := f.entry.Path()
	mode := modeOf(t.Access, filemode.Dir)
	if err := dirfd.Mkdir(t.root, path, mode&0o777|0o700); err != nil {
		return local("make the directory", f.entry, err)
	}
	s, err := dirfd.Lstat(t.root, path)
	if err != nil {
		return local("look at", f.entry, err)
	}
	if uint32(s.Mode)&0o700 != 0o700 { // because of an unusual umask
		if err := dirfd.Chmod(t.root, path, mode&0o777|0o700); err != nil && !hasNoModes(err) {
			return local("change the mode of", f.entry, err)
		}
	}
	if uint32(s.Mode)&0o7777 != mode|uint32(s.Mode)&unix.S_ISGID || gives(t.Access, s) {
		t.deferMode(f)
	}
	return nil
}

func (t *Tree) deferMode(f *directory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deferred = append(t.deferred, f)
}

// setModes sets the deferred modes and owners of directories, the deepest first.
func (t *Tree) setModes() error {
	for _, f := range slices.Backward(t.deferred) {
		path := f.entry.Path()
		if path == "" {
			path = "."
		}
		s, err := dirfd.Lstat(t.root, path)
		if err != nil {
			return local("look at", f.entry, err)
		}
		// The setgid bit that a directory inherits from the volume, as with fsGroup, stays.
		mode := modeOf(t.Access, filemode.Dir) | uint32(s.Mode)&unix.S_ISGID
		if uint32(s.Mode)&0o7777 != mode {
			err := dirfd.Chmod(t.root, path, mode)
			if err != nil && !hasNoModes(err) {
				return local("change the mode of", f.entry, err)
			}
		}
		if gives(t.Access, s) { // chown does not clear the setgid bit of directories
			o := t.Access.Owner
			if err := dirfd.Chown(t.root, path, o.UID, o.GID); err != nil {
				return t.notGiven(f.entry, err)
			}
		}
	}
	t.deferred = nil
	return nil
}
