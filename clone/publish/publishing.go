package publish

import (
	"cmp"
	"context"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// Publish replaces the directory with the staged tree, and removes the old one. On an error the old tree stays, except
// for directories of an image's lower layer, which cannot be moved back, and for a link that already points to the new
// tree. Once the replacement has begun, the end of ctx does not stop it, but the removal of the old tree.
func (t *Target) Publish(ctx context.Context, s *Stage, m Marker) error {
	if err := t.publish(ctx, s, m); err != nil {
		return explain("publish "+t.options.Dir, err)
	}
	t.stamp()
	t.tidy(ctx)
	return nil
}

// Reuse publishes the worktree that Earlier has found, by the link alone: programs that still read it keep it.
func (t *Target) Reuse(ctx context.Context, s *Stage, sha string) error {
	if err := t.checkOurs(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w := &swap{Target: t, s: s, hash: sha, reuse: true}
	defer w.close()
	if err := w.back(w.run()); err != nil {
		return explain("publish "+t.options.Dir, err)
	}
	t.tidy(ctx)
	return nil
}

// tidy removes what a publication has made superfluous.
func (t *Target) tidy(ctx context.Context) {
	t.finished()
	if t.link() {
		t.sweepWorktrees(ctx, t.before)
		t.logClaims()
	}
	t.drop(ctx)
	if t.git != nil {
		t.git.drop(ctx)
	}
}

func (t *Target) publish(ctx context.Context, s *Stage, m Marker) error {
	if err := t.checkNames(s); err != nil {
		return err
	}
	for _, dir := range []*Target{t, t.git} {
		if dir == nil {
			continue
		}
		if err := dir.checkOurs(); err != nil { // again: other programs may have written since
			return err
		}
	}
	outer, err := t.mark(s, m)
	if err != nil {
		return err
	}
	if err := t.sync(s); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	tree := &swap{Target: t, s: s, hash: m.SHA, outer: outer, last: gitName}
	defer tree.close()
	if t.git == nil {
		return tree.back(tree.run())
	}
	git := &swap{Target: t.git, s: s.git, last: gitMarker}
	defer git.close()
	if err = tree.begin(); err == nil { // whose marker is in the other directory
		err = git.retire()
	}
	if err == nil {
		err = tree.run()
	}
	if err == nil {
		err = git.run()
	}
	return tree.back(git.back(err))
}

// mark seals the staged tree and writes its marker. It returns whether the marker is outside the tree.
func (t *Target) mark(s *Stage, m Marker) (outer bool, err error) {
	r := &record{Format: recordFormat, Marker: m}
	seal := func(root *os.File, of part, skip func(string) bool) *seal {
		w, failed := sealOf(root, of, skip)
		err = cmp.Or(err, failed, w.packs())
		return &w.sum
	}
	r.Seal = *seal(s.tree, whole, t.keeps)
	if t.git != nil {
		r.Git = seal(s.git.tree, repository, t.git.keeps)
	}
	if err != nil {
		return false, err
	}
	return s.writeMarker(r, t.options.Access.Owner)
}

// checkNames refuses a tree whose names collide with initbox's own or with mount points.
func (t *Target) checkNames(s *Stage) error {
	all, err := names(s.tree)
	if err != nil {
		return err
	}
	for _, name := range all {
		if t.inside() && t.reserved(name) {
			return refuse("the tree has a file %s at its top, and initbox needs that name in %s", name, t.options.Dir)
		}
		if slices.Contains(t.mounts, name) {
			return refuse("the tree has %s at its top, and something is mounted there in %s", name, t.options.Dir)
		}
	}
	return nil
}

// sync writes the staged tree to the disk before it becomes visible. Without it, a power cut could leave new names on
// empty files, with a marker that vouches for them. One syncfs takes a tenth of the time of an fsync for each file,
// although it also writes what other programs have left unwritten on the file system.
func (t *Target) sync(s *Stage) error {
	if t.options.NoSync {
		return nil
	}
	// syncfs reports errors since Linux 5.8, perhaps those of another program's file.
	// After an error, an fsync of each file reports its own.
	err := dirfd.Syncfs(s.dir)
	if err != nil {
		err = syncAll(s.dir)
	}
	if err == nil && t.git != nil {
		err = t.git.sync(s.git)
	}
	return err
}

// syncAll writes each file in a directory, and the names in it, to the disk.
func syncAll(dir *os.File) error {
	var all []string
	err := dirfd.ReadDir(dir, make([]byte, 8<<10), func(name string, kind byte) {
		if kind != unix.DT_LNK {
			all = append(all, name)
		}
	})
	for _, name := range all {
		if err == nil {
			err = syncOne(dir, name)
		}
	}
	return cmp.Or(err, dirfd.Sync(dir))
}

func syncOne(dir *os.File, name string) error {
	f, err := openAt(dir, name, unix.O_RDONLY, 0)
	if isAny(err, unix.ELOOP, unix.EACCES) {
		return nil // a link, or a file that only other users may read
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if stat, err := f.Stat(); err != nil || stat.IsDir() {
		return cmp.Or(err, syncAll(f))
	}
	return f.Sync()
}
