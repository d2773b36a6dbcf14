package stage

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// overwrite is a file that is written in place.
type overwrite struct {
	*change
	file *os.File
	from io.ReadCloser // the new content
}

// openInPlace opens the files that will be overwritten, so that opening fails before any file is changed.
func (c *commit) openInPlace() error {
	for _, ch := range c.changes {
		if !ch.InPlace {
			continue
		}
		if err := c.openOne(ch); err != nil {
			return c.failed(ch, err)
		}
	}
	return nil
}

// openOne sets mode and owner, before the file holds anything secret, and reserves room.
func (c *commit) openOne(ch *change) error {
	ch.InPlace = true
	dir, err := openDir(c.root, path.Dir(ch.Name))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dirfd.Open(dir, path.Base(ch.Name), unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	o := &overwrite{change: ch, file: f}
	c.overwrites = append(c.overwrites, o) // for close
	old, err := dirfd.Inspect(f, "")
	if err != nil {
		return err
	}
	if old.Kind() != unix.S_IFREG {
		return errors.New("it exists and is not a regular file")
	}
	if !ch.attr.isOf(old) {
		c.undo = append(c.undo, func() { c.restore(ch, attrOf(old)) })
		if err := ch.attr.set(dirfd.FD(f.Fd())); err != nil {
			return err
		}
	}
	content := ch.content
	if ch.area != nil {
		content = ch.area.content(ch.staged)
	}
	var size int64
	if o.from, size, err = content(); err != nil {
		return err
	}
	ch.Size = size
	if err := dirfd.Reserve(f, size); err != nil {
		f.Truncate(old.Size) // part of the room may have been reserved
		return err
	}
	return nil
}

// restore restores the mode and owner of a file.
func (c *commit) restore(ch *change, a Attr) {
	within(c.root, path.Dir(ch.Name), func(dir *os.File) error {
		f, err := dirfd.OpenFD(dir, path.Base(ch.Name), unix.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(a.set(f), f.Close())
	})
}

// overwrite writes the files that cannot be replaced.
func (c *commit) overwrite() error {
	for _, o := range c.overwrites {
		c.begun = true
		if err := dirfd.Overwrite(dirfd.FD(o.file.Fd()), o.from, 0); err != nil {
			return c.failed(o.change, err)
		}
		c.done = append(c.done, o.Change)
	}
	return nil
}
