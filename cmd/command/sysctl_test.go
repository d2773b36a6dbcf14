package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"initbox/test/soak"
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

// TestChainKilled kills a chain at any moment: what a step does is there only when the steps before it have succeeded,
// each file is whole, and another run completes it. Its parameters are those of a network namespace of the test's.
func TestChainKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	t.Parallel()
	runtime.LockOSThread() // for good: the thread ends with the test, and the namespace with it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace here: %v", err)
	}
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	parameters := map[string]string{"net.ipv4.tcp_keepalive_time": "601", "net.ipv4.ip_local_port_range": "1024 65000"}
	chain := func() *exec.Cmd {
		args := []string{"sysctl"}
		for name, value := range parameters {
			args = append(args, name+"="+value)
		}
		cmd, _ := initboxCommand(t, append(args, "--", "render", "--inline", first+"=whole", "--", "render", "--inline", second+"=whole")...)
		return cmd
	}
	check := func(complete bool) {
		t.Helper()
		done := complete
		for _, name := range []string{second, first} { // a later step implies the earlier ones
			text, err := os.ReadFile(name)
			if err != nil && done || err == nil && string(text) != "whole" {
				t.Errorf("%s: %q, %v", name, text, err)
			}
			done = done || err == nil
		}
		for name, value := range parameters {
			text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
			if err != nil || done && strings.Join(strings.Fields(string(text)), " ") != value {
				t.Errorf("%s is %s, %v", name, text, err)
			}
		}
	}
	start := time.Now()
	if err := chain().Run(); err != nil {
		t.Fatal(err)
	}
	whole, killed, i := time.Since(start), 0, 0
	for moment := range soak.Moments(t, 12) {
		i++
		for _, name := range []string{first, second} {
			if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		for name, value := range map[string]string{"tcp_keepalive_time": "7200", "ip_local_port_range": "32768 60999"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if killAfter(t, chain(), time.Duration(moment*float64(whole))) {
			killed++
		}
		check(false)
	}
	t.Logf("%d of %d runs were killed before their end; one takes %v", killed, i, whole)
	if err := chain().Run(); err != nil {
		t.Fatal(err)
	}
	check(true)
}
