// Package atomicfile writes single files that users see: a reader finds the old file or the new one, even if the writer
// is killed at any instant. A file that is already right is not touched. No link that another program may have made in
// a volume leads a write out of it.
//
//	err := atomicfile.Write("/data/config.json", content, 0o644)
package atomicfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/mounts"
	"initbox/internal/perm"
)

// Writer writes files. Its zero value does not follow symbolic links in a volume, which any program that writes to the
// volume may have made: a link with the name of the file is replaced, and one on the way to it is a
// [*mounts.LinkError]. Links on the root file system are followed.
type Writer struct {
	Follow bool        // follow all symbolic links
	Owner  *perm.Owner // of the file; nil leaves it to the kernel
}

// Write is [Writer.Write] of the zero Writer.
func Write(name string, content []byte, mode fs.FileMode) error {
	return Writer{}.Write(name, content, mode)
}

// Write writes content to the file called name, with those permission bits. A file that already has both, and the
// owner, is left alone and keeps its modification time. Write removes what an earlier, killed Write left beside the
// file. It refuses to replace anything but a regular file, such as a device.
func (w Writer) Write(name string, content []byte, mode fs.FileMode) error {
	return w.Copy(name, bytes.NewReader(content), mode)
}

// Copy is [Writer.Write] for content that is too large for memory. It reads content from its start, and twice if the
// file exists. If reading fails, it returns that error and keeps the old file. The file may be a program that is
// running, or that is run as soon as it exists.
func (w Writer) Copy(name string, content io.ReadSeeker, mode fs.FileMode) error {
	dir, base, link, err := mounts.OpenParent(name, w.Follow)
	if err != nil {
		return err
	}
	defer dir.Close()
	f := file{dir, base}
	stat, err := dirfd.Lstat(dir, base)
	if err == nil && stat.Mode&unix.S_IFMT != unix.S_IFREG && link == nil {
		return f.failed("write", errors.New("it exists and is not a regular file"))
	}
	f.sweep()
	if same, err := f.unchanged(content, mode, w.Owner); same || err != nil {
		return err
	}
	if err := f.replace(content, mode, w.Owner); err != nil {
		return err
	}
	return syncDir(dir)
}

// Link makes a symbolic link called name to target. It leaves an existing link to target alone, and fails with
// [fs.ErrExist] if anything else has that name.
func (w Writer) Link(name, target string) error {
	dir, err := mounts.OpenDir(filepath.Dir(name), w.Follow)
	if err != nil {
		return err
	}
	defer dir.Close()
	base := filepath.Base(name)
	err = dirfd.Symlink(target, dir, base)
	if err == unix.EEXIST {
		if old, err := dirfd.Readlink(dir, base); err == nil && old == target {
			return nil
		}
	}
	if err != nil {
		return &os.LinkError{Op: "symlink", Old: target, New: name, Err: err}
	}
	return syncDir(dir)
}

// file is a file that is written, by its name in an open directory.
type file struct {
	dir  *os.File
	name string
}

// failed returns the error of an operation on the file.
func (f file) failed(op string, err error) error {
	return &fs.PathError{Op: op, Path: filepath.Join(f.dir.Name(), f.name), Err: err}
}

// replace replaces the file with a new one. It closes the new file before the rename, because a program that is open
// for writing cannot be run (ETXTBSY), and gives up its lock only after the rename.
func (f file) replace(content io.ReadSeeker, mode fs.FileMode, owner *perm.Owner) error {
	made, lock, err := f.create()
	if err != nil {
		return err
	}
	defer lock.Close()
	temporary := filepath.Base(made.Name())
	err = errors.Join(f.fill(made, content, mode, owner), made.Close())
	if err == nil {
		if err = dirfd.Rename(f.dir, temporary, f.dir, f.name); err != nil {
			err = f.failed("replace", err)
		}
	}
	if err != nil {
		dirfd.Remove(f.dir, temporary)
	}
	return err
}

