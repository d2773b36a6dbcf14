package tree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/tree"
	"initbox/test/servers"
)

// makeTree makes directories with files in each, and returns it open.
func makeTree(t testing.TB, dir string, directories, files int) *os.File {
	t.Helper()
	for i := range directories {
		sub := filepath.Join(dir, fmt.Sprintf("d%03d", i/100), fmt.Sprintf("d%02d", i%100))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range files {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%05d", j)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return openDir(t, dir)
}

func openDir(t testing.TB, dir string) *os.File {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// set is a set of paths, filled by several workers.
type set struct {
	sync.Mutex
	paths []string
}

func (s *set) add(e *tree.Entry) error {
	s.Lock()
	defer s.Unlock()
	s.paths = append(s.paths, e.Path())
	return nil
}

func TestEverythingOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := makeTree(t, dir, 120, 3)
	os.Symlink("/etc", filepath.Join(dir, "link"))
	wide := filepath.Join(dir, "wide")
	os.Mkdir(wide, 0o755)
	for i := range 3000 {
		os.WriteFile(filepath.Join(wide, fmt.Sprintf("file-with-a-long-name-%d", i)), nil, 0o644)
	}
	var want []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			want = append(want, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	slices.Sort(want)
	for _, workers := range []int{0, 1, 2, 7} {
		var visited, left set
		walk := tree.Walk{Workers: workers, Visit: visited.add, Leave: left.add}
		if err := walk.Run(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		slices.Sort(visited.paths)
		if !slices.Equal(visited.paths, want) {
			t.Errorf("%d workers visited %d entries, want the %d that WalkDir finds", workers, len(visited.paths), len(want))
		}
		if len(left.paths) != 120+2+1 {
			t.Errorf("%d workers left %d directories, want %d", workers, len(left.paths), 120+2+1)
		}
		for i, path := range left.paths {
			if up := filepath.Dir(path); up != "." && !slices.Contains(left.paths[i:], up) {
				t.Errorf("%s was left before %s, which lies in it", up, path)
			}
		}
	}
}

func TestValuesReachEntries(t *testing.T) {
	t.Parallel()
	root := makeTree(t, t.TempDir(), 120, 3)
	walk := tree.Walk{Value: "", Visit: func(e *tree.Entry) error {
		path := strings.TrimPrefix(e.Up.Value.(string)+"/"+e.Name, "/")
		if path != e.Path() {
			return fmt.Errorf("%s, want %s", path, e.Path())
		}
		if e.File >= 0 {
			e.Value = path
		}
		return nil
	}}
	if err := walk.Run(t.Context(), root); err != nil {
		t.Error(err)
	}
}

func TestExcludeAndSkip(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{"a/lost+found/x", "b/c/d", "b/e"} {
		os.MkdirAll(filepath.Join(dir, path), 0o755)
	}
	var visited set
	walk := tree.Walk{
		Exclude: func(e *tree.Entry) bool { return e.Name == "lost+found" || e.Path() == "b/e" },
		Visit: func(e *tree.Entry) error {
			visited.add(e)
			if e.Name == "c" {
				return fs.SkipDir
			}
			return nil
		},
		Leave: func(e *tree.Entry) error {
			if e.Name == "c" {
				return errors.New("c is left though it was skipped")
			}
			return nil
		},
	}
	if err := walk.Run(t.Context(), openDir(t, dir)); err != nil {
		t.Fatal(err)
	}
	slices.Sort(visited.paths)
	if want := []string{"a", "b", "b/c"}; !slices.Equal(visited.paths, want) {
		t.Errorf("visited %v, want %v", visited.paths, want)
	}
}

func TestErrorEndsTheWalk(t *testing.T) {
	t.Parallel()
	root := makeTree(t, t.TempDir(), 200, 5)
	want := errors.New("stop")
	visits := atomic.Int32{}
	err := tree.Walk{Visit: func(e *tree.Entry) error {
		if visits.Add(1) > 50 {
			return want
		}
		return nil
	}}.Run(t.Context(), root)
	if err != want || visits.Load() > 300 {
		t.Errorf("%v after %d visits", err, visits.Load())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(want)
	if err := (tree.Walk{Visit: func(*tree.Entry) error { return nil }}).Run(ctx, root); err != want {
		t.Errorf("cancelled: %v", err)
	}
}

// TestDeep pins that a tree whose depth exceeds any limit of descriptors, and whose paths exceed PATH_MAX, is walked
// and can be removed on leaving.
func TestDeep(t *testing.T) {
	t.Parallel()
	const depth = 10_000
	top, err := os.MkdirTemp("/dev/shm", "tree-") // a disk would take a while
	if err != nil {
		top = t.TempDir()
	}
	defer os.Remove(top)
	root := openDir(t, top)
	at, err := dirfd.OpenFD(root, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for i := 0; i < depth && err == nil; i++ {
		var next dirfd.FD
		dirfd.Mkdir(at, "side", 0o755)
		if err = dirfd.Mkdir(at, "directory", 0o755); err == nil {
			next, err = dirfd.OpenFD(at, "directory", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
		at.Close()
		at = next
	}
	if err != nil {
		t.Fatal(err)
	}
	at.Close()
	before, most := descriptors(t), atomic.Int32{}
	visits := atomic.Int32{}
	err = tree.Walk{
		Workers: 4,
		Visit: func(e *tree.Entry) error {
			if visits.Add(1)%500 == 0 {
				most.Store(max(most.Load(), int32(descriptors(t)-before)))
			}
			return nil
		},
		Leave: func(e *tree.Entry) error { return dirfd.RemoveDir(e.Dir, e.Name) },
	}.Run(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if names, _ := dirfd.Names(root); len(names) > 0 || visits.Load() != 2*depth {
		t.Errorf("%v remain after %d visits", names, visits.Load())
	}
	if most.Load() > 4*40+50 {
		t.Errorf("%d descriptors are open", most.Load())
	}
}

func descriptors(t testing.TB) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(names)
}

// TestSwappedForLinks pins that no walk gets out of its tree while directories are exchanged with links to one outside.
func TestSwappedForLinks(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	makeTree(t, outside, 20, 2)
	dir := t.TempDir()
	root := makeTree(t, dir, 20, 2)
	inner := openDir(t, filepath.Join(dir, "d000"))
	dirfd.Symlink(outside, inner, "link")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				dirfd.Exchange(inner, fmt.Sprintf("d%02d", i/2%20), inner, "link")
			}
		}
	})
	defer swapping.Wait()
	defer close(stop)
	var found unix.Stat_t
	unix.Stat(outside, &found)
	inodes := map[uint64]bool{found.Ino: true}
	filepath.WalkDir(outside, func(path string, d fs.DirEntry, err error) error {
		unix.Lstat(path, &found)
		inodes[found.Ino] = true
		return err
	})
	for range 300 {
		err := tree.Walk{Visit: func(e *tree.Entry) error {
			if inodes[e.Stat.Ino] {
				return fmt.Errorf("%s is outside", e.Path())
			}
			return nil
		}}.Run(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPermissionGrantedByVisit pins that a directory that cannot be opened is visited nevertheless, and entered if the
// visit has changed that.
func TestPermissionGrantedByVisit(t *testing.T) {
	t.Parallel()
	if servers.RanAsUser(t) {
		return
	}
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	os.MkdirAll(filepath.Join(closed, "inner"), 0o755)
	os.Chmod(closed, 0)
	defer os.Chmod(closed, 0o755)
	var visited set
	err := tree.Walk{Visit: visited.add}.Run(t.Context(), openDir(t, dir))
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v, want one of permission", err)
	}
	err = tree.Walk{Visit: func(e *tree.Entry) error {
		if e.File < 0 {
			dirfd.Chmod(e.Dir, e.Name, 0o755)
		}
		return visited.add(e)
	}}.Run(t.Context(), openDir(t, dir))
	if err != nil || !slices.Contains(visited.paths, "closed/inner") {
		t.Errorf("visited %v: %v", visited.paths, err)
	}
}

// BenchmarkWalk measures a tree of 300 000 files in $TMPDIR.
func BenchmarkWalk(b *testing.B) {
	root := makeTree(b, b.TempDir(), 3000, 100)
	for b.Loop() {
		wrong := atomic.Int64{}
		err := tree.Walk{Visit: func(e *tree.Entry) error {
			if e.Stat.Uid != 0 {
				wrong.Add(1)
			}
			return nil
		}}.Run(b.Context(), root)
		if err != nil || wrong.Load() > 0 {
			b.Fatal(err, wrong.Load())
		}
	}
}
