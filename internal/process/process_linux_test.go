package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// script returns the path of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	return executable(t, "script", "#!/bin/sh\n"+text+"\n")
}

// executable returns the path of an executable file.
func executable(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	syscall.ForkLock.RLock() // no program that starts meanwhile may inherit the open file: it could not be run
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func program(path string, output io.Writer) Program {
	return Program{Path: path, Dir: filepath.Dir(path), Env: os.Environ(), Timeout: time.Minute, Output: output, Log: slog.New(slog.DiscardHandler)}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := program(script(t, `echo "$GREETING $PWD"; echo error >&2; exit 3`), &out)
	p.Env = append(p.Env, "GREETING=hello")
	if err := Run(t.Context(), p); err == nil || err.Error() != "exit status 3" {
		t.Errorf("%v, want exit status 3", err)
	}
	if want := "hello " + p.Dir + "\nerror\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
	// One that ends in time does so also if what it leaves in the background has its output open.
	p.Path, p.Timeout, p.outputWait = script(t, "sleep 300 & echo $! >pid; exit 4"), 3*time.Second, 4*time.Second
	if err := Run(t.Context(), p); err == nil || err.Error() != "exit status 4" {
		t.Errorf("%v, want exit status 4", err)
	}
	for _, pid := range pids(filepath.Join(p.Dir, "pid")) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	p.Path, p.Timeout, p.outputWait = script(t, "exec sleep 60"), 50*time.Millisecond, 0
	if err := Run(t.Context(), p); err == nil || err.Error() != "timed out after 50ms" {
		t.Errorf("%v, want that it timed out", err)
	}
	p.Timeout = time.Minute // none of these is to be stopped by it
	for path, want := range map[string]error{"/nowhere/program": os.ErrNotExist, p.Dir: os.ErrPermission, garbage(t): syscall.ENOEXEC} {
		if p.Path = path; !errors.Is(Run(t.Context(), p), want) {
			t.Errorf("%s: not %v", path, want)
		}
	}
}

// garbage returns the path of a file that the kernel cannot run.
func garbage(t *testing.T) string { return executable(t, "garbage", "echo hello\n") }

// pids returns the numbers of processes in a file.
func pids(file string) (all []int) {
	text, _ := os.ReadFile(file)
	for _, field := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(field)
		all = append(all, pid)
	}
	return all
}

func running(pid int) bool {
	p, found := Read(pid)
	return found && !p.Ended
}

// TestLines pins that what is printed ends with a line, and that other lines of the log never come within one.
func TestLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := output{Program: program("", &out)}
	o.Write([]byte("one\ntw"))
	if out.String() != "one\n" {
		t.Errorf("%q was passed on", &out)
	}
	o.Write([]byte("o\nthree"))
	o.finish()
	if out.String() != "one\ntwo\nthree\n" {
		t.Errorf("%q was passed on", &out)
	}
}

// TestChain pins that a program does not get away by always starting another one.
func TestChain(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	p := program(script(t, `n=${1:-1}
[ $n -gt 400 ] && exec sleep 300
setsid "$0" $((n+1)) &
[ $n = 1 ] && exec sleep 300`), io.Discard)
	p.Timeout = 300 * time.Millisecond
	if err := Run(t.Context(), p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that it timed out", err)
	}
	for _, left := range All() {
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", left.PID)); err == nil && dir == p.Dir && !left.Ended {
			t.Errorf("%s is still running", left.Name)
			left.Signal(syscall.SIGKILL)
		}
	}
}

