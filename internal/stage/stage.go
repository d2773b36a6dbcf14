// Package stage puts many files below one directory in place together: a reader finds each file old or new ([Open]),
// or all files old or all new ([OpenVersion]), whenever the writer is killed. Files that are already right are not
// touched.
//
//	s, err := stage.Open("/etc/app", stage.Options{})
//	...
//	defer s.Close() // without Commit there is no trace of what was Put
//	_, err = s.Put("conf.d/app.conf", content, stage.Attr{Mode: 0o644, UID: -1, GID: -1})
//	...
//	changes, err := s.Commit()
package stage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
)

// Stage collects new contents of the files below one directory, and puts them there together: nothing changes before
// [Stage.Commit], and a reader finds each file old or new. Contents wait on the disk, not in memory. A file that
// already has the right bytes, permission bits and, if given, owner is not touched.
//
// Names are slash-separated and relative to the directory. Neither ".." nor a symbolic link
// leads out of it. A link to another directory inside is followed. A link with the name of a
// file is replaced, not followed. A device, a pipe or a directory with that name is an error, and so is a link in /dev,
// such as /dev/stdout.
//
// A file that cannot be replaced is written in place, and a reader may see half of it: a file that is a mount point (a
// subPath of Kubernetes), or a writable file in a read-only directory. Its content waits where it comes from.
//
// If two stages commit to one directory at the same time, the last wins: file by file, or with
// [OpenVersion] as a whole.
type Stage struct {
	options Options
	base    string // the directory, or for a version the directory of the link
	link    string // a version's link, or ""

	home    *os.Root // base, or its nearest parent that exists
	old     *os.Root // the existing directory or version; nil without one
	oldLock *os.File // for a version, keeps it from being removed

	mu          sync.Mutex
	names       map[string]bool // of the files that were Put (true), and the directories they are in (false)
	directories map[string]*directory
	areas       map[string]*area // by the directory of home that they are in
	changes     []*change
	kept        []string
	err         error // the first of Put, or that it is over
}

// Options of a [Stage].
type Options struct {
	DryRun bool // only compare: nothing is written, not even beside the files, and Commit is an error

	// Prune makes Commit remove the files that an earlier Commit with Prune put there
	// and this one does not, and directories that become empty. The file .initbox-files in
	// the directory lists them. A version needs no Prune: it holds only what was Put.
	Prune bool

	// Follow makes Open follow symbolic links to the directory in a volume. By default they are a [*mounts.LinkError]:
	// any program that writes to the volume may have made them.
	Follow bool
}

// Attr is the mode and owner of a file. A directory that is made for it has the mode 0755 and the same owner.
type Attr struct {
	Mode     fs.FileMode // permission bits, whatever the umask
	UID, GID int         // -1: as the kernel sets it
}

// Kind is how a file changes.
type Kind string

const (
	Unchanged Kind = "unchanged"
	Created   Kind = "created"
	Changed   Kind = "changed" // its content, mode or owner
	Removed   Kind = "removed"
)

// InPlace returns a warning for the file at path that could not be replaced, see [Stage].
func InPlace(path string) string {
	return failure.Printable(path) + " cannot be replaced (it is itself a mount, as with subPath, or its directory is not writable), so it was written in place: a reader may see part of it meanwhile"
}

// Change is how one file changes.
type Change struct {
	Name    string
	Kind    Kind
	Size    int64 // of the content that is written, in bytes; 0 in a dry run, and in place if Content does not say
	InPlace bool  // not atomically, see Stage
}

// change is one that Commit has to make.
type change struct {
	Change
	attr    Attr
	area    *area   // where the content is; nil if in memory
	staged  string  // its name there
	content Content // what is written in place
	draft   *Draft  // the content, if it is in the area already
	target  string  // of a symbolic link, which needs no sync; "" of a file
}

