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

const (
	permissions = 0o7777
	special     = unix.S_ISUID | unix.S_ISGID
)

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
		mode := uint32(e.Stat.Mode) & permissions
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

// apply changes what is not right of an entry. The owner is first: that clears setuid bits, which the mode may set, and
// then the old owner can no longer change the mode. What this process gives away itself has its mode before, while that
// takes no capability.
func (j *job) apply(e *tree.Entry) error {
	j.count(looked)
	d, err := j.difference(e)
	if err != nil && err != unix.ENOENT {
		return perm.Failed("read the SELinux label of", perm.Read, j.pathOf(e), err)
	}
	if err != nil || d == right {
		return nil
	}
	dir, name := handle(e)
	if e.Value == entered {
		d.mode = -1
	}
	mode := func() error { return j.setMode(e, uint32(d.mode)) }
	setsID := !dirfd.IsDir(e.Stat) && d.mode&special != 0
	if d.mode >= 0 && d.uid >= 0 && int(e.Stat.Uid) == os.Geteuid() && !setsID {
		err = j.step(e, modes, mode)
		d.mode = -1
	}
	if (d.uid >= 0 || d.gid >= 0) && err == nil {
		err = j.step(e, owners, func() error { return dirfd.Chown(dir, name, d.uid, d.gid) })
	}
	if d.mode >= 0 && err == nil {
		err = j.step(e, modes, mode)
	}
	if d.label && err == nil {
		err = j.step(e, labels, func() error { return dirfd.SetXattrOf(dir, name, labelAttribute, j.Label) })
	}
	return err
}

// step changes one thing of an entry, and counts it. What was removed meanwhile, and what another volume mounts
// read-only there, is left out.
func (j *job) step(e *tree.Entry, k int, change func() error) error {
	var err error
	if !j.DryRun {
		err = change()
	}
	if err == nil {
		j.count(k)
	}
	if err == nil || err == unix.ENOENT {
		return nil
	}
	path, op, what := j.pathOf(e), perm.Chmod, changeable[k]
	switch {
	case err == unix.EROFS && e.Up != nil && e.File < 0 && !dirfd.ReadOnly(e.Dir):
		j.leave(path)
		return nil
	case k == owners:
		op, what = perm.Chown, what+" to "+j.Owner.String()
	case k == labels && errors.Is(err, fs.ErrPermission):
		err = failure.WithHint(err, "only a privileged container may; the kubelet labels volumes itself with seLinuxOptions in the Pod's securityContext")
	}
	if err = perm.Failed("change the "+what+" of", op, path, err); j.ignore(err) {
		return nil
	}
	return err
}

// setMode sets the mode of an entry. Without the capability FSETID, the kernel drops the setgid bit for a group that
// this process is not in, without an error: then each run would set it again, in vain. A bit that the mode would only
// have kept may go, as with chmod.
func (j *job) setMode(e *tree.Entry, mode uint32) error {
	dir, name := handle(e)
	isDir := dirfd.IsDir(e.Stat)
	err := dirfd.SetMode(dir, name, mode)
	if err != nil || j.modeOf(isDir).Of(0, isDir)&unix.S_ISGID == 0 {
		return err
	}
	info, err := dirfd.Inspect(dir, name)
	if err == nil && info.Mode&unix.S_ISGID == 0 {
		return failure.WithHint(errors.New("the kernel did not keep the setgid bit"),
			fmt.Sprintf("user %d is not in that group: add the capability FSETID, or the group to supplementalGroups in the Pod's securityContext", os.Geteuid()))
	}
	return err
}

// pathOf returns the whole path of an entry.
func (j *job) pathOf(e *tree.Entry) string {
	if e.Up == nil {
		return j.path
	}
	return filepath.Join(j.path, e.Path())
}

