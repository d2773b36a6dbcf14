package command

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// killAfter starts cmd and kills it after a time, unless it has ended by then. It returns whether it was killed; an end
// with a failure fails the test.
func killAfter(t *testing.T, cmd *exec.Cmd, after time.Duration) bool {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	moment := time.NewTimer(after)
	defer moment.Stop()
	var err error
	select {
	case err = <-ended:
	case <-moment.C:
		cmd.Process.Kill()
		err = <-ended
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil && !status.Signaled() {
		t.Fatalf("%v: %v: %s", cmd.Args, err, cmd.Stderr)
	}
	return status.Signaled()
}
