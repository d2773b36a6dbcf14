// Package gitdir writes .git as git-clone(1) would, except for the packs and the index, and parses .gitmodules:
//
//	err := gitdir.Write("/data/app/.git", gitdir.Options{
//		Remote: "https://git.example.com/team/app.git",
//		Head:   "refs/heads/main",
//		Commit: commit,
//		Packs:  []plumbing.Hash{checksum},
//	})
//
// gitrepository-layout(5) documents the files.
package gitdir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/access"
	"initbox/clone/remote"
)

// Options say what .git contains.
type Options struct {
	Remote string        // URL without credentials, of the remote "origin"
	Head   string        // the branch that HEAD is on, as refs/heads/main; "" for none
	Commit plumbing.Hash // that HEAD points to; zero if the branch has no commit yet

	// Refs are recorded: branches as refs/remotes/origin/*, tags under their names, and a symbolic HEAD as
	// refs/remotes/origin/HEAD. Others are ignored. Their objects must exist.
	Refs []remote.Ref

	// Follow is the reference that git fetch updates: refs/heads/main, refs/tags/v1, or refs/heads/* for all branches;
	// "" for none.
	Follow string

	Shallow []plumbing.Hash // commits without their parents
	Filter  string          // "blob:none": git fetches missing objects when it needs them

	// Packs are the checksums in the names of the packs. With a Filter they are marked as packs of a promisor remote,
	// which has the missing objects.
	Packs []plumbing.Hash

	Sparse []string // directories or patterns of the files in the work tree; nil for all
	Cone   bool     // Sparse are directories

	Worktree   string // the directory of the files, unless it contains .git; may be relative to .git
	Submodules []Module
	Access     access.Access
}

// directories are the directories that git expects, or people expect to exist.
var directories = []string{".", "hooks", "info", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"}

// Write writes a .git into dir. The directory and those in it may exist, with the packs and the index, whose access it
// does not change. It syncs nothing to the disk.
func Write(dir string, o Options) error {
	if err := write(dir, o); err != nil {
		return fmt.Errorf("write the repository's .git: %w", err)
	}
	return nil
}

func write(dir string, o Options) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{root: root, Access: o.Access, made: make(map[string]bool)}
	for _, name := range directories {
		w.directory(name)
	}
	w.config(o)
	w.refs(o)
	w.head(o)
	if len(o.Shallow) > 0 {
		w.file("shallow", shallow(o.Shallow))
	}
	if o.Sparse != nil {
		w.sparse(o)
	}
	if o.Filter != "" {
		for _, pack := range o.Packs {
			w.file("objects/pack/pack-"+pack.String()+".promisor", nil)
		}
	}
	return w.err
}

// head writes HEAD: the name of a branch, or the ID of a commit.
func (w *writer) head(o Options) {
	switch {
	case o.Head == "" && o.Commit.IsZero():
		w.check(errors.New("HEAD has neither a branch nor a commit"))
	case o.Head == "":
		w.file("HEAD", []byte(o.Commit.String()+"\n"))
	case !strings.HasPrefix(o.Head, branches):
		w.check(fmt.Errorf("%q is not a branch", o.Head))
	default:
		w.symbolic("HEAD", o.Head)
	}
}

func (w *writer) symbolic(name, target string) {
	if err := plumbing.ReferenceName(target).Validate(); err != nil {
		w.check(fmt.Errorf("%q is not a valid reference name", target))
		return
	}
	w.file(name, []byte("ref: "+target+"\n"))
}

// shallow writes the file shallow, sorted as in git.
func shallow(commits []plumbing.Hash) []byte {
	var lines []string
	for _, c := range commits {
		lines = append(lines, c.String()+"\n")
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), ""))
}

// Link writes the file .git of a work tree whose repository is elsewhere, in the directory gitdir, which may be
// relative to the work tree (gitrepository-layout(5), "gitdir").
func Link(worktree, gitdir string, a access.Access) error {
	root, err := os.OpenRoot(worktree)
	if err != nil {
		return err
	}
	defer root.Close()
	if strings.ContainsAny(gitdir, "\n\r\x00") {
		return fmt.Errorf("write .git: %q contains control characters", gitdir)
	}
	w := &writer{root: root, Access: a}
	w.file(".git", []byte("gitdir: "+gitdir+"\n"))
	return w.err
}

// Directory creates a directory below dir, with its parents, for files that are not written by Write.
func Directory(dir, name string, a access.Access) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{root: root, Access: a, made: map[string]bool{".": true}}
	w.directory(path.Clean(filepath.ToSlash(name)))
	return w.err
}

// Create creates a file below dir for content that is not written by Write. If mode is 0, it gets the permissions of a.
func Create(dir, name string, a access.Access, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := &writer{Access: a}
	w.admit(f, cmp.Or(mode, a.File(false)))
	if w.err != nil {
		f.Close()
		return nil, w.err
	}
	return f, nil
}

// A writer writes files in a directory, until the first error.
type writer struct {
	access.Access
	root *os.Root
	made map[string]bool
	err  error
}

// check records the first error.
func (w *writer) check(err error) {
	if w.err == nil {
		w.err = err
	}
}

// directory creates a directory with its parents, and sets its access, regardless of the umask.
func (w *writer) directory(name string) {
	if w.err != nil || w.made[name] {
		return
	}
	if parent := path.Dir(name); parent != name {
		w.directory(parent)
		if err := w.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			w.check(err)
			return
		}
	}
	w.made[name] = true
	f, err := w.root.Open(name)
	if err != nil {
		w.check(err)
		return
	}
	w.admit(f, w.Directory())
	w.check(f.Close())
}

// file writes a file that must not exist.
func (w *writer) file(name string, content []byte) {
	if w.err != nil {
		return
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		w.check(err)
		return
	}
	_, err = f.Write(content)
	w.check(err)
	w.admit(f, w.File(false))
	w.check(f.Close())
}

// admit sets the owner of f and then its mode: changing the owner clears the setgid bit.
func (w *writer) admit(f *os.File, mode fs.FileMode) {
	if w.Owner != nil {
		w.check(f.Chown(w.Owner.UID, w.Owner.GID))
	}
	w.check(f.Chmod(mode))
}
