package worktree

import (
	"cmp"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"golang.org/x/sys/unix"

	"initbox/clone/access"
	"initbox/clone/object"
	"initbox/clone/pack"
	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/words"
)

// modeOf returns the mode of a file or directory.
func modeOf(a access.Access, of filemode.FileMode) uint32 {
	if of != filemode.Dir {
		return uint32(a.File(of == filemode.Executable))
	}
	mode := a.Directory()
	bits := uint32(mode.Perm())
	if mode&fs.ModeSetgid != 0 {
		bits |= unix.S_ISGID
	}
	return bits
}

// gives returns whether the owner of a file with that state has to be changed.
func gives(a access.Access, s unix.Stat_t) bool {
	o := a.Owner
	return o != nil && (o.UID != -1 && uint32(o.UID) != s.Uid || o.GID != -1 && uint32(o.GID) != s.Gid)
}

// place writes a blob to a file, or records it as the target of a symbolic link. If c has
// neither Bytes nor File, the content is in the pack.
func (t *Tree) place(e *Entry, o *pack.Object, c pack.Content) error {
	if e.Mode == filemode.Symlink {
		return t.addLink(e, c)
	}
	if err := t.charge(e, c.Size); err != nil {
		return err
	}
	if c.File != nil && o.Placed.Load() == 0 && t.adopt(e, c.File) == nil {
		t.remember(e, o)
		return t.settle(e, dirfd.FD(c.File.Fd()))
	}
	err := t.create(e, func(fd dirfd.FD) error {
		if c.File == nil && (c.Bytes != nil || c.Size == 0) {
			_, err := fd.Write(c.Bytes)
			return err
		}
		w := &writer{fd: fd}
		if c.File == nil {
			return o.CopyTo(w)
		}
		_, err := io.CopyBuffer(w, io.NewSectionReader(c.File, 0, c.Size), make([]byte, copySize))
		return err
	})
	if err == nil && o.Placed.Load() == 0 {
		t.remember(e, o)
	}
	return err
}

const copySize = 128 << 10

// remember lets Base find the content of o in the file of e.
func (t *Tree) remember(e *Entry, o *pack.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bases = append(t.bases, e)
	o.Placed.Store(uint32(len(t.bases)))
}

// Base returns the content of a blob from the file that it was written to.
func (t *Tree) Base(o *pack.Object, buf []byte) ([]byte, bool) {
	n := o.Placed.Load()
	if n == 0 || t.replaced.Load() {
		return buf, false
	}
	t.mu.Lock()
	e := t.bases[n-1]
	t.mu.Unlock()
	fd, err := t.openat(e, unix.O_RDONLY, 0)
	if err != nil {
		return buf, false
	}
	defer fd.Close()
	if int64(cap(buf)) <= o.Size {
		buf = make([]byte, max(o.Size+1, 16<<10))
	}
	buf = buf[:o.Size+1] // one more, to see whether the file ends
	got, _ := io.ReadFull(fd, buf)
	return buf[:got], int64(got) == o.Size
}

// create makes the file of an entry, which must not exist, and calls fill to write its
// content. If the umask suits, that is openat, write, fstat and close.
func (t *Tree) create(e *Entry, fill func(fd dirfd.FD) error) error {
	fd, err := t.openat(e, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, modeOf(t.Access, e.Mode))
	if err == nil {
		err = fill(fd)
		if err == nil {
			err = t.settle(e, fd)
		}
		err = cmp.Or(err, fd.Close())
	}
	if err != nil && !errors.As(err, new(*failure.Failure)) {
		return local("write", e, err)
	}
	return err
}

// settle sets the mode and owner of a file, and records its state for the index.
func (t *Tree) settle(e *Entry, fd dirfd.FD) error {
	s, err := dirfd.Stat(fd)
	if err != nil {
		return err
	}
	mode := modeOf(t.Access, e.Mode)
	if gives(t.Access, s) || uint32(s.Mode)&0o7777 != mode && !t.modeless.Load() {
		if err := t.adjust(e, fd, s, mode); err != nil {
			return err
		}
		if s, err = dirfd.Stat(fd); err != nil {
			return err
		}
		if uint32(s.Mode)&0o100 != mode&0o100 {
			t.modeless.Store(true)
		}
	}
	if t.Stat {
		e.stat = statOf(s)
	}
	return nil
}

// adjust changes the owner, then the mode, because chown clears bits of the mode.
func (t *Tree) adjust(e *Entry, fd dirfd.FD, s unix.Stat_t, mode uint32) error {
	if gives(t.Access, s) {
		o := t.Access.Owner
		if err := fd.Chown(o.UID, o.GID); err != nil {
			return t.notGiven(e, err)
		}
	}
	err := fd.Chmod(mode)
	if hasNoModes(err) {
		return nil
	}
	return err
}

// hasNoModes returns whether a file system has refused a mode because it does not store
// modes (vfat), or because the mount defines them (SMB).
func hasNoModes(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS)
}

