package servers

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Output collects the output of a process, and can be read while that is running.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Patience is how long a test waits for what a real server does. A wait ends with the event; the bound is generous,
// because test machines are busy: RabbitMQ took more than two minutes to start beside four busy loops.
const Patience = 5 * time.Minute

const (
	requestWithin = 30 * time.Second // one request of a poll
	stopWithin    = 5 * time.Second  // from SIGTERM to SIGKILL
)

// A process is a server in the foreground, a child of the test.
type process struct {
	name   string
	cmd    *exec.Cmd
	out    *Output
	exited chan struct{}
}

// run starts a server and stops it when the test ends. If the test fails, the server's output is logged.
func run(t testing.TB, program string, args ...string) *process {
	t.Helper()
	return runWith(t, nil, program, args...)
}

// runWith is run with an environment; nil means the test's.
func runWith(t testing.TB, env []string, program string, args ...string) *process {
	t.Helper()
	return runAs(t, nil, env, program, args...)
}

// runAs is runWith as another user; nil means the user who runs the test.
func runAs(t testing.TB, who *syscall.Credential, env []string, program string, args ...string) *process {
	t.Helper()
	Slow(t)
	p := &process{
		name:   filepath.Base(program),
		cmd:    exec.Command(program, args...),
		out:    new(Output),
		exited: make(chan struct{}),
	}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = DieWithParent()
	p.cmd.SysProcAttr.Credential = who
	if who != nil {
		p.cmd.Dir = "/" // every user can enter it
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, p.out)
		}
	})
	return p
}

func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopWithin):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// kill stops the process as a crash would, by SIGKILL.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

// until polls until ready returns true, and fails the test if the server ends first or takes too long.
func (p *process) until(t testing.TB, what string, ready func() bool) {
	t.Helper()
	giveUp := time.After(Patience)
	for !ready() {
		select {
		case <-p.exited:
			t.Fatalf("%s ended before it was %s: %v\n%s", p.name, what, p.cmd.ProcessState, p.out)
		case <-giveUp:
			t.Fatalf("%s is not %s after %v\n%s", p.name, what, Patience, p.out)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// untilListening waits until a TCP port accepts connections.
func (p *process) untilListening(t testing.TB, addr string) {
	t.Helper()
	p.until(t, "listening on "+addr, func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

// WriteProgram writes an executable file. While that is open for writing, no other test may start a process: the child
// would inherit the open file for an instant, and running the file at that instant fails (ETXTBSY,
// https://go.dev/issue/22315).
func WriteProgram(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := writeProgram(file, data); err != nil {
		t.Fatal(err)
	}
}

func writeProgram(file string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(file, data, 0o755)
}
