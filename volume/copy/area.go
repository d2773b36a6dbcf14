package copy

import (
	"crypto/rand"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// An area is a folder beside the destinations of files, in which they are made. It has the mount, the group and the
// default ACL of those destinations, and its own mode keeps everyone else out. Its writer holds the lock of the file
// called lock in it, which is the same file in all areas of a run, as far as a file system has hard links: an area
// whose lock is free was left by a writer that was killed.
const (
	areaPrefix = ".initbox-copy-" // and an identifier
	lockName   = "lock"
	newName    = "new" // the folder with what was made
)

// reserved returns whether a name is one that only initbox makes, and that is neither copied nor overwritten.
func reserved(name string) bool { return strings.HasPrefix(name, ".initbox-") }

// locks are the locks of the areas of a target.
type locks struct {
	id   string
	at   string     // path below the target of the first lock
	held []*os.File // of a file system without hard links, one for each area
}

// makeArea makes an area in the open folder dir, whose path below the target is at, and returns its folder for new
// files. The caller holds t.mu.
func (t *target) makeArea(dir dirfd.FD, at string) (dirfd.FD, error) {
	if t.locks.id == "" {
		t.locks.id = strings.ToLower(rand.Text()[:12])
	}
	for {
		made, err := t.tryArea(dir, at, areaPrefix+t.locks.id)
		if err == nil {
			t.areas = append(t.areas, at)
		}
		if err != unix.ENOENT {
			return made, err
		}
		// Another process removed it before it was locked; or the folder itself is gone.
		if s, err := dirfd.Stat(dir); err != nil || s.Nlink == 0 {
			return -1, unix.ENOENT
		}
	}
}

func (t *target) tryArea(dir dirfd.FD, at, name string) (dirfd.FD, error) {
	if err := dirfd.Mkdir(dir, name, 0o700); err != nil {
		return -1, err
	}
	area, err := dirfd.OpenFD(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		err = t.lock(area, path.Join(at, name, lockName))
	}
	if err == nil {
		err = dirfd.Mkdir(area, newName, 0o700)
	}
	if err != nil {
		area.Close()
		removeArea(dir, name)
		return -1, err
	}
	defer area.Close()
	return dirfd.OpenFD(area, newName, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// lock puts a lock into an area.
func (t *target) lock(area dirfd.FD, at string) error {
	if t.locks.at != "" {
		dir, err := t.openBelow(path.Dir(t.locks.at))
		if err == nil {
			err = dirfd.Link(dir, lockName, area, lockName)
			dir.Close()
		}
		if err == nil {
			return nil
		}
	}
	fd, err := dirfd.OpenFD(area, lockName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(fd.Fd(), lockName)
	t.locks.held = append(t.locks.held, f)
	if t.locks.at == "" {
		t.locks.at = at
	}
	if err := dirfd.Lock(f, unix.LOCK_EX); err == unix.ENOLCK || err == unix.ENOTSUP || err == unix.ENOSYS {
		return nil // then no other process can lock it either, and none removes it
	} else if err != nil {
		return err
	}
	_, err = dirfd.Lstat(area, lockName) // another process may have removed it before it was locked
	return err
}

// dead returns the names of areas in dir that killed writers have left.
func dead(dir dirfd.Dir) (left []string, err error) {
	list, err := dirfd.OpenFD(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	var found []string
	err = dirfd.ReadDir(list, make([]byte, 8<<10), func(name string, _ byte) {
		if strings.HasPrefix(name, areaPrefix) {
			found = append(found, name)
		}
	})
	for _, name := range found {
		if isDead(dir, name) {
			left = append(left, name)
		}
	}
	return left, err
}

func isDead(dir dirfd.Dir, name string) bool {
	area, err := dirfd.OpenFD(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return false
	}
	defer area.Close()
	fd, err := dirfd.OpenFD(area, lockName, unix.O_RDWR, 0)
	if err != nil {
		return err == unix.ENOENT // it is being made or removed, and empty: see removeArea
	}
	f := os.NewFile(fd.Fd(), lockName)
	defer dirfd.Unlock(f)
	return dirfd.Lock(f, unix.LOCK_EX|unix.LOCK_NB) == nil
}

// removeArea removes an area, its lock last: what has no lock is empty, and may just be being made.
func removeArea(dir dirfd.Dir, name string) {
	area, err := dirfd.OpenFD(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer area.Close()
	if _, err := dirfd.Lstat(area, lockName); err == nil {
		removeAll(area, newName)
		dirfd.Remove(area, lockName)
	}
	dirfd.RemoveDir(dir, name)
}

// removeAll removes what is called name in dir, with everything below. It follows no link.
func removeAll(dir dirfd.Dir, name string) error {
	err := dirfd.Remove(dir, name)
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	folder, err := dirfd.OpenFD(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.EACCES {
		dirfd.Chmod(dir, name, 0o700)
		folder, err = dirfd.OpenFD(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := dirfd.Names(folder)
	if err != nil {
		return err
	}
	for _, below := range names {
		if err := removeAll(folder, below); err == unix.EACCES {
			folder.Chmod(0o700)
			removeAll(folder, below)
		}
	}
	return dirfd.RemoveDir(dir, name)
}
