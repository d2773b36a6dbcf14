// Package local reads a Git repository in a directory on this machine, without git: its references, and its objects as
// a pack. The layout is that of gitrepository-layout(5).
//
//	repo, err := local.Open("/srv/git/app.git")
//	...
//	defer repo.Close()
//	refs, err := repo.Refs("refs/heads/")
//	...
//	pack, shallow, err := repo.Pack(ctx, local.Request{Wants: []plumbing.Hash{refs[0].ID}, Depth: 1})
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/gitconfig"
	"initbox/clone/object"
	"initbox/internal/readfile"
)

// ErrNone means that there is no repository.
var ErrNone = errors.New("not a Git repository")

// ErrFormat means that the repository has a format that this package does not read.
var ErrFormat = errors.New("which initbox does not read")

// Repository is a repository in a directory. Only one goroutine may call its methods at a time.
type Repository struct {
	dir    string // has HEAD
	common string // has the rest: differs from dir in a worktree's (git-worktree(1))
	store  *store
	pack   io.Closer     // the last one
	sent   chan struct{} // closed when it has ended
}

// Open finds the repository at a path as git does: a bare one, the .git directory of a working
// tree, or the directory that a .git file names.
func Open(path string) (*Repository, error) {
	dir, err := locate(path)
	if err != nil {
		return nil, err
	}
	r := &Repository{dir: dir, common: dir}
	if text, err := readFile(filepath.Join(dir, "commondir"), readfile.Limit); err == nil {
		r.common = relative(dir, strings.TrimSpace(string(text)))
	}
	if err := r.readable(); err != nil {
		return nil, err
	}
	if r.store, err = openStore(filepath.Join(r.common, "objects")); err != nil {
		return nil, err
	}
	return r, nil
}

// Directory returns the directory with the repository's other files, such as hooks: .git, or the
// bare repository itself.
func (r *Repository) Directory() string { return r.common }

// Close also ends a pack that is still being made.
func (r *Repository) Close() error {
	r.end()
	r.store.close()
	return nil
}

// end waits until the last pack has ended.
func (r *Repository) end() {
	if r.pack != nil {
		r.pack.Close()
		<-r.sent
	}
}

// locate returns the directory that has HEAD.
func locate(path string) (string, error) {
	for _, suffix := range []string{"/.git", "", ".git/.git", ".git"} {
		dir := path + suffix
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist), isNotDir(err):
			continue
		case err != nil:
			return "", err
		case !info.IsDir():
			if dir, err = follow(dir); err != nil {
				return "", err
			}
		}
		ok, err := isRepository(dir)
		if ok || err != nil {
			return dir, err
		}
	}
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: %w", path, ErrNone)
}

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// follow reads a .git file, which names the directory.
func follow(file string) (string, error) {
	text, err := readFile(file, readfile.Limit)
	if err != nil {
		return "", err
	}
	dir, ok := strings.CutPrefix(string(text), "gitdir:")
	if !ok {
		return "", fmt.Errorf("%s: %w", file, ErrNone)
	}
	return relative(filepath.Dir(file), strings.TrimSpace(dir)), nil
}

func relative(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// isRepository returns whether a directory has what git requires of a repository.
func isRepository(dir string) (bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false, unless(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "commondir")); err == nil {
		return true, nil
	}
	for _, name := range []string{"objects", "refs"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || !info.IsDir() {
			return false, unless(err)
		}
	}
	return true, nil
}

// unless returns err, or nil if it means that the file does not exist.
func unless(err error) error {
	if errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return nil
	}
	return err
}

// readable refuses repositories whose objects or references are kept in another way.
func (r *Repository) readable() error {
	config, err := readFile(filepath.Join(r.common, "config"), readfile.Limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for e, err := range gitconfig.Parse(config) {
		value := strings.ToLower(e.Value)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", filepath.Join(r.common, "config"), err)
		case e.Section != "extensions" || e.Subsection != "":
		case e.Key == "objectformat" && value == "sha256":
			return fmt.Errorf("the repository uses SHA-256 object names, %w", ErrFormat)
		case e.Key == "objectformat" && value != "sha1", e.Key == "refstorage" && value != "files":
			return fmt.Errorf("the repository has the extension %s = %q, %w", e.Key, e.Value, ErrFormat)
		}
	}
	return nil
}

// Pack selects the wanted objects, and returns them as a pack that is made while it is read.
// It ends at the next call of another method. Shallow are the commits whose parents are not
// in it. If an object is missing, the error is a [MissingError].
func (r *Repository) Pack(ctx context.Context, q Request) (pack io.ReadCloser, shallow []plumbing.Hash, err error) {
	r.end()
	grafts, err := r.grafts()
	if err != nil {
		return nil, nil, err
	}
	s := &selection{store: r.store, ctx: ctx, grafts: grafts, packed: make(map[*packFile][]uint64), inFile: make(map[plumbing.Hash]bool)}
	if err := guard(func() error { return s.choose(q) }); err != nil {
		return nil, nil, err
	}
	r.store.release()
	reader, writer := io.Pipe()
	sent := make(chan struct{})
	r.pack, r.sent = reader, sent
	stop := context.AfterFunc(ctx, func() { writer.CloseWithError(ctx.Err()) })
	go func() {
		defer close(sent)
		defer stop()
		send := &sender{selection: s}
		writer.CloseWithError(guard(func() error { return send.run(writer) }))
	}()
	return reader, s.shallowSorted(), nil
}

// grafts returns the commits whose parents the repository does not have itself.
func (r *Repository) grafts() (map[plumbing.Hash]bool, error) {
	text, err := readFile(filepath.Join(r.common, "shallow"), 64*readfile.Limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	grafts := make(map[plumbing.Hash]bool)
	for line := range strings.Lines(string(text)) {
		id, err := object.ParseID(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(r.common, "shallow"), err)
		}
		grafts[id] = true
	}
	return grafts, err
}

// guard returns an error for the fault that occurs when a mapped index is read after the
// file was truncated, or when its disk fails.
func guard(do func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // see debug.SetPanicOnFault
			err = errors.New("the index of a pack cannot be read to its end")
		default:
			panic(fault)
		}
	}()
	return do()
}
