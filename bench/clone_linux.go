package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// onOneCore calls start, whose processes have only the last of the processors that this one has.
func onOneCore(start func() error) error {
	runtime.LockOSThread() // a child inherits from the thread
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("asking for the processors: %w", err)
	}
	for n := range len(all) * strconv.IntSize {
		if all.IsSet(n) {
			one.Zero()
			one.Set(n)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("keeping to one processor: %w", err)
	}
	err := start()
	if undo := unix.SchedSetaffinity(0, &all); undo != nil {
		return errors.Join(err, undo) // the thread stays locked: it ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// inMemory reports whether the files of a directory are in memory.
func inMemory(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && (s.Type == unix.TMPFS_MAGIC || uint32(s.Type) == unix.RAMFS_MAGIC)
}

// room returns how many bytes can be written to a directory. What is in memory is not
// only bound by the size of its file system.
func room(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0
	}
	free := int64(s.Bavail) * int64(s.Bsize)
	if inMemory(dir) {
		kib, _, _ := strings.Cut(field("/proc/meminfo", "MemAvailable"), " ")
		n, _ := strconv.ParseInt(kib, 10, 64)
		free = min(free, n<<10)
	}
	return free
}

// A memoryGroup is a cgroup whose processes have so much memory, page cache included, and no swap.
type memoryGroup struct{ dir string }

// newMemoryGroup makes one, at the top of what this process sees: what is below
// may belong to others. It needs root, and version 2 of cgroups.
func newMemoryGroup(limit int64) (*memoryGroup, error) {
	const top = "/sys/fs/cgroup"
	controllers, err := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
	if err != nil || !slices.Contains(strings.Fields(string(controllers)), "memory") {
		return nil, fmt.Errorf("%w: this machine has no cgroups of version 2 with a limit of memory", errSkipped)
	}
	_ = os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte("+memory"), 0) // who may not may find it done
	g := &memoryGroup{filepath.Join(top, fmt.Sprintf("initbox-bench-%d", os.Getpid()))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: no cgroup can be made: %w", errSkipped, err)
	}
	_ = os.WriteFile(filepath.Join(g.dir, "memory.swap.max"), []byte("0"), 0) // a kernel without swap does not have it
	if err := os.WriteFile(filepath.Join(g.dir, "memory.max"), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		g.close()
		return nil, fmt.Errorf("%w: no limit of memory can be set: %w", errSkipped, err)
	}
	return g, nil
}

// inside returns the command line that enters the group, and then runs argv.
func (g *memoryGroup) inside(argv []string) []string {
	enter := `echo $$ >"$0" && exec "$@"`
	return append([]string{"/bin/sh", "-c", enter, filepath.Join(g.dir, "cgroup.procs")}, argv...)
}

func (g *memoryGroup) close() { _ = os.Remove(g.dir) }
