package publish

import (
	"encoding/hex"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// flip gives the tree its name, and has the link lead to it.
func (w *swap) flip() error {
	top, err := os.Open(w.path)
	if err != nil {
		return err
	}
	defer top.Close()
	if s, err := dirfd.Lstat(top, w.options.Link); err == nil && s.Mode&unix.S_IFMT != unix.S_IFLNK {
		return refuse("%s in %s is not a symbolic link", w.options.Link, w.options.Dir)
	}
	if err := w.place(); err != nil {
		return err
	}
	err = dirfd.Symlink(path.Join(worktrees, w.hash), w.s.dir, linkName)
	if err != nil {
		return err
	}
	before := w.linked(top, w.options.Link)
	if err := rename(w.s.dir, linkName, top, w.options.Link); err != nil {
		return err
	}
	w.undo = nil
	if err := dirfd.Sync(top); err != nil {
		return err
	}
	if !w.options.Keep {
		before = ""
	}
	w.sweepWorktrees(before)
	return nil
}

// place puts the tree where the link is to lead. One of the same commit that is
// there was changed, or made with other options.
func (w *swap) place() error {
	if !isHash(w.hash) {
		return refuse("not the hash of a commit: %q", w.hash)
	}
	if _, err := w.free(w.base, w.outerMarker(w.hash)); err != nil {
		return err
	}
	err := w.exchange(w.s.dir, treeName, w.base, w.hash)
	if err != nil {
		if _, err := w.free(w.base, w.hash); err != nil {
			return err
		}
		err = w.move(w.s.dir, treeName, w.base, w.hash)
	}
	if err == nil {
		err = dirfd.Sync(w.base)
	}
	if err == nil {
		err = w.showMarker()
	}
	return err
}

func isHash(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == 40 && name == strings.ToLower(name)
}

// linked returns the hash of the worktree that a link leads to, or "".
func (t *Target) linked(top *os.File, name string) string {
	to, err := dirfd.Readlink(top, name)
	dir, hash := path.Split(path.Clean(to))
	if err != nil || !isHash(hash) || path.Clean(dir) != worktrees {
		return ""
	}
	return hash
}

// sweepWorktrees removes the worktrees that no link leads to, but for one.
func (t *Target) sweepWorktrees(but string) {
	top, err := os.Open(t.path)
	if err != nil {
		return
	}
	defer top.Close()
	beside, err := names(top)
	if err != nil {
		return
	}
	used := []string{but}
	for _, name := range beside {
		used = append(used, t.linked(top, name))
	}
	all, err := names(t.base)
	if err != nil {
		return
	}
	for _, name := range all {
		hash := strings.TrimSuffix(strings.TrimPrefix(name, "."), mine+markerSuffix)
		if isHash(hash) && (name == hash || name == t.outerMarker(hash)) && !slices.Contains(used, hash) {
			t.discard(name)
		}
	}
}

// openTree opens the tree that there is. In link mode it is the one that the link
// leads to, of which it returns the hash.
func (t *Target) openTree() (tree *os.File, hash string, err error) {
	if !t.link() {
		tree, err = openDir(t.base, t.name)
		return tree, "", err
	}
	top, err := os.Open(t.path)
	if err != nil {
		return nil, "", err
	}
	defer top.Close()
	if hash = t.linked(top, t.options.Link); hash == "" {
		if _, err := dirfd.Lstat(top, t.options.Link); err != nil {
			return nil, "", err
		}
		return nil, "", errors.New("the link does not lead to a worktree")
	}
	tree, err = openDir(t.base, hash)
	return tree, hash, err
}