// below changes what is not right below the directory, if that is asked for. The directory itself comes after that:
// while it is wrong, on-root-mismatch does not treat an interrupted run as complete.
func (j *job) below(ctx context.Context, dir *os.File, root *tree.Entry) error {
	if !j.Recursive && !j.Children || !j.changesAny() {
		return nil
	}
	if j.OnRootMismatch {
		if d, err := j.difference(root); err != nil {
			return perm.Failed("read the SELinux label of", perm.Read, j.path, err)
		} else if d == right {
			j.count(skipped)
			return nil
		}
	}
	if isRoot(root.Stat) {
		if err := j.risky("change what is in", "it is the root directory"); err != nil {
			return err
		}
	}
	if !j.OnRootMismatch && !j.Children && len(j.Names) == 0 { // for on-root-mismatch, it has to stay wrong
		if err := j.enter(root); err != nil {
			return err
		}
	}
	err := j.walk(ctx, dir)
	if err == nil && j.OnRootMismatch {
		err = j.flush(dir)
	}
	return err
}

// isRoot returns whether a directory is the root directory, whatever link leads there.
func isRoot(s unix.Stat_t) bool {
	var top unix.Stat_t
	return unix.Stat("/", &top) == nil && s.Dev == top.Dev && s.Ino == top.Ino
}

// flush writes to the disk what has changed in the file system of a directory, so that a power cut cannot leave only
// the change of the path itself.
func (j *job) flush(dir dirfd.Dir) error {
	if !j.changed() || j.DryRun {
		return nil
	}
	file, err := dirfd.OpenFD(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		defer file.Close()
		err = dirfd.Syncfs(file)
	}
	if err != nil {
		return perm.Failed("flush", perm.Write, j.path, err)
	}
	return nil
}

// changesAny returns whether the settings change anything of what exists.
func (j *job) changesAny() bool {
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
			if err := j.enter(e); err != nil || !j.IgnoreErrors || e.File >= 0 || e.Value == entered {
				return err
			}
			j.ignore(perm.Failed("open", perm.Read, j.pathOf(e), unix.EACCES)) // what is below stays as it is
			if err := j.applyNamed(e); err != nil {
				return err
			}
			return fs.SkipDir
		},
		Leave: func(e *tree.Entry) error {
			if err := j.applyNamed(e); err != nil || !e.Mount || !j.OnRootMismatch {
				return err
			}
			return j.flush(e.File)
		},
	}
	return j.walked(walk.Run(ctx, dir), perm.Read)
}

// walked adds to an error of a walk itself what was being done.
func (j *job) walked(err error, op perm.Operation) error {
	var at *fs.PathError
	if errors.As(err, &at) && !filepath.IsAbs(at.Path) {
		return perm.Failed(at.Op, op, filepath.Join(j.path, at.Path), at.Err)
	}
	return err
}

// applyNamed applies what is to be changed below, unless only other names are meant.
func (j *job) applyNamed(e *tree.Entry) error {
	if !j.named(e) {
		return nil
	}
	return j.apply(e)
}

// named returns whether an entry is meant: without name, all are.
func (j *job) named(e *tree.Entry) bool { return len(j.Names) == 0 || matches(j.Names, e.Name) }

// setPermissions replaces the permissions in a mode, whose type depends on the system.
func setPermissions[Mode uint16 | uint32](of *Mode, mode int) { *of = *of&^permissions | Mode(mode) }

// enter gives the owner of a directory the permissions that the new mode has and the old one lacks.
func (j *job) enter(e *tree.Entry) error {
	if !j.named(e) || j.DryRun && e.File >= 0 { // Leave counts it
		return nil
	}
	d, err := j.difference(e)
	if err != nil || d.mode < 0 || uint32(d.mode)&0o700&^uint32(e.Stat.Mode) == 0 {
		return nil
	}
	if err := j.step(e, modes, func() error { return j.setMode(e, uint32(d.mode)) }); err != nil {
		return err
	}
	if j.DryRun { // it cannot be opened as it is
		j.count(looked)
		return fs.SkipDir
	}
	setPermissions(&e.Stat.Mode, d.mode)
	e.Value = entered
	return nil
}

// entered is the Value of a directory whose mode is right already: another change relative to that would be wrong.
const entered = "entered"

// matches returns whether a name matches one of the patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}
