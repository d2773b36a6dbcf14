package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// commit is one call of [Stage.Commit].
type commit struct {
	*Stage
	top     *os.Root // base, which exists now
	root    *os.Root // the directory of the files: base, or the new version in it
	version string   // the new version's name
	guard   *area    // beside the new version; its lock shows that the version is being written
	stale   []string // files to be removed
	list    list

	have    map[string]bool // directories of root that exist
	touched map[string]bool // directories of root whose names have changed since they were synced
	dir     *os.File        // the last one that was opened
	dirName string

	overwrites []*overwrite
	undo       []func()
	begun      bool // an old file has been replaced: this cannot be undone
	done       []Change
}

// Commit puts everything in place, and returns what changed, sorted by name.
//
// The steps that are likely to fail come first, and are undone if one fails: syncing the contents, making directories,
// and giving new files their names, for which a full disk may have no room. Replacing files, which needs no room, comes
// after that. If it fails all the same (because another process has made a directory of that name, or the disk fails),
// the error says how many files were done; the next Commit does the rest. Keeping a second name of each old file in
// order to go back would not help: a killed process cannot go back, nor can one whose disk fails. [OpenVersion] is all
// or nothing even then.
func (s *Stage) Commit() ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.options.DryRun {
		return nil, errors.New("a dry run cannot be committed")
	}
	s.err = errors.New("committed already")
	slices.SortFunc(s.changes, func(a, b *change) int { return strings.Compare(a.Name, b.Name) })
	c := &commit{Stage: s, have: map[string]bool{".": true}, touched: map[string]bool{}}
	steps := c.steps()
	if s.link != "" {
		steps = c.versionSteps()
	}
	var err error
	for i := 0; i < len(steps) && err == nil; i++ {
		err = steps[i]()
	}
	if err != nil && !c.begun {
		for _, undo := range slices.Backward(c.undo) {
			undo()
		}
		c.done = nil
	}
	c.close()
	if errors.Is(err, errNothingToDo) {
		return nil, nil
	}
	sortChanges(c.done)
	if err != nil && c.begun {
		err = fmt.Errorf("%w (%d of %d files were done before)", err, len(c.done), len(s.changes)+len(c.stale))
	}
	return c.done, err
}

// errNothingToDo ends the steps.
var errNothingToDo = errors.New("nothing to do")

func (c *commit) steps() []func() error {
	return []func() error{
		c.settle, c.compareLists, c.sync, c.makeDirs, c.openInPlace, c.listAll,
		c.create, c.replace, c.overwrite, c.syncDirs, c.prune, c.listExactly,
	}
}

// close removes the staged files, and closes what Commit has opened.
func (c *commit) close() {
	for _, o := range c.overwrites {
		o.file.Close()
		if o.from != nil {
			o.from.Close()
		}
	}
	c.dir.Close()
	c.discard()
	c.unguard()
	if c.version != "" && c.root != nil {
		c.root.Close()
	}
	if c.top != nil && c.top != c.home && c.top != c.old {
		c.top.Close()
	}
}

// settle makes the directory if it is missing, and its parents.
func (c *commit) settle() error {
	if len(c.changes) == 0 && c.home.Name() != c.base {
		return errNothingToDo
	}
	if c.home.Name() == c.base {
		c.top, c.root = c.home, c.home
		return nil
	}
	missing, _ := filepath.Rel(c.home.Name(), c.base)          // both are absolute
	isFile := func(ch *change) bool { return ch.target == "" } // a link has no owner
	first := max(0, slices.IndexFunc(c.changes, isFile))
	if err := c.makeDir(c.home, missing, c.changes[first].attr); err != nil {
		return err
	}
	for dir := missing; dir != "."; dir = path.Dir(dir) {
		if err := within(c.home, path.Dir(dir), syncDir); err != nil {
			return err
		}
	}
	top, err := c.home.OpenRoot(missing)
	c.top, c.root = top, top
	if c.link == "" {
		c.old = top // Close closes it
	}
	return err
}

// sync writes the staged contents to the disk.
func (c *commit) sync() error {
	files := map[*area][]string{}
	for _, ch := range c.changes {
		if ch.area != nil && ch.target == "" {
			files[ch.area] = append(files[ch.area], ch.staged)
		}
	}
	for a, names := range files {
		if err := a.sync(names); err != nil {
			return fmt.Errorf("sync the files for %s: %w", c.base, err)
		}
	}
	return nil
}

