package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fullPipe returns the write end of a full pipe that is never read.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	fd := int(w.Fd()) // each call of Fd makes it block again
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 1<<10))
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	// Otherwise writes of the child would fail instead of blocking.
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return w
}

// blocked is the program with stdout or stderr full.
type blocked struct {
	*exec.Cmd
	termination string
}

func startBlocked(t *testing.T, stdout, stderr io.Writer, args ...string) *blocked {
	t.Helper()
	path, err := exec.LookPath("initbox")
	if err != nil {
		t.Fatal(err)
	}
	b := &blocked{exec.Command(path, args...), filepath.Join(t.TempDir(), "termination-log")}
	if err := os.WriteFile(b.termination, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Env = []string{"INITBOX_TERMINATION_LOG=" + b.termination}
	b.Stdout, b.Stderr = stdout, stderr
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Process.Kill() })
	return b
}

// ends requires an exit status soon, and a reason in the termination log.
func (b *blocked) ends(t *testing.T, want int, reason string) {
	t.Helper()
	start := time.Now()
	kill := time.AfterFunc(60*time.Second, func() { b.Process.Kill() })
	defer kill.Stop()
	b.Wait()
	if got := b.ProcessState.ExitCode(); got != want {
		t.Errorf("status %d (%v), want %d", got, b.ProcessState, want)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("ended after %v", took)
	}
	message, err := os.ReadFile(b.termination)
	if err != nil || !strings.Contains(string(message), reason) {
		t.Errorf("termination message %q, %v, want %s in it", message, err, reason)
	}
}

// TestFullPipe pins that signals and the deadline end the program, with the reason in the termination log, even if
// stdout or stderr is a full pipe.
func TestFullPipe(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for deadlines")
	}
	t.Parallel()
	asked := map[string]chan struct{}{"/busy": make(chan struct{}, 1), "/ready": make(chan struct{}, 1)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked[r.URL.Path] <- struct{}{}:
		default:
		}
		if r.URL.Path != "/ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("10.0.0.7 mydb\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	t.Run("a signal, stderr full", func(t *testing.T) {
		t.Parallel()
		b := startBlocked(t, nil, fullPipe(t), "wait-for-service", server.URL+"/busy")
		<-asked["/busy"]
		b.Process.Signal(syscall.SIGTERM)
		b.ends(t, 143, "/busy: ") // the answer may be on its way
	})
	t.Run("a signal, ready and stderr full", func(t *testing.T) {
		t.Parallel()
		b := startBlocked(t, nil, fullPipe(t), "wait-for-service", server.URL+"/ready")
		<-asked["/ready"]
		b.Process.Signal(syscall.SIGINT)
		b.ends(t, 130, "stopped ")
	})
	t.Run("the deadline, stderr full", func(t *testing.T) {
		t.Parallel()
		b := startBlocked(t, nil, fullPipe(t), "wait-for-service", server.URL+"/down", "--timeout", "3s", "--log-format", "json")
		b.ends(t, 124, "status 503")
	})
	t.Run("the deadline, stdout full", func(t *testing.T) {
		t.Parallel()
		b := startBlocked(t, fullPipe(t), nil, "wait-for-dns", "mydb", "--hosts", hosts, "--print", "--timeout", "3s")
		b.ends(t, 124, "print the records: write to stdout, which is full and not being read: the deadline of 3s passed")
	})
	t.Run("a signal, stdout full", func(t *testing.T) {
		t.Parallel()
		var log transcript
		b := startBlocked(t, fullPipe(t), &log, "wait-for-dns", "mydb", "--hosts", hosts, "--print")
		for text, more := log.read(); !strings.Contains(text, "ready after"); text, more = log.read() {
			<-more
		}
		b.Process.Signal(syscall.SIGTERM)
		b.ends(t, 143, "write to stdout, which is full and not being read: stopped by signal: terminated")
	})
}

// brokenPipe returns the write end of a pipe whose reader has gone.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	r.Close()
	return w
}

// TestBrokenPipe pins that a command does its work without a reader of its log, that a result without a reader is a
// failure, and that the command after -- gets the default effect of SIGPIPE.
func TestBrokenPipe(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args           []string
		stdout, stderr *os.File
		status         int
		want           string // on stdout or stderr
	}{
		{[]string{"wait-for-service", "file://" + ready}, nil, brokenPipe(t), 0, ""},
		{[]string{"wait-for-service", "file://" + ready + "/none", "--timeout", "100ms"}, nil, brokenPipe(t), 124, ""},
		{[]string{"wait-for-service", "file://" + ready, "--", "sh", "-c", "echo before; kill -PIPE $$; echo after"}, nil, brokenPipe(t), -1, "before\n"},
		{[]string{"rbac", "k8s:job/x"}, brokenPipe(t), nil, 141, "initbox rbac: write to stdout: stopped by signal: broken pipe\n"},
	} {
		var out bytes.Buffer
		cmd, _ := initboxCommand(t, test.args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if test.stdout != nil {
			cmd.Stdout = test.stdout
		}
		if test.stderr != nil {
			cmd.Stderr = test.stderr
		}
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != test.status || out.String() != test.want {
			t.Errorf("%q: exit status %d, %q, want %d, %q", test.args, got, out.String(), test.status, test.want)
		}
	}
}

// TestLastWord pins that what is written after the end still arrives if it can be
// written at once, and that nothing follows a write that was given up.
func TestLastWord(t *testing.T) {
	end, cancel := context.WithCancelCause(context.Background())
	cancel(stopped{syscall.SIGTERM})
	var b bytes.Buffer
	o := &outlet{name: "stderr", w: &b, end: end}
	if _, err := o.Write([]byte("last word")); err != nil || b.String() != "last word" {
		t.Errorf("wrote %q, %v", b.String(), err)
	}
	r, w := io.Pipe()
	defer r.Close()
	o = &outlet{name: "stderr", w: w, end: end}
	for range 2 {
		if _, err := o.Write([]byte("x")); status(err) != 128+int(syscall.SIGTERM) || o.failure() != err {
			t.Errorf("to a pipe that is not read: %v, then %v", err, o.failure())
		}
	}
}

// TestReleaseSignals pins that a signal which came before the command replaces the process is not lost.
func TestReleaseSignals(t *testing.T) {
	_, release := withSignals(context.Background())
	runtime.LockOSThread() // a thread has a signal to itself when tgkill returns
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e := &env{releaseSignals: release, log: slog.New(slog.DiscardHandler)}
	// If this were to run, the test would fail.
	if err := e.replaceProcess([]string{"false"}); status(err) != 143 || err.Error() != "not running false: stopped by signal: terminated" {
		t.Errorf("%v, want the signal", err)
	}
}

func TestReleaseWithoutSignal(t *testing.T) {
	_, release := withSignals(context.Background())
	for range 2 {
		if err := release(); err != nil {
			t.Error(err)
		}
	}
}
