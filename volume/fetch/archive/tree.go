package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/internal/poll"
)

// Tree writes entries below a directory. Each directory on the way to an entry is opened by its name in the one above,
// and links are not followed. The tree's own symbolic links are made by Close, after it has seen where all of them
// together lead. A Tree is for one goroutine; several may write entries of different names into one directory.
type Tree struct {
	o   Options
	sum Summary
	err error
	at  dirfd.Descent

	ended  bool // no more directories are made
	passed bool // an entry was not selected
	room   int  // bytes that names which are kept may still take
	steps  int  // bytes of names that may still be looked up to find out where links lead
	buf    []byte

	seed    maphash.Seed
	written map[uint64]bool     // digests of the names of this tree: whether it is a directory
	dirs    map[string]dirEntry // whose modes and times are set at the end
	links   map[string]link
}

type dirEntry struct {
	mode uint32
	time time.Time
}

const (
	maxName  = 4096     // PATH_MAX
	maxKept  = 64 << 20 // bytes of names of directories and links, which are kept until the end
	copySize = 128 << 10
)

// NewTree returns a Tree that writes below dir, which the caller closes after the Tree.
func NewTree(dir dirfd.Dir, o Options) *Tree {
	t := &Tree{
		o: o, at: dirfd.Descent{Root: dir}, room: maxKept, steps: maxSteps, seed: maphash.MakeSeed(), buf: make([]byte, copySize),
		written: map[uint64]bool{}, dirs: map[string]dirEntry{}, links: map[string]link{},
	}
	t.at.Open = t.enter
	return t
}

// Summary returns what was written so far.
func (t *Tree) Summary() Summary { return t.sum }

// Put writes one entry, whose content is r. Of two entries with the same name the later one wins, except that nothing
// replaces a directory, and a directory nothing else: that is an error, and so is anything with the name that the tree
// has not written itself. A directory on the way that has no entry is made, with mode 0755. Devices and named pipes are
// counted and not made. After an error, the tree takes no more entries.
func (t *Tree) Put(h *tar.Header, r io.Reader) error {
	if t.err == nil {
		t.err = t.put(h, r)
	}
	return t.err
}

func (t *Tree) put(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader || h.Typeflag == volumeLabel {
		return nil // defaults for what follows, such as git's commit
	}
	full, name, err := t.o.nameOf(h.Name)
	if err != nil || name == "" || !t.o.selects(full) {
		t.passed = t.passed || full != ""
		return err
	}
	if t.o.To != "" {
		return t.only(h, r)
	}
	switch h.Typeflag {
	case tar.TypeReg, '\x00', tar.TypeCont, tar.TypeGNUSparse:
		return t.file(name, h, r)
	case tar.TypeDir:
		return t.dir(name, h)
	case tar.TypeSymlink:
		return t.symlink(name, link{h.Linkname, h.ModTime})
	case tar.TypeLink:
		return t.hardLink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		t.sum.Skipped++
		return nil
	}
	return permanent("%s has the type %q, which is not supported", printable(h.Name), h.Typeflag)
}

// only writes the file that is called To.
func (t *Tree) only(h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeReg, '\x00', tar.TypeCont, tar.TypeGNUSparse:
		if t.sum.Files > 0 {
			err := permanent("it has more than one file, and all of them would be %s: %s is the second", printable(t.o.To), printable(h.Name))
			return failure.WithHint(err, "select one with include")
		}
		return t.file(t.o.To, h, r)
	}
	return permanent("%s is not a file, and cannot be %s", printable(h.Name), printable(t.o.To))
}

const volumeLabel = 'V' // GNU tar's

// count counts an entry that is new.
func (t *Tree) count(name string, dir bool) error {
	key := maphash.String(t.seed, name)
	if _, known := t.written[key]; !known && t.o.MaxFiles > 0 && len(t.written) == t.o.MaxFiles {
		return limit("with %s, it has more than %d files, links and directories", "max-files", printable(name), t.o.MaxFiles)
	}
	t.written[key] = dir
	return nil
}

// limit returns the error of a setting that limits what an archive may have.
func limit(format, setting string, args ...any) error {
	hint := "it may have been made to fill disks; if it is meant so, raise " + setting
	return failure.WithHint(permanent(format, args...), hint)
}

