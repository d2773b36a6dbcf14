package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"
	"time"
)

// A proc is the process of a waiter.
type proc struct {
	cmd     *exec.Cmd
	stderr  *os.File
	started time.Time // before the fork

	done   chan struct{} // closed after the exit; what follows is valid from then on
	exited time.Time
	err    error // nil for exit status 0
}

// start runs argv in a process group of its own, which ends with ctx. Output goes to a file and not through a pipe:
// waiting for a pipe to close would wait for grandchildren too, and copying it would cost time of this process. with
// changes the command before that.
func (b *bench) start(ctx context.Context, argv []string, with ...func(*exec.Cmd)) (*proc, error) {
	stderr, err := os.CreateTemp(b.dir, "stderr-")
	if err != nil {
		return nil, err
	}
	p := &proc{stderr: stderr, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.cmd.Stderr = stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	for _, change := range with {
		change(p.cmd)
	}
	p.started = time.Now()
	fork := p.cmd.Start
	if b.inside != nil {
		fork = func() error { return b.inside.do(p.cmd.Start) }
	}
	if err := fork(); err != nil {
		p.discard()
		return nil, err
	}
	go p.reap()
	return p, nil
}

func (p *proc) reap() {
	err := p.cmd.Wait()
	p.exited = time.Now()
	if err != nil {
		p.err = fmt.Errorf("%s: %w%s", p.cmd.Args[0], err, p.lastWords())
	}
	p.discard()
	close(p.done)
}

// lastWords returns the end of what the process wrote, for an error message.
func (p *proc) lastWords() string {
	out, err := os.ReadFile(p.stderr.Name())
	out = bytes.TrimSpace(out)
	if err != nil || len(out) == 0 {
		return ""
	}
	return ": " + string(out[max(0, len(out)-300):])
}

func (p *proc) discard() {
	p.stderr.Close()
	os.Remove(p.stderr.Name())
}

// stop kills the process group and waits for its end.
func (p *proc) stop() {
	// ESRCH only says that it is over already.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// cpu returns the user and system time of the process and of the children it waited for. Valid after done.
func (p *proc) cpu() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// peak returns the most that was ever resident in the process or in a child that it waited for, in KiB. It is only a
// bound if it is not more than this program had: the kernel counts that until the exec. Valid after done.
func (p *proc) peak() (kib int64, bound bool) {
	kib = int64(p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) // int32 on some machines
	return kib, kib <= kibibytesOf("self", "VmHWM")
}

// shrink gives back what memory it can, so that it does not hide what the next process has.
func shrink() {
	debug.FreeOSMemory()
	// 5 resets VmHWM (proc(5)). Where that is not permitted, there are more bounds.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

var errEarly = errors.New("exited before the thing was there")

// pause sleeps for d, or until p exits or ctx ends, which it reports.
func (p *proc) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-p.done:
		if p.err != nil {
			return p.err
		}
		return errEarly
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
