package stage

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

type list struct {
	was  []string // the names in the file
	want []string // the names that were Put
}

// readList is [ReadList] of the directory root.
func readList(root *os.Root) ([]string, error) {
	dir, err := openDir(root, ".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return ReadList(dir)
}

// ours returns whether a name is the directory itself, or a list or an area, which only a stage makes.
func ours(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ListName || strings.HasPrefix(part, areaPrefix) {
			return true
		}
	}
	return strings.ContainsRune(name, 0)
}

// compareLists finds out whether any file has to be changed or removed.
func (c *commit) compareLists() (err error) {
	if c.options.Prune {
		if c.list.was, err = readList(c.root); err != nil {
			return &fs.PathError{Op: "read", Path: c.shown(ListName), Err: bare(err)}
		}
		for name, isFile := range c.names {
			if isFile {
				c.list.want = append(c.list.want, name)
			}
		}
		slices.Sort(c.list.want)
		if c.old != nil {
			c.stale = c.Stage.stale(c.list.was)
		}
	}
	if len(c.changes) == 0 && slices.Equal(c.list.was, c.list.want) {
		return errNothingToDo
	}
	return nil
}

// stale returns the listed files that exist and were not Put.
func (s *Stage) stale(list []string) (names []string) {
	for _, name := range list {
		if s.names[name] {
			continue
		}
		dir, err := realDir(s.old, path.Dir(name))
		if err != nil {
			continue
		}
		i, err := dirfd.Inspect(dir, path.Base(name))
		if err == nil && (i.Kind() == unix.S_IFREG || i.Kind() == unix.S_IFLNK) {
			names = append(names, name)
		}
		dir.Close()
	}
	return names
}

// realDir opens a directory without following links: a file behind a link may be one that is not listed.
func realDir(root *os.Root, name string) (*os.File, error) {
	dir, err := openDir(root, ".")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(name, "/") {
		next, err := dirfd.OpenDir(dir, part)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// listAll writes the list of old and new names.
func (c *commit) listAll() error {
	if !c.options.Prune {
		return nil
	}
	was := c.list.was
	c.undo = append(c.undo, func() { c.writeList(was) })
	union := slices.Concat(was, c.list.want)
	slices.Sort(union)
	return c.writeList(slices.Compact(union))
}

// prune removes the files that were not Put, and then the directories that have become empty. A
// file on which something is mounted stays, and stays listed.
func (c *commit) prune() error {
	for _, name := range c.stale {
		c.begun = true
		dir, err := realDir(c.root, path.Dir(name))
		if err != nil {
			continue // removed meanwhile
		}
		err = dirfd.Remove(dir, path.Base(name))
		dir.Close()
		if err == nil {
			c.done = append(c.done, Change{Name: name, Kind: Removed})
			c.removeEmpty(path.Dir(name))
		}
		switch {
		case errors.Is(err, unix.EBUSY):
			c.list.want = append(c.list.want, name)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return &fs.PathError{Op: "remove", Path: c.shown(name), Err: err}
		}
	}
	return c.syncDirs() // before the list forgets them
}

func (c *commit) removeEmpty(name string) {
	c.touched[name] = true
	for name != "." && c.removeDir(name) == nil {
		name = path.Dir(name)
		c.touched[name] = true
	}
}

func (c *commit) removeDir(name string) error {
	above, _ := realDir(c.root, path.Dir(name)) // where it is gone, removing fails
	defer above.Close()
	return dirfd.RemoveDir(above, path.Base(name))
}

// listExactly writes the list of the new names, last.
func (c *commit) listExactly() error {
	if !c.options.Prune {
		return nil
	}
	slices.Sort(c.list.want)
	return c.writeList(c.list.want)
}

// writeList writes the list if it has changed. It removes the file if the list is empty.
func (c *commit) writeList(names []string) error {
	if slices.Equal(names, c.list.was) {
		return nil
	}
	err := c.putList(names)
	if err != nil {
		return &fs.PathError{Op: "write", Path: c.shown(ListName), Err: bare(err)}
	}
	c.list.was = names
	return nil
}

func (c *commit) putList(names []string) error {
	dir, err := openDir(c.root, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if len(names) == 0 {
		return errors.Join(dirfd.Remove(dir, ListName), dirfd.Sync(dir))
	}
	top := c.directories["."]
	if top.denied != nil {
		return top.denied
	}
	a, err := c.area(top.area)
	if err != nil {
		return err
	}
	if err := a.place(Bytes(FormatList(names)), Attr{0o644, -1, -1}, dir, ListName); err != nil {
		return err
	}
	return dirfd.Sync(dir)
}
