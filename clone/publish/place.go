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
	"initbox/internal/poll"
)

// place is where a directory is, and where its lock, stage and outer marker are.
type place struct {
	path   string   // of the directory, links resolved; in link mode of the directory that holds the link
	base   *os.File // the directory that holds the lock, the stage and some markers
	prefix string   // of their names
	name   string   // of the directory in base; "." if it is base itself; "" in link mode
}

const (
	lockSuffix   = "-lock"
	markerSuffix = ".json"
	mine         = ".initbox"
	worktrees    = ".worktrees" // git-sync's name
)

func (p *place) inside() bool { return p.name == "." }
func (p *place) link() bool   { return p.name == "" }

// find returns the place of a directory, and refuses one that must not be replaced.
func find(o Options) (p *place, err error) {
	if o.Dir == "" {
		return nil, poll.Permanent(failure.New(failure.Local, "no directory to clone into"))
	}
	p = new(place)
	if p.path, err = follow(o.Dir); err != nil {
		return nil, err
	}
	if o.Link != "" {
		return p, p.findLink(o)
	}
	parent, err := os.Open(filepath.Dir(p.path))
	if err != nil {
		return nil, explain("open the directory of "+o.Dir, err)
	}
	p.base, p.name = parent, filepath.Base(p.path)
	inside, err := p.isInside()
	if err == nil && precious(p.path, inside) {
		err = refuse("%s is part of the system and must not be replaced", o.Dir)
	}
	if err != nil {
		parent.Close()
		return nil, err
	}
	p.prefix = "." + short(p.name) + mine
	if inside {
		parent.Close()
		p.prefix, p.name = mine, "."
		if p.base, err = os.Open(p.path); err != nil {
			return nil, explain("open "+o.Dir, err)
		}
	}
	return p, nil
}

// findLink finds the directory of the worktrees.
func (p *place) findLink(o Options) error {
	if o.Link != filepath.Base(o.Link) || o.Link == "." || o.Link == ".." || o.Link == "/" || o.Link == worktrees {
		return refuse("the link's name, %q, is not a file name", o.Link)
	}
	path := filepath.Join(p.path, worktrees)
	if s, err := os.Lstat(filepath.Join(p.path, o.Link)); err == nil && s.Mode().Type() != fs.ModeSymlink {
		return refuse("%s in %s is not a symbolic link", o.Link, o.Dir)
	}
	if err := os.MkdirAll(p.path, 0o755); err != nil {
		return explain("make "+o.Dir, err)
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) && !isAny(err, unix.EROFS, unix.EACCES) {
		return explain("make "+path, err)
	}
	base, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return explain("open "+path, err)
	}
	p.base, p.prefix = base, mine
	return nil
}

// follow returns the absolute path of a directory that may be missing. It resolves symbolic
// links, except another user's, which it refuses.
func follow(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", explain("find "+dir, err)
	}
	if err := ownLinks(path); err != nil {
		return "", err
	}
	stat, err := os.Stat(path)
	if err == nil && !stat.IsDir() {
		return "", refuse("%s exists and is not a directory", dir)
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	} else if errors.Is(err, fs.ErrNotExist) {
		path, err = followParent(path)
	}
	if err != nil {
		return "", explain("find "+dir, err)
	}
	return path, nil
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

// followParent is follow for a missing directory. It creates the parent directories.
func followParent(path string) (string, error) {
	if to, err := os.Readlink(path); err == nil {
		return "", refuse("%s is a symbolic link to %s, which does not exist", path, failure.Printable(to))
	}
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(parent)
	return filepath.Join(parent, filepath.Base(path)), err
}

// isInside returns whether the content of the directory has to be replaced, not the directory
// itself: because it is a mount point, or because its parent is not writable.
func (p *place) isInside() (bool, error) {
	if p.path == "/" {
		return true, nil
	}
	above, err := dirfd.Inspect(p.base, ".")
	if err != nil {
		return false, explain("look at "+p.base.Name(), err)
	}
	here, err := dirfd.Inspect(p.base, p.name)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, explain("look at "+p.path, err)
	}
	if here.MountRoot || here.Mount != above.Mount {
		return true, nil
	}
	return dirfd.Access(p.base, ".", unix.W_OK|unix.X_OK) != nil, nil
}

// precious returns whether a directory belongs to the system and must not be replaced by a
// repository. Some of them may be replaced if a volume is mounted there.
func precious(path string, mounted bool) bool {
	never := []string{"/", "/dev", "/proc", "/sys"}
	system := []string{
		"/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt", "/opt", "/root", "/run",
		"/sbin", "/srv", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/local", "/usr/local/bin",
		"/usr/sbin", "/usr/share", "/var", "/var/lib", "/var/log", "/var/run", "/var/tmp",
	}
	return slices.Contains(never, path) || !mounted && slices.Contains(system, path)
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
	return name == p.prefix+lockSuffix || name == p.prefix+markerSuffix || p.isStage(name)
}
