package command

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestSysctlWithoutPrivilege has a user who may not write parameters try it: the kernel refuses, and the hint says
// which manifest does it.
func TestSysctlWithoutPrivilege(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for another user and a network namespace")
	}
	cmd, stderr := initboxCommand(t, "sysctl", "net.ipv4.tcp_syncookies=2", "vm.max_map_count>=9999999999", "kernel.pid_max>=1")
	cmd.Path, cmd.Dir = installedForAll(t), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Cloneflags: syscall.CLONE_NEWNET}
	err := cmd.Run()
	if status := cmd.ProcessState.ExitCode(); status != 1 {
		t.Errorf("%v, want status 1", err)
	}
	for _, want := range []string{
		"net.ipv4.tcp_syncookies: set it to 2: permission denied", "vm.max_map_count: set it to 9999999999: permission denied",
		"sysctls: [{name: net.ipv4.tcp_syncookies, value: \"2\"}]", "securityContext: {privileged: true, runAsUser: 0}",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
}

// installedForAll returns a copy of the program that every user may run.
func installedForAll(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "initbox")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := initboxCommand(t, "install", dir)
	if err := cmd.Run(); err != nil {
		t.Fatal(err, stderr)
	}
	return dir + "/initbox"
}
