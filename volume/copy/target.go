package copy

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/dirlock"
	"initbox/internal/mounts"
	"initbox/internal/perm"
	"initbox/internal/stage"
)

// target is a directory that pairs are copied to.
type target struct {
	*run
	path string     // as the user knows it
	root *os.File   // nil before
	top  *directory // nil while nothing is to be copied there

	empty             bool     // as the run found it
	left              []string // areas of killed runs: one of them was not finished
	again             bool     // an earlier pair has been staged here
	prune, incomplete bool     // remove what is no longer copied; but a source is missing

	found                                           atomic.Int64 // entries of sources
	created, changed, same, kept, notKept, attrOnly atomic.Int64
	bytes, staged                                   atomic.Int64 // staged: files and directories
	noChown                                         atomic.Bool
	removed                                         int
	why                                             []string

	mu      sync.Mutex
	version *stage.Stage // instead of areas, if the target is a link to a directory that is replaced as a whole
	lock    *dirlock.Lock
	area    string              // the name of all areas
	areas   []string            // the paths of the directories that have one
	late    map[string]late     // by path, what is set after all files are in place
	inPlace map[string]*inPlace // by path
	written []string            // of those, what has been written
	names   map[string]bool     // of files and links; false for those that are not overwritten
	links   map[identity]*linked
	open    map[*directory]bool
}

