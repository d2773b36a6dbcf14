package process

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// own are the programs whose ends package exec awaits.
var own = struct {
	sync.Mutex
	running map[int]bool
	reaping bool
}{running: map[int]bool{}}

// start starts a program, which no [reap] removes.
func start(cmd *exec.Cmd) error {
	own.Lock()
	defer own.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	own.running[cmd.Process.Pid] = true
	if !own.reaping {
		own.reaping = true
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGCHLD)
		go func() {
			for range ended {
				reap()
			}
		}()
	}
	return nil
}

// wait waits for a program of [start].
func wait(cmd *exec.Cmd) error {
	defer func() {
		own.Lock()
		defer own.Unlock()
		delete(own.running, cmd.Process.Pid)
	}()
	return cmd.Wait()
}

// reap removes the children that have ended, other than those of [start]: the kernel keeps them until their parent asks
// how they have ended. There are others where this process is the first one of a PID namespace, or has asked to become
// the parent of all that have lost theirs (PR_SET_CHILD_SUBREAPER).
func reap() {
	own.Lock()
	defer own.Unlock()
	for _, p := range All() {
		if p.Ended && p.Parent == os.Getpid() && !own.running[p.PID] {
			syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil)
		}
	}
}
