package render

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"initbox/render/values"
)

// files is the directory of .Files, or one version of a mounted ConfigMap or Secret. The rules
// for which files are secret are those of values.
type files struct {
	root    *os.Root
	mounted bool // from a Secret
	secret  bool // some file is

	mu    sync.Mutex
	known []string // the secrets that were read
}

func openFiles(dir string) (*files, error) {
	f := &files{mounted: values.OnSecretMount(dir)}
	root, err := os.OpenRoot(dir)
	if err == nil {
		f.root, err = values.Version(root)
	}
	if err != nil {
		return nil, fmt.Errorf("open the directory of .Files: %w", err)
	}
	err = fs.WalkDir(f.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // reading it returns the error
		}
		if stat, err := f.root.Stat(name); err == nil && f.isSecret(stat) {
			f.secret = true
			return fs.SkipAll
		}
		return nil
	})
	return f, err
}

func (f *files) isSecret(stat fs.FileInfo) bool {
	return stat.Mode().IsRegular() && (f.mounted || values.Private(stat.Mode()))
}

// secrets returns the secrets that were read.
func (f *files) secrets() []string {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.known)
}

// view is the directory as templates see it, or with other secrets.
type view struct {
	*files
	shaded bool
}

// Open implements [fs.FS].
func (v view) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	file, err := v.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer would block
	if err != nil {
		return nil, err
	}
	stat, err := file.Stat()
	if err != nil || !v.isSecret(stat) {
		return file, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSource+1))
	if err != nil {
		return nil, err
	}
	if text := string(data); v.shaded {
		data = []byte(values.Shade(text))
	} else {
		v.mu.Lock()
		if !slices.Contains(v.known, text) {
			v.known = append(v.known, text)
		}
		v.mu.Unlock()
	}
	return &secretFile{bytes.NewReader(data), stat}, nil
}

// secretFile is a file that was read.
type secretFile struct {
	*bytes.Reader
	stat fs.FileInfo
}

func (f *secretFile) Stat() (fs.FileInfo, error) { return f.stat, nil }
func (f *secretFile) Close() error               { return nil }