// target finds the directory that a pair is copied to, and the name of a single file in it.
func (r *run) target(p *Pair, sources []source) (*target, string, error) {
	dir, base := filepath.Clean(p.To), ""
	intoDirectory := strings.HasSuffix(p.To, "/") || slices.ContainsFunc(sources, func(s source) bool { return s.many || s.name == "" })
	if s, err := r.stat(dir); !intoDirectory && (err != nil || !dirfd.IsDir(s)) {
		dir, base = filepath.Split(dir)
		dir = filepath.Clean(dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(r.targets, func(t *target) bool { return t.path == abs })
	if i < 0 {
		t := &target{
			run: r, path: abs, late: map[string]late{}, inPlace: map[string]*inPlace{}, names: map[string]bool{},
			links: map[identity]*linked{}, open: map[*directory]bool{},
		}
		r.targets, i = append(r.targets, t), len(r.targets)
	}
	t := r.targets[i]
	t.prune = t.prune || p.Prune || slices.ContainsFunc(r.Pairs, func(p Pair) bool { return p.Prune && filepath.Clean(p.To) == dir })
	if len(sources) == 0 {
		return t, base, nil
	}
	for _, s := range sources {
		if err := t.apart(s); err != nil {
			return nil, "", err
		}
	}
	switch {
	case t.top != nil:
	case r.Atomic:
		err = t.openVersion(base)
	default:
		err = t.enter(p, sources)
	}
	return t, base, err
}

// apart refuses a source that the destination is, or lies in: the copy would never end.
func (t *target) apart(s source) error {
	at, err := filepath.EvalSymlinks(t.path)
	for above := t.path; err != nil; { // it is missing; another error comes again when it is opened
		above = filepath.Dir(above)
		at, err = filepath.EvalSymlinks(above)
	}
	for below := ""; at != below; at, below = filepath.Dir(at), at {
		if now, err := t.stat(at); err == nil && identityOf(now) == identityOf(s.stat) {
			return errors.New("the destination is the source, or lies in it")
		}
	}
	return nil
}

// enter opens the target, and makes it if it is missing.
func (t *target) enter(p *Pair, sources []source) error {
	root, err := mounts.OpenDir(t.path, t.Follow)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing && !t.DryRun {
		root, err = t.makeAll(p, sources[0])
	}
	t.top = &directory{t: t, path: ".", dst: -1, new: -1, fresh: missing && t.DryRun}
	if t.top.fresh {
		t.empty = true
		return nil
	}
	if err != nil {
		return perm.Failed("open", perm.Write, t.path, err)
	}
	t.root = root
	if t.top.dst, err = dirfd.OpenFD(root, ".", dirfd.PathOnly|unix.O_DIRECTORY, 0); err != nil {
		return perm.Failed("open", perm.Write, t.path, err)
	}
	t.lock = dirlock.New(root, lockName)
	if !t.DryRun {
		if _, err := dirfd.Lstat(root, lockName); err == nil {
			t.takeLock() // of a run that was killed, or of another that is not finished; it goes with its release
		}
		t.left = t.sweep(root) // removed at the end: until then, if-empty does not apply
	}
	if t.empty, err = isEmpty(root); err != nil && p.IfEmpty {
		return perm.Failed("list", perm.Read, t.path, err)
	}
	return nil
}

// makeAll makes the target and the directories above it.
func (t *target) makeAll(p *Pair, s source) (*os.File, error) {
	above := p.attributesOf(unix.Stat_t{Mode: unix.S_IFDIR | 0o755}, ".")
	above.times = nil
	if above.kept {
		above.Owner = perm.Owner{UID: -1, GID: -1}
	}
	want := above
	if above.mode = 0o755; s.name == "" {
		want = p.attributesOf(s.stat, ".")
	}
	t.late["."] = late{want: want, pair: p, made: true}
	return mounts.MakeDirs(t.path, t.Follow, func(parent *os.File, name string) error {
		if filepath.Join(parent.Name(), name) == t.path {
			return t.makeDir(parent, name, want)
		}
		return t.makeDir(parent, name, above)
	})
}

// makeDir makes a directory on the way to the target, and gives it its name when it has its owner and its mode.
func (t *target) makeDir(parent *os.File, name string, want attributes) error {
	temporary := areaPrefix + "directory-" + name[:min(len(name), 255-len(areaPrefix+"directory-"))] // other runs make others
	if err := dirfd.Mkdir(parent, temporary, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	dir, err := dirfd.OpenFD(parent, temporary, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		defer dir.Close()
		var s unix.Stat_t
		s, err = dirfd.Stat(dir)
		want.mode, want.times = want.mode|0o700|uint32(s.Mode)&unix.S_ISGID, nil // others come at the end
		if err == nil {
			err = t.set(dir, "", want)
		}
	}
	if err == nil {
		err = dirfd.Rename(parent, temporary, parent, name)
	}
	if err != nil {
		dirfd.RemoveDir(parent, temporary)
	}
	if err == unix.ENOENT && exists(filepath.Join(parent.Name(), name)) {
		return fs.ErrExist // another run has made it
	}
	return err
}

// isEmpty returns whether a directory holds nothing that a user put there: mkfs makes lost+found, and areas are ours.
func isEmpty(dir dirfd.Dir) (bool, error) {
	names, err := dirfd.Names(dir)
	return !slices.ContainsFunc(names, func(name string) bool { return name != "lost+found" && !reserved(name) }), err
}

// openBelow opens a directory below the target by its path, without following a link.
func (t *target) openBelow(name string) (dirfd.FD, error) { return dirfd.OpenBelow(t.root, name) }

// shown returns the path of what is copied as users know it.
func (t *target) shown(name string) string { return filepath.Join(t.path, name) }

// close removes what was not put in place.
func (t *target) close() {
	for f := range t.open {
		f.close()
	}
	for _, w := range t.inPlace {
		w.src.Close()
	}
	for _, at := range slices.Backward(t.areas) {
		t.removeArea(at, t.area)
	}
	if t.lock != nil {
		t.lock.Release()
	}
	if t.top != nil {
		t.top.close()
		t.root.Close()
	}
	if t.version != nil {
		t.version.Close()
	}
}

func (t *target) summary() Summary {
	return Summary{
		Path: t.path, Created: int(t.created.Load()), Changed: int(t.changed.Load()), Removed: t.removed, Attributes: int(t.attrOnly.Load()),
		Same: int(t.same.Load()), Kept: int(t.kept.Load()), Bytes: t.bytes.Load(), NotKept: int(t.notKept.Load()), InPlace: t.written,
		Why: strings.Join(t.why, "; "), Duration: time.Since(t.start), DryRun: t.DryRun,
	}
}

// directory is a directory of the target, while it is copied to.
type directory struct {
	t      *target
	path   string // below the target, when all is in place
	fresh  bool   // it is new, and no one else sees it yet
	dst    dirfd.FD
	new    dirfd.FD // where new entries are made: dst of a fresh directory, or an area; -1 before
	denied error    // why no area can be made
	up     *directory
	src    identity
	want   attributes
}

func (f *directory) close() {
	if f.new != f.dst {
		f.new.Close()
	}
	f.dst.Close() // -1 fails, which is no harm
	f.dst, f.new = -1, -1
}

// join returns the path of an entry.
func (f *directory) join(name string) string {
	if f.path == "." {
		return name
	}
	return f.path + "/" + name
}

// place returns the directory in which new entries are made.
func (f *directory) place() (dirfd.FD, error) {
	if f.fresh {
		return f.new, nil
	}
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	if f.new < 0 && f.denied == nil {
		f.new, f.denied = f.t.makeArea(f.dst, f.path)
	}
	return f.new, f.denied
}

// placePath returns the path of that directory, once it is made, below the target.
func (f *directory) placePath() string {
	if f.fresh {
		return path.Join(f.up.placePath(), path.Base(f.path))
	}
	return path.Join(f.path, f.t.area)
}

// old describes what has a name in the directory now, if anything.
func (f *directory) old(name string) (*unix.Stat_t, error) {
	if f.fresh {
		return nil, nil
	}
	s, err := dirfd.Lstat(f.dst, name)
	if err == unix.ENOENT {
		return nil, nil
	}
	return &s, err
}

// enter opens or makes a directory in f. Its attributes are set when it is left.
func (f *directory) enter(name string, src unix.Stat_t, want attributes) (*directory, error) {
	child := &directory{t: f.t, up: f, path: f.join(name), dst: -1, new: -1, src: identityOf(src), want: want}
	old, err := f.old(name)
	switch {
	case err != nil:
	case old != nil && dirfd.IsDir(*old):
		child.dst, err = dirfd.OpenFD(f.dst, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err == nil && !f.t.DryRun {
			err = child.settle()
		}
	case old != nil && f.t.Follow && old.Mode&unix.S_IFMT == unix.S_IFLNK:
		err = errors.New("it is a symbolic link; --follow is for links to the destination itself")
	case old != nil:
		err = errors.New("it exists and is not a directory")
	default:
		err = child.make(name)
	}
	if err != nil {
		child.close()
		return nil, f.t.unwritten(child.path, err)
	}
	f.t.mu.Lock()
	f.t.open[child] = true
	f.t.mu.Unlock()
	return child, nil
}

// make makes a new directory.
func (f *directory) make(name string) (err error) {
	f.fresh = true
	if f.t.DryRun || f.t.version != nil {
		return nil
	}
	dir, err := f.up.place()
	if err != nil {
		return err
	}
	if err = dirfd.Mkdir(dir, name, 0o700); err == unix.EEXIST && f.t.again {
		err = nil
	}
	if err == nil {
		f.dst, err = dirfd.OpenFD(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		f.new = f.dst
	}
	f.t.staged.Add(1)
	return err
}

// settle removes what killed runs have left in an existing directory, and finds the area that an earlier pair has made.
func (f *directory) settle() (err error) {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	for _, name := range f.t.sweep(f.dst) {
		f.t.removeArea(f.path, name)
	}
	if f.t.again && f.t.area != "" {
		f.new, err = dirfd.OpenFD(f.dst, f.t.area, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// leave sets the attributes of a directory after all that lies in it.
func (f *directory) leave(p *Pair) error {
	t := f.t
	t.mu.Lock()
	delete(t.open, f)
	t.mu.Unlock()
	defer f.close()
	if !f.fresh {
		if p.Keep != 0 || p.Owner != nil || p.DirMode != nil {
			t.later(f.path, late{want: f.want, pair: p})
		}
		return nil
	}
	if t.DryRun || t.version != nil {
		return nil
	}
	want := f.want
	s, err := dirfd.Stat(f.dst)
	if err == nil {
		want.mode |= uint32(s.Mode) & unix.S_ISGID // that it has from the directory above
		if up := want.mode | 0o700; !f.up.fresh && up != want.mode {
			t.later(f.path, late{want: want, pair: p, made: true})
			want.mode = up // it can be renamed
		}
		err = t.set(f.dst, "", want)
	}
	if err == nil && t.staged.Load() <= few {
		err = dirfd.Fsync(f.dst)
	}
	return t.unwritten(f.path, err)
}
