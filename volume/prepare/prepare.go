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
	Force  bool         // remove also what a mistake in a path could mean: what is in a mount point, in / or in no volume
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
		err := p.each(func(path string) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var err error
			if j.path, err = filepath.Abs(path); err != nil {
				return err
			}
			return j.prepare(ctx)
		})
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

func (j *job) prepare(ctx context.Context) error {
	switch j.Kind {
	case Absent:
		return j.absent(ctx)
	case Link:
		return j.link()
	case File:
		return j.file()
	}
	return j.folder(ctx)
}

// failed returns the error of an operation on a path, with a hint how to get it allowed.
func (j *job) failed(op perm.Operation, doing, path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) { // of internal/mounts, about another path
		if at.Path != path && filepath.IsAbs(at.Path) {
			doing, path = doing+" "+failure.Printable(path)+": open", at.Path
		}
		err = at.Err
	}
	hint := perm.Hint(err, op, path)
	switch {
	case hint != "":
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EEXIST):
		hint = "it, or what it lies in, is not a directory: prepare replaces nothing that is of another kind, but #absent removes it"
	case failure.NoSpace(err):
		hint = "the volume is full, or its quota used up"
	}
	return hinted(fmt.Errorf("%s %s: %w", doing, failure.Printable(path), err), hint)
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
	kinds := map[uint32]string{
		unix.S_IFREG: "a file", unix.S_IFDIR: "a directory", unix.S_IFLNK: "a symbolic link", unix.S_IFSOCK: "a socket", unix.S_IFIFO: "a pipe",
	}
	is := kinds[mode&unix.S_IFMT]
	if is == "" {
		is = "a device"
	}
	return failure.WithHint(fmt.Errorf("%s is %s, not %s", failure.Printable(j.path), is, want),
		"prepare replaces nothing that is of another kind, but "+failure.Printable(j.path)+"#absent removes it")
}

// parent opens the directory that the path lies in, after it has made those that are missing. In a dry run it returns
// nil if one is missing.
func (j *job) parent() (dir *os.File, name string, err error) {
	up, name := filepath.Dir(j.path), filepath.Base(j.path)
	if j.DryRun {
		if dir, err = mounts.OpenDir(up, j.Follow); errors.Is(err, fs.ErrNotExist) {
			return nil, name, nil
		}
	} else {
		dir, err = mounts.MakeDirs(up, j.Follow, func(parent *os.File, name string) error {
			if err := dirfd.Mkdir(parent, name, 0o777); err != nil {
				return &fs.PathError{Op: "mkdir", Path: filepath.Join(parent.Name(), name), Err: err}
			}
			j.parents.Add(1)
			return nil
		})
	}
	if err != nil {
		return nil, "", j.failed(perm.Write, "make the directory", up, err)
	}
	return dir, name, nil
}

// folder makes the path a directory, empties it if it should be empty, and changes what is not right.
func (j *job) folder(ctx context.Context) error {
	dir, err := mounts.OpenDir(j.path, j.Follow)
	if errors.Is(err, fs.ErrNotExist) {
		if j.IfExists {
			j.missing.Add(1)
			return nil
		}
		dir, err = j.makeFolder()
		if dir == nil {
			return err
		}
	} else if err == nil && j.Kind == Empty {
		if err = j.clear(ctx, dir); err != nil {
			dir.Close()
			return err
		}
	}
	if err != nil {
		return j.failed(perm.Read, "open the directory", j.path, err)
	}
	defer dir.Close()
	return j.change(ctx, dir)
}

// makeFolder makes the directory. In a dry run it returns nil.
func (j *job) makeFolder() (*os.File, error) {
	parent, name, err := j.parent()
	if err != nil {
		return nil, err
	}
	j.made.Add(1)
	if j.DryRun {
		return nil, nil
	}
	defer parent.Close()
	mode := uint32(0o777)
	if m := j.modeOf(true); !m.IsZero() {
		mode = m.Of(0o755, true) & 0o777 // from the start, so that what is private never was public
	}
	if err := dirfd.Mkdir(parent, name, mode); err != nil {
		return nil, j.failed(perm.Write, "make the directory", j.path, err)
	}
	dir, err := dirfd.Open(parent, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, j.failed(perm.Read, "open the directory", j.path, err)
	}
	return dir, nil
}

// file makes the path a file, and changes what is not right.
func (j *job) file() error {
	dir, name, link, err := mounts.OpenParent(j.path, j.Follow)
	if errors.Is(err, fs.ErrNotExist) {
		if j.IfExists {
			j.missing.Add(1)
			return nil
		}
		if dir, name, err = j.parent(); err != nil {
			return err
		}
		if dir == nil {
			j.made.Add(1)
			return nil
		}
	}
	if err == nil {
		err = link
	}
	if dir != nil {
		defer dir.Close()
	}
	if err != nil {
		return j.failed(perm.Read, "open", j.path, err)
	}
	e := tree.Entry{Dir: dirfd.FD(dir.Fd()), Name: name, File: -1}
	e.Stat, err = dirfd.Lstat(dir, name)
	if err == unix.ENOENT {
		if j.IfExists {
			j.missing.Add(1)
			return nil
		}
		j.made.Add(1)
		if j.DryRun {
			return nil
		}
		if err = j.makeFile(dir, name); err == nil {
			e.Stat, err = dirfd.Lstat(dir, name)
		}
	}
	if err != nil {
		return j.failed(perm.Write, "make the file", j.path, err)
	}
	if e.Stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return j.otherKind(e.Stat.Mode, "a file")
	}
	return j.apply(&e)
}

func (j *job) makeFile(dir *os.File, name string) error {
	mode := uint32(0o666)
	if m := j.modeOf(false); !m.IsZero() {
		mode = m.Of(0o644, false) & 0o777
	}
	f, err := dirfd.OpenFD(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
	if err == nil {
		err = f.Close()
	}
	return err
}

// link makes the path a symbolic link to the target, or replaces one that leads elsewhere, by a rename.
func (j *job) link() error {
	dir, name, err := j.parent()
	if err != nil {
		return err
	}
	if dir == nil {
		j.made.Add(1)
		return nil
	}
	defer dir.Close()
	old, err := dirfd.Readlink(dir, name)
	switch {
	case err == unix.EINVAL: // no link
		s, err := dirfd.Lstat(dir, name)
		if err != nil {
			return j.failed(perm.Write, "make the link", j.path, err)
		}
		return j.otherKind(s.Mode, "a symbolic link")
	case err == nil && old == j.Target:
	case err == nil || err == unix.ENOENT:
		if err == nil {
			j.replaced.Add(1)
		} else {
			j.made.Add(1)
		}
		if j.DryRun {
			return nil
		}
		if err := makeLink(j.Target, dir, name); err != nil {
			return j.failed(perm.Write, "make the link", j.path, err)
		}
	default:
		return j.failed(perm.Read, "read the link", j.path, err)
	}
	e := tree.Entry{Dir: dirfd.FD(dir.Fd()), Name: name, File: -1}
	if e.Stat, err = dirfd.Lstat(dir, name); err != nil {
		return j.failed(perm.Read, "read the link", j.path, err)
	}
	return j.apply(&e)
}

// makeLink puts a link to target at name, whatever link is there. A killed run leaves at most one link of the temporary
// name, which the next run replaces.
func makeLink(target string, dir *os.File, name string) error {
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
	return dirfd.Rename(dir, temporary, dir, name)
}
