package clone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"initbox/clone/gitdir"
	"initbox/clone/pack"
	"initbox/internal/dirfd"
)

// spool creates the file for a pack: in the directory where the pack belongs, or, without a .git, an unnamed file.
func (c *checkout) spool() (*os.File, error) {
	if c.git == "" {
		return c.stage.Temp()
	}
	if err := gitdir.Directory(c.git, packDir, c.Access); err != nil {
		return nil, err
	}
	return gitdir.Create(c.git, fmt.Sprintf("%s/tmp_pack_%d", packDir, len(c.packs)), c.Access, packMode)
}

const (
	packDir  = "objects/pack"
	packMode = 0o444 // as in git: a pack never changes
)

// keepPack gives a pack the name that git would, and writes its index.
func (c *checkout) keepPack(p *pack.Pack, spool *os.File) error {
	name := packDir + "/pack-" + p.Checksum.String()
	index, err := gitdir.Create(c.git, name+".idx", c.Access, packMode)
	if err != nil {
		return err
	}
	if err := errors.Join(p.WriteIndex(index), index.Close()); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Join(c.git, packDir))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dirfd.Rename(dir, filepath.Base(spool.Name()), dir, filepath.Base(name)+".pack")
}

// writeGit writes the .git of the directory.
func (c *checkout) writeGit(modules []gitdir.Module) error {
	if c.git == "" {
		return nil
	}
	o := gitdir.Options{
		Remote: c.url.Plain(), Head: c.rev.head(), Commit: c.rev.commit, Refs: c.refs, Follow: c.followed(),
		Shallow: c.shallow, Filter: c.filter, Submodules: modules, Access: c.Access,
	}
	for _, p := range c.packs {
		o.Packs = append(o.Packs, p.Checksum)
	}
	if c.name == "" && c.sparse != nil {
		o.Sparse, o.Cone = c.Sparse, !c.Patterns
	}
	if c.name != "" || c.gitElsewhere() {
		var err error
		if o.Worktree, err = c.link(); err != nil {
			return err
		}
	}
	if err := gitdir.Write(c.git, o); err != nil {
		return err
	}
	if c.rev.commit.IsZero() {
		return nil
	}
	index, err := gitdir.Create(c.git, "index", c.Access, 0)
	if err != nil {
		return err
	}
	return errors.Join(c.tree.WriteIndex(index), index.Close())
}

// link writes the file .git, which names the directory that is elsewhere, and returns the path from there to the work
// tree.
func (c *checkout) link() (back string, err error) {
	there := filepath.Join(c.GitDir, c.gitName)
	if c.gitElsewhere() {
		// Neither is in its final place yet.
		if there, err = filepath.Abs(there); err == nil {
			back, err = filepath.Abs(filepath.Join(c.Dir, c.Link, c.name))
		}
	} else if there, err = filepath.Rel(c.directory, c.git); err == nil {
		back, err = filepath.Rel(c.git, c.directory)
	}
	if err != nil {
		return "", err
	}
	return back, gitdir.Link(c.directory, there, c.Access)
}

// followed returns the references that a later git fetch updates.
func (c *checkout) followed() string {
	if c.Depth == 0 && !c.SingleBranch && c.name == "" {
		return "refs/heads/*"
	}
	return c.rev.ref.Name
}
