package clone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/clone/pack"
	"initbox/clone/remote"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// fetch receives the objects, and writes the files as they arrive. With a filter it fetches twice, or three times: the
// trees must be known before the wanted files are.
func (c *checkout) fetch(ctx context.Context) error {
	request := remote.Request{Wants: []plumbing.Hash{c.rev.want()}, Depth: c.Depth}
	if c.rev.ref.Name != "" {
		c.refs = []remote.Ref{c.rev.asHead, c.rev.ref}
	}
	if c.Filter != "" && c.name == "" {
		if c.repo.Capable(remote.Filter) && c.repo.Capable(remote.AnyID) {
			request.Filter, c.filter = c.Filter, c.Filter
		} else {
			c.log.Warn(fmt.Sprintf("%s: the server does not support filters: fetching all files", c.Dir))
		}
	}
	history := c.Depth == 0 && c.name == ""
	if request.Tags = history && c.SingleBranch; history && !c.SingleBranch {
		if err := c.wantAll(ctx, &request); err != nil {
			return err
		}
	}
	if err := c.receive(ctx, request); err != nil {
		return err
	}
	if request.Tags {
		if err := c.followTags(ctx); err != nil {
			return err
		}
	}
	switch {
	case c.commit != nil:
	case c.find(c.rev.commit) == nil:
		return failure.New(failure.Unexpected, "the server omitted %s", c.rev)
	default:
		return poll.Permanent(failure.New(failure.NoRevision, "%s is not a commit", c.rev.name()))
	}
	return c.fetchOmitted(ctx)
}

// fetchOmitted fetches what the filter has omitted and the files need: with trees omitted, and files that are not
// wanted, the trees first.
func (c *checkout) fetchOmitted(ctx context.Context) error {
	if c.filter == "" {
		return nil
	}
	if missing := c.tree.Missing(); len(missing) > 0 && c.filter == noTrees && c.sparse != nil {
		if err := c.receive(ctx, remote.Request{Wants: missing, Filter: noBlobs}); err != nil {
			return err
		}
	}
	if missing := c.tree.Missing(); len(missing) > 0 {
		return c.receive(ctx, remote.Request{Wants: missing})
	}
	return nil
}

// wantAll requests all branches and tags, like git clone.
func (c *checkout) wantAll(ctx context.Context, request *remote.Request) error {
	refs, err := c.repo.Refs(ctx, "HEAD", "refs/heads/", "refs/tags/")
	if err != nil {
		return err
	}
	request.Wants = wants(refs, request.Wants...)
	for _, r := range refs {
		if _, there := find(c.refs, r.Name); !there {
			c.refs = append(c.refs, r)
		}
	}
	return nil
}

// followTags records the tags that are in the history of a single branch.
func (c *checkout) followTags(ctx context.Context) error {
	tags, err := c.repo.Refs(ctx, "refs/tags/")
	if err != nil {
		return err
	}
	for _, tag := range tags {
		if c.find(tag.ID) != nil && strings.HasPrefix(tag.Name, "refs/tags/") {
			c.refs = append(c.refs, tag)
		}
	}
	return nil
}

// find returns the object with that ID, or nil.
func (c *checkout) find(id plumbing.Hash) *pack.Object {
	for _, p := range c.packs {
		if o := p.Find(id); o != nil {
			return o
		}
	}
	return nil
}

// receive reads one pack.
func (c *checkout) receive(ctx context.Context, request remote.Request) error {
	answer, err := c.repo.Fetch(ctx, request)
	if errors.Is(err, remote.ErrNotAdvertised) {
		if answer, err = c.fetchEverything(ctx, err); err != nil {
			return err
		}
	}
	if errors.Is(err, remote.ErrMoved) && c.rev.ref.Name == "" {
		return poll.Permanent(err) // an ID never moves
	}
	if err != nil {
		return err
	}
	defer answer.Pack.Close()
	c.shallow = append(c.shallow, answer.Shallow...)
	spool, err := c.spool()
	if err != nil {
		return err
	}
	c.spools = append(c.spools, spool) // objects of one pack may be needed while the next is read
	progress := new(pack.Progress)
	c.arrives.Store(progress)
	following, stop := context.WithCancel(ctx)
	defer stop()
	go c.follow(following, progress)
	p, err := pack.Read(ctx, answer.Pack, pack.Options{Spool: spool, Sink: c, Temp: c.stage.Temp, Progress: progress})
	c.bytes += progress.Bytes.Load()
	if err != nil {
		return cutShort(err, progress.Bytes.Load())
	}
	c.packs = append(c.packs, p)
	if c.git == "" {
		return nil
	}
	return c.keepPack(p, spool)
}

// fetchEverything fetches the history of all branches and tags, to find a commit that no reference points to, from a
// server that serves only references.
func (c *checkout) fetchEverything(ctx context.Context, refusal error) (*remote.Answer, error) {
	refs, err := c.repo.Refs(ctx, "refs/heads/", "refs/tags/")
	if err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		return nil, refusal
	}
	c.log.Warn(fmt.Sprintf("%s: the server does not serve commits by id: fetching all history", c.Dir))
	return c.repo.Fetch(ctx, remote.Request{Wants: wants(refs)})
}

// Add implements [pack.Sink]: it looks for the commit.
func (c *checkout) Add(worker int, o *pack.Object, content pack.Content) error {
	if o.Kind == plumbing.TagObject || o.ID == c.rev.commit {
		c.keep(o, content)
	}
	if o.ID == c.rev.commit && o.Kind == plumbing.CommitObject {
		commit, err := object.ParseCommit(content.Bytes)
		if err != nil {
			return poll.Permanent(fmt.Errorf("%s: %w", o.ID, err))
		}
		c.mu.Lock()
		again := c.commit != nil // a pack may hold the same object twice
		c.commit = commit
		c.mu.Unlock()
		if again {
			return nil
		}
		return c.tree.Root(commit.Tree)
	}
	return c.tree.Add(worker, o, content)
}

// maxSigned limits how much of the tags of a repository is kept, in bytes.
const maxSigned = 16 << 20

// keep keeps objects that may be signed.
func (c *checkout) keep(o *pack.Object, content pack.Content) {
	if len(c.Keys) == 0 || c.name != "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.signed == nil {
		c.signed = make(map[plumbing.Hash][]byte)
	}
	if c.room += len(content.Bytes); c.room <= maxSigned || o.ID == c.rev.commit || o.ID == c.rev.ref.ID {
		c.signed[o.ID] = bytes.Clone(content.Bytes)
	}
}

// Base implements [pack.Sink].
func (c *checkout) Base(o *pack.Object, buf []byte) ([]byte, bool) { return c.tree.Base(o, buf) }

// follow logs the progress of a pack, until ctx ends.
func (c *checkout) follow(ctx context.Context, p *pack.Progress) {
	every := progressEvery
	if c.Terminal {
		every = watchedEvery
	}
	start, before := time.Now(), int64(0)
	poll.Every(ctx, every, func() {
		received := p.Bytes.Load()
		rate := float64(received-before) / every.Seconds()
		before = received
		c.log.Info(fmt.Sprintf("%s: %d of %d objects, %s, %s/s, for %v", filepath.Join(c.Dir, c.name), p.Objects.Load(), p.Total.Load(),
			words.Bytes(received), words.Bytes(int64(rate)), time.Since(start).Round(time.Second)), failure.Seconds(time.Since(start)))
	})
}