// makeDirs makes the directories of the files, with their owners, and then those of links, which have none.
func (c *commit) makeDirs() error {
	for _, links := range []bool{false, true} {
		for _, ch := range c.changes {
			if links != (ch.target != "") {
				continue
			}
			if err := c.ensure(path.Dir(ch.Name), ch.attr); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensure makes the directory called name of root, if it is missing.
func (c *commit) ensure(name string, a Attr) error {
	if c.have[name] {
		return nil
	}
	if err := c.ensure(path.Dir(name), a); err != nil {
		return err
	}
	c.have[name] = true
	if c.directories[name].exists && c.link == "" {
		return nil
	}
	c.touched[path.Dir(name)], c.touched[name] = true, true
	return c.makeDir(c.root, name, a)
}

// makeDir makes a directory of root, and its parents. An existing one is left as it is; a
// new one keeps the set-group-ID bit that it inherits from its parent.
func (c *commit) makeDir(root *os.Root, name string, a Attr) error {
	err := root.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err := c.makeDir(root, path.Dir(name), a); err != nil {
			return err
		}
		err = root.Mkdir(name, 0o755)
	}
	shown := filepath.Join(root.Name(), name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "mkdir", Path: shown, Err: bare(err)}
	}
	dir, openErr := openDir(root, name)
	if openErr != nil {
		return &fs.PathError{Op: "open", Path: shown, Err: bare(openErr)}
	}
	defer dir.Close()
	if err != nil {
		return nil // it exists
	}
	c.undo = append(c.undo, func() {
		within(root, path.Dir(name), func(dir *os.File) error { return dirfd.RemoveDir(dir, path.Base(name)) })
	})
	i, err := dirfd.Inspect(dir, ".")
	if err == nil && a.hasOwner() {
		err = bare(dir.Chown(a.UID, a.GID))
	}
	if err == nil && i.Mode&0o777 != 0o755 {
		err = dirfd.Chmod(dir, ".", i.Mode&0o7000|0o755)
	}
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: shown, Err: bare(err)}
	}
	return nil
}

// create gives the new files their names, all or none.
func (c *commit) create() error {
	for _, ch := range c.changes {
		if ch.Kind != Created || ch.area == nil {
			continue
		}
		if err := c.rename(ch); err != nil {
			return c.failed(ch, err)
		}
		c.undo = append(c.undo, func() {
			within(c.root, path.Dir(ch.Name), func(dir *os.File) error { return dirfd.Remove(dir, path.Base(ch.Name)) })
		})
		c.done = append(c.done, ch.Change)
	}
	return nil
}

// replace replaces old files. In a new version, which is empty, that can be undone.
func (c *commit) replace() error {
	for _, ch := range c.changes {
		if ch.Kind != Changed || ch.area == nil {
			continue
		}
		err := c.rename(ch)
		if inTheWay(err) && c.link == "" && ch.target == "" {
			err = c.openOne(ch) // the kernel did not report it before; see dirfd.Mount
		} else if err == nil {
			c.begun = c.link == ""
			c.done = append(c.done, ch.Change)
		}
		if err != nil {
			return c.failed(ch, err)
		}
	}
	return nil
}

// inTheWay returns whether a file cannot be replaced, but can perhaps be written to:
// something is mounted on it or its directory, or the directory is sticky.
func inTheWay(err error) bool {
	causes := []error{unix.EBUSY, unix.EXDEV, unix.EPERM, unix.EACCES}
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}

func (c *commit) failed(ch *change, err error) error {
	return &fs.PathError{Op: "write", Path: c.shown(ch.Name), Err: bare(err)}
}

// rename moves one staged file to its destination.
func (c *commit) rename(ch *change) error {
	name := path.Dir(ch.Name)
	for tries := 0; ; tries++ {
		dir, err := c.open(name)
		if err == nil {
			err = dirfd.Rename(ch.area.dir, ch.staged, dir, path.Base(ch.Name))
		}
		if !errors.Is(err, fs.ErrNotExist) || tries == 3 {
			return err
		}
		// Another process has removed the directory since: it was empty.
		c.dirName = ""
		if err := c.makeDir(c.root, name, ch.attr); err != nil {
			return err
		}
	}
}

// open opens a directory of root to change names in it, until the next is opened.
func (c *commit) open(name string) (*os.File, error) {
	c.touched[name] = true
	if c.dirName == name {
		return c.dir, nil
	}
	dir, err := openDir(c.root, name)
	if err != nil {
		return nil, err
	}
	c.dir.Close()
	c.dir, c.dirName = dir, name
	return dir, nil
}

// syncDirs makes the new names survive a power cut.
func (c *commit) syncDirs() error {
	open := func(name string) (*os.File, error) { return openDir(c.root, name) }
	return SyncDirs(slices.Collect(maps.Keys(c.touched)), fewFiles, open)
}

func syncDir(dir *os.File) error { return dirfd.Sync(dir) }

// within calls do with the directory of root called name.
func within(root *os.Root, name string, do func(dir *os.File) error) error {
	dir, err := openDir(root, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(dir)
}

// openDir opens what should be a directory. If it is a pipe, it does not wait for the other end.
func openDir(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}
