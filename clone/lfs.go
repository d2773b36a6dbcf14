package clone

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"initbox/clone/attributes"
	"initbox/clone/lfs"
	"initbox/clone/remote"
	"initbox/clone/worktree"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// fetchLFS replaces Git LFS pointers by the files that they point to.
func (c *checkout) fetchLFS(ctx context.Context, set *attributes.Set, s survey) error {
	if !c.LFS || !set.LFS() {
		return nil
	}
	var config []byte
	if s.lfsConfig != nil {
		var err error
		if config, err = c.content(s.lfsConfig); err != nil {
			return err
		}
	}
	pointers, files, err := c.pointers(set, config)
	if err != nil || len(pointers) == 0 {
		return err
	}
	store, err := remote.StoreOf(c.url, c.Remote)
	if err != nil {
		return err
	}
	var received atomic.Int64
	client := &lfs.Client{
		Remote: store.URL, Directory: store.Directory, HTTP: store.HTTP, Authorize: store.Authorize, Authenticate: store.Authenticate,
		Config: config, Ref: c.rev.ref.Name, Received: &received,
		AttemptTimeout: c.Remote.Stall, Seed: c.Seed, Temp: c.stage.Temp, Log: c.log,
	}
	err = client.Fetch(ctx, pointers, func(p lfs.Pointer, content io.Reader) error {
		return c.tree.Replace(files[p.Path], p.Size, content)
	})
	c.bytes += received.Load()
	if err != nil {
		return fmt.Errorf("git lfs: %w", err)
	}
	c.log.Info(fmt.Sprintf("%s: %d Git LFS files, %s received", filepath.Join(c.Dir, c.name), len(pointers), words.Bytes(received.Load())))
	return nil
}

// pointers returns the pointers to replace, and the files that contain them, by path.
func (c *checkout) pointers(set *attributes.Set, config []byte) ([]lfs.Pointer, map[string]*worktree.Entry, error) {
	filter, err := lfs.ReadFilter(config)
	if err != nil {
		return nil, nil, err
	}
	var pointers []lfs.Pointer
	files := make(map[string]*worktree.Entry)
	var size int64
	for e := range c.tree.Entries() {
		if e.Skipped || !isFile(e) {
			continue
		}
		name := e.Path()
		if !set.For(name).LFS || !filter.Wants(name) {
			continue
		}
		blob := c.find(e.ID)
		if blob == nil || blob.Size >= lfs.MaxPointer {
			continue
		}
		content, err := blob.Content(nil)
		if err != nil {
			return nil, nil, err
		}
		p, ok := lfs.Parse(content)
		if !ok {
			continue
		}
		p.Path = name
		pointers, files[name] = append(pointers, p), e
		if size += p.Size; c.MaxSize > 0 && size > c.MaxSize {
			f := failure.New(failure.Unexpected, "the Git LFS files have more than %s in all", words.Bytes(c.MaxSize))
			f.Hint = "allow more with --max-size, or exclude some with lfs.fetchexclude in .lfsconfig"
			return nil, nil, poll.Permanent(f)
		}
	}
	return pointers, files, nil
}
