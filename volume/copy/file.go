package copy

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/internal/tree"
)

// walker copies one source.
type walker struct {
	*target
	pair   *Pair
	shown  string // the directory that is walked
	at     string // where that is copied to, below the target
	follow bool
}

// stage copies one source to the areas of the target.
func (t *target) stage(p *Pair, s source, base string) error {
	w := walker{t, p, s.up, ".", s.follow}
	t.top.src = identity{}
	if s.name == "" {
		t.top.src = identityOf(s.stat)
		return w.walk(s.dir, t.top)
	}
	if base == "" {
		base = p.nameOf(s.name)
	}
	if s.many && w.excluded(base) {
		return nil
	}
	t.found.Add(1)
	if dirfd.IsDir(s.stat) {
		return w.directory(t.top, s.dir, s.name, s.stat)
	}
	w.follow = s.follow || p.Links != "keep" && !s.many
	return w.one(t.top, s.dir, s.name, base, s.stat)
}

// walk copies the content of an open directory.
func (w walker) walk(dir dirfd.FD, to *directory) error {
	walk := tree.Walk{Value: to, Visit: w.visit, Leave: func(e *tree.Entry) error { return e.Value.(*directory).leave(w.pair) }}
	if w.pair.Exclude != nil {
		walk.Exclude = func(e *tree.Entry) bool { return w.excluded(e.Up.Value.(*directory).join(e.Name)) }
	}
	err := walk.Run(w.ctx, dir)
	var p *fs.PathError
	if errors.As(err, &p) {
		return perm.Failed("read", perm.Read, filepath.Join(w.shown, p.Path), p.Err)
	}
	return err
}

func (w walker) excluded(name string) bool {
	for _, pattern := range w.pair.Exclude {
		if perm.Match(pattern, name) {
			return true
		}
	}
	return false
}

// visit copies one entry of a directory.
func (w walker) visit(e *tree.Entry) error {
	if reserved(e.Name) {
		return fs.SkipDir
	}
	f := e.Up.Value.(*directory)
	w.found.Add(1)
	if !dirfd.IsDir(e.Stat) {
		as := e.Name
		if w.follow || e.Stat.Mode&unix.S_IFMT == unix.S_IFREG {
			as = w.pair.nameOf(as)
		}
		if as != e.Name && !w.excluded(f.join(as)) {
			if _, err := dirfd.Lstat(e.Dir, as); err == nil {
				return perm.Failed("unpack", perm.Read, w.sourceOf(f, e.Name), failure.WithHint(errors.New(failure.Printable(as)+" is also in the source"), "leave one of them out with exclude"))
			}
		}
		return w.one(f, e.Dir, e.Name, as, e.Stat)
	}
	if e.File >= 0 {
		if _, err := dirfd.Readlink(e.File, dataLink); err == nil { // a volume within the directory
			return cmp.Or(w.directory(f, e.Dir, e.Name, e.Stat), fs.SkipDir)
		}
	}
	child, err := w.enter(f, e.Name, e.Stat, e.File)
	e.Value = child
	return err
}

// enter opens or makes the copy of a directory, which lies in f.
func (w walker) enter(f *directory, name string, s unix.Stat_t, src dirfd.FD) (*directory, error) {
	want := w.pair.attributesOf(s, f.join(name))
	var err error
	if want.xattr, err = w.pair.xattrs(src); err != nil {
		return nil, perm.Failed("read", perm.Read, w.sourceOf(f, name), err)
	}
	return f.enter(name, s, want)
}

// directory copies a directory outside of the walk: one that was named, a volume, or what a link leads to.
func (w walker) directory(f *directory, dir dirfd.FD, name string, s unix.Stat_t) error {
	shown := w.sourceOf(f, name)
	src, err := dirfd.OpenFollow(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return perm.Failed("read", perm.Read, shown, err)
	}
	defer src.Close()
	for above := f; above != nil; above = above.up {
		if above.src == identityOf(s) {
			return perm.Failed("read", perm.Read, shown, errors.New("a symbolic link leads back to a directory that it lies in"))
		}
	}
	below := walker{w.target, w.pair, shown, f.join(name), w.follow}
	from, mounted, err := w.mounted(shown, src)
	if err != nil {
		return perm.Failed("read", perm.Read, shown, err)
	}
	if !mounted {
		from = src
	}
	below.follow = w.follow || mounted && w.pair.Links == ""
	child, err := w.enter(f, name, s, src)
	if err != nil {
		return err
	}
	if err := below.walk(from, child); err != nil {
		return err
	}
	return child.leave(w.pair)
}

// sourceOf returns the path of an entry of the source as users know it.
func (w walker) sourceOf(f *directory, name string) string {
	return filepath.Join(w.shown, strings.TrimPrefix(f.path, w.at), name)
}

