package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/perm"
	"initbox/internal/tree"
)

// risky refuses to remove or change what a mistake in a path could mean, unless that is forced.
func (j *job) risky(doing, what string) error {
	if j.Force {
		return nil
	}
	return failure.WithHint(fmt.Errorf("%s %s: %s", doing, failure.Printable(j.path), what), "if that is what you mean, add --force")
}

// absent removes the path, whatever it is, with all below.
func (j *job) absent(ctx context.Context) error {
	if j.path == "/" && !j.OnlyFile {
		return errors.New("remove /: the root directory cannot be removed")
	}
	up, name := filepath.Dir(j.path), filepath.Base(j.path)
	dir, err := mounts.OpenDir(up, j.Follow)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return perm.Failed("open the directory", perm.Read, up, err)
	}
	defer dir.Close()
	info, err := dirfd.Inspect(dir, name)
	if err == unix.ENOENT {
		return nil
	}
	above, errAbove := dirfd.Inspect(dir, "")
	if err := errors.Join(err, errAbove); err != nil {
		return perm.Failed("read", perm.Read, j.path, err)
	}
	if info.Kind() == unix.S_IFDIR && j.OnlyFile {
		j.count(staying)
		return nil
	}
	if info.MountRoot || info.Mount != above.Mount {
		hint := "#empty with --force removes what is in it"
		if info.Kind() != unix.S_IFDIR {
			hint = "a file that is mounted with subPath cannot be removed"
		}
		return failure.WithHint(fmt.Errorf("remove %s: it is a mount point", failure.Printable(j.path)), hint)
	}
	if mounts.Nowhere(j.path) != "" {
		if err := j.risky("remove what is in", "it is in no volume"); err != nil {
			return err
		}
	}
	remove := dirfd.Remove
	if info.Kind() == unix.S_IFDIR {
		if err := j.removeAll(ctx, dir, name); err != nil {
			return err
		}
		remove = dirfd.RemoveDir
	}
	if !j.DryRun {
		err = remove(dir, name)
	}
	if err == nil {
		j.count(removed)
	}
	if err == unix.ENOENT {
		return nil
	}
	return perm.Failed("remove", perm.Remove, j.path, err)
}

// removeAll removes what is in the directory called name. It refuses before it removes anything if not all of that can
// be removed.
func (j *job) removeAll(ctx context.Context, parent *os.File, name string) error {
	if direct, deep := mounts.Below(mounts.All(), filepath.Join(parent.Name(), name)); len(direct) > 0 || deep != "" {
		return failure.WithHint(fmt.Errorf("remove %s: there are mount points in it", failure.Printable(j.path)), "#empty removes everything but mount points")
	}
	dir, err := dirfd.OpenDir(parent, name)
	if err != nil {
		return perm.Failed("open the directory", perm.Read, j.path, err)
	}
	defer dir.Close()
	return j.remove(ctx, dir)
}

// clear removes what is in the directory, or what the settings name of it.
func (j *job) clear(ctx context.Context, dir *os.File) error {
	info, err := dirfd.Inspect(dir, "")
	if err != nil {
		return perm.Failed("read", perm.Read, j.path, err)
	}
	up, err := dirfd.Inspect(dir, "..")
	switch {
	case j.path == "/":
		err = j.risky("remove what is in", "it is the root directory")
	case info.MountRoot || err == nil && up.Mount != info.Mount:
		err = j.risky("remove what is in", "it is a mount point")
	case mounts.Nowhere(j.path) != "":
		err = j.risky("remove what is in", "it is in no volume")
	default:
		err = nil
	}
	if err != nil {
		return err
	}
	return j.remove(ctx, dir)
}

// fate is what happens to a directory while what is in it is removed.
type fate struct {
	all  bool        // it is removed with all in it
	kept atomic.Bool // something in it is kept, and so it is itself
}

// remove removes what is in dir: all of it, or, of what the settings name, what lies in dir itself or, if they say
// recursive, at any depth. Nothing that is mounted is entered or removed.
func (j *job) remove(ctx context.Context, dir *os.File) error {
	before := time.Now().Add(-j.OlderThan)
	walk := tree.Walk{
		Value: &fate{all: len(j.Names) == 0 && !j.OnlyFiles},
		Exclude: func(e *tree.Entry) bool {
			kept := matches(j.Exclude, e.Name) || j.Kind == Empty && e.Up.Up == nil && (e.Name == "lost+found" || e.Name == ".snapshot")
			if kept {
				e.Up.Value.(*fate).kept.Store(true)
			}
			return kept
		},
		Visit: func(e *tree.Entry) error {
			up := e.Up.Value.(*fate)
			named := up.all || j.named(e)
			if dirfd.IsDir(e.Stat) {
				f := &fate{all: named && !j.OnlyFiles}
				e.Value = f
				if !e.Mount && (f.all || j.Recursive) && !(j.DryRun && e.File < 0) {
					return nil
				}
				up.kept.Store(true)
				if e.Mount {
					j.leave(j.pathOf(e))
				}
				return fs.SkipDir
			}
			if !named || j.OlderThan > 0 && !time.Unix(e.Stat.Mtim.Unix()).Before(before) {
				up.kept.Store(true)
				return nil
			}
			return j.removeOne(e, dirfd.Remove)
		},
		Leave: func(e *tree.Entry) error {
			if f := e.Value.(*fate); !f.all || f.kept.Load() {
				e.Up.Value.(*fate).kept.Store(true)
				return nil
			}
			return j.removeOne(e, dirfd.RemoveDir)
		},
	}
	return j.walked(walk.Run(ctx, dir), perm.Read)
}

// removeOne removes an entry, unless something is mounted on it.
func (j *job) removeOne(e *tree.Entry, remove func(dirfd.Dir, string) error) error {
	var err error
	if !j.DryRun {
		err = remove(e.Dir, e.Name)
	} else if info, failed := dirfd.Inspect(e.Dir, e.Name); failed == nil && info.MountRoot {
		err = unix.EBUSY
	}
	switch err {
	case nil:
		j.count(removed)
	case unix.ENOENT: // another program has removed it
	case unix.EBUSY:
		e.Up.Value.(*fate).kept.Store(true)
		j.leave(j.pathOf(e))
	case unix.ENOTEMPTY:
		return failure.WithHint(fmt.Errorf("remove %s: %w", failure.Printable(j.pathOf(e)), err), "another program writes there meanwhile")
	default:
		if err = perm.Failed("remove", perm.Remove, j.pathOf(e), err); !j.ignore(err) {
			return err
		}
		e.Up.Value.(*fate).kept.Store(true)
	}
	return nil
}
