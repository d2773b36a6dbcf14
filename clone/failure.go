package clone

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/clone/pack"
	"initbox/clone/publish"
	"initbox/clone/remote"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// check returns an error if the options are wrong.
func (c *cloning) check() error {
	switch {
	case c.Dir == "":
		return errors.New("no directory to clone into")
	case c.Depth < 0:
		return fmt.Errorf("the depth must be 0 or more commits, got %d", c.Depth)
	case c.Filter != "" && !IsFilter(c.Filter):
		return fmt.Errorf("the filter must be blob:none, blob:limit=SIZE or tree:0, got %q", c.Filter)
	case c.Subdir != "" && (path.IsAbs(c.Subdir) || path.Clean(c.Subdir) == ".." || strings.HasPrefix(path.Clean(c.Subdir), "../")):
		return fmt.Errorf("the directory %q is not inside the repository", c.Subdir)
	case c.Subdir != "" && c.GitDir != GitRemove:
		return errors.New("a clone of a directory of the repository cannot have a .git")
	case c.Link != "" && !IsLink(c.Link):
		return fmt.Errorf("the link must have a file name, got %q", c.Link)
	}
	return nil
}

// IsLink returns whether a text can be [Options.Link]: a name, or a path that ends in one.
func IsLink(text string) bool {
	return !slices.Contains([]string{"", ".", "..", ".git", ".worktrees"}, text[strings.LastIndexByte(text, '/')+1:])
}

// Filters of git.
const (
	noBlobs   = "blob:none"
	smallOnly = "blob:limit="
	noTrees   = "tree:0"
)

// IsFilter returns whether a text can be [Options.Filter].
//
// https://git-scm.com/docs/git-rev-list#Documentation/git-rev-list.txt---filterfilter-spec
func IsFilter(text string) bool {
	limit, limited := strings.CutPrefix(text, smallOnly)
	if !limited {
		return text == noBlobs || text == noTrees
	}
	_, err := strconv.ParseUint(strings.TrimRight(limit, "kmg"), 10, 32)
	return err == nil && len(limit)-len(strings.TrimRight(limit, "kmg")) <= 1
}

// costlyPause is how long to wait before the next attempt if the disk is full, or if the server sent a damaged pack:
// each attempt may transfer the whole repository.
var costlyPause = 5 * time.Second

// costly delays the next attempt if it would receive as much as this one, and fail in the same way.
func costly(received int64, err error) error {
	if received > 0 && failure.Of(err).Class == failure.Unexpected {
		return poll.After(costlyPause, err)
	}
	return err
}

// lasting marks errors as permanent that another attempt cannot fix.
func (c *cloning) lasting(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, remote.ErrMoved) && !poll.IsPermanent(err) {
		return err
	}
	err = c.full(err)
	f := failure.Of(err)
	switch f.Class {
	case failure.Authentication, failure.NoRepository, failure.NoRevision, failure.HostKey, failure.TLS:
		if !c.retries(err, f.Class) {
			if !c.settled { // a sidecar tries again anyway
				err = howToWait(f, err)
			}
			return poll.Permanent(err)
		}
		if c.refused++; c.refused == c.MaxRefusals {
			return poll.Permanent(err)
		}
		again := &failure.Failure{Class: f.Class, Text: f.Text, Note: f.Note, Hint: f.Hint} // which is not permanent
		if c.RefusalPause > 0 {
			return poll.After(c.RefusalPause, again)
		}
		return again
	case failure.Local:
		return poll.Permanent(err)
	case failure.DiskFull:
		return poll.After(costlyPause, err)
	}
	return err
}

// retries returns whether the options ask for another attempt after an error of a class that is usually permanent.
func (c *cloning) retries(err error, class failure.Class) bool {
	var answer *httpclient.StatusError
	switch {
	case c.RetryAuth:
		return true
	case errors.As(err, &answer):
		return c.RetryStatus.Has(answer.Status)
	case class == failure.Authentication:
		return c.RetryStatus.Has(http.StatusUnauthorized) || c.RetryStatus.Has(http.StatusForbidden)
	}
	return c.RetryStatus.Has(http.StatusNotFound) && (class == failure.NoRepository || class == failure.NoRevision)
}

