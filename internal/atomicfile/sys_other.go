//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

func lstat(dir *os.File, base string) (info, error) { return fstatat(dir, base) }

func syncfs(*os.File) error { return errors.ErrUnsupported }

func reserve(*os.File, int64) error { return nil }
