package copy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/perm"
)

// source is one file or directory to copy.
type source struct {
	dir  dirfd.FD // that it lies in; of a directory whose content is copied, itself; open until the end of the run
	name string   // in dir; "" for the content of a directory
	up   string   // dir as a user would write it
	stat unix.Stat_t
	many bool // one of several, or of a pattern: the destination is a directory

	follow bool // symbolic links
}

// dataLink is the link in a mounted ConfigMap, Secret, projected volume or downward API to the directory with the
// current version. The kubelet makes a new directory, switches the link, and removes the old directory.
const dataLink = "..data"

// errSwapped means that the kubelet has replaced a mount while it was read.
var errSwapped = errors.New("it was replaced each time while it was being read")

// mounted returns the version of the volume at path that this run reads, or false if the directory is not such a
// volume. All that one run copies from it is of that version.
func (r *run) mounted(path string, dir dirfd.Dir) (dirfd.FD, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version, found := r.mounts[path]; found {
		return version, true, nil
	}
	if _, err := dirfd.Readlink(dir, dataLink); err != nil {
		return -1, false, nil
	}
	version, err := dirfd.OpenFollow(dir, dataLink, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, false, err
	}
	r.mounts[path], r.opened = version, append(r.opened, version)
	return version, true, nil
}

// unchanged returns errSwapped if a volume has another version now: files of the old one may have been missed.
func (r *run) unchanged() error {
	for path, version := range r.mounts {
		now, errNow := r.stat(filepath.Join(path, dataLink))
		read, errRead := dirfd.Stat(version)
		if errors.Join(errNow, errRead) != nil || identityOf(now) != identityOf(read) {
			return fmt.Errorf("read %s: %w", failure.Printable(path), errSwapped)
		}
	}
	return nil
}

// orSwapped returns err, or errSwapped if that is its reason.
func (r *run) orSwapped(err error) error {
	if swapped := r.unchanged(); swapped != nil && errors.Is(err, fs.ErrNotExist) {
		return swapped
	}
	return err
}

