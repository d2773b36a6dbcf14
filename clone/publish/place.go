package publish

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/poll"
)

// place is where a directory is, and where its lock, stage and outer marker are.
type place struct {
	path   string   // of the directory, links resolved; in link mode of the directory that holds the link
	base   *os.File // the directory that holds the lock, the stage and some markers
	prefix string   // of their names
	name   string   // of the directory in base; "." if it is base itself; "" in link mode

	top  *os.File  // in link mode, the directory that holds the worktrees' one, and usually the link
	made []entryOf // the inner ones last
	mode uint32    // of those, whatever the umask; 0 to leave it to that

	links    *os.File // in link mode, the directory that holds the link
	linkName string
	toTrees  string // the path from links to base

	fromTrees string // of a link that is not in top: the path from base to it; such a link has a claim

	here   bool // it is the working directory of this process, and of its caller
	marked bool // there is a marker beside the directory, although it is replaced from inside
}

// entryOf is a directory that this run has created in another one.
type entryOf struct {
	parent *os.File
	name   string
}

const (
	lockSuffix   = "-lock"
	markerSuffix = ".json"
	noteSuffix   = "-unfinished"
	oldSuffix    = "-replaced"
	mine         = ".initbox"
	worktrees    = ".worktrees" // git-sync's name
)

func (p *place) inside() bool { return p.name == "." }
func (p *place) link() bool   { return p.name == "" }

