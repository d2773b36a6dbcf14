package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
)

// A loop whose only probe is a port is done before Redis has loaded its keys; one that asks Redis is not.
func TestLoadingRedis(t *testing.T) {
	b := newTestBench(t)
	servers.Need(t, "redis-server")
	b.tools = map[string]tool{"redis-cli": {path: servers.Need(t, "redis-cli")}, "nc": {path: servers.Need(t, "nc")}}
	wait := func(w waiter, n int) outcome {
		k := kind{serve: (*bench).loadingRedis}
		return b.runTrial(t.Context(), trial{kind: k, waiter: w, delay: 100 * time.Millisecond, number: n})
	}
	if o := wait(loop("redis-cli", "redis-cli", "{tool} -h {host} -p {port} ping | grep PONG", 0.01), 1); o.err != nil {
		t.Errorf("redis-cli: %v", o.err)
	}
	if o := wait(loop("nc", "nc", "{tool} -z {host} {port}", 0.01), 2); !errors.Is(o.err, errEarly) {
		t.Errorf("nc: %v after %v, want %v", o.err, o.reaction, errEarly)
	}
}

func TestAttempts(t *testing.T) {
	b := newTestBench(t)
	b.trials, b.tools = 2, map[string]tool{"nc": {path: servers.Need(t, "nc")}}
	tcp := loop("nc", "nc", "{tool} -z {host} {port}", 0.01)
	rows, err := b.attempts(t.Context(), kind{name: "tcp", serve: tcpService, waiters: []waiter{tcp}}, attemptHost)
	if err != nil || len(rows) != 1 || rows[0][2] == human(0) {
		t.Errorf("%q, %v", rows, err)
	}
}

func TestStage(t *testing.T) {
	s := &stage{dir: t.TempDir(), log: io.Discard}
	var ended []int
	if err := s.try(func(t testing.TB) {
		t.Cleanup(func() { ended = append(ended, 1) })
		t.Cleanup(func() { ended = append(ended, 2) })
		if a, b := t.TempDir(), t.TempDir(); a == b {
			t.Fatalf("one directory twice: %s", a)
		}
	}); err != nil {
		t.Error(err)
	}
	if err := s.try(func(t testing.TB) { t.Skipf("no such program") }); !errors.Is(err, errSkipped) {
		t.Errorf("skipped: %v", err)
	}
	if err := s.try(func(t testing.TB) { t.Fatal("it ended") }); err == nil || err.Error() != "it ended" || errors.Is(err, errSkipped) {
		t.Errorf("failed: %v", err)
	}
	if s.end(); len(ended) != 2 || ended[0] != 2 {
		t.Errorf("ended: %v", ended)
	}
}

// TestProgram runs the program as make bench does. The package testing, which starts the servers, differs in a program
// that is not a test.
func TestProgram(t *testing.T) {
	servers.Slow(t)
	dir := t.TempDir()
	initbox, err := servers.Initbox(dir)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "bench")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "-initbox", initbox, "-quick", "-only", "databases")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops the servers
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "### Databases") {
		t.Errorf("%v\n%s", err, out)
	}
}
