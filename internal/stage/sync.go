package stage

import (
	"errors"
	"io/fs"

	"initbox/internal/dirfd"
)

// SyncDirs makes the names in directories survive a power cut, as far as the directories exist. More than few are
// synced with their file systems, see area.sync.
func SyncDirs[D openDirectory](names []string, few int, open func(name string) (D, error)) error {
	if len(names) > few && SyncMounts(names, open) == nil {
		return nil
	}
	return withEach(names, open, func(dir D) error { return dirfd.Sync(dir) })
}

// SyncMounts writes all that is on the file systems of directories to the disk.
func SyncMounts[D openDirectory](names []string, open func(name string) (D, error)) error {
	synced := map[dirfd.Mount]bool{}
	return withEach(names, open, func(dir D) error {
		i, err := dirfd.Inspect(dir, "")
		if err != nil || synced[i.Mount] {
			return err
		}
		synced[i.Mount] = true
		return dirfd.Syncfs(dir)
	})
}

type openDirectory interface {
	dirfd.Dir
	Sync() error
	Close() error
}

// withEach calls do with the directories that exist.
func withEach[D openDirectory](names []string, open func(name string) (D, error), do func(dir D) error) error {
	for _, name := range names {
		dir, err := open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = do(dir)
		dir.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
