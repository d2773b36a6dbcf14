package servers

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Without calls do in a thread in which a system call fails with errno. The test is skipped where processes may not
// filter their system calls.
func Without(t testing.TB, number uint32, errno unix.Errno, do func() error) error {
	t.Helper()
	filtered, result := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and it is never unlocked: the thread ends with the goroutine
		err := filter(number, errno)
		if filtered <- err; err == nil {
			result <- do()
		}
	}()
	if err := <-filtered; err != nil {
		Absent(t, "seccomp: %v", err)
	}
	return <-result
}

// filter makes a system call of this thread fail from now on.
func filter(number uint32, errno unix.Errno) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, err := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f))); err != 0 {
		return err
	}
	return nil
}