// keep counts the memory that names take until the end.
func (t *Tree) keep(names ...string) error {
	for _, name := range names {
		t.room -= len(name) + 64
	}
	if t.room < 0 {
		return permanent("its directories and links have names that take more than %d MiB of memory", maxKept>>20)
	}
	return nil
}

// enter opens a directory, and makes it if it is missing.
func (t *Tree) enter(at dirfd.Dir, base, name string) (dirfd.FD, error) {
	if l, isLink := t.links[name]; isLink {
		return 0, permanent("it has an entry below %s, which it says is a symbolic link to %s", printable(name), printable(l.target))
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	fd, err := dirfd.OpenFD(at, base, flags, 0)
	if err == nil {
		if err = t.adopt(at, base, name); err != nil {
			fd.Close()
		}
		return fd, err
	}
	if err != unix.ENOENT || t.ended {
		return 0, t.failed("open the directory", name, t.occupied(at, base, name, err))
	}
	if err := t.count(name, true); err != nil {
		return 0, err
	}
	if err = dirfd.Mkdir(at, base, 0o700); err == nil || err == unix.EEXIST {
		fd, err = dirfd.OpenFD(at, base, flags, 0)
	}
	if err != nil {
		return 0, t.failed("make the directory", name, err)
	}
	if _, found := t.dirs[name]; !found {
		if err = t.keep(name); err == nil {
			t.dirs[name] = dirEntry{mode: 0o755}
		}
	}
	if err == nil {
		err = t.chmod(fd, name, 0o700) // whatever the umask
	}
	if err != nil {
		fd.Close()
	}
	return fd, err
}

// adopt counts a directory that the tree has found, not made.
func (t *Tree) adopt(at dirfd.Dir, base, name string) error {
	if _, known := t.written[maphash.String(t.seed, name)]; known || t.ended {
		return nil
	}
	if twin(at, base) {
		return t.failed("make the directory", name, errTwin)
	}
	return t.count(name, true)
}

// twin returns whether a name in a directory, under which something was found, is written there in another case: the
// volume does not distinguish upper and lower case.
func twin(at dirfd.Dir, base string) bool {
	names, err := dirfd.Names(at)
	return err == nil && !slices.Contains(names, base)
}

var (
	errTwin     = poll.Permanent(errors.New("there is one whose name differs only in upper and lower case, which the volume does not distinguish"))
	errOccupied = poll.Permanent(errors.New("something else has that name already"))
)

// occupied returns why a name is taken, if err says that it is.
func (t *Tree) occupied(at dirfd.Dir, base, name string, err error) error {
	if err != unix.EEXIST && err != unix.ENOTDIR && err != unix.ELOOP {
		return err
	}
	if twin(at, base) {
		return errTwin
	}
	return errOccupied
}

// dir makes a directory. Its mode and time are set at the end, because they may not let anything be written to it, and
// because writing changes its time.
func (t *Tree) dir(name string, h *tar.Header) error {
	if err := t.keep(name); err != nil {
		return err
	}
	if _, err := t.at.To(name); err != nil {
		return err
	}
	t.dirs[name] = dirEntry{uint32(h.Mode), h.ModTime}
	return nil
}

// file writes a file. A size of -1 is not known.
func (t *Tree) file(name string, h *tar.Header, r io.Reader) error {
	at, base, err := t.vacate(name)
	if err != nil {
		return err
	}
	fd, err := dirfd.OpenFD(at, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return t.failed("make", name, t.occupied(at, base, name, err))
	}
	if err = t.fill(fd, name, h, r); err == nil {
		err = t.settle(fd, name, uint32(h.Mode), false)
	}
	if err == nil && !h.ModTime.IsZero() {
		err = t.failed("set the time of", name, setTime(fd, "", h.ModTime))
	}
	if failed := fd.Close(); err == nil {
		err = t.failed("write", name, failed)
	}
	t.sum.Files++
	return err
}

// vacate opens the directory of an entry that is not one, and removes what the tree has written there before.
func (t *Tree) vacate(name string) (at dirfd.Dir, base string, err error) {
	if at, base, err = t.at.Parent(name); err != nil {
		return nil, "", err
	}
	isDir, before := t.written[maphash.String(t.seed, name)]
	if _, isLink := t.links[name]; isLink {
		delete(t.links, name)
	} else if before {
		if err = dirfd.Remove(at, base); err == unix.EISDIR || isDir && err == unix.EPERM {
			return nil, "", permanent("it has %s both as a directory and as something else", printable(name))
		} else if err != nil && err != unix.ENOENT {
			return nil, "", t.failed("replace", name, err)
		}
	}
	return at, base, t.count(name, false)
}

// fill writes the content of a file.
func (t *Tree) fill(fd dirfd.FD, name string, h *tar.Header, r io.Reader) error {
	sparse := h.Typeflag == tar.TypeGNUSparse || h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != ""
	size := int64(0)
	for {
		n, err := r.Read(t.buf)
		size += int64(n)
		if t.sum.Bytes += int64(n); t.o.MaxSize > 0 && t.sum.Bytes > t.o.MaxSize {
			return limit("with %s, its files have more than %d bytes", "max-size", printable(name), t.o.MaxSize)
		}
		if failed := write(fd, t.buf[:n], sparse); failed != nil {
			return t.failed("write", name, failed)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if h.Size >= 0 && size != h.Size {
		return permanent("%s has %d bytes and not %d, as the archive says", printable(name), size, h.Size)
	}
	if sparse {
		return t.failed("write", name, fd.Truncate(size))
	}
	return nil
}

// write writes a part of a file. Zeros in a sparse one become a hole.
func write(fd dirfd.FD, p []byte, sparse bool) error {
	if sparse && len(bytes.TrimLeft(p, "\x00")) == 0 {
		return fd.Skip(int64(len(p)))
	}
	_, err := fd.Write(p)
	return err
}

// settle sets the owner, then the mode, because chown clears bits of it.
func (t *Tree) settle(fd dirfd.FD, name string, mode uint32, dir bool) error {
	mode &= 0o777
	if dir {
		s, err := dirfd.Stat(fd)
		if err != nil {
			return t.failed("look at", name, err)
		}
		mode |= uint32(s.Mode) & unix.S_ISGID // which it inherits from the volume, as with fsGroup
	}
	if rule, found := perm.LastMatch(t.o.Mode, name); found && !dir {
		mode = rule.Of(mode, false)
	}
	if o := t.o.Owner; o != nil {
		if err := fd.Chown(o.UID, o.GID); err != nil {
			return t.failed("change the owner of", name, err)
		}
	}
	return t.chmod(fd, name, mode)
}

func (t *Tree) chmod(fd dirfd.FD, name string, mode uint32) error {
	err := fd.Chmod(mode)
	if err == unix.EPERM || err == unix.ENOTSUP || err == unix.ENOSYS {
		return nil // vfat has no modes, and a mount of SMB has the same for all
	}
	return t.failed("change the mode of", name, err)
}

// Close makes the symbolic links, and sets the modes and times of the directories, unless a Put has failed.
func (t *Tree) Close() error {
	if t.err == nil {
		t.err = t.makeLinks()
	}
	if t.err == nil {
		t.err = t.settleDirs()
	}
	t.at.Close()
	return t.err
}

// settleDirs sets the modes and times of the directories, those below before those above.
func (t *Tree) settleDirs() error {
	t.ended = true
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(t.dirs))) {
		d := t.dirs[name]
		at, err := t.at.To(name)
		if errors.Is(err, unix.ENOENT) {
			continue // removed
		}
		if err == nil {
			err = t.settle(at.(dirfd.FD), name, d.mode, true)
		}
		if err == nil && !d.time.IsZero() {
			err = t.failed("set the time of", name, setTime(at, "", d.time))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setTime sets the time of the last change. One that the kernel cannot store is the beginning of 1970.
func setTime(f dirfd.Dir, name string, modified time.Time) error {
	written, _ := unix.TimeToTimespec(modified)
	return dirfd.SetTimes(f, name, unix.Timespec{Nsec: dirfd.OmitTime}, written)
}

// failed returns the error of a system call.
func (t *Tree) failed(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, printable(name), err)
}
