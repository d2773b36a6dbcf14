package servers

import "syscall"

// DieWithParent makes the kernel kill a child when the test ends without its cleanups, as after the -timeout of go
// test. To the kernel, the parent is the thread: none of the test's threads may end early, as happens when a goroutine
// ends without runtime.UnlockOSThread (go.dev/issue/27505).
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
