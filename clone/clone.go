// Package clone puts one revision of a Git repository into a directory: the files of the commit, whatever was there
// before. Readers see either the whole old tree or the whole new one.
//
//	result, err := clone.Run(ctx, clone.Options{
//		URL:    "https://git.example.com/team/app.git",
//		Dir:    "/data/app",
//		Ref:    "v1.2.0",
//		Depth:  1,
//		Access: access.Access{Umask: 0o022},
//	})
//
// [Run] retries until its context ends; [All] runs several clones at once; a [Watcher] keeps a clone up to date. They
// put the packages below together: remote talks to the server, pack reads what it sends, worktree writes the files
// while it arrives, gitdir writes .git, and publish puts all of it in place.
//
// In clone.go, once makes one attempt: it locks Dir, finds out whether Dir is right already (upToDate, with
// publish/target.go), resolves Ref on the server (revision.go), makes the tree beside Dir (checkout.go), and replaces
// Dir with it.
package clone

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"initbox/clone/access"
	"initbox/clone/gitdir"
	"initbox/clone/pack"
	"initbox/clone/publish"
	"initbox/clone/remote"
	"initbox/clone/worktree"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/readfile"
	"initbox/internal/words"
)

// Run makes Dir the tree of the revision, unless it is that already. It retries until ctx ends unless retrying cannot
// help; if ctx ends, the error wraps a [*poll.Error].
func Run(ctx context.Context, o Options) (Result, error) {
	c, err := newCloning(o)
	if err != nil {
		return Result{}, err
	}
	return c.run(ctx)
}

// cloning is a clone to make, once or repeatedly.
type cloning struct {
	Options
	url      *remote.URL
	sparse   *worktree.Sparse
	arrives  *atomic.Pointer[pack.Progress] // of the current pack, which may be that of a submodule; nil for none
	received *atomic.Int64                  // bytes, by all attempts
	warned   *publish.Warned
	digest   string // of the options that affect the tree, see shape
	refused  int    // attempts, see MaxRefusals
	watched  bool   // by a Watcher: more clones follow
	settled  bool   // the first one is done: no change is no longer worth a log line
	log      *slog.Logger
}

func newCloning(o Options) (*cloning, error) {
	c := &cloning{Options: o, log: o.Log, arrives: new(atomic.Pointer[pack.Progress]), received: new(atomic.Int64), warned: new(publish.Warned)}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	var err error
	if c.url, err = remote.ParseURL(o.URL, o.Remote.Getenv); err != nil {
		return nil, err
	}
	c.log = c.log.With(failure.Fields(c.url.String(), 0, nil))
	c.Remote.Log = c.log
	if len(o.Sparse) > 0 {
		if c.sparse, err = c.sparseTree(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cloning) sparseTree() (*worktree.Sparse, error) {
	if c.Patterns {
		return worktree.Patterns(c.Sparse)
	}
	return worktree.Cone(c.Sparse)
}

// shape returns a digest of the options that affect the tree of a commit.
func (c *cloning) shape() (string, error) {
	shape := struct {
		Depth                  int
		SingleBranch           bool
		Submodules             Submodules
		Sparse                 []string
		Patterns               bool
		Filter, GitDir, Subdir string
		LFS                    bool
		Access                 access.Access
		Keys                   []string
		NoEscape               bool
	}{c.Depth, c.SingleBranch, c.Submodules, c.Sparse, c.Patterns, c.Filter, c.GitDir, c.Subdir, c.LFS, c.Access, nil, c.RejectEscapingSymlinks}
	for _, name := range c.Keys {
		content, err := readfile.All(name)
		if err != nil {
			return "", failure.New(failure.Missing, "read the trusted signing keys: %v", err).
				WithHint("is the Secret or ConfigMap mounted, and may this user read it?")
		}
		shape.Keys = append(shape.Keys, string(content))
	}
	text, err := json.Marshal(shape)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// run implements Run.
func (c *cloning) run(ctx context.Context) (Result, error) {
	report := &report{place: c.Dir, log: c.log, start: time.Now()}
	attempts, stop := beforeEnd(ctx)
	defer stop()
	go poll.Every(attempts, summaryEvery, report.summarise)
	policy := poll.Policy{Seed: c.Seed, Notify: report.attempt}
	last := &attempt{cloning: c}
	err := poll.Until(attempts, policy, last.make)
	var ended *poll.Error
	if errors.As(err, &ended) {
		if last.finish(ctx) {
			return last.result, nil
		}
		<-ctx.Done()
		ended.Cause, ended.Waited = context.Cause(ctx), time.Since(report.start)
	}
	if err != nil {
		return Result{}, c.explain(err)
	}
	return last.result, nil
}

// beforeEnd returns the context of the attempts: it ends a little before the deadline of ctx, so that the last attempt
// can clean up in time.
func beforeEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	return context.WithTimeout(ctx, left-min(maxCleanup, left/10))
}

// attempt makes attempts, one at a time.
type attempt struct {
	*cloning
	busy    sync.Mutex // held as long as it lasts
	success bool
	result  Result
}

func (a *attempt) make(ctx context.Context) (err error) {
	a.busy.Lock()
	defer a.busy.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.result, err = a.once(ctx)
	a.success = err == nil
	return a.lasting(err)
}

// How long an attempt that is stopped may clean up. The next run removes what is left.
const (
	maxCleanup  = time.Second           // before the deadline; less of a short one
	graceOfStop = 50 * time.Millisecond // after a signal: the caller waits for the end
)

// finish waits for an attempt that was stopped, until the deadline of ctx or for a moment after a signal. It returns
// whether the attempt was successful after all: once the tree is replaced, only the old one is removed.
func (a *attempt) finish(ctx context.Context) bool {
	a.wait(ctx)
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		grace, cancel := context.WithTimeout(context.Background(), graceOfStop)
		defer cancel()
		a.wait(grace)
	}
	if !a.busy.TryLock() {
		return false
	}
	defer a.busy.Unlock()
	return a.success
}

// wait waits until no attempt is running, or ctx ends.
func (a *attempt) wait(ctx context.Context) {
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		a.busy.Lock()
		cancel()
		a.busy.Unlock()
	}()
	<-over.Done()
}

