package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// TestRenderFaults has disks and rights fail under a tree that is already there.
// The error says why, and nothing has changed.
func TestRenderFaults(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount file systems and to become another user")
	}
	if testing.Short() {
		t.Skip("mounts file systems")
	}
	t.Parallel()
	// What the other user is to run and to read.
	dir := everyonesDir(t)
	program := filepath.Join(dir, "initbox")
	copyProgram(t, program)
	templates := filepath.Join(dir, "templates")
	os.MkdirAll(templates, 0o755)
	for _, name := range []string{"a", "b", "c"} {
		os.WriteFile(filepath.Join(templates, name+".conf.tmpl"), []byte("{{ repeat (int .Values.size) .Values.letter }}\n"), 0o644)
	}
	secret := filepath.Join(dir, "secret.tmpl")
	os.WriteFile(secret, []byte("x\n"), 0o600)

	for _, c := range []struct {
		name, mount string // of the destination
		args        []string
		uid         string
		want        string
	}{
		{"full disk", "mount -t tmpfs -o size=64k none $D", []string{templates + ":$D", "--set", "size=30000,letter=y"}, "0", "no space left on device"},
		{"read-only", "mount -t tmpfs none $D; RO=1", []string{templates + ":$D", "--set", "size=10,letter=y"}, "0", "read-only file system"},
		{"not allowed", "mount -t tmpfs -o mode=755 none $D", []string{templates + ":$D", "--set", "size=10,letter=y"}, "65534", "permission denied"},
		{"unreadable template", "mount -t tmpfs -o mode=777 none $D", []string{templates + ":$D", secret + ":$D/", "--set", "size=10,letter=y"}, "65534", "secret.tmpl: permission denied"},
		{"a directory in the way", "mount -t tmpfs none $D; mkdir $D/b.conf", []string{templates + ":$D", "--set", "size=10,letter=y"}, "0", "b.conf: it is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := filepath.Join(everyonesDir(t), "config")
			os.MkdirAll(d, 0o755)
			replace := strings.NewReplacer("$D", d)
			// In a mount namespace of its own: the mounts end with it.
			script := replace.Replace(c.mount) + `
				printf old > ` + d + `/a.conf; chmod 644 ` + d + `/a.conf
				[ -z "$RO" ] || mount -o remount,ro ` + d + `
				cd ` + d + ` && find . -exec stat -c '%n %i %Y %s' {} + | grep -v '^\. ' | sort > /proc/self/fd/3
				setpriv --reuid "$ID" --regid "$ID" --clear-groups "$@"; status=$?
				find . -exec stat -c '%n %i %Y %s' {} + | grep -v '^\. ' | sort > /proc/self/fd/4
				exit $status`
			cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", program, "render", "--termination-log", "")
			for _, arg := range c.args {
				cmd.Args = append(cmd.Args, replace.Replace(arg))
			}
			cmd.Env = append(os.Environ(), "ID="+c.uid, "RO=")
			before, after := scratch(t), scratch(t)
			cmd.ExtraFiles = []*os.File{before, after}
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s, want status 1 and %q", err, out, c.want)
			}
			was, is := content(t, before), content(t, after)
			if was != is || !strings.Contains(was, "a.conf") {
				t.Errorf("before there was\n%sand now is\n%s", was, is)
			}
		})
	}
}

// everyonesDir returns a new directory that other users can look into, too.
func everyonesDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// copyProgram copies the program that the scripts run.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	from, err := exec.LookPath("initbox")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	servers.WriteProgram(t, to, data)
}

// scratch is a file without a name.
func scratch(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	data, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
