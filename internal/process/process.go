// Package process runs programs, and finds processes.
//
//	err := process.Run(ctx, process.Program{Path: "/hooks/check", Dir: dir, Env: env, Timeout: time.Minute, Output: w, Log: log})
//
// [Run] kills a program after its time, with all that it has started. What a program that has ended leaves in the
// background is not killed, and is reaped when it ends by itself: as PID 1 of a container, this process is the parent
// of all that have lost theirs.
//
// No other package may start programs: this one would reap them, and their exit statuses would be lost.
package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"initbox/internal/poll"
)

// Program is a program to run once, without arguments and input.
type Program struct {
	Path    string
	Dir     string
	Env     []string      // as in [os.Environ]
	Timeout time.Duration // after which it is killed
	Output  io.Writer     // for what it prints, up to a limit
	Log     *slog.Logger

	outputWait time.Duration // for tests; 0 for the usual one
}

// outputWait is how long the output of a program that has ended is awaited: one in the background may have it open.
const outputWait = time.Second

// markVariable is a variable of a program and of all that it starts, by which they are found.
const markVariable = "INITBOX_RUN"

// Run runs a program, and kills it with all that it has started after its timeout, or when ctx ends. Its error is that
// of [exec.Cmd], a [context.DeadlineExceeded] for the timeout, or the cause of ctx.
func Run(ctx context.Context, p Program) error {
	limit, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	output, closed, written, err := p.follow()
	if err != nil {
		return err
	}
	r := run{closed: closed, mark: fmt.Sprintf("%s=%d-%d", markVariable, os.Getpid(), time.Now().UnixNano())}
	if info, err := output.Stat(); err == nil {
		r.pipe = fmt.Sprintf("pipe:[%d]", info.Sys().(*syscall.Stat_t).Ino)
	}
	cmd := exec.CommandContext(limit, p.Path)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, append(slices.Clone(p.Env), r.mark), output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error {
		r.session = cmd.Process.Pid
		r.end()
		return nil
	}
	err = start(cmd)
	output.Close()
	if err == nil {
		err = wait(cmd)
	}
	switch { // while its output is awaited, it has ended
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case limit.Err() != nil:
		err = timeout(p.Timeout)
	}
	written()
	return err
}

// timeout is the error of a program that was killed after so long.
type timeout time.Duration

func (t timeout) Error() string { return fmt.Sprintf("timed out after %v", time.Duration(t)) }

func (t timeout) Is(target error) bool { return target == context.DeadlineExceeded }

// run is a program and all that it has started: what is in its session, has one of them as its parent, has the mark in
// its environment, or has the pipe for the output open. Other processes are not found.
type run struct {
	session    int // the number of the program, which leads it
	mark, pipe string
	closed     <-chan struct{} // is closed when nothing has the output open
}

// Rounds of killing: a process that is about to die may have started another one, which is not seen if it starts while
// /proc is read. Several rounds have to find none, and the output has to be closed.
const (
	killRounds  = 500
	quietRounds = 5
	killPause   = 10 * time.Millisecond
)

// end kills all processes of the run.
func (r *run) end() {
	quiet := 0
	for range killRounds {
		members := r.members()
		syscall.Kill(-r.session, syscall.SIGKILL) // also where there is no /proc
		for _, p := range members {
			p.Signal(syscall.SIGKILL)
		}
		select {
		case <-r.closed:
			quiet++
		default:
		}
		if len(members) > 0 {
			quiet = 0
		} else if quiet == quietRounds {
			return
		}
		poll.Sleep(context.Background(), killPause)
	}
}

// members returns the processes of the run that have not ended.
func (r *run) members() (members []Process) {
	own.Lock() // a program that is about to start has this process' descriptors for a moment
	defer own.Unlock()
	all := slices.DeleteFunc(All(), func(p Process) bool { return p.PID == os.Getpid() })
	belongs := map[int]bool{r.session: true}
	for _, p := range all {
		if p.Session == r.session || p.marked(r.mark) || p.holds(r.pipe) {
			belongs[p.PID] = true
		}
	}
	for more := true; more; {
		more = false
		for _, p := range all {
			if belongs[p.Parent] && !belongs[p.PID] {
				belongs[p.PID], more = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(p Process) bool { return !belongs[p.PID] || p.Ended })
}

// Process is a process as proc_pid_stat(5) describes it.
type Process struct {
	PID, Parent, Session int
	Name                 string // of its program, of which the kernel keeps 15 bytes
	Ended                bool   // its parent has not noticed yet
	began                string // in ticks since the boot of the machine
}

// Read returns the process of that number, if there is one.
func Read(pid int) (p Process, found bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // PID (NAME) STATE PARENT GROUP SESSION …
	begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || begin < 0 || end < begin {
		return p, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	const began = 22 - 3 // the number of the field, counted from the one after the name
	if len(fields) <= began {
		return p, false
	}
	p = Process{PID: pid, Name: string(stat[begin+1 : end]), Ended: fields[0] == "Z" || fields[0] == "X", began: fields[began]}
	p.Parent, _ = strconv.Atoi(fields[1])
	p.Session, _ = strconv.Atoi(fields[3])
	return p, true
}

// All returns all processes that can be seen, or none where /proc is that of another PID namespace.
func All() (all []Process) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // those that could be read
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, found := Read(pid); found {
				all = append(all, p)
			}
		}
	}
	return all
}

// Signal sends a signal to the process, or returns [os.ErrProcessDone] if it has ended.
func (p Process) Signal(s syscall.Signal) error {
	process, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	defer process.Release()
	if now, found := Read(p.PID); !found || now.began != p.began { // the number may be that of another one by now
		return os.ErrProcessDone
	}
	return process.Signal(s)
}

func (p Process) marked(mark string) bool {
	environment, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
	return err == nil && slices.Contains(strings.Split(string(environment), "\x00"), mark)
}

// holds reports whether the process has a file open whose descriptors lead to that.
func (p Process) holds(to string) bool {
	dir := "/proc/" + strconv.Itoa(p.PID) + "/fd/"
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		link, err := os.Readlink(dir + e.Name())
		return err == nil && link == to
	})
}