// Content opens what a file is to hold. Size is its length in bytes, or 0 if that is unknown. It is called to compare
// the content with the existing file, to stage it, and in [Stage.Commit] if the file is written in place.
type Content func() (r io.ReadCloser, size int64, err error)

// Bytes returns the content that data holds. The caller must not change data before the end of [Stage.Commit].
func Bytes(data []byte) Content {
	return func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	}
}

// directory is one that files are to be in.
type directory struct {
	exists bool
	mount  dirfd.Mount
	area   string // the directory of home where files wait, or ""
	denied error  // why names in it cannot be changed
	gid    int    // the group that its set-group-ID bit gives to new files; -1 without
}

// Open returns a stage for the files below dir. If dir is missing, Commit makes it and its
// parents. Open removes what killed stages left behind.
func Open(dir string, o Options) (*Stage, error) {
	s, err := nearest(dir, o)
	if err != nil {
		return nil, err
	}
	if s.base == s.home.Name() {
		s.old = s.home
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	return s, nil
}

// nearest opens the directory base, or its nearest parent that exists.
func nearest(base string, o Options) (*Stage, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, err
	}
	s := &Stage{
		options: o, base: base,
		names: map[string]bool{}, directories: map[string]*directory{}, areas: map[string]*area{},
	}
	for at := base; ; at = filepath.Dir(at) {
		if s.home, err = openRoot(at, o.Follow); err == nil {
			break
		}
		if _, isLink := os.Readlink(at); !errors.Is(err, fs.ErrNotExist) || isLink == nil || at == filepath.Dir(at) {
			return nil, err
		}
	}
	if !o.DryRun {
		// A stage killed while it made base has left its files above.
		for at := s.home.Name(); at != filepath.Dir(at); at = filepath.Dir(at) {
			if dir, err := os.Open(filepath.Dir(at)); err == nil {
				sweepAreas(dir)
				dir.Close()
			}
		}
	}
	return s, nil
}

// openRoot opens a directory, but not through a link that must not be followed.
func openRoot(path string, follow bool) (*os.Root, error) {
	dir, err := mounts.OpenDir(path, follow)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	opened, errRoot := root.Stat(".")
	found, errDir := dir.Stat()
	if err := errors.Join(errRoot, errDir); err != nil || !os.SameFile(opened, found) {
		root.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: cmp.Or(err, errors.New("another program replaced it meanwhile"))}
	}
	return root, nil
}

// begin looks at the topmost directory, from which others inherit.
func (s *Stage) begin() error {
	dir, err := openDir(s.home, ".")
	if err != nil {
		return s.abandon(err)
	}
	defer dir.Close()
	top, err := look(dir)
	if err != nil {
		return s.abandon(err)
	}
	if top.area = "."; top.denied != nil {
		top.area = ""
	}
	top.exists = s.old != nil
	s.directories["."] = top
	if top.denied == nil && !s.options.DryRun {
		sweepAreas(dir)
	}
	return nil
}

func (s *Stage) abandon(err error) error {
	s.Close()
	return &fs.PathError{Op: "open", Path: s.base, Err: bare(err)}
}

// look describes a directory that exists.
func look(dir *os.File) (*directory, error) {
	i, err := dirfd.Inspect(dir, ".")
	if err != nil {
		return nil, err
	}
	d := &directory{exists: true, mount: i.Mount, gid: -1}
	d.denied = dirfd.Access(dir, ".", unix.W_OK|unix.X_OK)
	if i.Mode&unix.S_ISGID != 0 {
		d.gid = i.GID
	}
	return d, nil
}

// directory describes the directory called name. Its files wait in the topmost writable directory of the same mount.
func (s *Stage) directory(name string) (*directory, error) {
	if d := s.directories[name]; d != nil {
		return d, nil
	}
	above, err := s.directory(path.Dir(name))
	if err != nil {
		return nil, err
	}
	d := &directory{mount: above.mount, area: above.area, denied: above.denied, gid: above.gid}
	if above.exists {
		dir, err := openDir(s.old, name)
		if err == nil {
			defer dir.Close()
			d, err = s.below(above, name, dir)
		}
		if errors.Is(err, fs.ErrNotExist) {
			if _, isLink := s.old.Readlink(name); isLink == nil {
				return nil, fmt.Errorf("%s is a link that leads nowhere", name)
			}
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, bare(err))
		}
	}
	s.directories[name] = d
	return d, nil
}

