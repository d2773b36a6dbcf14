// Package place puts what was downloaded where it is wanted: it is made beside that first, and then renamed. A reader
// sees the old file or the new one, and of a directory that is replaced the old content or the new one.
//
//	p, err := place.Open(ctx, place.Options{Dst: "/plugins", Directory: true, Key: key})
//	...
//	defer p.Close()
//	if p.Record() != nil {
//		return nil // what an earlier run has put there is unchanged
//	}
//	dir, err := p.Part(0)
//	... // write what belongs into /plugins below dir
//	err = p.Add(0)
//	sum, err := p.Publish(ctx, record)
//
// The files, for /data/plugins and /data/app.jar; for a directory that is a mount point they are in it, without its
// name:
//
//	/data/.plugins.initbox-lock   locked by the run that works on it
//	/data/.plugins.initbox-…      the stage
//	/data/.plugins.initbox.json   the record of a directory that was replaced, or of a file
//	/data/.plugins.initbox-KEY.json  the record of what was added to a directory
package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/dirlock"
	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/perm"
	"initbox/internal/poll"
)

// Options say where something is put, and how.
type Options struct {
	Dst         string
	Directory   bool // Dst is a directory, to which the entries of the stage are added; otherwise it is a file
	Replace     bool // the directory gets exactly the content of the stage; mount points in it stay, and so does lost+found
	NoOverwrite bool // files that exist are left as they are

	// Follow says that symbolic links in volumes are followed on the way to Dst. Otherwise they are a
	// [*mounts.LinkError].
	Follow bool

	DryRun bool // nothing is written, and there is no Part

	Owner *perm.Owner // of the directory, if it is made, and of missing directories above Dst
	Key   string      // tells runs for one Dst apart: a record is only good for the same Key; letters and digits
	Log   *slog.Logger
}

// Summary counts files and links.
type Summary struct {
	Added, Replaced, Removed int
	Same                     int // they had the same bytes, mode and owner, and were left alone
	Kept                     int // of NoOverwrite
}

// Place is where something is put. Only one run at a time has a stage for it.
type Place struct {
	ctx    context.Context // of Open
	o      Options
	log    *slog.Logger
	parent *os.File // the directory of Dst
	name   string   // of Dst in it
	base   *os.File // where lock, stage and record are
	prefix string   // of their names
	inside bool     // base is Dst

	mounts []string // names of the mount points in the directory
	deep   string   // path of one further down
	lock   *dirlock.Lock
	claim  func() error // takes the lock, once
	made   []madeDir    // directories above Dst
	denied error        // why nothing can be written
	record *record      // nil if there is none, or if something has changed

	staging sync.Mutex
	stage   *stage // nil before the first part
}

type madeDir struct {
	parent *os.File
	name   string
}

const (
	mine       = ".initbox"
	lockSuffix = "-lock"
)

// Open finds Dst. If another run is at work there, it waits until that has ended, or until ctx ends; what a killed run
// has left is removed. Otherwise the lock of Dst is taken by the first Part, so that a run that finds nothing to do
// leaves no trace, not even in the time of a directory. Missing directories above Dst are made, and removed by Close if
// nothing is published.
func Open(ctx context.Context, o Options) (*Place, error) {
	p := &Place{ctx: ctx, o: o, log: o.Log}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	err := p.find()
	if err == nil && !o.DryRun && p.denied == nil {
		p.claim = sync.OnceValue(func() error { return p.take(ctx) })
		if p.begun() {
			err = p.claim()
		}
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	if p.base != nil {
		p.record = p.readRecord()
	}
	return p, nil
}

// find opens the directories.
func (p *Place) find() error {
	dst, err := filepath.Abs(p.o.Dst)
	if err != nil {
		return p.failed("find", err)
	}
	if p.o.Directory {
		if dst, err = p.follow(dst); err != nil {
			return p.failed("open", err)
		}
	}
	above, err := mounts.MakeDirs(filepath.Dir(dst), p.o.Follow, p.make)
	if err != nil && p.o.DryRun && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return p.failed("open the directory of", err)
	}
	defer above.Close()
	if p.parent, err = dirfd.OpenDir(above, "."); err != nil {
		return p.failed("open the directory of", err)
	}
	p.name = filepath.Base(dst)
	p.prefix = "." + p.name[:min(len(p.name), 255-70)] + mine
	if p.o.Directory {
		return p.findDirectory(dst)
	}
	return p.findFile()
}

