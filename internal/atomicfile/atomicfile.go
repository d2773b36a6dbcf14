// Package atomicfile is the one writer of files that users see: a reader finds
// the old file or the new one, whenever the writer is killed.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Write gives the file called name that content and those permission bits. A
// file that is right already is left alone and keeps its modification time.
// What an earlier, killed Write left beside it is removed. A symbolic link is
// followed; what is there and not a regular file, such as a device, is refused.
func Write(name string, content []byte, perm fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	stat, err := os.Lstat(name)
	if err == nil && !stat.Mode().IsRegular() {
		return &fs.PathError{Op: "write", Path: name, Err: errors.New("there is something that is not a regular file")}
	}
	dir, base := filepath.Dir(name), filepath.Base(name)
	if err := sweep(dir, base); err != nil {
		return err
	}
	if unchanged(name, content, perm) {
		return nil
	}
	f, err := create(dir, base)
	if err != nil {
		return err
	}
	err = fill(f, content, perm)
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	f.Close() // and with it the lock; what could fail has, in fill
	if err != nil {
		return err
	}
	return syncDir(dir)
}

func unchanged(name string, content []byte, perm fs.FileMode) bool {
	stat, err := os.Lstat(name)
	if err != nil || stat.Mode() != perm || stat.Size() != int64(len(content)) {
		return false
	}
	old, err := os.ReadFile(name)
	return err == nil && bytes.Equal(old, content)
}

// temporary matches the names of files that are still being written.
func temporary(base, random string) string {
	const longest = 200 // of the 255 bytes that a name may have
	return "." + base[:min(len(base), longest)] + ".initbox-" + random
}

// create makes a temporary file that is locked for as long as its writer lives,
// which tells it from one whose writer was killed.
func create(dir, base string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(dir, temporary(base, "*"))
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			os.Remove(f.Name())
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		// Another process may have swept it away before it was locked.
		var stat unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &stat); err == nil && stat.Nlink > 0 {
			return f, nil
		}
		f.Close()
	}
}

// sweep removes the temporary files of writers that were killed.
func sweep(dir, base string) error {
	left, err := filepath.Glob(filepath.Join(escape(dir), escape(temporary(base, ""))+"*"))
	if err != nil {
		return err
	}
	for _, name := range left {
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // gone already, or not ours
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.Remove(name)
		}
		f.Close()
	}
	return nil
}

// escape makes a name one that filepath.Glob takes literally.
func escape(name string) string {
	var b bytes.Buffer
	for _, c := range []byte(name) {
		if bytes.IndexByte([]byte(`*?[\`), c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// fill brings content to the disk before the rename makes it visible: without
// fsync a crash may leave the new name on an empty file.
func fill(f *os.File, content []byte, perm fs.FileMode) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chmod(perm); err != nil { // CreateTemp's 0600 is subject to no umask, nor is this
		return err
	}
	return f.Sync()
}

// syncDir makes the rename itself survive a crash. Some file systems cannot
// (EINVAL), and some folders can be written to but not opened; there is nothing
// better to be done then.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}
