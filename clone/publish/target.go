package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/dirlock"
	"initbox/internal/mounts"
)

// Target is a directory that only this run may replace while it holds the lock.
type Target struct {
	*place
	options Options
	log     *slog.Logger
	lock    *dirlock.Lock
	denied  error // why nothing can be written there; the directory may still be up to date
	stage   *Stage
	git     *Target // of GitDir; nil without it

	repository bool   // it is the GitDir of another one
	before     string // the worktree that the link pointed to, if it is kept

	noExchange bool     // for tests: as on NFS
	mounts     []string // names of the mount points directly in the directory: they stay
	deep       string   // path of a mount point further down, if any
}

// Open takes the lock of a directory, and waits for it until ctx ends. It removes what
// killed runs left behind. It also opens a read-only directory. Callers close the Target.
func Open(ctx context.Context, o Options) (*Target, error) { return openAs(ctx, o, false) }

// openAs is Open for a directory that is the GitDir of another one, or not.
func openAs(ctx context.Context, o Options, repository bool) (*Target, error) {
	const tries = 10
	for i := 1; ; i++ {
		p, err := find(o)
		var t *Target
		if err == nil {
			t, err = openPlace(ctx, o, p, repository)
		}
		if i == tries || !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
		// Another run, which has published nothing, has just removed the parent directories that it had created.
	}
}

// openPlace is Open for a place, which it closes if there is an error.
func openPlace(ctx context.Context, o Options, p *place, repository bool) (*Target, error) {
	t := &Target{place: p, options: o, log: o.Log, repository: repository}
	if !p.link() {
		t.mounts, t.deep = mounts.Below(mounts.All(), p.path)
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.lock = dirlock.New(p.base, p.prefix+lockSuffix)
	err := t.lock.Wait(ctx, func(busy error) {
		t.log.Info(fmt.Sprintf("%s: waiting: %v", o.Dir, busy))
	})
	switch {
	case isAny(err, unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOSPC, unix.EDQUOT):
		t.denied = explain("write beside "+o.Dir, err)
		if p.inside() {
			t.denied = explain("write to "+o.Dir, err)
		}
		t.settle() // a lease may be renewed nevertheless
	case err != nil:
		t.Close()
		return nil, explain("lock "+o.Dir, err)
	case t.lock.None():
		t.log.Warn(fmt.Sprintf("%s: the file system has no locks: nothing else may clone into this directory meanwhile", o.Dir))
		t.settle()
	default:
		t.settle()
		t.sweep(ctx)
	}
	if err = t.checkOurs(); err == nil && o.GitDir != "" {
		err = t.openGit(ctx)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Warned holds the last warnings of a run that opens a Target repeatedly, so that each is logged once.
type Warned struct{ last sync.Map }

// warn logs a warning about something, unless it is the last one; "" says that there is nothing to warn of.
func (t *Target) warn(about, text string) {
	if w := t.options.Warned; w != nil {
		if before, _ := w.last.Swap(about, text); before == text {
			return
		}
	}
	if text != "" {
		t.log.Warn(text)
	}
}

// openGit opens the directory that holds .git.
func (t *Target) openGit(ctx context.Context) error {
	o := Options{Dir: t.options.GitDir, Replace: t.options.Replace, Follow: t.options.Follow, Access: t.options.Access, NoSync: t.options.NoSync, Log: t.log}
	git := new(place)
	err := git.follow(o)
	git.close()
	if err != nil {
		return err
	}
	if strings.HasPrefix(t.path+"/", git.path+"/") || strings.HasPrefix(git.path+"/", t.path+"/") {
		return refuse("one of %s and %s is inside the other", t.options.Dir, o.Dir)
	}
	t.git, err = openAs(ctx, o, true)
	return err
}

// Current returns what the directory holds if a run has published it and nothing has changed since; otherwise nil.
func (t *Target) Current() *Marker {
	r, reason := t.current()
	if reason != "" {
		t.log.Info(fmt.Sprintf("%s: not as the last run left it, replacing it: %s", t.options.Dir, reason))
	}
	if r == nil {
		return nil
	}
	t.finished()
	return &r.Marker
}

// Earlier returns what the worktree of a commit holds, as Current does, if the link does not point to it: it is kept
// from earlier, or that of another link. [Target.Reuse] makes the link point to it.
func (t *Target) Earlier(sha string) *Marker {
	if !t.link() || t.git != nil || !isHash(sha) || t.linked() == sha {
		return nil
	}
	tree, err := openDir(t.base, sha)
	if err != nil {
		return nil
	}
	defer tree.Close()
	r, reason := t.inspect(tree, sha)
	if reason != "" {
		t.log.Info(fmt.Sprintf("%s: the earlier tree of %s is not as its run left it, replacing it: %s", t.options.Dir, sha, reason))
	}
	if r == nil {
		return nil
	}
	return &r.Marker
}

// current returns what the directory holds, or the reason why that is unknown. The reason
// is empty if the directory is empty or missing.
func (t *Target) current() (*record, string) {
	tree, hash, err := t.openTree()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ""
	}
	if err != nil {
		return nil, err.Error()
	}
	defer tree.Close()
	return t.inspect(tree, hash)
}

// inspect is current for a tree, in link mode the worktree of a commit.
func (t *Target) inspect(tree *os.File, hash string) (*record, string) {
	r, err := t.readMarker(tree, hash)
	if errors.Is(err, fs.ErrNotExist) {
		if all, err := names(tree); err == nil && !slices.ContainsFunc(all, func(name string) bool { return !t.keeps(name) }) {
			return nil, ""
		}
		return nil, "it has no marker of an earlier clone"
	}
	if err != nil {
		return nil, err.Error()
	}
	defer r.file.Close()
	if t.link() && r.SHA != hash {
		return nil, "its marker names another commit"
	}
	if t.options.Unchecked {
		return r, ""
	}
	reason, err := t.changed(r, tree)
	if err != nil {
		return nil, err.Error()
	}
	if reason != "" {
		return nil, reason
	}
	return r, ""
}

// sweep removes the stages of killed runs, until ctx ends. The lock is held, so no stage is in use.
func (t *Target) sweep(ctx context.Context) {
	all, err := names(t.base)
	if err != nil {
		return
	}
	for _, name := range all {
		if t.isStage(name) {
			t.discard(ctx, name)
		}
	}
	if t.link() {
		t.sweepWorktrees(ctx, "")
	}
}

// discard removes a stage or a worktree from the base directory. What is left when ctx ends is left to the next run.
func (t *Target) discard(ctx context.Context, name string) {
	if err := dirfd.RemoveAll(ctx, t.base, name); err != nil && ctx.Err() == nil {
		t.log.Warn(fmt.Sprintf("cannot remove %s/%s, which is no longer needed: %v; the next run tries again", strings.TrimSuffix(t.base.Name(), "/"), name, err))
	}
}

// drop removes the stage, with the old files that were moved into it.
func (t *Target) drop(ctx context.Context) {
	if t.stage != nil {
		t.stage.close()
		t.discard(ctx, t.stage.name)
		t.stage = nil
	}
}

// maxRemoval is how long Close may remove an unfinished tree: its caller is about to end.
const maxRemoval = time.Second

// Close removes what was staged but not published, for at most a second, and releases the lock. The next Open removes
// the rest, whose name it recognises.
func (t *Target) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), maxRemoval)
	defer cancel()
	t.drop(ctx)
	if t.git != nil {
		t.git.Close()
	}
	t.lock.Release()
	return t.place.close()
}
