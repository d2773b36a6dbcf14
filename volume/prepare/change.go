package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/internal/tree"
)

const permissions = 0o7777

// difference is what is not right of a file: -1 is right.
type difference struct {
	uid, gid int
	mode     int
	label    bool
}

var right = difference{uid: -1, gid: -1, mode: -1}

// modeOf returns the mode of directories, or of other files.
func (j *job) modeOf(dir bool) perm.Mode {
	if dir && !j.DirMode.IsZero() {
		return j.DirMode
	}
	if !dir && !j.FileMode.IsZero() {
		return j.FileMode
	}
	return j.Mode
}

// difference returns what is not right. The kernel clears the setuid and setgid bits of a file whose owner changes, and
// a relative mode does not bring them back: they were not meant for the new owner.
func (j *job) difference(e *tree.Entry) (d difference, err error) {
	d = right
	if j.Owner.UID >= 0 && j.Owner.UID != int(e.Stat.Uid) {
		d.uid = j.Owner.UID
	}
	if j.Owner.GID >= 0 && j.Owner.GID != int(e.Stat.Gid) {
		d.gid = j.Owner.GID
	}
	isDir, isLink := dirfd.IsDir(e.Stat), e.Stat.Mode&unix.S_IFMT == unix.S_IFLNK
	if m := j.modeOf(isDir); !m.IsZero() && !isLink {
		mode := e.Stat.Mode & permissions
		if !isDir && (d.uid >= 0 || d.gid >= 0) {
			mode &^= unix.S_ISUID
			if mode&unix.S_IXGRP != 0 {
				mode &^= unix.S_ISGID
			}
		}
		if want := m.Of(mode, isDir); want != mode {
			d.mode = int(want)
		}
	}
	if j.Label != "" {
		dir, name := handle(e)
		var label string
		if label, err = dirfd.Xattr(dir, name, labelAttribute); err == nil {
			d.label = label != j.Label && label != j.Label+"\x00" // the kernel's have a null byte
		}
	}
	return d, err
}

const labelAttribute = "security.selinux"

// handle returns by what an entry is changed: an open directory itself, which no other can replace, or else its name.
func handle(e *tree.Entry) (dir dirfd.Dir, name string) {
	if e.File >= 0 {
		return e.File, ""
	}
	return e.Dir, e.Name
}

// apply changes what is not right of an entry. The owner is first: that clears setuid bits, which the mode may set.
func (j *job) apply(e *tree.Entry) error {
	j.files.Add(1)
	d, err := j.difference(e)
	if err != nil && err != unix.ENOENT {
		return j.failed(perm.Read, "read the SELinux label of", j.pathOf(e), err)
	}
	dir, name := handle(e)
	if err == nil && (d.uid >= 0 || d.gid >= 0) {
		j.owners.Add(1)
		if !j.DryRun {
			err = dirfd.Chown(dir, name, d.uid, d.gid)
		}
		if err != nil && err != unix.ENOENT {
			return j.refused(e, perm.Chown, "change the owner of", err)
		}
	}
	if err == nil && d.mode >= 0 {
		if err = j.setMode(e, uint32(d.mode)); err != nil && err != unix.ENOENT {
			return j.refused(e, perm.Chmod, "change the mode of", err)
		}
	}
	if err == nil && d.label {
		j.labels.Add(1)
		if !j.DryRun {
			err = dirfd.SetXattrOf(dir, name, labelAttribute, j.Label)
		}
		if err != nil && err != unix.ENOENT {
			return j.refused(e, perm.Chmod, "change the SELinux label of", err)
		}
	}
	return nil // what does not exist was removed meanwhile
}

// setMode sets the mode of an entry. Without the capability FSETID, the kernel drops the setgid bit for a group that
// this process is not in, without an error: then each run would set it again, in vain.
func (j *job) setMode(e *tree.Entry, mode uint32) error {
	j.modes.Add(1)
	if j.DryRun {
		return nil
	}
	dir, name := handle(e)
	err := dirfd.SetMode(dir, name, mode)
	if err != nil || mode&unix.S_ISGID == 0 {
		return err
	}
	s, err := dirfd.Stat(dir)
	if name != "" {
		s, err = dirfd.Lstat(dir, name)
	}
	if err == nil && s.Mode&unix.S_ISGID == 0 {
		return errSetgid
	}
	return err
}

var errSetgid = errors.New("the kernel did not keep the setgid bit")

// refused returns the error of a change. What another volume mounts read-only there is left as it is.
func (j *job) refused(e *tree.Entry, op perm.Operation, doing string, err error) error {
	if err == unix.EROFS && e.Up != nil && e.File < 0 && !dirfd.ReadOnly(e.Dir) {
		j.leave(j.pathOf(e))
		return nil
	}
	if err == errSetgid {
		return failure.WithHint(fmt.Errorf("%s %s: %w", doing, failure.Printable(j.pathOf(e)), err),
			fmt.Sprintf("user %d is not in that group: add the capability FSETID, or the group to supplementalGroups in the Pod's securityContext", os.Geteuid()))
	}
	if op == perm.Chown {
		doing = fmt.Sprintf("%s %s to %s", doing, failure.Printable(j.pathOf(e)), j.Owner)
		return j.failedDoing(op, doing, j.pathOf(e), err)
	}
	return j.failed(op, doing, j.pathOf(e), err)
}