// below describes dir, in the directory above.
func (s *Stage) below(above *directory, name string, dir *os.File) (*directory, error) {
	i, err := dir.Stat()
	if err != nil {
		return nil, err
	}
	if s.link != "" { // files go into a new version
		d := *above
		d.exists = i.IsDir()
		return &d, nil
	}
	if !i.IsDir() {
		return nil, errors.New("it exists and is not a directory")
	}
	d, err := look(dir)
	if err != nil {
		return nil, err
	}
	if d.denied == nil && !s.options.DryRun {
		sweepAreas(dir)
	}
	switch {
	case d.mount == above.mount && above.area != "":
		d.area = above.area
	case d.denied == nil:
		d.area = name
	}
	return d, nil
}

// Put is [Stage.PutFrom] for a content in memory.
func (s *Stage) Put(name string, content []byte, a Attr) (Change, error) {
	return s.PutFrom(name, Bytes(content), a)
}

// PutFrom stages the content of the file called name, and returns how the file will change. It needs little memory,
// however long the content is. Several goroutines may call it, once for each name. After an error, only Close may
// follow.
func (s *Stage) PutFrom(name string, content Content, a Attr) (Change, error) {
	return s.note(&change{Change: Change{Name: name}, attr: a}, content)
}

// Keep counts a file as Put that is to stay as it is, so that Prune does not remove it.
func (s *Stage) Keep(name string) error {
	if _, err := s.claim(name); err != nil {
		return &fs.PathError{Op: "keep", Path: s.shown(name), Err: bare(err)}
	}
	return nil
}

// Forget makes it as if the file had not been Put: it may be Put again, and Prune removes it otherwise.
func (s *Stage) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
	s.changes = slices.DeleteFunc(s.changes, func(c *change) bool {
		if c.Name == name && c.area != nil {
			dirfd.Remove(c.area.dir, c.staged)
		}
		return c.Name == name
	})
	s.kept = slices.DeleteFunc(s.kept, func(kept string) bool { return kept == name })
	above := map[string]bool{}
	for other, isFile := range s.names {
		for dir := path.Dir(other); isFile && dir != "."; dir = path.Dir(dir) {
			above[dir] = true
		}
	}
	maps.DeleteFunc(s.names, func(dir string, isFile bool) bool { return !isFile && !above[dir] })
}

// PutLink stages a symbolic link called name to target, as PutFrom does a file. Without the right to make new names in
// the directory, it fails: a link cannot be written in place.
func (s *Stage) PutLink(name, target string) (Change, error) {
	return s.note(&change{Change: Change{Name: name}, target: target, attr: Attr{UID: -1, GID: -1}}, nil)
}

// note stages a change, and records it, or the first error.
func (s *Stage) note(c *change, content Content) (Change, error) {
	err := s.put(c, content)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && err != s.err:
		err = &fs.PathError{Op: "write", Path: s.shown(c.Name), Err: bare(err)}
		if s.err == nil {
			s.err = err
		}
	case err == nil && c.Kind == Unchanged:
		s.kept = append(s.kept, c.Name)
	case err == nil:
		s.changes = append(s.changes, c)
	}
	return c.Change, err
}