// once makes one attempt to make DIR the tree of the revision, unless it is that already.
func (c *cloning) once(ctx context.Context) (Result, error) {
	var err error
	if c.digest, err = c.shape(); err != nil {
		return Result{}, err
	}
	c.Remote = c.Remote.ForRun()
	target, err := publish.Open(ctx, c.target())
	if err != nil {
		return Result{}, err
	}
	defer target.Close()
	result, err := c.update(ctx, target)
	return result, target.Named(err)
}

// update makes the target the tree of the revision, unless it is that already.
func (c *cloning) update(ctx context.Context, target *publish.Target) (Result, error) {
	start := time.Now()
	stage := sync.OnceValues(target.Stage)
	if id, ok := pinned(c.Ref); ok {
		if result, there, err := c.there(ctx, target, revision{commit: id}, stage); there {
			return result, err
		}
	}
	repo, err := remote.Open(ctx, c.url, c.Remote)
	if err != nil {
		return Result{}, err
	}
	defer repo.Close()
	rev, err := resolve(ctx, repo, c.Ref, stage)
	if err != nil {
		return Result{}, err
	}
	if result, there, err := c.there(ctx, target, rev, stage); there {
		return result, err
	}
	made, err := c.checkOut(ctx, repo, rev, stage)
	c.received.Add(made.bytes)
	if err != nil {
		return Result{}, costly(made.bytes, err)
	}
	c.arrives.Store(nil) // what takes long from here on is something else
	result := made.result()
	result.Seconds = time.Since(start).Seconds()
	if err := c.publish(ctx, target, made, result); err != nil {
		return Result{}, err
	}
	if rev.commit.IsZero() {
		c.log.Warn(fmt.Sprintf("%s: the repository is empty, so the directory is empty, too", c.Dir))
	}
	c.log.Info(fmt.Sprintf("%s: %s, %s, %s received, in %v", c.Dir, made.rev, words.Plural(made.files, "file"), words.Bytes(made.bytes), time.Since(start).Round(time.Millisecond)),
		failure.Seconds(time.Since(start)))
	return result, nil
}

func (c *cloning) gitElsewhere() bool {
	return c.GitDir != "" && c.GitDir != GitKeep && c.GitDir != GitRemove
}