// follow returns the path of a directory, after links that may be followed.
func (p *Place) follow(path string) (string, error) {
	dir, err := mounts.OpenDir(path, p.o.Follow)
	if err == nil {
		defer dir.Close()
		return dir.Name(), nil
	}
	if _, noLink := os.Readlink(path); errors.Is(err, fs.ErrNotExist) && noLink != nil {
		return path, nil
	}
	return "", err
}

// make makes a directory above Dst.
func (p *Place) make(parent *os.File, name string) error {
	if p.o.DryRun {
		return fs.ErrNotExist
	}
	if err := dirfd.Mkdir(parent, name, 0o755); err != nil {
		return err
	}
	again, err := dirfd.Open(parent, ".", dirfd.PathOnly|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	p.made = append(p.made, madeDir{again, name})
	dir, err := dirfd.OpenFD(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return p.own(dir)
}

// own sets mode and owner of a directory, but keeps a setgid bit that it has inherited from the volume.
func (p *Place) own(dir dirfd.Dir) error {
	s, err := dirfd.Stat(dir)
	fd := dirfd.FD(dir.Fd())
	if err == nil && p.o.Owner != nil {
		err = fd.Chown(p.o.Owner.UID, p.o.Owner.GID)
	}
	if err == nil {
		err = fd.Chmod(0o755 | uint32(s.Mode)&unix.S_ISGID)
	}
	if err == unix.EPERM || err == unix.ENOTSUP {
		return nil // the file system has no modes
	}
	return err
}

// findDirectory finds out where the stage of a directory is: in it, if it is a mount point or nothing can be renamed
// beside it, or otherwise beside it.
func (p *Place) findDirectory(path string) error {
	there, err := dirfd.Inspect(p.parent, p.name)
	beside, failed := dirfd.Inspect(p.parent, ".")
	if failed != nil {
		return p.failed("look at the directory of", failed)
	}
	mounted := path == "/" || err == nil && (there.MountRoot || there.Mount != beside.Mount)
	switch {
	case err != nil && err != unix.ENOENT:
		return p.failed("look at", err)
	case err == nil && there.Kind() != unix.S_IFDIR:
		return permanent("%s exists and is not a directory", p.o.Dst)
	case p.o.Replace && mounts.System(path, mounted):
		return permanent("%s is part of the system and must not be replaced", p.o.Dst)
	}
	p.mounts, p.deep = mounts.Below(mounts.All(), path)
	denied := dirfd.Access(p.parent, ".", unix.W_OK|unix.X_OK)
	if p.inside = err == nil && (mounted || denied != nil); !p.inside {
		p.base = p.parent
		p.deny(denied)
		return nil
	}
	if p.base, err = dirfd.OpenDir(p.parent, p.name); err != nil {
		return p.failed("open", err)
	}
	p.prefix = mine
	p.deny(dirfd.Access(p.base, ".", unix.W_OK|unix.X_OK))
	return nil
}

// findFile finds out where the stage of a file is: beside it, or, for a file that is mounted into a directory that is
// read-only, where a container can always write.
func (p *Place) findFile() error {
	there, err := dirfd.Inspect(p.parent, p.name)
	if err == nil && there.Kind() == unix.S_IFDIR {
		err := permanent("%s is a directory, and not a file", p.o.Dst)
		return failure.WithHint(err, "write "+strings.TrimSuffix(p.o.Dst, "/")+"/ to put files into it")
	}
	p.base = p.parent
	denied := dirfd.Access(p.parent, ".", unix.W_OK|unix.X_OK)
	if denied == nil || err != nil || dirfd.Access(p.parent, p.name, unix.W_OK) != nil {
		p.deny(denied)
		return nil
	}
	for _, path := range []string{"/tmp", "/dev/shm"} {
		if dir, err := os.Open(path); err == nil {
			if dirfd.Access(dir, ".", unix.W_OK|unix.X_OK) == nil {
				p.base = dir
				return nil
			}
			dir.Close()
		}
	}
	p.deny(denied)
	return nil
}

// deny remembers why nothing can be written: what is there may be up to date all the same.
func (p *Place) deny(err error) {
	if err != nil {
		p.denied = p.failed("write to", err)
	}
}

// begun returns whether another run is at work, or was killed: its lock or its stage is there.
func (p *Place) begun() bool {
	all, err := dirfd.Names(p.base)
	return err != nil || slices.ContainsFunc(all, func(name string) bool {
		return name == p.prefix+lockSuffix || p.isStage(name)
	})
}

// take takes the lock, and clears up.
func (p *Place) take(ctx context.Context) error {
	p.lock = dirlock.New(p.base, p.prefix+lockSuffix)
	err := p.lock.Wait(ctx, func(busy error) {
		p.log.Info(fmt.Sprintf("%s: waiting: %v", failure.Printable(p.o.Dst), busy))
	})
	switch {
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), failure.NoSpace(err):
		p.deny(err)
		return nil
	case err != nil:
		return p.failed("lock", err)
	case p.lock.None():
		p.log.Warn(failure.Printable(p.o.Dst) + ": the file system has no locks: nothing else may write to this directory meanwhile")
		return nil
	}
	p.sweep(ctx)
	return context.Cause(ctx)
}

// Record returns what an earlier run has given to Publish, if all that it has put there is unchanged; otherwise nil.
func (p *Place) Record() json.RawMessage {
	if p.record == nil {
		return nil
	}
	return p.record.Fetch
}

// MakeDirectory makes a directory of a Dst that was to be a file, where only what was fetched tells. Nothing may have
// that name yet.
func (p *Place) MakeDirectory() error {
	if _, err := dirfd.Lstat(p.parent, p.name); err == nil {
		return permanent("%s exists and is not a directory, and what was fetched is more than one file", p.o.Dst)
	} else if err != unix.ENOENT {
		return p.failed("look at", err)
	}
	p.o.Directory = true
	return nil
}

// Exists returns whether there is something called name in the directory, a slash-separated path, or, if name is empty,
// whether there is something called Dst.
func (p *Place) Exists(name string) bool {
	if p.parent == nil {
		return false
	}
	at := &dirfd.Descent{Root: p.parent}
	defer at.Close()
	in, base, err := at.Parent(path.Join(p.name, name))
	if err == nil {
		_, err = dirfd.Lstat(in, base)
	}
	return err == nil
}

// Close removes what was not published, for at most a second, and gives up the lock. The next Open removes the rest. If
// the context of Open was cancelled, as by a signal, it takes 50 ms at most.
func (p *Place) Close() error {
	limit := maxRemoval
	if p.ctx.Err() != nil && !errors.Is(context.Cause(p.ctx), context.DeadlineExceeded) {
		limit = maxRemovalStopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p.drop(ctx)
	if p.lock != nil {
		p.lock.Release()
	}
	for _, dir := range []*os.File{p.base, p.parent} {
		if dir != nil {
			dir.Close()
		}
	}
	for i := len(p.made) - 1; i >= 0; i-- {
		dirfd.RemoveDir(p.made[i].parent, p.made[i].name) // unless it has something
		p.made[i].parent.Close()
	}
	return nil
}

const (
	maxRemoval        = time.Second
	maxRemovalStopped = 50 * time.Millisecond
)

// failed returns an error of a system call, with its hint. What cannot heal is permanent.
func (p *Place) failed(doing string, err error) error {
	var known *failure.Failure
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err = perm.Failed(doing, perm.Write, p.o.Dst, err)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOTDIR) || errors.As(err, new(*mounts.LinkError)) {
		return poll.Permanent(err)
	}
	return err
}

// permanent returns an error that another attempt would meet, too.
func permanent(format string, args ...any) error {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = failure.Printable(text)
		}
	}
	return poll.Permanent(fmt.Errorf(format, args...))
}