func (s *Stage) put(c *change, content Content) error {
	f, err := s.claim(c.Name)
	if err != nil {
		return err
	}
	old, err := s.lookUp(f, c.Name)
	if err != nil {
		return err
	}
	defer old.close()
	c.Kind, err = old.compare(c, content)
	if err != nil || c.Kind == Unchanged {
		return err
	}
	err = f.denied
	if c.InPlace = s.link == "" && (f.denied != nil || old.MountRoot); c.InPlace {
		err = old.writable(f.denied)
		if c.target != "" {
			err = cmp.Or(f.denied, error(unix.EBUSY))
		}
	}
	if err != nil || s.options.DryRun {
		return err
	}
	if c.InPlace {
		c.content = content
		return nil
	}
	s.mu.Lock()
	c.area, err = s.area(f.area)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if c.target != "" {
		c.staged, err = c.area.link(c.target)
		return err
	}
	attr := c.attr
	if attr.GID == -1 && f.gid != -1 && groupIsOurs(f.gid) {
		attr.GID = f.gid // as if it had been made there, which is what fsGroup counts on
	}
	if c.draft != nil {
		c.area, c.staged, c.Size = c.draft.area, c.draft.name, c.draft.size
		return attr.set(c.draft.file)
	}
	c.staged, c.Size, err = c.area.write(content, attr)
	return err
}

// shown returns a name as users know it.
func (s *Stage) shown(name string) string { return filepath.Join(s.base, s.link, name) }

// longestPath is the length of the longest name below the directory, in bytes: no program could open a file with more
// than 4096 bytes in its whole path (PATH_MAX), and many directories in one another take long to make.
const longestPath = 1024

// CheckName returns why no stage can have a file of that name.
func CheckName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) {
		return errors.New("not a name below the directory")
	}
	if ours(name) {
		return errors.New("the name is reserved for initbox")
	}
	if len(name) > longestPath {
		return unix.ENAMETOOLONG
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > longestName {
			return unix.ENAMETOOLONG // now, not when half of the files are in place
		}
	}
	return nil
}

// claim reserves a name: only once, and not as both a file and a directory.
func (s *Stage) claim(name string) (*directory, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if isFile, taken := s.names[name]; isFile {
		return nil, errors.New("written twice")
	} else if taken {
		return nil, errors.New("both a file and a directory")
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if s.names[dir] {
			return nil, fmt.Errorf("%s is both a file and a directory", dir)
		}
	}
	f, err := s.directory(path.Dir(name))
	if err != nil {
		return nil, err
	}
	s.names[name] = true
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		s.names[dir] = false
	}
	return f, nil
}

// area returns the area in the directory called at, and creates it if needed.
func (s *Stage) area(at string) (*area, error) {
	if a := s.areas[at]; a != nil {
		return a, nil
	}
	a, err := newArea(s.home, at)
	if err == nil {
		s.areas[at] = a
	}
	return a, err
}

// groupIsOurs returns whether this process may give its files to the group.
func groupIsOurs(gid int) bool {
	if os.Geteuid() == 0 || os.Getegid() == gid {
		return true
	}
	groups, err := os.Getgroups()
	return err == nil && slices.Contains(groups, gid)
}

// Plan returns what Commit will change, sorted by name.
func (s *Stage) Plan() ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, err := s.gone()
	if err != nil {
		return nil, err
	}
	var all []Change
	for _, c := range s.changes {
		all = append(all, c.Change)
	}
	for _, name := range gone {
		all = append(all, Change{Name: name, Kind: Removed})
	}
	sortChanges(all)
	return all, nil
}

func sortChanges(all []Change) {
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
}

// gone returns the names of the files to be removed.
func (s *Stage) gone() ([]string, error) {
	switch {
	case s.old == nil:
		return nil, nil
	case s.link != "":
		return s.dropped()
	}
	_, stale, err := s.listed()
	return stale, err
}

// Close removes what was not committed.
func (s *Stage) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fs.ErrClosed
	}
	s.discard()
	if s.old != nil && s.old != s.home {
		s.old.Close()
	}
	if s.oldLock != nil {
		s.releaseOld(s.home)
	}
	return s.home.Close()
}

// discard removes the areas.
func (s *Stage) discard() {
	for at, a := range s.areas {
		a.remove()
		delete(s.areas, at)
	}
}