// there returns whether a tree of the commit is in place, because it was, or is now because it is that of an earlier
// run. The link then points to it again, and the server has nothing to do, nor has Program. It refuses to replace a
// tree with other options to which another link leads, rather than take it from those who read it.
func (c *cloning) there(ctx context.Context, target *publish.Target, rev revision, stage func() (*publish.Stage, error)) (Result, bool, error) {
	sha := rev.sha()
	current := target.Current()
	if result, ok := c.upToDate(current, rev); ok {
		level := slog.LevelInfo
		if c.settled {
			level = slog.LevelDebug
		}
		c.log.Log(ctx, level, fmt.Sprintf("%s: %s is already there%s", c.Dir, sha, c.origin(current)))
		return result, true, nil
	}
	earlier := target.Earlier(sha)
	result, ok := c.upToDate(earlier, rev)
	if !ok || earlier.Program != c.Program {
		err := target.CheckUnused(sha)
		return Result{}, err != nil, err
	}
	s, err := stage()
	if err == nil {
		err = target.Reuse(ctx, s, sha)
	}
	if err != nil {
		return Result{}, true, err
	}
	c.log.Info(fmt.Sprintf("%s: %s, whose tree was already there%s", c.Dir, sha, c.origin(earlier)))
	result.Changed, result.Bytes, result.Seconds = true, 0, 0
	return result, true, nil
}

// upToDate finds out whether a tree is right already: still as its run left it (publish/target.go, seal.go), of this
// commit and made with the same options. If so, it returns the result of that run.
func (c *cloning) upToDate(m *publish.Marker, rev revision) (Result, bool) {
	if m == nil || m.SHA != rev.sha() || m.Options != c.digest || !c.shares() && !c.made(m) {
		return Result{}, false
	}
	var result Result
	if json.Unmarshal(m.Result, &result) != nil {
		return Result{}, false
	}
	result.URL, result.Ref, result.Changed = c.url.String(), rev.name(), false
	return result, true
}

// shares returns whether a tree is right whatever URL and Ref it was made with, since it may be that of other runs with
// links: the files depend on the commit alone. A signature may be that of a tag; and a .git elsewhere is this run's
// own.
func (c *cloning) shares() bool { return c.Link != "" && len(c.Keys) == 0 && !c.gitElsewhere() }

// made returns whether a run with the same URL and Ref made the tree.
func (c *cloning) made(m *publish.Marker) bool { return m.URL == c.url.String() && m.Ref == c.Ref }

// origin says where a tree is from that a run with another URL or Ref has made.
func (c *cloning) origin(m *publish.Marker) string {
	if c.made(m) {
		return ""
	}
	return fmt.Sprintf(", cloned from %s as %s", failure.Printable(m.URL), failure.Printable(cmp.Or(m.Ref, "HEAD")))
}

// checkOut makes the new tree beside the old one. With an error it also returns the checkout as far as it got.
func (c *cloning) checkOut(ctx context.Context, repo remote.Repository, rev revision, stage func() (*publish.Stage, error)) (*checkout, error) {
	made := &checkout{cloning: c, url: c.url, repo: repo, rev: rev}
	s, err := stage()
	if err != nil {
		return made, err
	}
	made.stage, made.directory = s, s.Tree
	switch {
	case c.gitElsewhere():
		made.git = s.Git
	case c.GitDir != GitRemove:
		made.git = filepath.Join(s.Tree, ".git")
		if err := gitdir.Directory(s.Tree, ".git", c.Access); err != nil {
			return made, err
		}
	}
	return made, made.run(ctx)
}

// publish replaces the old tree by the new one.
func (c *cloning) publish(ctx context.Context, target *publish.Target, made *checkout, result Result) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	marker := publish.Marker{URL: c.url.String(), Ref: c.Ref, SHA: made.rev.sha(), Options: c.digest, Content: made.sum.String(), Result: text}
	if c.Before != nil {
		poll.Doing(ctx, c.waiting())
		if err := c.Before(ctx, made.directory, result.SHA); err != nil {
			return err
		}
		marker.Content, marker.Program = "", c.Program // the files may be others
	}
	return target.Publish(ctx, made.stage, marker)
}

func (c *cloning) target() publish.Options {
	o := publish.Options{Dir: c.Dir, Replace: c.Replace, Follow: c.Follow, Link: c.Link, Keep: c.watched, KeepOld: c.KeepOld, Lease: c.LinkLease, Unchecked: c.Unchecked, Access: c.Access, Log: c.log, Warned: c.warned}
	if c.gitElsewhere() {
		o.GitDir = c.GitDir
	}
	return o
}
