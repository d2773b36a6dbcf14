package publish

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
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
	if s, err := dirfd.Lstat(w.links, w.linkName); err == nil && s.Mode&unix.S_IFMT != unix.S_IFLNK {
		return notLink(w.options.linkPath())
	}
	if err := w.clearNotes(); err != nil {
		return err
	}
	if !w.reuse {
		if err := w.placeWorktree(); err != nil {
			return err
		}
	}
	before := w.linked()
	if err := w.point(); err != nil {
		return err
	}
	if w.options.Keep {
		w.before = before
	}
	return nil
}

// point makes the link point to the tree of the commit. A link that is not beside the trees claims the old tree and the
// new one meanwhile. With Options.Keep it does so until the next Open.
func (w *swap) point() error {
	from, as, claims := w.s.dir, linkName, w.fromTrees != ""
	if claims {
		if err := w.claim(w.hash, cmp.Or(w.linked(), w.hash)); err != nil {
			return err
		}
		from, as = w.links, w.unfinished() // in its directory, which may be on another file system than the stage
	}
	err := dirfd.Symlink(path.Join(w.toTrees, w.hash), from, as)
	if err == nil {
		err = rename(from, as, w.links, w.linkName)
	}
	if err != nil && claims {
		return w.linkFailed(err)
	}
	if err != nil {
		return err
	}
	w.undo = nil
	if err := dirfd.Sync(w.links); err != nil || !claims || w.options.Keep {
		return err
	}
	return w.claim(w.hash)
}

// unfinished returns the name of a link that is not beside the trees before it takes its place.
func (p *place) unfinished() string { return "." + short(p.linkName) + mine + "-" + linkName }

// settle removes what a run leaves that is killed in point, and makes the claim say what the link does. It renews the
// claim, or ends it if the link is gone.
func (t *Target) settle() {
	if t.fromTrees == "" {
		return
	}
	if s, err := dirfd.Lstat(t.links, t.unfinished()); err == nil && s.Mode&unix.S_IFMT == unix.S_IFLNK {
		dirfd.Remove(t.links, t.unfinished())
	}
	_, err := dirfd.Lstat(t.links, t.linkName)
	if hash := t.linked(); hash != "" {
		err = t.claim(hash)
	} else if own := t.ownClaim(); errors.Is(err, unix.ENOENT) && own != "" {
		err = dirfd.Remove(t.base, own)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		t.warn("claim", fmt.Sprintf("%s: cannot record that the link %s uses its tree, so runs for other links may remove the tree: %v; may this user write to both directories, and is there space?",
			t.options.Dir, t.options.linkPath(), err))
	} else {
		t.warn("claim", "")
	}
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

// leads returns the hash of the worktree that a link in a directory points to, or "". The worktrees are in trees, a
// path from that directory.
func leads(in *os.File, name, trees string) string {
	to, err := dirfd.Readlink(in, name)
	dir, hash := path.Split(path.Clean(to))
	if err != nil || !isHash(hash) || path.Clean(dir) != trees {
		return ""
	}
	return hash
}

// linked returns the hash of the worktree that the link points to, or "".
func (t *Target) linked() string { return leads(t.links, t.linkName, t.toTrees) }

// used returns the hashes of the worktrees that links point to: those beside the directory of the worktrees, and those
// of other directories, which have claims.
func (t *Target) used() (hashes []string, err error) {
	beside, err := names(t.top)
	if err != nil {
		return nil, err
	}
	for _, name := range beside {
		hashes = append(hashes, leads(t.top, name, worktrees))
	}
	claims, err := t.claims()
	for _, c := range claims {
		hashes = append(hashes, c.Trees...)
	}
	return append(hashes, t.linked()), err
}

// sweepWorktrees removes the worktrees that no link points to, except one, and those that Options.KeepOld keeps.
func (t *Target) sweepWorktrees(ctx context.Context, but string) {
	used, err := t.used()
	if err != nil {
		t.warn("trees", fmt.Sprintf("%s: removing no trees: %v; if it is the file of a link that no longer exists, remove it", t.options.Dir, err))
		return
	}
	t.warn("trees", "")
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
		if t.options.Replace && !isHash(name) && !strings.HasPrefix(name, ".") {
			t.discard(ctx, name) // as git-sync does
		}
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
		t.log.Warn(fmt.Sprintf("%s: removing the old tree of %s at once: cannot note since when --keep-old keeps it: %v", t.options.Dir, hash, err))
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
	if hash = t.linked(); hash == "" {
		if _, err := dirfd.Lstat(t.links, t.linkName); err != nil {
			return nil, "", err
		}
		return nil, "", errors.New("the link does not lead to a worktree")
	}
	tree, err = openDir(t.base, hash)
	return tree, hash, err
}
