package clone

import (
	"context"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/gitdir"
	"initbox/clone/remote"
	"initbox/clone/worktree"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

const modulesFile = ".gitmodules"

// deepest limits how many submodules may be nested.
const deepest = 32

// submodules checks out the submodules of the repository, and returns them.
func (c *checkout) submodules(ctx context.Context, s survey) ([]gitdir.Module, error) {
	if c.Submodules == SubmodulesOff || c.Submodules == "" || c.level > 0 && c.Submodules != SubmodulesRecursive || len(s.submodules) == 0 {
		return nil, nil
	}
	var paths []string
	commits := make(map[string]plumbing.Hash)
	for _, e := range s.submodules {
		paths = append(paths, e.Path())
		commits[e.Path()] = e.ID
	}
	modules, err := c.modules(s.modules, paths)
	if err != nil {
		return nil, err
	}
	for i, m := range modules {
		explain := func(err error) error { return within("the submodule "+failure.Printable(m.Path), err) }
		u, err := c.url.Resolve(m.URL)
		if err != nil {
			return nil, poll.Permanent(explain(err))
		}
		if err := c.submodule(ctx, m, u, commits[m.Path]); err != nil {
			return nil, explain(err)
		}
		modules[i].URL = u.Plain()
	}
	return modules, nil
}

// modules reads the entries of .gitmodules for the submodules at these paths.
func (c *checkout) modules(file *worktree.Entry, paths []string) (gitdir.Modules, error) {
	var content []byte
	if file != nil {
		var err error
		if content, err = c.content(file); err != nil {
			return nil, within(modulesFile, err)
		}
	}
	modules, err := gitdir.ParseModules(content)
	if err == nil {
		modules, err = modules.Select(paths)
	}
	if err != nil {
		return nil, poll.Permanent(err)
	}
	return modules, nil
}

// submodule checks out one submodule.
func (c *checkout) submodule(ctx context.Context, m gitdir.Module, u *remote.URL, commit plumbing.Hash) error {
	if c.level == deepest {
		return poll.Permanent(failure.New(failure.Unexpected, "nested more than %d levels deep", deepest))
	}
	own := *c.cloning
	if !u.SameOrigin(c.cloning.url) {
		own.Remote = own.Remote.Elsewhere()
	}
	repo, err := remote.Open(ctx, u, own.Remote)
	if err != nil {
		return err
	}
	defer repo.Close()
	sub := &checkout{
		cloning: &own, url: u, repo: repo, rev: revision{commit: commit}, stage: c.stage, level: c.level + 1,
		name:      filepath.Join(c.name, m.Path),
		directory: filepath.Join(c.directory, m.Path),
	}
	if c.git != "" {
		sub.git, sub.gitName = filepath.Join(c.git, m.Dir()), filepath.Join(c.gitName, m.Dir())
		if err := gitdir.Directory(c.git, m.Dir(), c.Access); err != nil {
			return err
		}
	}
	err = sub.run(ctx)
	c.bytes += sub.bytes
	if err != nil {
		return err
	}
	c.files += sub.files
	c.sum.AddAll(sub.sum)
	return nil
}
