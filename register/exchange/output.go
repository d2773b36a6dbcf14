package exchange

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/internal/mounts"
)

// Output is a file for what a server has answered. Its methods do nothing without a name.
type Output struct {
	Name   string
	Writer atomicfile.Writer
	Mode   fs.FileMode
}

// Check fails if the file could not be written, before there is an answer: a server may
// have a stale entry for each answer that is lost.
func (o Output) Check() error {
	if o.Name == "" {
		return nil
	}
	if stat, err := os.Lstat(o.Name); err == nil && !stat.Mode().IsRegular() && stat.Mode()&fs.ModeSymlink == 0 {
		return o.failed(errors.New("it exists and is not a regular file"))
	}
	const writable = 2 // W_OK of access(2)
	return o.failed(syscall.Access(filepath.Dir(o.Name), writable))
}

// Write writes the file, unless it is right already.
func (o Output) Write(content []byte) error {
	if o.Name == "" {
		return nil
	}
	return o.failed(o.Writer.Write(o.Name, content, o.Mode))
}

func (o Output) failed(err error) error {
	if err == nil {
		return nil
	}
	return failure.WithHint(fmt.Errorf("write the answer to %s: %w", o.Name, err), mounts.WriteHint(err, o.Name, VolumeHint))
}

// VolumeHint says what to do if a file cannot be written.
const VolumeHint = "is the volume mounted, writable by this user and not full?"