// open opens a directory that the user named, or the current version of a mounted volume, or a directory in that.
func (r *run) open(path string) (s source, err error) {
	s = source{dir: dirfd.FD(unix.AT_FDCWD), up: path}
	name := path
	for at, below := path, ""; at != below && !s.follow; at, below = filepath.Dir(at), at {
		dir, err := dirfd.OpenFollow(s.dir, at, dirfd.PathOnly|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		version, mounted, err := r.mounted(at, dir)
		dir.Close()
		if err != nil {
			return s, err
		}
		if mounted {
			name, _ = filepath.Rel(at, path)
			s.dir, s.follow = version, true
		}
	}
	if s.dir, err = dirfd.OpenFollow(s.dir, name, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return s, err
	}
	r.opened = append(r.opened, s.dir)
	s.stat, err = dirfd.Stat(s.dir)
	return s, err
}

// sources opens what a pair copies. Missing names a missing one that may be missing.
func (r *run) sources(p *Pair) (all []source, missing string, err error) {
	from := filepath.Clean(p.From)
	_, errStat := r.stat(from)
	switch {
	case p.Newest != "":
		all, err = r.newest(p, from)
	case errors.Is(errStat, fs.ErrNotExist) && strings.ContainsAny(from, "*?["):
		all, err = r.glob(from)
	default:
		all, err = r.single(from, p.Links == "keep")
	}
	for i := range all {
		all[i].follow = all[i].follow && p.Links == "" || p.Links == "follow"
	}
	if err == nil {
		return all, "", nil
	}
	if errors.Is(err, fs.ErrNotExist) && p.Optional {
		return nil, failure.Printable(from) + " does not exist", nil
	}
	err = perm.Failed("read", perm.Read, from, err)
	if errors.Is(err, fs.ErrNotExist) {
		err = failure.WithHint(err, "is the path right, and is its volume mounted here? #optional accepts a missing source")
	}
	return nil, "", err
}

// single opens one file or directory by its path, which may be a link to anywhere: the user named it.
func (r *run) single(from string, keepLink bool) ([]source, error) {
	s, err := r.open(from)
	if err == nil && !(keepLink && isLink(from)) {
		return []source{s}, nil
	}
	if err != nil && !errors.Is(err, unix.ENOTDIR) {
		return nil, err
	}
	parent, err := r.open(filepath.Dir(from))
	if err != nil {
		return nil, err
	}
	parent.name = filepath.Base(from)
	parent.follow = !keepLink
	s, err = parent.named()
	return []source{s}, err
}

// isLink returns whether path is a symbolic link.
func isLink(path string) bool {
	_, err := dirfd.Readlink(dirfd.FD(unix.AT_FDCWD), path)
	return err == nil
}

// named describes the entry s.name of a directory.
func (s source) named() (_ source, err error) {
	if s.follow {
		s.stat, err = statFollow(s.dir, s.name)
	} else {
		s.stat, err = dirfd.Lstat(s.dir, s.name)
	}
	return s, err
}

func statFollow(dir dirfd.Dir, name string) (unix.Stat_t, error) {
	f, err := dirfd.OpenFollow(dir, name, dirfd.PathOnly)
	if err != nil {
		return unix.Stat_t{}, err
	}
	defer f.Close()
	return dirfd.Stat(f)
}

func (r *run) stat(path string) (unix.Stat_t, error) {
	return statFollow(dirfd.FD(unix.AT_FDCWD), path)
}

// exists returns whether a path exists, be it a link that leads nowhere.
func exists(path string) bool {
	_, err := dirfd.Lstat(dirfd.FD(unix.AT_FDCWD), path)
	return err == nil
}

// glob opens what matches a pattern, as a shell would find it: a leading dot is matched only by a dot.
func (r *run) glob(pattern string) (all []source, err error) {
	directories := []string{filepath.Dir(pattern)}
	if strings.ContainsAny(directories[0], "*?[") {
		if directories, err = filepath.Glob(directories[0]); err != nil {
			return nil, err
		}
		directories = slices.DeleteFunc(directories, func(f string) bool { return strings.Contains(f, "/.") && !strings.Contains(pattern, "/.") })
	}
	base := filepath.Base(pattern)
	for _, directory := range directories {
		found, err := r.matches(directory, base)
		if err != nil && !errors.Is(err, unix.ENOTDIR) {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, noMatch("nothing matches the pattern")
	}
	return all, nil
}

// matches opens the entries of a directory that match a pattern, sorted by name.
func (r *run) matches(directory, pattern string) (all []source, err error) {
	in, err := r.open(directory)
	if err != nil {
		return nil, err
	}
	names, err := dirfd.Names(in.dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		matched, err := path.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if !matched || strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern, ".") || in.follow && strings.HasPrefix(name, "..") {
			continue
		}
		one := in
		one.name, one.many = name, true
		one, err = one.named()
		if err == nil {
			all = append(all, one)
		} else if err != unix.ENOENT {
			return nil, err
		}
	}
	return all, nil
}

// noMatch is the error of a pattern that nothing matches. It counts as a file that does not exist.
type noMatch string

func (e noMatch) Error() string        { return string(e) }
func (e noMatch) Is(target error) bool { return target == fs.ErrNotExist }

// newest opens the newest entry of a directory that matches the pair's pattern.
func (r *run) newest(p *Pair, directory string) ([]source, error) {
	all, err := r.matches(directory, p.Newest)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, noMatch("nothing matches " + failure.Printable(p.Newest))
	}
	newest := slices.MaxFunc(all, func(a, b source) int {
		later := 0
		if p.ByTime {
			later = cmp.Compare(unix.TimespecToNsec(a.stat.Mtim), unix.TimespecToNsec(b.stat.Mtim))
		}
		return cmp.Or(later, compareVersions(a.name, b.name))
	})
	newest.many = false
	return []source{newest}, nil
}

// compareVersions compares names by the versions in them: numbers by their value, 1.10 after 1.9; and 1.0-rc1 and
// 1.0~rc1 before 1.0, which is before 1.0.1.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		switch {
		case x != "" && y != "":
			m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if c := cmp.Or(len(m)-len(n), strings.Compare(m, n)); c != 0 {
				return c
			}
			a, b = a[len(x):], b[len(y):]
		case x != "" || y != "":
			return len(x) - len(y)
		case a[0] != b[0]:
			return rank(a[0]) - rank(b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	if pre := a + b; pre != "" && rank(pre[0]) < 0 && digits(pre[1:]) == "" {
		return len(b) - len(a)
	}
	return len(a) - len(b)
}

// rank orders characters that are not digits: those that begin a pre-release first.
func rank(c byte) int {
	if i := strings.IndexByte("~-", c); i >= 0 {
		return i - 2
	}
	return int(c)
}

// digits returns the number that a text begins with.
func digits(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }
