package publish

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// checkOurs refuses a directory with files that no run has published, and a link that no run has made, unless
// Options.Replace is set: a mistyped path must not cost a database. A marker vouches for the directory, however much
// its files have changed since. So does the note of a killed run, see [swap.begin].
func (t *Target) checkOurs() error {
	if t.options.Replace {
		return nil
	}
	if t.link() {
		return t.checkLink()
	}
	dir, err := openDir(t.base, t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain("open "+t.options.Dir, err)
	}
	defer dir.Close()
	if t.marked || isFile(t.base, t.note()) || isFile(t.base, t.outerMarker("")) || t.marks(dir) {
		return nil
	}
	all, err := names(dir)
	if err != nil {
		return explain("read "+t.options.Dir, err)
	}
	all = slices.DeleteFunc(all, func(name string) bool {
		left := (&place{prefix: mine}).isStage(name) // by a killed run, for which the directory was a mount point
		return left || t.keeps(name) || !hasFiles(dir, name)
	})
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return foreign("%s has files that no git-clone wrote: %s", t.options.Dir, words.List(words.Each(all, failure.Printable)))
}

// checkLink refuses a link to something else than a worktree.
func (t *Target) checkLink() error {
	to, err := dirfd.Readlink(t.links, t.linkName)
	if err != nil || t.linked() != "" || t.leadsToGitSync(t.links, t.linkName) {
		return nil // there is none, or it is ours or git-sync's
	}
	if dir, tree := path.Split(path.Clean(to)); path.Base(dir) == worktrees && isHash(tree) {
		return foreign("%s is a link to %s, a tree that was made for another directory than %s", t.options.linkPath(), failure.Printable(to), t.options.Dir)
	}
	return foreign("%s is a link to %s, which no git-clone made", t.options.linkPath(), failure.Printable(to))
}

func foreign(format string, args ...any) error {
	return poll.Permanent(failure.New(failure.Local, format, args...).WithHint("is it the right directory? if so, and if what is there may be lost, add --replace"))
}

// marks returns whether there is a marker in a directory: in its .git, or at its top, where a run puts it if the
// directory is the .git of another one, or a mount point then.
func (t *Target) marks(dir *os.File) bool {
	if t.repository && isFile(dir, gitMarker) || isFile(dir, mine+markerSuffix) || isFile(dir, mine+noteSuffix) {
		return true
	}
	if git, err := openDir(dir, gitName); err == nil {
		defer git.Close()
		return isFile(git, gitMarker)
	}
	link, err := readSmall(dir, gitName)
	path, ok := strings.CutPrefix(link, "gitdir: ")
	if err != nil || !ok || !filepath.IsAbs(path) {
		return false
	}
	marker, err := os.Lstat(filepath.Join(path, gitMarker))
	return err == nil && marker.Mode().IsRegular()
}

// isFile returns whether there is a regular file called name in dir.
func isFile(dir *os.File, name string) bool {
	s, err := dirfd.Lstat(dir, name)
	return err == nil && s.Mode&unix.S_IFMT == unix.S_IFREG
}

// hasFiles returns whether the entry called name is, or has at any depth, something else than a directory.
func hasFiles(dir *os.File, name string) bool {
	sub, err := openDir(dir, name)
	if err != nil {
		return true
	}
	defer sub.Close()
	all, err := names(sub)
	return err != nil || slices.ContainsFunc(all, func(name string) bool { return hasFiles(sub, name) })
}
