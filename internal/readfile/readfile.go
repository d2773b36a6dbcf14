// Package readfile reads files that users name, which may be of any size and kind: a wrong
// path must not fill the memory, or block.
package readfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Limit is far above any configuration, certificate or secret, and far below
// what a wrong path such as /dev/zero would fill the memory with.
const Limit = 1 << 20

// All returns the content of the file. It fails if that is longer than [Limit] bytes, or
// could take forever to read, as with a pipe.
func All(name string) ([]byte, error) { return Upto(name, Limit) }

// Upto is [All] with another limit, in bytes.
func Upto(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, readOnly, 0)
	if err != nil {
		return nil, err
	}
	return whole(f, name, limit)
}

// In is [Upto] for a file in a directory. A symbolic link that leads out of the directory is an error.
func In(dir *os.Root, name string, limit int64) ([]byte, error) {
	f, err := dir.OpenFile(name, readOnly, 0)
	if err != nil {
		return nil, err
	}
	return whole(f, filepath.Join(dir.Name(), name), limit)
}

const readOnly = os.O_RDONLY | syscall.O_NONBLOCK // a pipe without a writer would block

// whole reads a file, and closes it.
func whole(f *os.File, name string, limit int64) ([]byte, error) {
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if stat.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("not a file but a %s", kind(stat.Mode()))}
	}
	return Rest(f, limit)
}

// Rest reads the rest of an open file, up to a limit in bytes.
func Rest(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("longer than %d bytes", limit)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func kind(m fs.FileMode) string {
	if m&fs.ModeSocket != 0 {
		return "socket"
	}
	return "pipe"
}
