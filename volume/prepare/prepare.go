// Package prepare makes paths be what they should be: directories, files, links or nothing at all, with owners and
// modes, also of everything below. It changes only what differs, so that a second run changes nothing; it follows no
// link out of the directory that it was given, even if another program makes one meanwhile; and after it was killed,
// the next run completes what is missing.
//
//	data, err := prepare.Parse("/data#owner=999:999&recursive", nil)
//	err = prepare.Run(ctx, prepare.Options{Paths: []prepare.Path{data}, Log: log})
package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/perm"
	"initbox/internal/tree"
)

// Options say what to prepare.
type Options struct {
	Paths  []Path       // in this order
	Force  bool         // also what a mistake in a path could mean: remove what is in a mount point, / or no volume, change all in /
	DryRun bool         // only log what would change
	Follow bool         // follow symbolic links in volumes to the paths, see mounts.OpenDir
	Log    *slog.Logger // nil for none
}

// Run prepares the paths, and logs for each what has changed. It ends at the first error of a path without
// IgnoreErrors.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, p := range o.Paths {
		name, own := failure.Printable(p.Path), o
		own.Log = o.Log.With(failure.Fields(name, 0, nil))
		j := &job{Path: p, Options: &own, start: time.Now()}
		err := j.all(ctx)
		j.report(err)
		if err != nil {
			return failure.About(name, err, err)
		}
	}
	return nil
}

// job is the work for one of Options.Paths.
type job struct {
	Path
	*Options
	path  string // that is being prepared, absolute
	start time.Time
	tally
}

// all prepares all paths that Path stands for.
func (j *job) all(ctx context.Context) (err error) {
	for _, path := range j.Path.Paths {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if j.path, err = filepath.Abs(path); err != nil {
			return err
		}
		if j.Kind == Absent {
			err = j.absent(ctx)
		} else {
			err = j.present(ctx)
		}
		if err != nil && (ctx.Err() != nil || !j.ignore(err)) {
			return err
		}
	}
	return nil
}

// ignore returns whether errors of the path are ignored, so that the job goes on with the next file, as coreutils do.
// They are counted for the report.
func (j *job) ignore(err error) bool {
	if j.IgnoreErrors {
		j.count(ignored)
		j.first.CompareAndSwap(nil, &err)
	}
	return j.IgnoreErrors
}

// present makes the path if it is missing, and changes what is not right.
func (j *job) present(ctx context.Context) error {
	if j.AnyKind {
		j.Kind = j.kindThere()
	}
	dir, e, err := j.open()
	if dir != nil {
		defer dir.Close()
	}
	switch kind := uint32(e.Stat.Mode) & unix.S_IFMT; {
	case errors.Is(err, fs.ErrNotExist):
		if made, err := j.make(); !made {
			return err
		}
		return j.present(ctx)
	case err != nil:
		return perm.Failed("open", perm.Write, j.path, err)
	case j.Kind == File && kind != unix.S_IFREG && !j.AnyKind:
		return j.otherKind(kind, "a file")
	case j.Kind == Link && kind != unix.S_IFLNK:
		return j.otherKind(kind, "a symbolic link")
	case j.Kind == Empty:
		err = j.clear(ctx, dir)
	case j.Kind == Directory:
		err = j.below(ctx, dir, &e)
	case j.Kind == Link:
		err = j.retarget(dir, &e)
	}
	if err != nil || j.Children || len(j.Names) > 0 && j.Kind == Directory {
		return err
	}
	return j.apply(&e)
}

// kindThere is Directory if there is one, and else File.
func (j *job) kindThere() Kind {
	j.Kind = File
	dir, e, err := j.open()
	if dir != nil {
		defer dir.Close()
	}
	if err == nil && dirfd.IsDir(e.Stat) {
		return Directory
	}
	return File
}

