package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// built holds, by name, the programs that this process has built or failed to build.
var built sync.Map

// buildServer builds the module in the directory test/name, and returns the program's path. The program stays in the
// user's cache directory, so that a later test run without changes does not even link.
func buildServer(t testing.TB, name string) string {
	t.Helper()
	Slow(t)
	once, _ := built.LoadOrStore(name, sync.OnceValue(func() result { return goBuild(name) }))
	r := once.(func() result)()
	if r.offline != "" {
		Absent(t, "%s cannot be built without its modules: %s", name, r.offline)
	}
	if r.err != "" {
		t.Fatalf("building %s: %s", name, r.err)
	}
	return r.program
}

type result struct {
	program string
	offline string // why the modules are not available
	err     string // why the build fails, which is a bug
}

func goBuild(name string) result {
	module, err := moduleDir(name)
	if err != nil {
		return result{err: err.Error()}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return result{err: err.Error()}
	}
	program := filepath.Join(cache, "initbox-test", name)
	unlock, err := lock(program+".lock", 0)
	if err != nil {
		return result{err: err.Error()}
	}
	defer unlock()
	if out, err := goTool(module, "mod", "download").CombinedOutput(); err != nil {
		return result{offline: string(out)}
	}
	build := goTool(module, "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return result{err: string(out)}
	}
	return result{program: program}
}

// Initbox builds the program into a directory, with the flags of make build, and returns its path. The first package
// that needs it links it, in the user's cache directory; the others copy that. They do not run it there: another
// checkout may build its own program meanwhile.
func Initbox(dir string) (program string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	built := filepath.Join(cache, "initbox-test", "initbox")
	unlock, err := lock(built+".lock", 0)
	if err != nil {
		return "", err
	}
	defer unlock()
	build := goTool("", "build", "-buildvcs=false", "-trimpath", "-tags=urfave_cli_no_docs", "-ldflags=-s -w", "-o", built, "initbox/cmd/initbox")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building initbox: %w\n%s", err, out)
	}
	data, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "initbox")
	return program, writeProgram(program, data)
}

// WithInitbox builds the program, stores its path in *program, and runs the tests. It returns the exit status:
//
//	func TestMain(m *testing.M) { os.Exit(servers.WithInitbox(&binary, m.Run)) }
func WithInitbox(program *string, run func() int) int {
	dir, err := os.MkdirTemp("", "initbox-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		*program, err = Initbox(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

// moduleDir finds test/name from any directory of the main module.
func moduleDir(name string) (string, error) {
	gomod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(gomod))), "test", name), nil
}

func goTool(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return cmd
}

// lock creates a file if necessary, and locks it against all other processes: go test runs the tests of several
// packages at the same time. It waits for the lock, or, with [syscall.LOCK_NB], fails with EWOULDBLOCK.
func lock(file string, how int) (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how); err != nil {
		f.Close()
		return nil, err
	}
	return f.Close, nil
}