// unchanged returns whether the file already has the content, the permission bits and the owner.
func (f file) unchanged(content io.ReadSeeker, mode fs.FileMode, owner *perm.Owner) (bool, error) {
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	old, err := dirfd.Open(f.dir, f.name, unix.O_RDONLY, 0)
	if err != nil {
		return false, nil // then it is written, and writing returns the error
	}
	defer old.Close()
	stat, err := old.Stat()
	if err != nil || stat.Mode() != mode || stat.Size() != size {
		return false, nil
	}
	if owner != nil {
		if stat, err := dirfd.Stat(old); err != nil || !owner.Has(stat.Uid, stat.Gid) {
			return false, nil
		}
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	want, got := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(content, want)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, err
		}
		if n == 0 {
			return true, nil
		}
		if _, err := io.ReadFull(old, got[:n]); err != nil || !bytes.Equal(want[:n], got[:n]) {
			return false, nil
		}
	}
}

// temporary returns the name of a file that is still being written.
func temporary(base, random string) string {
	const longest = 255 - 55 // bytes of a name, on most file systems
	return "." + base[:min(len(base), longest)] + ".initbox-" + random
}

// create makes a temporary file, and a lock on it that is held while the writer lives. A file that is not locked was
// left by a writer that was killed. The lock has a descriptor of its own, so that it outlives the one for writing, and
// is shared, which NFS grants to a descriptor for reading, too.
func (f file) create() (made, lock *os.File, err error) {
	for {
		name := temporary(f.name, rand.Text())
		made, err := dirfd.Open(f.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			return nil, nil, file{f.dir, name}.failed("open", err)
		}
		lock, err := dirfd.Open(f.dir, name, unix.O_RDONLY, 0)
		if err == nil {
			if err = dirfd.Lock(lock, unix.LOCK_SH); err == nil && linked(lock) {
				return made, lock, nil
			}
			lock.Close()
		}
		made.Close()
		if err != nil && err != unix.ENOENT {
			dirfd.Remove(f.dir, name)
			return nil, nil, file{f.dir, name}.failed("lock", err)
		}
		// Another process removed it before it was locked.
	}
}

func linked(f *os.File) bool {
	stat, _ := dirfd.Stat(f)
	return stat.Nlink > 0
}

// sweep removes the temporary files of writers that were killed.
func (f file) sweep() {
	names, _ := dirfd.Names(f.dir)
	for _, name := range names {
		if !strings.HasPrefix(name, temporary(f.name, "")) {
			continue
		}
		left, err := dirfd.Open(f.dir, name, unix.O_RDONLY, 0)
		if err != nil {
			continue // gone already, or not ours
		}
		if dirfd.Lock(left, unix.LOCK_EX|unix.LOCK_NB) == nil {
			dirfd.Remove(f.dir, name)
		}
		left.Close()
	}
}

// fill writes content to the disk before the rename makes it visible: without fsync, a
// crash could leave the new name on an empty file.
func (f file) fill(made *os.File, content io.ReadSeeker, mode fs.FileMode, owner *perm.Owner) error {
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(made, content); err != nil {
		return err
	}
	if owner != nil { // before the mode, whose set-user-ID bits it would clear
		if err := made.Chown(owner.UID, owner.GID); err != nil {
			return perm.Failed("change the owner to "+owner.String()+" of", perm.Chown, filepath.Join(f.dir.Name(), f.name), err)
		}
	}
	return errors.Join(made.Chmod(mode), made.Sync()) // it was made with 0600; no umask applies to either
}

// syncDir makes the rename itself survive a crash. A directory that is writable but not readable cannot be opened, and
// so it cannot be synced.
func syncDir(dir *os.File) error {
	d, err := dirfd.OpenDir(dir, ".")
	if err == unix.EACCES {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	defer d.Close()
	return dirfd.Sync(d)
}