// open describes what the path names. The directory is the path itself, or that of the file or the link.
func (j *job) open() (dir *os.File, e tree.Entry, err error) {
	e = tree.Entry{Name: filepath.Base(j.path), File: -1}
	switch j.Kind {
	case File:
		var link error
		if dir, e.Name, link, err = mounts.OpenParent(j.path, j.Follow); err == nil {
			j.path = filepath.Join(dir.Name(), e.Name) // behind links of the image
			err = link
		}
	case Link:
		dir, err = mounts.OpenDir(filepath.Dir(j.path), j.Follow)
	default:
		if dir, err = mounts.OpenDir(j.path, j.Follow); err == nil {
			e.File = dirfd.FD(dir.Fd())
			e.Stat, err = dirfd.Stat(dir)
		}
		return dir, e, err
	}
	if err == nil {
		e.Dir = dirfd.FD(dir.Fd())
		e.Stat, err = dirfd.Lstat(dir, e.Name)
	}
	return dir, e, err
}

// otherKind returns the error of a path that is not what it should be.
func (j *job) otherKind(mode uint32, want string) error {
	is := map[uint32]string{unix.S_IFREG: "a file", unix.S_IFDIR: "a directory", unix.S_IFLNK: "a symbolic link"}[mode&unix.S_IFMT]
	if is == "" {
		is = "a device, a pipe or a socket"
	}
	return failure.WithHint(fmt.Errorf("%s is %s, not %s", failure.Printable(j.path), is, want),
		"prepare replaces nothing that is of another kind, but "+failure.Printable(j.path)+"#absent removes it")
}

// make makes the path, and the directories above it. It returns false if that is not to be done.
func (j *job) make() (bool, error) {
	switch {
	case j.IfExists:
		j.count(missing)
		return false, nil
	case j.AnyKind:
		return false, perm.Failed("open", perm.Write, j.path, fs.ErrNotExist)
	case j.DryRun:
		j.count(made)
		return false, nil
	}
	parent, err := mounts.MakeDirs(filepath.Dir(j.path), j.Follow, func(parent *os.File, name string) error {
		err := dirfd.Mkdir(parent, name, 0o777)
		if err == nil {
			j.count(parents)
		}
		return err
	})
	if err != nil {
		return false, perm.Failed("make the directory", perm.Write, filepath.Dir(j.path), err)
	}
	defer parent.Close()
	if err := j.create(parent, filepath.Base(j.path)); err != nil {
		return false, perm.Failed("make", perm.Write, j.path, err)
	}
	j.count(made)
	return true, nil
}

// create makes what the path names, with the mode that it should have, which the umask limits: what should be private
// is so from the start.
func (j *job) create(parent *os.File, name string) error {
	mode := uint32(0o777)
	if j.Kind == File {
		mode = 0o666
	}
	if m := j.modeOf(j.Kind != File); !m.IsZero() {
		mode = m.Of(mode&^0o022, j.Kind != File) & 0o777
	}
	switch j.Kind {
	case Link:
		return dirfd.Symlink(j.Target, parent, name)
	case File:
		f, err := dirfd.OpenFD(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
		if err != nil {
			return err
		}
		return f.Close()
	}
	return dirfd.Mkdir(parent, name, mode)
}

// retarget makes the link lead to the target, by a rename, if it leads elsewhere.
func (j *job) retarget(dir *os.File, e *tree.Entry) error {
	if old, err := dirfd.Readlink(dir, e.Name); err == nil && old == j.Target {
		return nil
	}
	if !j.DryRun {
		if err := replaceLink(j.Target, dir, e.Name); err != nil {
			return perm.Failed("change the link", perm.Write, j.path, err)
		}
		e.Stat, _ = dirfd.Lstat(dir, e.Name)
	}
	j.count(replaced)
	return nil
}

// replaceLink puts a link to target at name, whatever link is there. A killed run leaves at most one link of the
// temporary name, which the next run replaces.
func replaceLink(target string, dir *os.File, name string) error {
	temporary := "." + name[:min(len(name), 200)] + ".initbox-link"
	err := dirfd.Symlink(target, dir, temporary)
	if err == unix.EEXIST {
		if err = dirfd.Remove(dir, temporary); err == nil || err == unix.ENOENT {
			err = dirfd.Symlink(target, dir, temporary)
		}
	}
	if err != nil {
		return err
	}
	if err = dirfd.Rename(dir, temporary, dir, name); err != nil {
		dirfd.Remove(dir, temporary)
	}
	return err
}
