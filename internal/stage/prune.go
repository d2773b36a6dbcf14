package stage

import (
	"errors"
	"io/fs"
	"os"
	"slices"
)

type list struct {
	was  []string // the names in the file
	want []string // the names that were Put
}

// listed returns the names in the list, and which of these files were not Put.
func (s *Stage) listed() (list, stale []string, err error) {
	if !s.options.Prune || s.old == nil {
		return nil, nil, nil
	}
	err = within(s.old, ".", func(dir *os.File) (err error) {
		list, err = ReadList(dir)
		stale = Stale(dir, list, func(name string) bool { return s.names[name] })
		return err
	})
	if err != nil {
		err = &fs.PathError{Op: "read", Path: s.shown(ListName), Err: bare(err)}
	}
	return list, stale, err
}

// compareLists finds out whether any file has to be changed or removed.
func (c *commit) compareLists() (err error) {
	if c.list.was, c.stale, err = c.listed(); err != nil {
		return err
	}
	for name, isFile := range c.names {
		if isFile && c.options.Prune {
			c.list.want = append(c.list.want, name)
		}
	}
	slices.Sort(c.list.want)
	if len(c.changes) == 0 && slices.Equal(c.list.was, c.list.want) {
		return errNothingToDo
	}
	return nil
}

// listAll writes the list of old and new names.
func (c *commit) listAll() error {
	c.undo = append(c.undo, func() { c.writeList(c.list.was) })
	return c.writeList(slices.Concat(c.list.was, c.list.want))
}

// prune removes the files that were not Put, and then the directories that have become empty. A
// file on which something is mounted stays, and stays listed.
func (c *commit) prune() error {
	if len(c.stale) == 0 {
		return nil
	}
	c.begun = true
	var removed, mounted []string
	err := within(c.root, ".", func(dir *os.File) (err error) {
		removed, mounted, err = RemoveStale(dir, c.stale)
		return err
	})
	for _, name := range removed {
		c.done = append(c.done, Change{Name: name, Kind: Removed})
	}
	c.list.want = append(c.list.want, mounted...)
	if p, isPath := errors.AsType[*fs.PathError](err); isPath {
		err = &fs.PathError{Op: p.Op, Path: c.shown(p.Path), Err: p.Err}
	}
	return err
}

// listExactly writes the list of the new names, last.
func (c *commit) listExactly() error { return c.writeList(c.list.want) }

// writeList writes the list of a stage that has one.
func (c *commit) writeList(names []string) error {
	if !c.options.Prune {
		return nil
	}
	err := within(c.root, ".", func(dir *os.File) error { return WriteList(dir, names, c.listArea) })
	if err != nil {
		return &fs.PathError{Op: "write", Path: c.shown(ListName), Err: bare(err)}
	}
	return nil
}

// listArea returns where the list is made.
func (c *commit) listArea() (*os.File, error) {
	top := c.directories["."]
	if top.denied != nil {
		return nil, top.denied
	}
	a, err := c.area(top.area)
	if err != nil {
		return nil, err
	}
	return a.dir, nil
}
