package copy

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/internal/stage"
)

// openVersion opens a target that is a link to a directory, which is replaced as a whole.
func (t *target) openVersion(base string) (err error) {
	if base != "" {
		return failure.WithHint(errors.New("the destination is a file, and --atomic-dir makes it a link to a directory"), "put a slash at its end")
	}
	if t.version, err = stage.OpenVersion(t.path, stage.Options{DryRun: t.DryRun, Follow: t.Follow}); err != nil {
		return perm.Failed("open", perm.Write, t.path, err)
	}
	t.top = &directory{t: t, path: ".", dst: -1, new: -1, fresh: true}
	return nil
}

// put stages a file or a link for the new directory.
func (c *copying) put() error {
	if c.stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		to, err := dirfd.Readlink(c.dir, c.name)
		if err != nil {
			return c.unread(err)
		}
		change, err := c.version.PutLink(c.path, to)
		if change.Kind == stage.Unchanged {
			c.same.Add(1)
		}
		return err
	}
	change, err := c.version.PutFrom(c.path, c.reopen, stage.Attr{Mode: fs.FileMode(c.want.mode & 0o777), UID: c.want.UID, GID: c.want.GID})
	switch {
	case err != nil:
	case change.Kind == stage.Unchanged:
		c.same.Add(1)
	default:
		c.bytes.Add(c.stat.Size)
	}
	return err
}

// reopen opens the source as a [stage.Content].
func (c *copying) reopen() (io.ReadCloser, int64, error) {
	src, err := c.open()
	if err != nil {
		return nil, 0, c.unread(err)
	}
	content, size, err := c.content(src)
	if err != nil {
		src.Close()
		return nil, 0, err
	}
	content.closes = append(content.closes, func() { src.Close() })
	return content, size, nil
}

// commitVersion switches the link to the new directory.
func (t *target) commitVersion() error {
	finish := t.version.Commit
	if t.DryRun {
		finish = t.version.Plan
	}
	changes, err := finish()
	count := map[stage.Kind]int64{}
	for _, c := range changes {
		count[c.Kind]++
	}
	t.created.Store(count[stage.Created])
	t.changed.Store(count[stage.Changed])
	t.removed = int(count[stage.Removed])
	return t.unwritten(".", err)
}
