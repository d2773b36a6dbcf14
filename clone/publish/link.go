package publish

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// flip gives the tree its name, and makes the link point to it.
func (w *swap) flip() error {
	top := w.top
	if s, err := dirfd.Lstat(top, w.options.Link); err == nil && s.Mode&unix.S_IFMT != unix.S_IFLNK {
		return refuse("%s in %s is not a symbolic link", w.options.Link, w.options.Dir)
	}
	if err := w.clearNotes(); err != nil {
		return err
	}
	if !w.reuse {
		if err := w.placeWorktree(); err != nil {
			return err
		}
	}
	err := dirfd.Symlink(path.Join(worktrees, w.hash), w.s.dir, linkName)
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
	if w.options.Keep {
		w.before = before
	}
	return nil
}

// clearNotes removes what is beside a tree of the commit that exists already: since when no link points to it, and if
// another tree takes its path, its marker.
func (w *swap) clearNotes() error {
	if !isHash(w.hash) {
		return refuse("not the hash of a commit: %q", w.hash)
	}
	beside := []string{oldNote(w.hash)}
	if !w.reuse {
		beside = append(beside, w.outerMarker(w.hash))
	}
	for _, name := range beside {
		if _, err := w.free(w.base, name); err != nil {
			return err
		}
	}
	return nil
}

// placeWorktree moves the tree to the path that the link will point to. If a tree of the same
// commit exists there, it has been changed or was made with other options.
func (w *swap) placeWorktree() error {
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

// linked returns the hash of the worktree that a link points to, or "".
func (t *Target) linked(top *os.File, name string) string {
	to, err := dirfd.Readlink(top, name)
	dir, hash := path.Split(path.Clean(to))
	if err != nil || !isHash(hash) || path.Clean(dir) != worktrees {
		return ""
	}
	return hash
}

// sweepWorktrees removes the worktrees that no link points to, except one, and those that Options.KeepOld keeps.
func (t *Target) sweepWorktrees(ctx context.Context, but string) {
	beside, err := names(t.top)
	if err != nil {
		return
	}
	var used []string
	for _, name := range beside {
		used = append(used, t.linked(t.top, name))
	}
	all, err := names(t.base)
	if err != nil {
		return
	}
	kept := []string{but}
	for _, name := range all {
		if isHash(name) && !slices.Contains(used, name) && t.stillKept(name) {
			kept = append(kept, name)
		}
	}
	for _, name := range all {
		hash, isNote := strings.CutSuffix(strings.TrimPrefix(name, "."), mine+oldSuffix)
		hash = strings.TrimSuffix(hash, mine+markerSuffix)
		ours := isHash(hash) && (name == hash || name == t.outerMarker(hash) || isNote && name == oldNote(hash))
		if ours && !slices.Contains(used, hash) && !slices.Contains(kept, hash) {
			t.discard(ctx, name)
		}
	}
	t.sweepGitSync(ctx, kept)
}

// oldNote returns the name of the note that tells since when no link points to a worktree.
func oldNote(hash string) string { return "." + hash + mine + oldSuffix }

// stillKept returns whether a worktree that no link points to stays for now, see Options.KeepOld. The time begins when
// a run first finds it without a link, so that a kill cannot cut it short.
func (t *Target) stillKept(hash string) bool {
	if t.options.KeepOld <= 0 {
		return false
	}
	s, err := dirfd.Lstat(t.base, oldNote(hash))
	if err == nil && s.Mode&unix.S_IFMT == unix.S_IFREG {
		return time.Since(time.Unix(s.Mtim.Unix())) < t.options.KeepOld
	}
	f, err := openAt(t.base, oldNote(hash), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		t.log.Warn("cannot note since when an old tree is not used: removing it", "tree", hash, "error", err)
		return false
	}
	f.Close()
	return true
}

// openTree opens the current tree. In link mode it also returns the hash in the name of
// the worktree that the link points to.
func (t *Target) openTree() (tree *os.File, hash string, err error) {
	if !t.link() {
		tree, err = openDir(t.base, t.name)
		return tree, "", err
	}
	if hash = t.linked(t.top, t.options.Link); hash == "" {
		if _, err := dirfd.Lstat(t.top, t.options.Link); err != nil {
			return nil, "", err
		}
		return nil, "", errors.New("the link does not lead to a worktree")
	}
	tree, err = openDir(t.base, hash)
	return tree, hash, err
}
