package copy

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
)

// An area is a directory beside the destinations of files, in which they are made under their own names. It has the
// mount, the group and the default ACL of those destinations, and its own mode keeps everyone else out. A run makes
// areas only while it holds the lock of its target: other areas that it finds then were left by a run that was killed.
const (
	areaPrefix = ".initbox-copy-" // and an identifier
	lockName   = ".initbox-copy.lock"
)

// reserved returns whether a name is one that only initbox makes, and that is neither copied nor overwritten.
func reserved(name string) bool { return strings.HasPrefix(name, ".initbox-") }

// makeArea makes an area in the open directory dir, whose path below the target is at. The caller holds t.mu.
func (t *target) makeArea(dir dirfd.FD, at string) (dirfd.FD, error) {
	if err := t.takeLock(); err != nil {
		return -1, err
	}
	if t.area == "" {
		t.area = areaPrefix + strings.ToLower(rand.Text()[:12])
	}
	if err := dirfd.Mkdir(dir, t.area, 0o700); err != nil {
		return -1, err
	}
	t.areas = append(t.areas, at)
	return dirfd.OpenFD(dir, t.area, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// takeLock takes the lock of the target, unless it is held.
func (t *target) takeLock() error {
	if t.lock.Held() || t.lock.None() {
		return nil
	}
	return t.lock.Wait(t.ctx, func(busy error) {
		t.Log.Info(fmt.Sprintf("%s: waiting: %s", failure.Printable(t.path), busy), failure.Fields(failure.Printable(t.path), 0, busy))
	})
}

// sweep returns the areas that killed runs have left in a directory.
func (t *target) sweep(dir dirfd.Dir) (left []string) {
	names, _ := dirfd.Names(dir) // a directory that cannot be read stays as it is
	for _, name := range names {
		if !strings.HasPrefix(name, areaPrefix) || name == t.area || t.takeLock() != nil || t.lock.None() {
			continue
		}
		if _, err := dirfd.Lstat(dir, name); err == nil { // else its run has ended meanwhile
			left = append(left, name)
		}
	}
	return left
}

// removeArea removes an area below the target, if it is there.
func (t *target) removeArea(at, name string) {
	if dir, err := t.openBelow(at); err == nil {
		f := os.NewFile(dir.Fd(), t.shown(at))
		dirfd.RemoveAll(context.Background(), f, name)
		f.Close()
	}
}