// failedDoing is failed for what names the path itself.
func (j *job) failedDoing(op perm.Operation, doing, path string, err error) error {
	err, hint := fmt.Errorf("%s: %w", doing, err), perm.Hint(err, op, path)
	if hint == "" {
		return err
	}
	return failure.WithHint(err, hint)
}

// pathOf returns the whole path of an entry.
func (j *job) pathOf(e *tree.Entry) string {
	if e.Up == nil {
		return j.path
	}
	return filepath.Join(j.path, e.Path())
}

// change changes what is not right of the directory and, if that is asked for, of all below. The directory itself is
// the last: while it is wrong, on-root-mismatch does not treat an interrupted run as complete.
func (j *job) change(ctx context.Context, dir *os.File) error {
	root := tree.Entry{File: dirfd.FD(dir.Fd())}
	var err error
	if root.Stat, err = dirfd.Stat(dir); err != nil {
		return j.failed(perm.Read, "read", j.path, err)
	}
	below := j.Kind == Folder && (j.Recursive || j.Children) && j.changes()
	if below && j.OnRootMismatch {
		d, err := j.difference(&root)
		if err != nil {
			return j.failed(perm.Read, "read the SELinux label of", j.path, err)
		}
		below = d != right
		if !below {
			j.skipped.Add(1)
		}
	}
	if below {
		if err := j.walk(ctx, dir); err != nil {
			return err
		}
		if j.OnRootMismatch && j.changed() && !j.DryRun {
			if err := syncfs(dir); err != nil {
				return j.failed(perm.Write, "flush", j.path, err)
			}
		}
	}
	if j.Children || len(j.Names) > 0 && j.Kind != Empty {
		return nil
	}
	return j.apply(&root)
}

// syncfs flushes what is below a directory, so that a power cut cannot leave only the change of the directory itself.
func syncfs(dir *os.File) error {
	file, err := dirfd.OpenFD(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return dirfd.Syncfs(file)
}

// changes returns whether the settings change anything of what exists.
func (j *job) changes() bool {
	modes := j.Mode.IsZero() && j.DirMode.IsZero() && j.FileMode.IsZero()
	return j.Owner.UID >= 0 || j.Owner.GID >= 0 || !modes || j.Label != ""
}

// walk changes what is not right below the directory. Of directories that is done after all in them, since it may
// remove the permission to enter them; a mode that gives that permission comes before.
func (j *job) walk(ctx context.Context, dir *os.File) error {
	walk := tree.Walk{
		Exclude: func(e *tree.Entry) bool { return matches(j.Exclude, e.Name) },
		Visit: func(e *tree.Entry) error {
			if !dirfd.IsDir(e.Stat) {
				return j.applyNamed(e)
			}
			if e.Mount && e.File >= 0 && dirfd.ReadOnly(e.File) {
				j.leave(j.pathOf(e))
				return fs.SkipDir
			}
			return j.enter(e)
		},
		Leave: j.applyNamed,
	}
	return j.walked(walk.Run(ctx, dir), perm.Read)
}

// walked adds to an error of a walk itself what was being done.
func (j *job) walked(err error, op perm.Operation) error {
	var at *fs.PathError
	if errors.As(err, &at) && !filepath.IsAbs(at.Path) {
		return j.failed(op, at.Op, filepath.Join(j.path, at.Path), at.Err)
	}
	return err
}

// applyNamed applies what is to be changed below, unless only other names are meant.
func (j *job) applyNamed(e *tree.Entry) error {
	if len(j.Names) > 0 && !matches(j.Names, e.Name) {
		return nil
	}
	return j.apply(e)
}

// enter gives the owner of a directory the permissions that the new mode has and the old one lacks.
func (j *job) enter(e *tree.Entry) error {
	if len(j.Names) > 0 && !matches(j.Names, e.Name) {
		return nil
	}
	d, err := j.difference(e)
	if err != nil || d.mode < 0 || uint32(d.mode)&0o700&^e.Stat.Mode == 0 {
		return nil
	}
	if j.DryRun {
		if e.File < 0 { // it cannot be opened as it is
			j.files.Add(1)
			j.modes.Add(1)
			return fs.SkipDir
		}
		return nil
	}
	if err := j.setMode(e, uint32(d.mode)); err != nil {
		return j.refused(e, perm.Chmod, "change the mode of", err)
	}
	e.Stat.Mode = e.Stat.Mode&^permissions | uint32(d.mode)
	return nil
}

// matches returns whether a name matches one of the patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}
