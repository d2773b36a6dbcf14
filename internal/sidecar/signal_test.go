package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]string{
		"HUP:nginx": "HUP nginx", "sighup:nginx": "HUP nginx", "USR2:a:b": "USR2 a:b",
		"": "", "HUP": "", "HUP:": "", ":nginx": "", "1:nginx": "", "KILL:nginx": "", "HUP:/usr/sbin/nginx": "",
	} {
		got := ""
		if s, err := ParseSignal(text); err == nil {
			got = s.name + " " + s.process
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// program starts a script as a program of the name, and waits until it runs. The tests send it USR1: where they run
// with HUP ignored, as under nohup, no shell could trap that. The script finds the name of a file as $1, to which it
// adds a line when it is ready.
func program(t *testing.T, name, script string, credential *syscall.Credential) (cmd *exec.Cmd, said func(text string) int) {
	t.Helper()
	dir := t.TempDir()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	file, log := filepath.Join(dir, name), filepath.Join(dir, "said")
	if err := errors.Join(os.Symlink(shell, file), os.WriteFile(log, nil, 0o666), os.Chmod(log, 0o666)); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && len(d) > 1; d = filepath.Dir(d) {
		os.Chmod(d, 0o755) // for other users
	}
	cmd = exec.Command(file, "-c", script, file, log, "", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	said = func(text string) int { b, _ := os.ReadFile(log); return strings.Count(string(b), text) }
	for deadline := time.Now().Add(20 * time.Second); said("ready") == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the program does not start")
		}
	}
	return cmd, said
}

// TestSignal sends one to a program that has a worker of the same name, not to one whose name begins with the same 15
// characters, which are all that the kernel keeps, and to none.
func TestSignal(t *testing.T) {
	t.Parallel()
	name := "a-program-with-a-long-name-" + strconv.Itoa(os.Getpid()) // another run of the test may be under way
	master, said := program(t, name, `trap 'echo "USR1 $2" >>"$1"; kill "$worker"; exit' USR1
if [ -z "$2" ]; then "$0" -c "$3" "$0" "$1" worker & worker=$!; else echo ready >>"$1"; fi
while :; do sleep 0.05; done`, nil)
	other, _ := program(t, "a-program-with-another-name", `echo ready >>"$1"; while :; do sleep 0.05; done`, nil)
	s, err := ParseSignal("USR1:" + name)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := s.Send(slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if err := master.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
	if said("USR1") != 1 || said("USR1 worker") != 0 || !strings.Contains(log.String(), "SIGUSR1 sent to process "+strconv.Itoa(master.Process.Pid)) {
		t.Errorf("%d signals, %d to the worker: %s", said("USR1"), said("USR1 worker"), &log)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another program, whose name begins alike: %v", err)
	}
	for _, none := range []string{"no-such-program", "a-program-with-", "a-program-with-a"} {
		log.Reset()
		if s.process = none; s.Send(slog.New(slog.NewTextHandler(&log, nil))) != nil || !strings.Contains(log.String(), none+": not running") {
			t.Errorf("%s: %s", none, &log)
		}
	}
}

// sending is the environment variable with which the test program sends a signal and ends, as another user.
const sending = "SIDECAR_TEST_SIGNAL"

func TestMain(m *testing.M) {
	if text := os.Getenv(sending); text != "" {
		s, err := ParseSignal(text)
		if err == nil {
			err = s.Send(slog.New(slog.NewTextHandler(os.Stdout, nil)))
		}
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSignalOfAnotherUser pins that a process that may not be signalled does not keep the signal from the others, and
// that this is not tried again, which would only repeat it to them.
func TestSignalOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to start programs as other users")
	}
	name, script := fmt.Sprint("twice-", os.Getpid()), `trap 'echo USR1 >>"$1"; exit' USR1; echo ready >>"$1"; while :; do sleep 0.05; done`
	foreign, _ := program(t, name, script, &syscall.Credential{Uid: 65533, Gid: 65533})
	own, said := program(t, name, script, &syscall.Credential{Uid: 65534, Gid: 65534})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "sender") // the test program may be in a directory that only root may enter
	if content, err := os.ReadFile(self); err != nil || os.WriteFile(copied, content, 0o755) != nil || os.Chmod(filepath.Dir(copied), 0o755) != nil || os.Chmod(filepath.Dir(filepath.Dir(copied)), 0o755) != nil {
		t.Fatal("copy the test program: ", err)
	}
	cmd := exec.Command(copied)
	cmd.Env = []string{sending + "=USR1:" + name}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	for _, want := range []string{
		"SIGUSR1 sent to process " + strconv.Itoa(own.Process.Pid),
		"process " + strconv.Itoa(foreign.Process.Pid) + ": operation not permitted",
	} {
		if !strings.Contains(string(out), want) {
			t.Fatalf("%q is not in:\n%s", want, out)
		}
	}
	if own.Wait(); said("USR1") != 1 {
		t.Errorf("%d signals", said("USR1"))
	}
	s := &Signal{"USR1", syscall.SIGUSR1, "no-such-program"}
	if err := s.Hook(slog.New(slog.DiscardHandler)).Run(t.Context(), ""); err != nil {
		t.Error(err)
	}
}
