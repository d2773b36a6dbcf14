package servers

import "syscall"

// DieWithParent makes the kernel kill a child when the test goes away without its
// cleanups, as it does when "go test" runs into its -timeout. To the kernel, the parent
// is the thread: none of the test's threads may end early, as one does whose goroutine
// ends without runtime.UnlockOSThread (go.dev/issue/27505).
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
