// Package real_test runs the initbox program against real servers, as its users do.
//
// The program's own tests pin the wording of messages. Here, a message must contain the word of the error's class, and
// the facts that lead to the cause. Upper limits of times are very generous, so that a busy machine passes.
package real_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/test/servers"
)

// Exit statuses of the contract.
const (
	ready    = 0
	deadline = 124
)

// program is the initbox that TestMain built.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	flag.Parse()
	if testing.Short() { // like servers.Slow, for all tests, before the build
		fmt.Println("-short: no real servers, and nothing slow")
		return 0
	}
	return servers.WithInitbox(&program, func() int { return servers.Main(m) })
}

// A waiter is a running initbox.
type waiter struct {
	t      *testing.T
	args   []string
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr servers.Output
	began  time.Time
	exited chan struct{}
}

// start runs initbox with the arguments in the background.
func start(t *testing.T, args ...string) *waiter {
	t.Helper()
	return startCommand(t, exec.Command(program, args...), args)
}

// startCommand runs a command that becomes initbox with these arguments.
func startCommand(t *testing.T, cmd *exec.Cmd, args []string) *waiter {
	t.Helper()
	w := &waiter{t: t, args: args, cmd: cmd, began: time.Now(), exited: make(chan struct{})}
	cmd.Env = []string{} // as in a Pod without env; in particular no SSL_CERT_FILE
	cmd.Stdout, cmd.Stderr = &w.stdout, &w.stderr
	cmd.SysProcAttr = servers.DieWithParent()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(w.exited)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-w.exited
	})
	return w
}

// untilLogged waits until a line of the log matches.
func (w *waiter) untilLogged(pattern string) {
	w.t.Helper()
	re := regexp.MustCompile(pattern)
	giveUp := time.After(patience)
	for !re.MatchString(w.stderr.String()) {
		select {
		case <-w.exited:
			if !re.MatchString(w.stderr.String()) {
				w.t.Fatalf("%s\nended (%v) before it logged %q", w, w.cmd.ProcessState, pattern)
			}
		case <-giveUp:
			w.t.Fatalf("%s\ndid not log %q", w, pattern)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stillWaiting requires that initbox is still waiting after the duration.
func (w *waiter) stillWaiting(while time.Duration) {
	w.t.Helper()
	select {
	case <-w.exited:
		w.t.Fatalf("%s\nended (%v) while there was nothing to be ready", w, w.cmd.ProcessState)
	case <-time.After(while):
	}
}

// want waits for the end and requires an exit status, and that the log matches all patterns (regular expressions).
func (w *waiter) want(status int, patterns ...string) result {
	w.t.Helper()
	select {
	case <-w.exited:
	case <-time.After(2 * patience):
		w.t.Fatalf("%s\nis still running", w)
	}
	r := result{Stdout: w.stdout.String(), Took: time.Since(w.began)}
	if got := w.cmd.ProcessState.ExitCode(); got != status {
		w.t.Fatalf("%s\nexit status %d, want %d (%v)", w, got, status, w.cmd.ProcessState)
	}
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(w.stderr.String()) {
			w.t.Errorf("%s\nlog does not match %q", w, p)
		}
	}
	return r
}

// stuck waits until the log matches all patterns (regular expressions), and then stops initbox, which must still be
// running: for targets that never become ready. Unlike a deadline, it does not depend on how soon initbox logs them.
func (w *waiter) stuck(patterns ...string) {
	w.t.Helper()
	for _, p := range patterns {
		w.untilLogged(p)
	}
	w.cmd.Process.Signal(syscall.SIGTERM)
	w.want(128 + int(syscall.SIGTERM))
}

// wantWithin is want within d, for a target that has just become ready.
func (w *waiter) wantWithin(d time.Duration, status int, patterns ...string) result {
	w.t.Helper()
	since := time.Now()
	r := w.want(status, patterns...)
	if took := time.Since(since); took > d {
		w.t.Errorf("%s\nended after %v, want at most %v", w, took, d)
	}
	return r
}

// String returns the command line and the end of the log.
func (w *waiter) String() string {
	const most = 3000
	log := w.stderr.String()
	if cut := len(log) - most; cut > 0 {
		log = "[…]" + log[cut:]
	}
	return fmt.Sprintf("$ initbox %s\n%s", strings.Join(w.args, " "), log)
}

// result is the result of an initbox that has ended.
type result struct {
	Stdout string
	Took   time.Duration
}

const (
	// patience is the timeout of a wait that succeeds, generous enough for any machine.
	patience = 60 * time.Second

	// soon is the maximum time in which a waiter must notice a change. The product promises much less, which bench/
	// measures; this only distinguishes "noticed" from "asleep".
	soon = 30 * time.Second
)

// secretFile writes a secret to a file atomically, since initbox may be reading it.
func secretFile(t *testing.T, file, secret string) string {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSIGTERMWhileServerIsUnready(t *testing.T) {
	t.Parallel()
	n := servers.StartNGINX(t, servers.NGINXOptions{})
	w := start(t, "wait-for-service", "http://"+n.HTTP+"/ready")
	w.untilLogged(`503`)
	w.cmd.Process.Signal(syscall.SIGTERM)
	w.wantWithin(soon, 128+int(syscall.SIGTERM))
}