// one copies an entry that is not a directory, or a link to one.
func (w walker) one(f *directory, dir dirfd.FD, name, as string, s unix.Stat_t) (err error) {
	if w.follow && s.Mode&unix.S_IFMT == unix.S_IFLNK {
		if s, err = statFollow(dir, name); err != nil {
			return perm.Failed("follow the link", perm.Read, w.sourceOf(f, name), err)
		}
		if dirfd.IsDir(s) {
			return w.directory(f, dir, name, s)
		}
	}
	kind := s.Mode & unix.S_IFMT
	if kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return perm.Failed("read", perm.Read, w.sourceOf(f, name), failure.WithHint(errors.New("it is a device, a pipe or a socket"), "leave it out with --exclude "+name))
	}
	c := &copying{walker: w, f: f, dir: dir, name: name, as: as, path: f.join(as), stat: s}
	if reserved(as) {
		return w.unwritten(c.path, errors.New("the name is reserved for initbox"))
	}
	if c.old, err = f.old(as); err == nil {
		err = c.do()
	}
	return w.unwritten(c.path, err)
}

// unread returns the error, if any, of reading the source.
func (c *copying) unread(err error) error {
	return perm.Failed("read", perm.Read, c.sourceOf(c.f, c.name), err)
}

// copying is the copying of one file or link.
type copying struct {
	walker
	f      *directory
	dir    dirfd.FD // of the source
	name   string
	as     string
	path   string // of the copy, below the target
	stat   unix.Stat_t
	old    *unix.Stat_t // of what is there now
	want   attributes
	staged bool
	spent  int64 // of Options.MaxSize: reading it again, after a comparison, costs nothing
}

func (c *copying) do() error {
	if c.old != nil {
		switch kind := c.old.Mode & unix.S_IFMT; {
		case kind == unix.S_IFDIR:
			return failure.WithHint(errors.New("it is a directory"), "the source has a file of that name: copy replaces nothing that is of another kind, but prepare PATH#absent removes it")
		case kind != unix.S_IFREG && kind != unix.S_IFLNK:
			return errors.New("it exists and is not a regular file")
		case identityOf(*c.old) == identityOf(c.stat) && kind == unix.S_IFREG:
			return errors.New("the source and the destination are the same file")
		}
	}
	if !c.claim() {
		c.kept.Add(1)
		return nil
	}
	c.want = c.pair.attributesOf(c.stat, c.path)
	switch {
	case c.version != nil:
		return c.put()
	case c.stat.Mode&unix.S_IFMT == unix.S_IFLNK:
		return c.link()
	case c.pair.Keep&KeepLinks != 0 && c.stat.Nlink > 1:
		return c.hardLinked()
	}
	return c.file()
}

// claim takes back what an earlier pair has staged with that name, and returns whether the file is to be copied.
func (c *copying) claim() bool {
	t := c.target
	t.mu.Lock()
	defer t.mu.Unlock()
	staged := false
	if t.again && c.f.new >= 0 {
		_, err := dirfd.Lstat(c.f.new, c.as)
		staged = err == nil
		if staged && !c.pair.NoOverwrite {
			dirfd.Remove(c.f.new, c.as)
			c.count(-1)
		}
	}
	if w := t.inPlace[c.path]; w != nil && !c.pair.NoOverwrite {
		w.src.Close()
		delete(t.inPlace, c.path)
		c.count(-1)
	}
	kept := c.pair.NoOverwrite && (staged || c.old != nil) ||
		c.pair.Update && c.old != nil && !staged && unix.TimespecToNsec(c.old.Mtim) >= unix.TimespecToNsec(c.stat.Mtim)
	if t.prune {
		t.names[c.path] = t.names[c.path] || staged || !kept
	}
	if !kept {
		delete(t.late, c.path)
	}
	return !kept
}

func (c *copying) count(n int64) {
	if c.old == nil {
		c.created.Add(n)
	} else {
		c.changed.Add(n)
	}
}

// link copies a symbolic link.
func (c *copying) link() error {
	to, err := dirfd.Readlink(c.dir, c.name)
	if err != nil {
		return c.unread(err)
	}
	if c.old != nil && c.old.Mode&unix.S_IFMT == unix.S_IFLNK {
		if now, err := dirfd.Readlink(c.f.dst, c.as); err == nil && now == to && !c.target.differs(c.want, *c.old, -1) {
			c.same.Add(1)
			return nil
		}
	}
	c.count(1)
	if c.DryRun {
		return nil
	}
	dir, err := c.f.place()
	if err == nil {
		err = dirfd.Symlink(to, dir, c.as)
	}
	if err == nil {
		c.target.staged.Add(1)
		err = c.set(dir, c.as, c.want)
	}
	return err
}

// linked are the names of one file of the source.
type linked struct {
	mu   sync.Mutex
	dir  string // where the first was copied to, in an area or not
	name string
	id   identity // of the file that was there already
}

