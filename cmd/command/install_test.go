package command

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/test/soak"

	"golang.org/x/sys/unix"
)

// initboxCommand is this test binary under the program's name, see TestMain.
func initboxCommand(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stderr = new(bytes.Buffer)
	cmd = &exec.Cmd{Path: path, Args: append([]string{"initbox"}, args...), Stderr: stderr}
	cmd.Env = append(os.Environ(), "INITBOX_TERMINATION_LOG="+os.DevNull, "GORACE=atexit_sleep_ms=10")
	return cmd, stderr
}

// TestInstallKilled pins that there is a whole program or none, whenever install is killed, and that the next run
// leaves nothing else behind.
func TestInstallKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "initbox")
	install := func() *exec.Cmd {
		cmd, _ := initboxCommand(t, "install", dir, "sleep")
		return cmd
	}
	start := time.Now()
	if err := install().Run(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(start)
	killed, i := 0, 0
	for moment := range soak.Moments(t, 12) {
		if i++; i%3 != 0 {
			os.Remove(name) // but not an unfinished copy
		}
		if killAfter(t, install(), time.Duration(moment*float64(whole))) {
			killed++
		}
		out, err := exec.Command(name, "--list").CombinedOutput()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("half a program: %v: %s", err, out)
		}
	}
	t.Logf("%d of %d runs were killed before their end; one takes %v", killed, i, whole)
	if err := install().Run(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

// TestInstallIntoSmallVolume pins the message for a volume that is too small, and that the volume keeps what it held
// and nothing else.
func TestInstallIntoSmallVolume(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	name := filepath.Join(dir, "initbox")
	if err := os.WriteFile(name, []byte("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := initboxCommand(t, "install", dir)
	cmd.Run()
	if status := cmd.ProcessState.ExitCode(); status != 1 || !strings.Contains(stderr.String(), "no space left on device\nhint: the volume is full") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if got, _ := os.ReadFile(name); string(got) != "old" {
		t.Errorf("the old program was replaced by %d bytes", len(got))
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the directory holds %v", entries)
	}

	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	cmd, stderr = initboxCommand(t, "install", dir)
	cmd.Run()
	if status := cmd.ProcessState.ExitCode(); status != 1 || !strings.Contains(stderr.String(), "read-only file system\nhint: is it a volume") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
