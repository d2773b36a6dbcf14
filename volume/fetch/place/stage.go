package place

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/tree"
)

// stage is a directory on the file system of Dst that other users cannot enter.
type stage struct {
	name string
	dir  *os.File
	tree *os.File // what is published
}

const (
	idLength = 12
	treeName = "tree"
)

// open makes the stage with the first part of it. The caller holds staging.
func (p *Place) open() error {
	switch {
	case p.o.DryRun:
		return errors.New("a dry run has no stage")
	case p.stage != nil || p.denied != nil:
		return p.denied
	}
	if err := p.claim(); err != nil {
		return err
	}
	if p.denied != nil {
		return p.denied
	}
	s := &stage{name: p.prefix + "-" + strings.ToLower(rand.Text()[:idLength])}
	err := dirfd.Mkdir(p.base, s.name, 0o700)
	if err == nil {
		p.stage = s // for drop
		s.dir, err = dirfd.OpenDir(p.base, s.name)
	}
	if err == nil {
		s.tree, err = s.make(treeName)
	}
	if err == nil {
		err = p.own(s.tree)
	}
	p.denied = p.failed("make a directory beside", err)
	return p.denied
}

// make makes a directory in the stage.
func (s *stage) make(name string) (*os.File, error) {
	if err := dirfd.Mkdir(s.dir, name, 0o700); err != nil {
		return nil, err
	}
	return dirfd.OpenDir(s.dir, name)
}

// Part makes an empty directory, which the caller closes. What is in it is published after [Place.Add]. Parts, told
// apart by their numbers, may be made, written and undone at the same time.
func (p *Place) Part(number int) (*os.File, error) {
	p.staging.Lock()
	defer p.staging.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	dir, err := p.stage.make(strconv.Itoa(number))
	return dir, p.failed("make a directory beside", err)
}

// Temp makes a file without a name, on the file system of Dst.
func (p *Place) Temp() (*os.File, error) {
	p.staging.Lock()
	defer p.staging.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	f, err := dirfd.Temp(p.stage.dir)
	return f, p.failed("make a file beside", err)
}

// Undo removes a part, if there is one, unless ctx has ended: then Close does, with the whole stage.
func (p *Place) Undo(ctx context.Context, number int) error {
	p.staging.Lock()
	defer p.staging.Unlock()
	if p.stage == nil || ctx.Err() != nil {
		return nil
	}
	return dirfd.RemoveAll(ctx, p.stage.dir, strconv.Itoa(number))
}

// Add moves a part to what is published. Of a directory, entries of several parts may be in the same directories. If
// Dst is a file, there is one, whatever its name.
func (p *Place) Add(number int) error {
	err := inBoth(p.stage.dir, strconv.Itoa(number), p.stage.dir, treeName, func(from, to dirfd.FD) error {
		return join(from, to, "")
	})
	return p.failed("add to", err)
}

// join moves the entries of a directory of a part to that of the same name in what is published.
func join(from, to dirfd.FD, dir string) error {
	names, err := dirfd.Names(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		shown := path.Join(dir, name)
		entry, err := dirfd.Lstat(from, name)
		if err != nil {
			return err
		}
		switch old, err := dirfd.Lstat(to, name); {
		case err == unix.ENOENT:
			err = writable(from, name, func() error { return dirfd.Rename(from, name, to, name) })
			if err != nil {
				return fmt.Errorf("%s: %w", failure.Printable(shown), err)
			}
		case err != nil:
			return err
		case dirfd.IsDir(old) && dirfd.IsDir(entry):
			if err := inBoth(from, name, to, name, func(a, b dirfd.FD) error { return join(a, b, shown) }); err != nil {
				return err
			}
		default:
			err := fmt.Errorf("%s is also in another download", failure.Printable(shown))
			return failure.WithHint(err, "unpack it into another directory, or leave the file out with #exclude=…")
		}
	}
	return nil
}

// inBoth opens two directories for a call.
func inBoth(from dirfd.Dir, name string, to dirfd.Dir, as string, call func(from, to dirfd.FD) error) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	a, err := dirfd.OpenFD(from, name, flags, 0)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := dirfd.OpenFD(to, as, flags, 0)
	if err != nil {
		return err
	}
	defer b.Close()
	return call(a, b)
}

