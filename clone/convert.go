package clone

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"initbox/clone/attributes"
	"initbox/clone/lfs"
	"initbox/clone/worktree"
	"initbox/internal/failure"
)

// survey lists the entries of a tree that need more work.
type survey struct {
	files      int             // and links
	modules    *worktree.Entry // .gitmodules; nil if there is none
	lfsConfig  *worktree.Entry // .lfsconfig, likewise
	submodules []*worktree.Entry
	attributes map[string]*worktree.Entry
}

func (c *checkout) look() survey {
	s := survey{attributes: make(map[string]*worktree.Entry)}
	for e := range c.tree.Entries() {
		if e.Mode == filemode.Submodule {
			if !e.Skipped {
				s.submodules = append(s.submodules, e)
			}
			continue
		}
		if !e.Skipped {
			s.files++
		}
		if !isFile(e) {
			continue
		}
		switch e.Name() {
		case attributes.FileName:
			s.attributes[e.Path()] = e
		case modulesFile:
			if e.Path() == modulesFile {
				s.modules = e
			}
		case lfs.ConfigFile:
			if e.Path() == lfs.ConfigFile {
				s.lfsConfig = e
			}
		}
	}
	return s
}

func isFile(e *worktree.Entry) bool {
	return e.Mode == filemode.Regular || e.Mode == filemode.Executable
}

// content returns the content of a file in the repository, also if it is not in the directory.
func (c *checkout) content(e *worktree.Entry) ([]byte, error) {
	if o := c.find(e.ID); o != nil {
		return o.Content(nil)
	}
	return nil, nil // omitted by the filter
}

// convert converts the files as .gitattributes demand, and replaces Git LFS pointers.
func (c *checkout) convert(ctx context.Context, s survey) error {
	names := slices.Collect(maps.Keys(s.attributes))
	set, err := attributes.Load(names, func(name string) ([]byte, error) { return c.content(s.attributes[name]) })
	if err != nil {
		return err
	}
	if set.Converts() {
		for e := range c.tree.Entries() {
			if e.Skipped || !isFile(e) {
				continue
			}
			if a := set.For(e.Path()); a.Converts() {
				if err := c.convertFile(e, a); err != nil {
					return within(failure.Printable(e.Path()), err)
				}
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return c.fetchLFS(ctx, set, s)
}

func (c *checkout) convertFile(e *worktree.Entry, a attributes.Attributes) error {
	f, err := c.tree.Open(e)
	if err != nil {
		return err
	}
	defer f.Close()
	content, warning, err := attributes.Convert(f, a, e.ID)
	if warning != "" {
		c.log.Warn(fmt.Sprintf("%s: %s: %s", c.Dir, failure.Printable(e.Path()), warning))
	}
	if err != nil || content == nil {
		return err
	}
	return c.tree.Replace(e, -1, content)
}
