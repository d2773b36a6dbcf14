package publish

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// tmpLink is the name under which git-sync makes its link, before it renames it.
const tmpLink = "tmp-link"

// sweepGitSync removes what git-sync left beside the link: its repository, .git, and the worktrees of version 3. (Those
// of version 4 are in the same directory as ours, and swept with them.) It leaves all of that while a link leads to one
// of git-sync's worktrees, or if one is to be kept, since git needs the repository there.
func (t *Target) sweepGitSync(ctx context.Context, keep []string) {
	trees, ok := gitSyncTrees(t.top)
	all, err := names(t.top)
	inUse := func(tree string) bool { return tree != "" && isWorktree(t.base, tree) }
	if !ok || err != nil || slices.ContainsFunc(keep, inUse) {
		return
	}
	for _, name := range all {
		if name != tmpLink && t.leadsToGitSync(t.top, name) {
			return
		}
	}
	if t.leadsToGitSync(t.top, tmpLink) {
		trees = append(trees, tmpLink)
	}
	for _, name := range append(trees, ".git") {
		// A kill halfway must not leave a part of it, which could not be recognised.
		as := t.prefix + "-" + strings.ToLower(rand.Text()[:idLength])
		if err := rename(t.top, name, t.base, as); err != nil {
			t.log.Warn(fmt.Sprintf("%s: cannot remove %s, which git-sync left there: %v; the next run tries again", t.options.Dir, name, err))
			return
		}
		t.discard(ctx, as)
	}
	t.log.Info(fmt.Sprintf("%s: removed the repository that git-sync left there", t.options.Dir))
}

// gitSyncTrees returns whether the .git in a directory is git-sync's, and its worktrees of version 3, which are beside
// it. All worktrees of git-sync are named after a commit. Version 4 calls its branch git-sync.
func gitSyncTrees(top *os.File) (beside []string, ok bool) {
	head, err := readSmall(top, ".git/HEAD")
	if err != nil {
		return nil, false
	}
	ok = head == "ref: refs/heads/git-sync"
	list, err := openDir(top, ".git/worktrees")
	if err != nil {
		return nil, ok
	}
	defer list.Close()
	entries, err := names(list)
	if err != nil {
		return nil, false
	}
	for _, entry := range entries {
		file, err := readSmall(list, path.Join(entry, "gitdir")) // the path of its .git
		tree := path.Dir(file)
		if name := path.Base(tree); err != nil || path.Base(file) != ".git" || !isHash(strings.TrimPrefix(name, "rev-")) {
			return nil, false
		} else if path.Base(path.Dir(tree)) != worktrees && isWorktree(top, name) {
			beside = append(beside, name)
		}
		ok = true
	}
	return beside, ok
}

// leadsToGitSync returns whether a name in a directory is a link to a worktree of git-sync.
func (t *Target) leadsToGitSync(in *os.File, name string) bool {
	to, err := dirfd.Readlink(in, name)
	if err != nil {
		return false
	}
	dir, tree := path.Split(path.Clean(to))
	if path.Base(dir) == worktrees {
		return isHash(tree) && isWorktree(t.base, tree)
	}
	return isHash(strings.TrimPrefix(tree, "rev-")) && isWorktree(t.top, tree)
}

// isWorktree returns whether a directory has a file .git, which leads to the repository, instead of a repository.
func isWorktree(dir *os.File, name string) bool { return isFile(dir, path.Join(name, ".git")) }

// longestLine is more than a path of Linux takes (PATH_MAX), with what git has before and after it.
const longestLine = 4096 + 16

// readSmall returns the content of a file of git that is one line, without its end.
func readSmall(dir *os.File, name string) (string, error) {
	f, err := openAt(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, longestLine))
	return strings.TrimRight(string(content), "\r\n"), err
}
