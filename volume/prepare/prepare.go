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

// Run prepares the paths, and logs for each what has changed. It ends at the first error.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, p := range o.Paths {
		j := &job{Path: p, Options: &o, start: time.Now()}
		err := j.all(ctx)
		j.report(err)
		if err != nil {
			return err
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
		switch j.Kind {
		case Absent:
			err = j.absent(ctx)
		case Link:
			err = j.link()
		case File:
			err = j.file()
		default:
			err = j.directory(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hinted returns err with a hint, if there is one.
func hinted(err error, hint string) error {
	if hint == "" {
		return err
	}
	return failure.WithHint(err, hint)
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

// make makes the path with a call, and the directories above it. It returns false if that is not to be done.
func (j *job) make(call func(parent *os.File, name string) error) (bool, error) {
	switch {
	case j.IfExists:
		j.count(missing)
		return false, nil
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
	if err := call(parent, filepath.Base(j.path)); err != nil {
		return false, perm.Failed("make", perm.Write, j.path, err)
	}
	j.count(made)
	return true, nil
}

// directory makes the path a directory, empties it if it should be empty, and changes what is not right.
func (j *job) directory(ctx context.Context) error {
	dir, err := mounts.OpenDir(j.path, j.Follow)
	if errors.Is(err, fs.ErrNotExist) {
		ok, err := j.make(func(parent *os.File, name string) error {
			return dirfd.Mkdir(parent, name, j.firstMode(0o777))
		})
		if !ok {
			return err
		}
		return j.directory(ctx)
	}
	if err != nil {
		return perm.Failed("open the directory", perm.Write, j.path, err)
	}
	defer dir.Close()
	if j.Kind == Empty {
		if err := j.clear(ctx, dir); err != nil {
			return err
		}
	}
	return j.change(ctx, dir)
}

// firstMode returns the mode to make the path with, which the umask limits: what should be private is so from the
// start.
func (j *job) firstMode(usual uint32) uint32 {
	if m := j.modeOf(j.Kind != File); !m.IsZero() {
		return m.Of(usual&^0o022, j.Kind != File) & 0o777
	}
	return usual
}

// file makes the path a file, and changes what is not right.
func (j *job) file() error {
	dir, name, link, err := mounts.OpenParent(j.path, j.Follow)
	e := tree.Entry{Name: name, File: -1}
	if err == nil {
		defer dir.Close()
		j.path = filepath.Join(dir.Name(), name) // behind links of the image
		if err = link; err == nil {
			e.Dir = dirfd.FD(dir.Fd())
			e.Stat, err = dirfd.Lstat(dir, name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		ok, err := j.make(func(parent *os.File, name string) error {
			f, err := dirfd.OpenFD(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, j.firstMode(0o666))
			if err != nil {
				return err
			}
			return f.Close()
		})
		if !ok {
			return err
		}
		return j.file()
	case err != nil:
		return perm.Failed("open", perm.Write, j.path, err)
	case e.Stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return j.otherKind(e.Stat.Mode, "a file")
	}
	return j.apply(&e)
}

// link makes the path a symbolic link to the target, or replaces one that leads elsewhere, by a rename.
func (j *job) link() error {
	dir, err := mounts.OpenDir(filepath.Dir(j.path), j.Follow)
	e := tree.Entry{Name: filepath.Base(j.path), File: -1}
	if err == nil {
		defer dir.Close()
		e.Dir = dirfd.FD(dir.Fd())
		e.Stat, err = dirfd.Lstat(dir, e.Name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		ok, err := j.make(func(parent *os.File, name string) error { return dirfd.Symlink(j.Target, parent, name) })
		if !ok {
			return err
		}
		return j.link()
	case err != nil:
		return perm.Failed("open", perm.Write, j.path, err)
	case e.Stat.Mode&unix.S_IFMT != unix.S_IFLNK:
		return j.otherKind(e.Stat.Mode, "a symbolic link")
	}
	if old, err := dirfd.Readlink(dir, e.Name); err != nil || old != j.Target {
		if !j.DryRun {
			err = replaceLink(j.Target, dir, e.Name)
			e.Stat, _ = dirfd.Lstat(dir, e.Name)
		}
		if err != nil {
			return perm.Failed("change the link", perm.Write, j.path, err)
		}
		j.count(replaced)
	}
	return j.apply(&e)
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
