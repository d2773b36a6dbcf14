package archive

import (
	"archive/tar"
	"hash/maphash"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
)

// link is a symbolic link. All of them are made at the end, so that no entry can be written through one.
type link struct {
	target string
	time   time.Time
}

// maxSteps limits the bytes of the names that are looked up to find out where all links lead: more than a million usual
// links have, and what takes about a second.
const maxSteps = 256 << 20

// maxLinks is how many links the kernel follows in one path, see path_resolution(7).
const maxLinks = 40

func (t *Tree) symlink(name string, l link) error {
	if l.target == "" || len(l.target) >= maxName || strings.Contains(l.target, "\x00") {
		return permanent("%s is a symbolic link whose target has %d bytes", printable(name), len(l.target))
	}
	if err := t.keep(name, l.target); err != nil {
		return err
	}
	if _, _, err := t.vacate(name); err != nil {
		return err
	}
	t.links[name] = l
	t.sum.Files++
	return nil
}

// makeLinks makes the symbolic links, if none leads out of the directory.
func (t *Tree) makeLinks() error {
	names := slices.Sorted(maps.Keys(t.links))
	for _, name := range names {
		if !t.o.KeepLinks && t.leadsOut(name) {
			err := permanent("%s is a symbolic link to %s, which leads out of the directory", printable(name), printable(t.links[name].target))
			return failure.WithHint(err, "leave it out with exclude="+printable(name))
		}
		if t.steps < 0 {
			return permanent("its symbolic links lead through too many directories and other links")
		}
	}
	for _, name := range names {
		l := t.links[name]
		delete(t.links, name) // made
		at, base, err := t.at.Parent(name)
		if err != nil {
			return err
		}
		if err = dirfd.Symlink(l.target, at, base); err != nil {
			return t.failed("make the symbolic link", name, t.occupied(at, base, name, err))
		}
		if o := t.o.Owner; o != nil {
			if err := dirfd.Chown(at, base, o.UID, o.GID); err != nil {
				return t.failed("change the owner of", name, err)
			}
		}
		if !l.time.IsZero() {
			_ = setTime(at, base, l.time) // some file systems cannot
		}
	}
	return nil
}

// leadsOut returns whether the kernel would come out of the directory when it follows a link. A link to something that
// is missing is fine, and so are links that lead to each other.
func (t *Tree) leadsOut(name string) bool {
	at := strings.Split(path.Dir(name), "/") // no link among them, see enter
	if at[0] == "." {
		at = nil
	}
	for rest, followed := t.links[name].target, 1; rest != "" && followed <= maxLinks; {
		if strings.HasPrefix(rest, "/") {
			return true
		}
		var next string
		next, rest, _ = strings.Cut(rest, "/")
		rest = strings.TrimLeft(rest, "/")
		switch next {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return true
			}
			at = at[:len(at)-1]
			continue
		}
		at = append(at, next)
		here := strings.Join(at, "/")
		if t.steps -= len(here); t.steps < 0 {
			return false // which makeLinks reports
		}
		if l, isLink := t.links[here]; isLink {
			at, rest = at[:len(at)-1], l.target+"/"+rest
			t.steps -= len(rest)
			followed++
		}
	}
	return false
}

// hardLink gives a file that the tree has written another name, or copies it where the file system cannot do that.
func (t *Tree) hardLink(name, target string) error {
	_, old, err := t.o.nameOf(target)
	if err != nil || old == name {
		return err
	}
	if l, isLink := t.links[old]; isLink {
		return t.symlink(name, l)
	}
	isDir, before := t.written[maphash.String(t.seed, old)]
	if old == "" || isDir || !before {
		err := permanent("%s is a hard link to %s, which is not a file in the archive before it, or was left out", printable(name), printable(target))
		return failure.WithHint(err, "leave it out with exclude="+printable(name))
	}
	from, oldBase, err := t.at.Parent(old)
	if err != nil {
		return err
	}
	dir, err := dirfd.OpenFD(from, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0) // the tree may close its own
	if err != nil {
		return t.failed("open the directory of", old, err)
	}
	defer dir.Close()
	at, base, err := t.vacate(name)
	if err != nil {
		return err
	}
	switch err = dirfd.Link(dir, oldBase, at, base); err {
	case unix.EPERM, unix.ENOTSUP, unix.ENOSYS, unix.EMLINK:
		return t.copy(name, dir, oldBase)
	}
	t.sum.Files++
	return t.failed("make the hard link", name, t.occupied(at, base, name, err))
}

// copy writes a copy of a file.
func (t *Tree) copy(name string, dir dirfd.FD, old string) error {
	from, err := dirfd.OpenFD(dir, old, unix.O_RDONLY, 0)
	if err != nil {
		return t.failed("copy to", name, err)
	}
	defer from.Close()
	s, err := dirfd.Stat(from)
	if err != nil {
		return t.failed("copy to", name, err)
	}
	h := &tar.Header{Mode: int64(s.Mode & 0o777), Size: s.Size, ModTime: time.Unix(s.Mtim.Unix())}
	return t.file(name, h, io.LimitReader(from, s.Size))
}
