// Package gitdir writes .git as git-clone(1) leaves it, but for the packs and the
// index, and reads .gitmodules. What the files are is in gitrepository-layout(5).
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

// Options say what .git is to know.
type Options struct {
	Remote string        // URL without credentials, of the remote "origin"
	Head   string        // the branch that HEAD is on, as refs/heads/main; "" for none
	Commit plumbing.Hash // that HEAD leads to; zero if the branch has no commit yet

	// Refs are recorded: branches as refs/remotes/origin/*, tags as they are, HEAD,
	// if it is symbolic, as refs/remotes/origin/HEAD; others not. Their objects
	// have to be there.
	Refs []remote.Ref

	// Follow is the reference that git fetch is to bring up to date: refs/heads/main,
	// refs/tags/v1, or refs/heads/* for all branches; "" for none.
	Follow string

	Shallow []plumbing.Hash // commits whose parents are not there
	Filter  string          // "blob:none": git fetches what is missing when it needs it

	// Packs are the checksums in the names of the packs. With a Filter they are
	// marked as those of a remote that has what they lack.
	Packs []plumbing.Hash

	Sparse []string // folders, or patterns, of the files that are there; nil for all
	Cone   bool     // Sparse are folders

	Worktree   string // where the files are, if not in the folder that has .git; may be relative to .git
	Submodules []Module
	Access     access.Access
}

// folders are those that git expects, or that people put files into without a look.
var folders = []string{".", "hooks", "info", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"}

// Write makes dir a .git. The folder may be there, and so may those in it, with
// the packs and the index, whose access is left to who made them. Nothing is
// brought to the disk.
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
	for _, name := range folders {
		w.folder(name)
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

// head writes HEAD: the name of a branch, or a commit's id.
func (w *writer) head(o Options) {
	switch {
	case o.Head == "" && o.Commit.IsZero():
		w.check(errors.New("HEAD is neither on a branch nor at a commit"))
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
		w.check(fmt.Errorf("%q is not a reference's name", target))
		return
	}
	w.file(name, []byte("ref: "+target+"\n"))
}

// shallow is sorted, as git leaves it.
func shallow(commits []plumbing.Hash) []byte {
	var lines []string
	for _, c := range commits {
		lines = append(lines, c.String()+"\n")
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), ""))
}

// Link makes the file .git of a working tree whose repository is elsewhere: at
// gitdir, which may be relative to the working tree (gitrepository-layout(5),
// "gitdir").
func Link(worktree, gitdir string, a access.Access) error {
	root, err := os.OpenRoot(worktree)
	if err != nil {
		return err
	}
	defer root.Close()
	if strings.ContainsAny(gitdir, "\n\r\x00") {
		return fmt.Errorf("write .git: %q has control characters", gitdir)
	}
	w := &writer{root: root, Access: a}
	w.file(".git", []byte("gitdir: "+gitdir+"\n"))
	return w.err
}

// Folder makes a folder below dir, and those that it is in, for what others than Write
// put there.
func Folder(dir, name string, a access.Access) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{root: root, Access: a, made: map[string]bool{".": true}}
	w.folder(path.Clean(filepath.ToSlash(name)))
	return w.err
}

// Create makes a file below dir, for what others than Write put there, with the
// permissions of a if mode is 0.
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

// A writer makes files in a folder, until something goes wrong.
type writer struct {
	access.Access
	root *os.Root
	made map[string]bool
	err  error
}

// check remembers the first error.
func (w *writer) check(err error) {
	if w.err == nil {
		w.err = err
	}
}

// folder makes a folder and those that it is in, and gives it its access, which no
// umask has a say in.
func (w *writer) folder(name string) {
	if w.err != nil || w.made[name] {
		return
	}
	if parent := path.Dir(name); parent != name {
		w.folder(parent)
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
	w.admit(f, w.Folder())
	w.check(f.Close())
}

// file makes a file that is not there yet.
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

// admit gives f its owner, then its mode: a change of the owner takes the setgid
// bit away.
func (w *writer) admit(f *os.File, mode fs.FileMode) {
	if w.Owner != nil {
		w.check(f.Chown(w.Owner.UID, w.Owner.GID))
	}
	w.check(f.Chmod(mode))
}
