package values

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"initbox/internal/readfile"
)

// Bounds of a directory of values. A ConfigMap or Secret has at most 1 MiB.
const (
	maxDirFiles = 10_000
	maxDirBytes = 16 << 20
	maxDirDepth = 32
)

// dataLink is the name of the symbolic link by which the kubelet swaps all files of a mounted ConfigMap or Secret at
// once: it leads to a directory with the version's files, and each key is a link through it (AtomicWriter in
// k8s.io/kubernetes/pkg/volume/util).
const dataLink = "..data"

// Version returns the directory with the current version of a mounted ConfigMap or Secret, so
// that all files belong together, and closes root. If root is not such a mount, it returns
// root. The link to the version cannot lead out of root.
func Version(root *os.Root) (*os.Root, error) {
	if stat, err := root.Lstat(dataLink); err != nil || stat.Mode()&fs.ModeSymlink == 0 {
		return root, nil
	}
	defer root.Close()
	return root.OpenRoot(dataLink)
}

// IsVersion returns whether root is still the directory that [Version] returns for dir: another
// version may have replaced it.
func IsVersion(root *os.Root, dir string) bool {
	if stat, err := os.Lstat(filepath.Join(dir, dataLink)); err == nil && stat.Mode()&fs.ModeSymlink != 0 {
		dir = filepath.Join(dir, dataLink)
	}
	now, err := os.Stat(dir)
	opened, openErr := root.Stat(".")
	return err == nil && openErr == nil && os.SameFile(opened, now)
}

// tries is how often a mount is read that may be replaced meanwhile. The kubelet replaces it once a minute at most.
const tries = 10

// swappedError means that a mount was replaced while it was read.
type swappedError struct{ cause error } // may be nil

func (e *swappedError) Error() string {
	if e.cause != nil {
		return e.cause.Error()
	}
	return "it was replaced each time while it was being read"
}

func (e *swappedError) Unwrap() error { return e.cause }

// directory reads a source that is a directory.
func (l *loader) directory(s Source) (*node, error) {
	for try := 1; ; try++ {
		n, err := l.snapshot(s)
		if err == nil {
			return n, nil
		}
		if !errors.As(err, new(*swappedError)) || try == tries {
			return nil, err
		}
	}
}

// snapshot reads one version of a directory. It fails with a swappedError if the version was
// removed meanwhile, because keys may be missing then without an error.
func (l *loader) snapshot(s Source) (*node, error) {
	root, err := os.OpenRoot(s.Text)
	if err == nil {
		root, err = Version(root)
	}
	if err != nil {
		return nil, missing(err)
	}
	defer root.Close()
	r := &dirReader{loader: l, root: root, shown: s.Text, secret: s.Secret || l.mounts.inSecret(s.Text)}
	n, err := r.read(".", 0)

	if !IsVersion(root, s.Text) {
		return nil, &swappedError{}
	}
	return n, err
}

// missing returns err, as a swappedError if the cause may be a link that was replaced between reading and following it.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &swappedError{err}
	}
	return err
}

// dirReader reads a directory and those in it.
type dirReader struct {
	*loader
	root         *os.Root
	shown        string
	secret       bool
	files, bytes int
}

func (r *dirReader) read(dir string, depth int) (*node, error) {
	if depth > maxDirDepth {
		return nil, fmt.Errorf("directories are nested deeper than %d levels: does a link lead back?", maxDirDepth)
	}
	f, err := r.root.Open(dir)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	f.Close()
	if err != nil {
		return nil, err
	}
	n := &node{keys: map[string]*node{}, source: path.Join(r.shown, dir)}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		if err := context.Cause(r.ctx); err != nil {
			return nil, err
		}
		if r.files++; r.files > maxDirFiles {
			return nil, fmt.Errorf("more than %d files", maxDirFiles)
		}
		name := path.Join(dir, e.Name())
		stat, err := r.root.Stat(name) // follows links, within the directory
		if err != nil {
			return nil, err
		}
		if stat.IsDir() {
			n.keys[e.Name()], err = r.read(name, depth+1)
		} else {
			n.keys[e.Name()], err = r.file(name)
		}
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (r *dirReader) file(name string) (*node, error) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a file")}
	}
	data, err := io.ReadAll(io.LimitReader(f, readfile.Limit+1))
	if err != nil {
		return nil, err
	}
	if len(data) > readfile.Limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("longer than %d bytes", readfile.Limit)}
	}
	if r.bytes += len(data); r.bytes > maxDirBytes {
		return nil, fmt.Errorf("more than %d bytes in all", maxDirBytes)
	}
	secret := r.secret || Private(stat.Mode())
	return &node{leaf: string(data), source: path.Join(r.shown, name), secret: secret}, nil
}