// TestKilled pins that a program ends with all that it has started, wherever that went, but not what another one left
// in the background.
func TestKilled(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	const stay = `sh -c 'echo $$ >>pids; exec sleep 300'`
	left := program(script(t, stay+" >/dev/null 2>&1 &"), io.Discard)
	if err := Run(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	behind := filepath.Join(left.Dir, "pids")
	eventually(t, "the program in the background does not start", func() bool { return len(pids(behind)) == 1 })
	defer func() {
		for _, pid := range pids(behind) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}()

	p := program(script(t, strings.Join([]string{
		stay + " &",
		"setsid " + stay + " &",
		"(" + stay + " &)",
		"(setsid " + stay + " &)",                   // without a parent
		`setsid env -i PATH="$PATH" ` + stay + " &", // without its environment
		"(env -i PATH=\"$PATH\" " + stay + " &)",
		`(setsid env -i PATH="$PATH" ` + stay + " &)", // without both, but with the output
		stay,
	}, "\n")), io.Discard)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() { ended <- Run(ctx, p) }()
	file, enough := filepath.Join(p.Dir, "pids"), errors.New("enough")
	eventually(t, "the programs do not start", func() bool { return len(pids(file)) == 8 })
	cancel(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("%v, want the cause", err)
	}
	for i, pid := range pids(file) {
		if running(pid) {
			t.Errorf("program %d is still running", i)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if !running(pids(behind)[0]) {
		t.Error("what another program left in the background was killed")
	}
}

// adopting is the environment variable with which the test program runs programs as a parent of orphans.
const adopting = "PROCESS_TEST_ADOPTING"

func TestMain(m *testing.M) {
	if path := os.Getenv(adopting); path != "" {
		if err := adopt(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// adopt runs a program often, which leaves another one behind, and returns what is wrong then.
func adopt(path string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 200)
	for range 4 {
		wg.Go(func() {
			for range cap(errs) / 4 {
				if err := Run(context.Background(), program(path, io.Discard)); err == nil || err.Error() != "exit status 3" {
					errs <- fmt.Errorf("%w, want exit status 3", err)
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	children := 0
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		children = 0
		for _, p := range All() {
			if p.Parent == os.Getpid() {
				children++
			}
		}
		if children == 0 {
			return errors.Join(all...)
		}
	}
	return errors.Join(append(all, fmt.Errorf("%d children remain", children))...)
}

// TestOrphans pins that orphans are removed, and that no program's exit status is lost by that.
func TestOrphans(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many programs")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := program(self, &out) // package exec would have to share its ends with the other tests
	p.Env, p.Timeout = append(p.Env, adopting+"="+script(t, "(sleep 0.1 &)\nexit 3")), 5*time.Minute
	if err := Run(t.Context(), p); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

// TestOutput pins that much output is cut, and that this is said.
func TestOutput(t *testing.T) {
	t.Parallel()
	line := func(i int) string { return fmt.Sprintf("line %09d\n", i) } // of 15 bytes
	for _, tt := range []struct {
		lines        int
		begin, end   string
		length       int
		warned, left string
	}{
		{lines: 4000, begin: line(0), end: line(3999), length: 4000 * 15},
		{lines: 4500, begin: line(0), end: line(4499), length: 4500*15 + 1, warned: "it has printed 64.0 kB"},
		{lines: 1e5, begin: line(0), end: line(1e5 - 1), length: maxBegin + 1 + maxEnd/15*15, warned: "it has printed 64.0 kB", left: "1432010 bytes of its output left out"},
	} {
		var out, log bytes.Buffer
		o := &output{Program: Program{Path: "/hook", Output: &out, Log: slog.New(slog.NewTextHandler(&log, nil))}}
		for i := range tt.lines {
			o.Write([]byte(line(i)))
		}
		o.finish()
		if s := out.String(); !strings.HasPrefix(s, tt.begin) || !strings.HasSuffix(s, tt.end) || len(s) != tt.length {
			t.Errorf("%d lines: %d bytes, want %d", tt.lines, len(s), tt.length)
		}
		if !strings.Contains(log.String(), tt.warned) || !strings.Contains(log.String(), tt.left) || tt.warned == "" && log.Len() > 0 {
			t.Errorf("%d lines: %s", tt.lines, &log)
		}
	}
}
