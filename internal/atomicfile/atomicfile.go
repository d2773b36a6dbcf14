// Package atomicfile writes single files that users see: a reader finds the old file or the new one, even if the writer
// is killed at any instant. A file that is already right is not touched.
//
//	err := atomicfile.Write("/data/config.json", content, 0o644)
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// Write writes content to the file called name, with those permission bits. A file that already has both is left alone
// and keeps its modification time. Write removes what an earlier, killed Write left beside the file. It follows a
// symbolic link, and refuses to replace anything but a regular file, such as a device.
func Write(name string, content []byte, perm fs.FileMode) error {
	return Copy(name, bytes.NewReader(content), perm)
}

// Copy is [Write] for content that is too large for memory. It reads content from its start, and twice if the file
// exists. If reading fails, it returns that error and keeps the old file. The file may be a program that is running, or
// that is run as soon as it exists.
func Copy(name string, content io.ReadSeeker, perm fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	stat, err := os.Lstat(name)
	if err == nil && !stat.Mode().IsRegular() {
		return &fs.PathError{Op: "write", Path: name, Err: errors.New("it exists and is not a regular file")}
	}
	dir, base := filepath.Dir(name), filepath.Base(name)
	sweep(dir, base)
	if same, err := unchanged(name, content, perm); same || err != nil {
		return err
	}
	if err := replace(name, content, perm); err != nil {
		return err
	}
	return syncDir(dir)
}

// replace replaces the file called name with a new one. It closes the new file before the rename, because a program
// that is open for writing cannot be run (ETXTBSY), and gives up its lock only after the rename.
func replace(name string, content io.ReadSeeker, perm fs.FileMode) error {
	f, lock, err := create(filepath.Dir(name), filepath.Base(name))
	if err != nil {
		return err
	}
	defer lock.Close()
	err = errors.Join(fill(f, content, perm), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Link makes a symbolic link called name to target. It leaves an existing link to target
// alone, and fails with [fs.ErrExist] if anything else has that name.
func Link(name, target string) error {
	err := os.Symlink(target, name)
	if errors.Is(err, fs.ErrExist) {
		if old, err := os.Readlink(name); err == nil && old == target {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

func unchanged(name string, content io.ReadSeeker, perm fs.FileMode) (bool, error) {
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	old, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, nil // then it is written, and writing returns the error
	}
	defer old.Close()
	stat, err := old.Stat()
	if err != nil || stat.Mode() != perm || stat.Size() != size {
		return false, nil
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
func create(dir, base string) (f, lock *os.File, err error) {
	for {
		f, err := os.CreateTemp(dir, temporary(base, "*"))
		if err != nil {
			return nil, nil, err
		}
		lock, err := os.OpenFile(f.Name(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err == nil {
			if err = dirfd.Lock(lock, unix.LOCK_SH); err == nil && linked(lock) {
				return f, lock, nil
			}
			lock.Close()
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			os.Remove(f.Name())
			return nil, nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		// Another process removed it before it was locked.
	}
}

func linked(f *os.File) bool {
	stat, _ := dirfd.Stat(f)
	return stat.Nlink > 0
}

// sweep removes the temporary files of writers that were killed.
func sweep(dir, base string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), temporary(base, "")) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // gone already, or not ours
		}
		if dirfd.Lock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.Remove(name)
		}
		f.Close()
	}
}

// fill writes content to the disk before the rename makes it visible: without fsync, a
// crash could leave the new name on an empty file.
func fill(f *os.File, content io.ReadSeeker, perm fs.FileMode) error {
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return errors.Join(f.Chmod(perm), f.Sync()) // CreateTemp made it 0600; no umask applies to either
}

// syncDir makes the rename itself survive a crash. A directory that is writable but not readable cannot be opened, and
// so it cannot be synced.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return dirfd.Sync(d)
}