// hardLinked copies a file with several names once.
func (c *copying) hardLinked() error {
	c.mu.Lock()
	l := c.links[identityOf(c.stat)]
	if l == nil {
		l = &linked{}
		c.links[identityOf(c.stat)] = l
	}
	c.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" {
		if err := c.file(); err != nil || c.DryRun {
			return err
		}
		if l.name = c.as; c.staged {
			l.dir = c.f.placePath()
		} else { // it is right already, or written in place
			l.dir, l.id = c.f.path, identityOf(*c.old)
		}
		return nil
	}
	if c.old != nil && identityOf(*c.old) == l.id {
		c.same.Add(1)
		return nil
	}
	from, err := c.openBelow(l.dir)
	if err != nil {
		return err
	}
	defer from.Close()
	dir, err := c.f.place()
	if err == nil {
		err = dirfd.Link(from, l.name, dir, c.as)
	}
	if err == unix.EMLINK || err == unix.EXDEV || err == unix.EPERM || err == unix.ENOTSUP { // no more links, or none
		return c.file()
	}
	c.count(1)
	c.target.staged.Add(1)
	return err
}

// file copies a regular file.
func (c *copying) file() error {
	src, err := c.open()
	if err != nil {
		return c.unread(err)
	}
	defer func() { src.Close() }()
	if c.want.xattr, err = c.pair.xattrs(src); err != nil {
		return c.unread(err)
	}
	if c.old != nil && c.old.Mode&unix.S_IFMT == unix.S_IFREG {
		done, err := c.compare(src)
		if done || err != nil {
			return err
		}
	}
	c.count(1)
	if c.DryRun {
		c.bytes.Add(c.stat.Size)
		return nil
	}
	dir, err := c.f.place()
	if c.onlyInPlace(err) {
		c.mu.Lock()
		c.inPlace[c.path] = &inPlace{copying: c, src: src}
		c.mu.Unlock()
		src = -1 // stays open
		return nil
	}
	if err != nil {
		return err
	}
	return c.write(src, dir)
}

// onlyInPlace returns whether a file cannot be replaced, but be written to: it is a mount, or denied is why there can
// be no new files beside it.
func (c *copying) onlyInPlace(denied error) bool {
	if c.old == nil || c.old.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	i, err := dirfd.Inspect(c.f.dst, c.as)
	locked := errors.Is(denied, fs.ErrPermission) || errors.Is(denied, unix.EROFS) // and not full, or at the deadline
	return err == nil && (i.MountRoot || locked) && c.ctx.Err() == nil && dirfd.Access(c.f.dst, c.as, unix.W_OK) == nil
}

// open opens the source, which must be what the walk has found.
func (c *copying) open() (dirfd.FD, error) {
	if c.follow {
		return dirfd.OpenFollow(c.dir, c.name, unix.O_RDONLY)
	}
	src, err := dirfd.OpenFD(c.dir, c.name, unix.O_RDONLY, 0)
	if err == unix.ELOOP {
		err = errChanged
	}
	return src, err
}

var errChanged = errors.New("another program has changed it meanwhile")

// compare returns whether the file that is there has the content of the source; then, if its attributes differ, they
// are set later.
func (c *copying) compare(src dirfd.FD) (done bool, err error) {
	if !c.packed() && c.old.Size != c.stat.Size {
		return false, nil
	}
	old, err := dirfd.OpenFD(c.f.dst, c.as, unix.O_RDONLY, 0)
	if err != nil {
		return false, nil // then it is written, and writing returns the error
	}
	defer old.Close()
	content, _, err := c.content(src)
	if err != nil {
		return false, err
	}
	defer content.Close()
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	same, err := dirfd.Same(content, old, b[:])
	if err != nil {
		return false, c.unread(err)
	}
	differs := c.differs(c.want, *c.old, old)
	switch {
	case !same || differs && c.old.Nlink > 1 && c.pair.Keep&KeepLinks == 0:
		return false, dirfd.Seek(src, 0)
	case differs:
		c.later(c.path, late{want: c.want, pair: c.pair, file: identityOf(*c.old)})
	}
	c.same.Add(1)
	return true, nil
}

func (c *copying) packed() bool { return c.pair.nameOf(c.name) != c.name }

// write makes the new file.
func (c *copying) write(src, dir dirfd.FD) error {
	dst, err := dirfd.OpenFD(dir, c.as, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	c.staged = true
	n := c.target.staged.Add(1)
	err = c.pour(src, dst)
	if err == nil {
		err = c.set(dst, "", c.want)
	}
	if err == nil && n <= few {
		err = dirfd.Fsync(dst)
	}
	return errors.Join(err, dst.Close())
}

// pour fills an empty file.
func (c *copying) pour(src, dst dirfd.FD) error {
	if c.packed() {
		content, _, err := c.content(src)
		if err != nil {
			return err
		}
		defer content.Close()
		b := buffers.Get().(*buffer)
		defer buffers.Put(b)
		_, err = io.CopyBuffer(dst, content, b[:])
		c.bytes.Add(content.read)
		return err
	}
	if err := (&copier{ctx: c.ctx, dst: dst, src: src}).all(c.stat); err != nil {
		return err
	}
	c.bytes.Add(c.stat.Size)
	return c.steady(src)
}

// steady returns an error if the source was changed since the walk found it, so that what was read may be a mixture.
func (c *copying) steady(src dirfd.FD) error {
	now, err := dirfd.Stat(src)
	if err == nil && (identityOf(now) != identityOf(c.stat) || now.Size != c.stat.Size || now.Mtim != c.stat.Mtim) {
		err = errChanged
	}
	return c.unread(err)
}