// howToWait adds to the hint of a permanent error how to wait until it heals.
func howToWait(f *failure.Failure, err error) error {
	if f.Class == failure.HostKey || f.Class == failure.TLS {
		return err
	}
	const hint = "if it will be set up later, wait for it with --retry-status 401,403,404"
	switch f.Err = err; {
	case strings.HasSuffix(f.Hint, "?"):
		return f.WithHint(f.Hint + " " + hint)
	case f.Hint != "":
		return f.WithHint(f.Hint + "; " + hint)
	}
	return f.WithHint(hint)
}

// within says which part of the repository an error is about, and keeps its class and hint.
func within(what string, err error) error {
	f := failure.Of(err)
	f.Text, f.Err = what+": "+f.Text, err
	return f
}

// full turns every error of a full disk into the same failure, whatever was being written.
func (c *cloning) full(err error) error {
	if !failure.NoSpace(err) || errors.Is(err, publish.ErrLink) {
		return err
	}
	what := failure.Of(err)
	f := failure.New(failure.DiskFull, "no space left for %s", c.Dir)
	f.Note, f.Hint, f.Err = what.Text, what.Hint, err
	if f.Hint == "" {
		f.Hint = "make the volume larger: it must hold the pack, the new files and the old files at the same time"
	}
	return f
}

// cutShort adds to the failure of a connection how much of the pack had been received.
func cutShort(err error, received int64) error {
	f := failure.Of(err)
	if f.Class != failure.Reset || received == 0 {
		return err
	}
	g := failure.New(failure.Reset, "%s, after %s of the pack", f.Text, words.Bytes(received))
	g.Err, g.Hint = err, "does the server, or a proxy in front of it, limit the duration or the size of answers? look at their settings and logs"
	return g
}

// stillReceiving returns the failure for a deadline that passed while a pack was being received.
func stillReceiving(p *pack.Progress) *failure.Failure {
	if p.Bytes.Load() == 0 {
		return failure.New(failure.TimedOut, "the server is still preparing the pack").WithHint("give it more time with --timeout")
	}
	return failure.New(failure.TimedOut, "still receiving: %d of %d objects, %s", p.Objects.Load(), p.Total.Load(), words.Bytes(p.Bytes.Load())).
		WithHint("give it more time with --timeout, or fetch less: --depth 1, --sparse with --filter blob:none")
}

// waiting says what an attempt does while Before runs.
func (c *cloning) waiting() string {
	return fmt.Sprintf("waiting for %s, which has to succeed before the tree is published", failure.Printable(c.Program))
}

// unfinished returns the failure of an attempt that had not ended, or nil if nothing more is known of it.
func (c *cloning) unfinished(err error) *failure.Failure {
	hung, ok := errors.AsType[*poll.Hung](err)
	switch p := c.arrives.Load(); {
	case !ok:
		return nil
	case p != nil:
		return stillReceiving(p)
	case c.Before != nil && hung.Doing == c.waiting():
		return failure.New(failure.TimedOut, "%s", hung.Doing).WithHint("see in the log what the program printed, or give it more time with --timeout")
	}
	return nil
}

// explain adds to an error what was being done, and the hint.
func (c *cloning) explain(err error) error {
	if err == nil {
		return nil
	}
	f := failure.Of(err)
	var ended *poll.Error
	if errors.As(err, &ended) && ended.Last != nil {
		f = cmp.Or(c.unfinished(ended.Last), failure.Of(ended.Last))
		err = &poll.Error{Attempts: ended.Attempts, Waited: ended.Waited, Cause: ended.Cause, Last: f}
	}
	return failure.WithHint(failure.About(c.url.String(), f, fmt.Errorf("cloning %s: %w", c.url, err)), f.Hint)
}