// isStage returns whether a name in base is that of a stage.
func (p *Place) isStage(name string) bool {
	id, ok := strings.CutPrefix(name, p.prefix+"-")
	return ok && len(id) == idLength && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// sweep removes the stages of killed runs. The lock is held, so none is in use.
func (p *Place) sweep(ctx context.Context) {
	all, _ := dirfd.Names(p.base) // not of a directory that may be written to but not read
	for _, name := range all {
		if p.isStage(name) {
			p.stage = &stage{name: name}
			p.drop(ctx)
		}
	}
}

// drop removes the stage, with the old files that were moved into it.
func (p *Place) drop(ctx context.Context) {
	s := p.stage
	if s == nil {
		return
	}
	for _, f := range []*os.File{s.tree, s.dir} {
		if f != nil {
			f.Close()
		}
	}
	p.stage = nil
	if err := dirfd.RemoveAll(ctx, p.base, s.name); err != nil && ctx.Err() == nil {
		p.log.Warn(fmt.Sprintf("cannot remove %s, which is no longer needed: %v; the next run tries again", filepath.Join(p.base.Name(), s.name), err))
	}
}

// list returns the sorted paths of what is below a directory, directories with a slash at the end, without the entries
// at the top for which skip, unless it is nil, returns true.
func list(root dirfd.Dir, skip func(name string) bool) (all []string, err error) {
	err = tree.Walk{
		Workers: 1,
		Exclude: func(e *tree.Entry) bool { return skip != nil && e.Up.Up == nil && skip(e.Name) },
		Visit: func(e *tree.Entry) error {
			name := e.Path()
			if dirfd.IsDir(e.Stat) {
				name += "/"
				if e.File < 0 {
					return fmt.Errorf("%s: %w", failure.Printable(name), unix.EACCES)
				}
			}
			all = append(all, name)
			return nil
		},
	}.Run(context.Background(), root)
	slices.Sort(all)
	return all, err
}

// sync writes the stage to the disk before anything of it becomes visible: without it, a power cut could leave new
// names on empty files. One syncfs takes a tenth of the time of an fsync for each of many files, but also writes what
// other programs have left unwritten.
func (s *stage) sync(names []string) error {
	const few = 64
	if len(names) > few && dirfd.Syncfs(s.dir) == nil {
		return nil
	}
	at := &dirfd.Descent{Root: s.tree}
	defer at.Close()
	for _, name := range append(names, "./") {
		err := syncOne(at, name)
		if errors.Is(err, unix.EACCES) { // an unusual mode
			err = dirfd.Syncfs(s.dir)
		}
		if err != nil {
			return err
		}
	}
	return dirfd.Sync(s.dir)
}

// syncOne writes a file or a directory to the disk. A link has nothing of its own.
func syncOne(at *dirfd.Descent, name string) error {
	in, base, err := at.Parent(name)
	if err != nil {
		return err
	}
	fd, err := dirfd.OpenFD(in, base, unix.O_RDONLY, 0)
	if err == unix.ELOOP {
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	return cmp.Or(dirfd.Sync(f), f.Close())
}

// writeFile writes a file that becomes visible when it is complete. It is not synced: one that a power cut leaves empty
// is no record, and everything is fetched again.
func (p *Place) writeFile(dir *os.File, name string, content []byte) error {
	temporary := p.prefix + "-" + strings.ToLower(rand.Text()[:idLength])
	f, err := dirfd.Open(dir, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644) // whatever the umask
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = dirfd.Rename(dir, temporary, dir, name)
	}
	if err != nil {
		dirfd.Remove(dir, temporary)
	}
	return err
}

// overwrite writes a file in place, for one that cannot be replaced because it is a mount point. Its mode and owner
// come first, because what is new may be secret, and room is reserved before anything is lost.
func overwrite(from, to dirfd.Dir, name string) error {
	src, err := dirfd.OpenFD(from, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	s, err := dirfd.Stat(src)
	if err == nil && s.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EBUSY
	}
	if err != nil {
		return err
	}
	fd, err := dirfd.OpenFD(to, name, unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer fd.Close()
	old, err := dirfd.Stat(fd)
	if err == nil && (old.Uid != s.Uid || old.Gid != s.Gid) && fd.Chown(int(s.Uid), int(s.Gid)) != nil && s.Mode&0o077 == 0 {
		err = unix.EPERM // others could read what only the owner may read
	}
	if err == nil && old.Mode != s.Mode {
		err = fd.Chmod(uint32(s.Mode) & 0o7777)
	}
	if err == nil {
		err = dirfd.Overwrite(fd, src, s.Size)
	}
	return err
}
