package sidecar

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// TestSignal sends one to a program, which has a worker of the same name, and to none.
func TestSignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := "a-program-with-a-long-name"
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(shell, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	said := filepath.Join(dir, "said")
	const script = `if [ -z "$2" ]; then "$0" -c "$3" "$0" "$1" worker & worker=$!; fi
trap 'echo "HUP $2" >>"$1"; kill "$worker"; exit' HUP
echo ready >>"$1"
while :; do sleep 0.05; done`
	master := exec.Command(filepath.Join(dir, name), "-c", script, filepath.Join(dir, name), said, "", script)
	if err := master.Start(); err != nil {
		t.Fatal(err)
	}
	defer master.Wait()
	defer master.Process.Kill()
	lines := func(text string) int { b, _ := os.ReadFile(said); return strings.Count(string(b), text) }
	for deadline := time.Now().Add(20 * time.Second); lines("ready") < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the processes do not start")
		}
	}
	s, err := ParseSignal("HUP:" + name)
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
	if lines("HUP") != 1 || lines("HUP worker") != 0 || !strings.Contains(log.String(), "SIGHUP sent to process "+strconv.Itoa(master.Process.Pid)) {
		b, _ := os.ReadFile(said)
		t.Errorf("%s\n%s", b, &log)
	}
	if s.process = "no-such-program"; s.Send(slog.New(slog.NewTextHandler(&log, nil))) != nil || !strings.Contains(log.String(), "no-such-program: not running") {
		t.Errorf("%s", &log)
	}
}
