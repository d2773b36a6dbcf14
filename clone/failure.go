package clone

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"initbox/clone/pack"
	"initbox/clone/remote"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

// check finds what is wrong with the options.
func (c *cloning) check() error {
	switch {
	case c.Dir == "":
		return errors.New("no folder to clone to")
	case c.Depth < 0:
		return fmt.Errorf("the depth must be 0 or more commits, got %d", c.Depth)
	case c.Filter != "" && c.Filter != "blob:none":
		return fmt.Errorf("the filter must be blob:none, got %q", c.Filter)
	case c.Subdir != "" && (path.IsAbs(c.Subdir) || path.Clean(c.Subdir) == ".." || strings.HasPrefix(path.Clean(c.Subdir), "../")):
		return fmt.Errorf("the folder %q is not one in the repository", c.Subdir)
	case c.Subdir != "" && c.GitDir != GitRemove:
		return errors.New("a folder of the repository alone has no .git that would fit it")
	case strings.ContainsRune(c.Link, '/') || c.Link == "." || c.Link == ".." || c.Link == ".git" || c.Link == ".worktrees":
		return fmt.Errorf("the link's name must be that of a file in the folder, got %q", c.Link)
	}
	return nil
}

// costlyPause is how long to wait for room on a disk that is full, and for a server to
// send what makes sense, if each attempt moves the whole repository.
var costlyPause = 5 * time.Second

// costly puts off an attempt that would receive as much as this one did, and fail as
// it did.
func costly(received int64, err error) error {
	if received > 0 && failure.Of(err).Class == failure.Unexpected {
		return poll.After(costlyPause, err)
	}
	return err
}

// lasting marks what another attempt cannot mend.
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
		if !c.RetryAuth {
			return poll.Permanent(err)
		}
		return &failure.Failure{Class: f.Class, Text: f.Text, Note: f.Note, Hint: f.Hint} // without the mark that it may have
	case failure.Local:
		return poll.Permanent(err)
	case failure.DiskFull:
		return poll.After(costlyPause, err)
	}
	return err
}

// within says what of the repository an error is about, and keeps its class and hint.
func within(what string, err error) error {
	f := failure.Of(err)
	f.Text, f.Err = what+": "+f.Text, err
	return f
}

// full makes one failure of all errors of a disk without room, whatever was to be
// written there.
func (c *cloning) full(err error) error {
	if !failure.NoSpace(err) {
		return err
	}
	what := failure.Of(err)
	f := failure.New(failure.DiskFull, "no space is left for %s", c.Dir)
	f.Note, f.Hint, f.Err = what.Text, what.Hint, err
	if f.Hint == "" {
		f.Hint = "make the volume larger: it has to hold what is packed, the files, and what they were before"
	}
	return f
}

// cutShort is the failure of a connection that ended when so much of a pack had come.
func cutShort(err error, received int64) error {
	f := failure.Of(err)
	if f.Class != failure.Reset || received == 0 {
		return err
	}
	g := failure.New(failure.Reset, "%s, after %s of the pack", f.Text, bytesText(received))
	g.Err, g.Hint = err, "does the server, or a proxy before it, end long answers? look at their limits and logs"
	return g
}

// stillReceiving is the failure of an end of the time that came while a pack did.
func stillReceiving(p *pack.Progress) *failure.Failure {
	if p.Bytes.Load() == 0 {
		f := failure.New(failure.TimedOut, "the server is still making the pack")
		f.Hint = "give it more time with --timeout"
		return f
	}
	f := failure.New(failure.TimedOut, "still receiving: %d of %d objects, %s", p.Objects.Load(), p.Total.Load(), bytesText(p.Bytes.Load()))
	f.Hint = "give it more time with --timeout, or fetch less: --depth 1, --sparse with --filter blob:none"
	return f
}

// explain says what was being done, and why it failed.
func (c *cloning) explain(err error) error {
	if err == nil {
		return nil
	}
	f := failure.Of(err)
	var ended *poll.Error
	if errors.As(err, &ended) && ended.Last != nil {
		f = failure.Of(ended.Last)
		if p := c.arrives.Load(); p != nil && errors.As(ended.Last, new(*poll.Hung)) {
			f = stillReceiving(p)
		}
		last := &poll.Error{Attempts: ended.Attempts, Waited: ended.Waited, Cause: ended.Cause, Last: f}
		return failure.WithHint(fmt.Errorf("cloning %s: %w", c.url, last), f.Hint)
	}
	return failure.WithHint(fmt.Errorf("cloning %s: %w", c.url, err), f.Hint)
}