// find returns the place of a directory, and refuses one that must not be replaced. It creates missing parents.
func find(o Options) (*place, error) {
	if o.Dir == "" {
		return nil, poll.Permanent(failure.New(failure.Local, "no directory to clone into"))
	}
	p := new(place)
	if o.Access.GroupWrite { // another user of the group may clone there, too
		p.mode = uint32(o.Access.Directory().Perm()) | unix.S_ISGID
	}
	find := p.findDir
	if o.Link != "" {
		find = p.findLink
	}
	if err := find(o); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// findDir finds the directory that is replaced.
func (p *place) findDir(o Options) error {
	if err := p.follow(o); err != nil {
		return err
	}
	above, err := mounts.OpenDir(filepath.Dir(p.path), o.Follow)
	if err == nil {
		defer above.Close()
		p.base, err = openDir(above, ".")
	}
	if err != nil {
		return explain("open the directory of "+o.Dir, err)
	}
	p.name = filepath.Base(p.path)
	p.prefix = "." + short(p.name) + mine
	inside, mounted, err := p.isInside()
	if err != nil {
		return err
	}
	if mounts.System(p.path, mounted) {
		return refuse("%s is part of the system and must not be replaced", o.Dir)
	}
	if dir, err := openAt(p.base, p.name, dirfd.PathOnly|unix.O_DIRECTORY, 0); err == nil {
		p.here = isSame(dir, ".")
		dir.Close()
	}
	if inside {
		p.marked = !mounted && isFile(p.base, p.prefix+markerSuffix)
		p.base.Close()
		if p.base, err = openDir(above, p.name); err != nil {
			return explain("open "+o.Dir, err)
		}
		p.prefix, p.name = mine, "."
	}
	return nil
}

// close closes the directories, and removes those that were created and that are empty.
func (p *place) close() error {
	for _, dir := range slices.Backward(p.made) {
		dirfd.RemoveDir(dir.parent, dir.name)
		dir.parent.Close()
	}
	p.made = nil
	for _, dir := range []*os.File{p.top, p.links} {
		if dir != nil {
			dir.Close()
		}
	}
	if p.base == nil {
		return nil
	}
	return p.base.Close()
}

// findLink finds the directory of the worktrees.
func (p *place) findLink(o Options) error {
	if err := p.follow(o); err != nil {
		return err
	}
	dir, err := mounts.MakeDirs(p.path, o.Follow, p.make)
	if err != nil {
		return explain("make "+o.Dir, err)
	}
	defer dir.Close()
	if p.top, err = openDir(dir, "."); err != nil {
		return explain("open "+o.Dir, err)
	}
	if err := p.findLinks(o); err != nil {
		return err
	}
	trees := filepath.Join(p.path, worktrees)
	made := p.make(p.top, worktrees)
	if made != nil && !isAny(made, unix.EEXIST, unix.EROFS, unix.EACCES) {
		return explain("make "+trees, made)
	}
	p.base, err = openDir(p.top, worktrees)
	switch {
	case errors.Is(err, fs.ErrNotExist) && made != nil:
		return explain("make "+trees, made)
	case err != nil:
		return explain("open "+trees, err)
	}
	p.prefix = mine
	return nil
}

// findLinks finds the directory of the link, which it creates.
func (p *place) findLinks(o Options) error {
	link := filepath.Clean(o.Link)
	if !filepath.IsAbs(link) {
		link = filepath.Join(p.path, link)
	}
	p.linkName = filepath.Base(link)
	if strings.HasSuffix(o.Link, "/") || strings.HasSuffix(o.Link, "/.") || p.linkName == worktrees {
		return refuseLink("%q is not a name for a link", o.Link)
	}
	if strings.HasPrefix(p.path+"/", link+"/") {
		return refuseLink("the link %s would be %s itself, or a directory above it", o.linkPath(), o.Dir)
	}
	above := filepath.Dir(link)
	if above == p.path {
		above = "."
	} else if !o.Follow {
		if err := ownLinks(above); err != nil {
			return err
		}
	}
	p.toTrees = worktrees
	if above == "." {
		var err error
		if p.links, err = openDir(p.top, "."); err != nil {
			return explain("open "+o.Dir, err)
		}
	} else if err := p.findElsewhere(o, above); err != nil {
		return err
	}
	if s, err := dirfd.Lstat(p.links, p.linkName); err == nil && s.Mode&unix.S_IFMT != unix.S_IFLNK {
		return notLink(o.linkPath())
	}
	return nil
}

// findElsewhere finds the directory of a link that is not in Dir. The link is relative, as git-sync's is: a volume may
// be mounted elsewhere in another container.
func (p *place) findElsewhere(o Options, above string) error {
	dir, err := mounts.MakeDirs(above, o.Follow, p.make)
	if err != nil {
		return explainPath(above, err)
	}
	defer dir.Close()
	if p.links, err = openDir(dir, "."); err != nil {
		return explain("open "+above, err)
	}
	above = dir.Name()
	trees := filepath.Join(p.path, worktrees)
	if strings.HasPrefix(above+"/", trees+"/") {
		return refuseLink("the link %s is among the trees in %s", o.linkPath(), trees)
	}
	if p.toTrees, err = filepath.Rel(above, trees); err != nil || above == p.path {
		return err
	}
	p.fromTrees, err = filepath.Rel(trees, filepath.Join(above, p.linkName))
	return err
}

// follow sets the path of a directory that may be missing, and creates its parents. It resolves symbolic links, except
// those in volumes and those that a user has put into another user's directory, which it refuses.
func (p *place) follow(o Options) error {
	path, err := filepath.Abs(o.Dir)
	if err != nil {
		return explain("find "+o.Dir, err)
	}
	if !o.Follow {
		if err := ownLinks(path); err != nil {
			return err
		}
	}
	dir, err := mounts.OpenDir(path, o.Follow)
	if err == nil {
		p.path = dir.Name()
		return dir.Close()
	}
	if stat, failed := os.Stat(path); failed == nil && !stat.IsDir() {
		return refuse("%s exists and is not a directory", o.Dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if to, err := os.Readlink(path); err == nil {
			return refuse("%s is a symbolic link to %s, which does not exist", path, failure.Printable(to))
		}
		var parent *os.File
		if parent, err = mounts.MakeDirs(filepath.Dir(path), o.Follow, p.make); err == nil {
			p.path = filepath.Join(parent.Name(), filepath.Base(path))
			return parent.Close()
		}
	}
	return explainPath(o.Dir, err)
}

// explainPath explains why a directory cannot be opened or made.
func explainPath(dir string, err error) error {
	if link := new(mounts.LinkError); errors.As(err, &link) {
		return poll.Permanent(failure.New(failure.Local, "%s", failure.Printable(link.Error())).WithHint(link.Hint()))
	}
	return explain("find "+dir, err)
}

// make creates a directory, which close removes if it is empty then.
func (p *place) make(parent *os.File, name string) error {
	err := dirfd.Mkdir(parent, name, 0o755)
	if err == nil && p.mode != 0 {
		err = dirfd.SetMode(parent, name, p.mode)
	}
	if err != nil {
		return err
	}
	again, err := openAt(parent, ".", dirfd.PathOnly|unix.O_DIRECTORY, 0)
	if err == nil {
		p.made = append(p.made, entryOf{again, name})
	}
	return err
}

// ownLinks refuses a path through a link that a user has put into another user's directory. In a directory that
// everyone may write to, such a link could make this run replace a directory that the link's owner may not.
func ownLinks(path string) error {
	for ; path != "/"; path = filepath.Dir(path) {
		link, err := os.Lstat(path)
		if err != nil {
			continue
		}
		dir, err := os.Stat(filepath.Dir(path))
		if err != nil || mayFollow(stat(link), stat(dir), os.Geteuid()) {
			continue
		}
		return refuse("%s is a symbolic link that user %d has put into a directory of user %d", path, stat(link).Uid, stat(dir).Uid)
	}
	return nil
}

func stat(i fs.FileInfo) *syscall.Stat_t { return i.Sys().(*syscall.Stat_t) }

// mayFollow returns whether a user may follow what is in a directory, if it is a link. The rule is that of
// fs.protected_symlinks, see proc_sys_fs(5).
func mayFollow(link, directory *syscall.Stat_t, user int) bool {
	return link.Mode&syscall.S_IFMT != syscall.S_IFLNK || link.Uid == 0 || int(link.Uid) == user || link.Uid == directory.Uid
}

// isInside returns whether the content of the directory has to be replaced, not the directory itself: because it is a
// mount point, or because its parent is not writable.
func (p *place) isInside() (inside, mounted bool, err error) {
	if p.path == "/" {
		return true, true, nil
	}
	above, err := dirfd.Inspect(p.base, ".")
	if err != nil {
		return false, false, explain("look at "+p.base.Name(), err)
	}
	here, err := dirfd.Inspect(p.base, p.name)
	if errors.Is(err, unix.ENOENT) {
		return false, false, nil
	}
	if err != nil {
		return false, false, explain("look at "+p.path, err)
	}
	if here.MountRoot || here.Mount != above.Mount {
		return true, true, nil
	}
	return dirfd.Access(p.base, ".", unix.W_OK|unix.X_OK) != nil, false, nil
}

// short cuts a name so that a prefix and suffix fit. Two long names that begin alike
// share their lock, so that one run waits for the other.
func short(name string) string {
	const longest = 255 - 60 // bytes, on most file systems
	return name[:min(len(name), longest)]
}

// isStage returns whether a name is that of a stage.
func (p *place) isStage(name string) bool {
	id, ok := strings.CutPrefix(name, p.prefix+"-")
	return ok && len(id) == idLength && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// reserved returns whether a name in base is one of initbox's own.
func (p *place) reserved(name string) bool {
	return name == p.prefix+lockSuffix || name == p.prefix+markerSuffix || name == p.note() || p.isStage(name)
}

// note returns the name, in base, of the note of an unfinished replacement, see [swap.begin].
func (p *place) note() string { return p.prefix + noteSuffix }
