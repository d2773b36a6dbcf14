package lfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"initbox/internal/failure"
)

// local reads the objects from a repository on this machine, where git-lfs stores them as lfs/objects/OI/D…/OID.
func (f *fetch) local(ctx context.Context, targets []*target) error {
	return f.each(ctx, targets, func(_ context.Context, t *target) error {
		name := filepath.Join(f.Directory, "lfs", "objects", t.oid[:2], t.oid[2:4], t.oid)
		file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer would block
		if errors.Is(err, fs.ErrNotExist) {
			return permanent(failure.New(failure.Missing, "%v is not in the repository", t), "fetch it there (git lfs fetch --all), or omit --lfs")
		}
		if err != nil {
			return fmt.Errorf("read %v: %w", t, err)
		}
		defer file.Close()
		if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() {
			return permanent(failure.New(failure.Local, "read %v: not a file", t), "")
		}
		if err := f.verified(t, io.Discard, file); err != nil {
			return err
		}
		return f.put(t, file)
	})
}