func (t *Tree) notGiven(e *Entry, err error) error {
	f := failure.New(failure.Local, "change the owner of %s to user %d, group %d: %v", e.printable(), t.Access.Owner.UID, t.Access.Owner.GID, err)
	f.Hint, f.Err = "only root with the capability CHOWN may do so: run as that user instead, or set fsGroup in the Pod's securityContext", err
	return f
}

// adopt links the temporary file of a large blob into the tree. It fails where /proc is
// missing, or where the temporary file is on another file system or cannot be linked.
func (t *Tree) adopt(e *Entry, f *os.File) error {
	return dirfd.LinkOpen(f, t.root, e.Path())
}

// Replace replaces the file of an entry with the output of a filter or LFS, which has size bytes, or -1 if that is not
// known. Several goroutines may call it after pack.Read, for different entries.
func (t *Tree) Replace(e *Entry, size int64, content io.Reader) error {
	if e.Skipped || e.Mode != filemode.Regular && e.Mode != filemode.Executable {
		return fmt.Errorf("replace %s: it is not a file", e.printable())
	}
	t.replaced.Store(true)
	path := e.Path()
	old, err := dirfd.Lstat(t.root, path)
	if err == nil { // not in place: a large file may share its inode with its temporary file
		err = dirfd.Remove(t.root, path)
	}
	if err == nil {
		err = t.charge(e, -old.Size)
	}
	if err != nil {
		return local("replace", e, err)
	}
	blob := object.NewBlob(size)
	err = t.create(e, func(fd dirfd.FD) error {
		w := &writer{fd: fd, charge: func(n int64) error { return t.charge(e, n) }}
		written, err := io.CopyBuffer(io.MultiWriter(w, blob), content, make([]byte, copySize))
		if err == nil && written != size {
			blob = nil
		}
		return err
	})
	if err == nil && blob == nil {
		blob, err = t.hash(e)
	}
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.written[e] = plumbing.Hash(blob.Sum(nil))
	}
	return err
}

// hash hashes the file of an entry.
func (t *Tree) hash(e *Entry) (hash.Hash, error) {
	f, err := t.Open(e)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, local("read", e, err)
	}
	blob := object.NewBlob(stat.Size())
	_, err = io.CopyBuffer(blob, f, make([]byte, copySize))
	return blob, err
}

// Content returns the digest of the files in Dir, without symbolic links, with prefix before their paths.
func (t *Tree) Content(prefix string) (sum object.Content) {
	for e := range t.Entries() {
		if e.Skipped || e.Mode != filemode.Regular && e.Mode != filemode.Executable {
			continue
		}
		id, ok := t.written[e]
		if !ok {
			id = e.ID
		}
		sum.Add(prefix+e.Path(), id)
	}
	return sum
}

// Open opens the file of an entry for reading.
func (t *Tree) Open(e *Entry) (*os.File, error) {
	fd, err := t.openat(e, unix.O_RDONLY, 0)
	if err != nil {
		return nil, local("read", e, err)
	}
	return os.NewFile(uintptr(fd), e.Path()), nil
}

// openat opens the file of an entry. It does not follow a link of that name.
func (t *Tree) openat(e *Entry, flags int, mode uint32) (dirfd.FD, error) {
	var buf [pathBuffer]byte
	return dirfd.OpenFD(t.root, string(e.appendPath(buf[:0])), flags, mode)
}

// charge counts bytes of files against MaxSize.
func (t *Tree) charge(e *Entry, n int64) error {
	if within := t.count(&t.size, n, t.MaxSize); within || n <= 0 {
		return nil
	}
	return tooMuch("--max-size allows that many", "with %s, the files of the revision have more than %d bytes", e.printable(), t.MaxSize)
}

// countFiles counts files and links against MaxFiles.
func (t *Tree) countFiles(n int) error {
	if t.count(&t.files, int64(n), int64(t.MaxFiles)) {
		return nil
	}
	return tooMuch("--max-files allows that many", "the revision has more than %s", words.Plural(t.MaxFiles, "file"))
}

// afford counts memory of entries against the limit.
func (t *Tree) afford(n int64) error {
	if t.count(&t.memory, n, t.limit) {
		return nil
	}
	return tooMuch("it may have been made to fill disks; if it is meant so, give the number of files with --max-files",
		"the revision has so many files and directories that their names take more than %d MiB", t.limit>>20)
}

// count adds n to a total, and returns whether that is within its limit. A limit of 0 means no limit.
func (t *Tree) count(total *int64, n, limit int64) (within bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*total += n
	return limit == 0 || *total <= limit
}

// writer writes to a descriptor, and calls charge, if set, with the number of bytes first.
type writer struct {
	fd     dirfd.FD
	charge func(int64) error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.charge != nil {
		if err := w.charge(int64(len(p))); err != nil {
			return 0, err
		}
	}
	return w.fd.Write(p)
}
