package clone

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/clone/pack"
	"initbox/clone/publish"
	"initbox/clone/remote"
	"initbox/clone/signature"
	"initbox/clone/worktree"
)

// checkout is a repository that becomes a directory below the stage: the requested one, or a submodule of it.
type checkout struct {
	*cloning
	url       *remote.URL
	repo      remote.Repository
	rev       revision
	stage     *publish.Stage
	name      string // the path of a submodule; "" for the requested repository
	level     int    // how many repositories contain it
	directory string // of the files
	git       string // becomes its .git; "" for none
	gitName   string // of a submodule: the path of git below that of the requested repository

	tree    *worktree.Tree
	refs    []remote.Ref // to record
	packs   []*pack.Pack
	spools  []*os.File // of the packs; closed at the end
	shallow []plumbing.Hash
	filter  string // applied by the server
	bytes   int64  // received
	files   int
	sum     object.Content // of the files

	mu     sync.Mutex
	commit *object.Commit
	signed map[plumbing.Hash][]byte // the commit and all tags, if a signature is required
	room   int                      // bytes in signed
}

// run fills the directory and its .git.
func (c *checkout) run(ctx context.Context) error {
	dir, err := os.Open(c.directory)
	if err != nil {
		return err
	}
	defer dir.Close()
	defer func() {
		for _, f := range c.spools {
			f.Close()
		}
	}()
	c.tree = worktree.New(c.treeOptions(dir))
	if c.rev.commit.IsZero() {
		return c.writeGit(nil)
	}
	if err := c.fetch(ctx); err != nil {
		return err
	}
	if err := c.tree.Finish(); err != nil {
		return err
	}
	if err := c.verify(); err != nil {
		return err
	}
	there := c.look()
	c.files = there.files
	if err := c.convert(ctx, there); err != nil {
		return err
	}
	prefix := c.name
	if prefix != "" {
		prefix += "/"
	}
	c.sum = c.tree.Content(prefix)
	modules, err := c.submodules(ctx, there)
	if err != nil {
		return err
	}
	return c.writeGit(modules)
}

func (c *checkout) treeOptions(dir *os.File) worktree.Options {
	o := worktree.Options{
		Dir: dir, Access: c.Access, Stat: c.git != "",
		RejectEscapingSymlinks: c.RejectEscapingSymlinks, MaxSize: c.MaxSize, MaxFiles: c.MaxFiles,
	}
	if c.name == "" {
		o.Subdir, o.Sparse = c.Subdir, c.sparse
	}
	return o
}

// verify checks that the tag or the commit is signed. That covers submodules: the commit contains their IDs.
func (c *checkout) verify() error {
	if len(c.Keys) == 0 || c.name != "" {
		return nil
	}
	keys, err := signature.ReadKeys(c.Keys)
	if err != nil {
		return err
	}
	r := signature.Revision{Start: c.rev.want(), Commit: c.rev.commit, Objects: c.signed}
	if tag, ok := strings.CutPrefix(c.rev.ref.Name, "refs/tags/"); ok {
		r.Tag = tag
	}
	signer, kind, err := signature.VerifyRevision(r, keys)
	if err == nil {
		c.log.Info(fmt.Sprintf("%s: the %s is signed by %s", c.Dir, kind, signer))
	}
	return err
}

// result returns the Result of the clone.
func (c *checkout) result() Result {
	r := Result{URL: c.url.String(), Ref: c.rev.name(), SHA: c.rev.sha(), Bytes: c.bytes, Changed: true}
	if c.commit != nil {
		r.Date, r.Author, r.Subject = c.commit.Committer.When, c.commit.Author.String(), c.commit.Subject()
	}
	return r
}
