package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/internal/mounts"
	"initbox/internal/sidecar"
	"initbox/test/servers"
)

// TestLinksInVolumes has another program put links at the destination of each subcommand that writes: a file's is
// replaced, and a directory's is refused. With --follow, both are followed.
func TestLinksInVolumes(t *testing.T) {
	vol, outside := servers.Volume(t)
	template := filepath.Join(t.TempDir(), "x.tmpl")
	if err := os.WriteFile(template, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string // that write the file called file to $D
		file string
	}{
		{"install", []string{"install", "$D"}, "initbox"},
		{"render a file", []string{"render", template + ":$D/out"}, "out"},
		{"render inline", []string{"render", "--inline", "$D/out=new"}, "out"},
		{"render a tree", []string{"render", filepath.Dir(template) + ":$D"}, "x"},
		{"render --env-file", []string{"render", "--inline", "-=x", "--set", "a=b", "--env-file", "$D/env"}, "env"},
		{"generate", []string{"generate", "htpasswd", "$D/htpasswd", "--user", "ann", "--password-file", template}, "htpasswd"},
		{"wait-for-dns", []string{"wait-for-dns", "localhost", "--output", "$D/hosts"}, "hosts"},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := func(dir string, extra ...string) string {
				t.Helper()
				cmd, stderr := initboxCommand(t, append(strings.Split(strings.ReplaceAll(strings.Join(test.args, "\n"), "$D", dir), "\n"), extra...)...)
				err := cmd.Run()
				if status := cmd.ProcessState.ExitCode(); status > 1 {
					t.Fatalf("%v: %s", err, stderr)
				}
				return stderr.String()
			}
			prepare := func() (secret string) {
				t.Helper()
				secret = filepath.Join(outside, test.file)
				os.RemoveAll(vol + "/dir")
				os.RemoveAll(vol + "/link")
				for _, err := range []error{
					os.WriteFile(secret, []byte("old:file"), 0o644), os.Mkdir(vol+"/dir", 0o755),
					os.Symlink(secret, vol+"/dir/"+test.file), os.Symlink(outside, vol+"/link"),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				return secret
			}
			changed := func(name string) bool {
				text, _ := os.ReadFile(name)
				return string(text) != "old:file"
			}

			secret := prepare()
			said := run(vol + "/dir")
			if stat, err := os.Lstat(vol + "/dir/" + test.file); err != nil || !stat.Mode().IsRegular() || changed(secret) {
				t.Errorf("the link to a file was not replaced: %v, %s", err, said)
			}
			if said := run(vol + "/link"); changed(secret) || !strings.Contains(said, vol+"/link is a symbolic link in the volume "+vol) || !strings.Contains(said, "\nhint: name the directory itself, or remove the link; --follow follows it") {
				t.Errorf("the link to a directory was not refused: %s", said)
			}
			if said := run(vol+"/link", "--follow"); !changed(secret) {
				t.Errorf("the link to a directory was not followed: %s", said)
			}
		})
	}
}

// What a link leads to is not taken for what was generated before: it may be another program's secret, and would be put
// into a Secret.
func TestGenerateReadsNoLink(t *testing.T) {
	vol, outside := servers.Volume(t)
	if err := os.WriteFile(outside+"/password", []byte("another program's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/password", vol+"/password"); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := initboxCommand(t, "generate", "password", vol+"/password")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if text, err := os.ReadFile(vol + "/password"); err != nil || len(text) != 32 {
		t.Errorf("%q, %v, want a new password", text, err)
	}
}

// The files beside a clone do not go through a link either, nor are directories for them made there.
func TestFilesOfACloneInAVolume(t *testing.T) {
	vol, outside := servers.Volume(t)
	if err := os.Symlink(outside, vol+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := sidecar.WriteFile(vol+"/a/b/file", []byte("x")); err != nil {
		t.Error(err)
	}
	if err := sidecar.WriteFile(vol+"/link/a/file", []byte("x")); !errors.As(err, new(*mounts.LinkError)) {
		t.Errorf("through a link: %v", err)
	}
	if _, err := os.Lstat(outside + "/a"); err == nil {
		t.Error("a directory was made through the link")
	}
}

// The termination message does not go through a link either.
func TestTerminationLogInAVolume(t *testing.T) {
	vol, outside := servers.Volume(t)
	secret := outside + "/secret"
	if err := os.WriteFile(secret, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, vol+"/log"); err != nil {
		t.Fatal(err)
	}
	cmd, _ := initboxCommand(t, "sleep", "never", "--termination-log", vol+"/log")
	cmd.Run()
	if text, err := os.ReadFile(secret); string(text) != "old" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// TestOnceLinkInVolume pins that --once refuses a link in a volume with a hint that does not name --follow, which most
// subcommands do not have, and which is not for this file.
func TestOnceLinkInVolume(t *testing.T) {
	vol, outside := servers.Volume(t)
	if err := os.Symlink(filepath.Join(outside, "once"), vol+"/once"); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := initboxCommand(t, "sleep", "0", "--once", vol+"/once")
	cmd.Run()
	said, hint, _ := strings.Cut(stderr.String(), "\nhint: ")
	if status := cmd.ProcessState.ExitCode(); status != 1 || !strings.Contains(said, "once is a symbolic link in the volume") ||
		!strings.HasPrefix(hint, "name a file on an emptyDir") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestNoVolume runs what writes in a mount namespace that looks like a container, with volumes at /work and /tools of a
// directory on the root file system. A destination that is in neither is warned of, with the volume that was meant.
func TestNoVolume(t *testing.T) {
	_, outside := servers.Volume(t)
	if _, err := exec.LookPath("unshare"); err != nil {
		servers.Absent(t, "%v", err)
	}
	program := filepath.Join(outside, "initbox")
	copyProgram(t, program)
	if err := os.Chmod(filepath.Dir(outside), 0o755); err != nil {
		t.Fatal(err)
	}
	repository := filepath.Join(outside, "repo")
	git := exec.Command("sh", "-ec", `git init -q "$0" && cd "$0" && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x`, repository)
	if text, err := git.CombinedOutput(); err != nil {
		servers.Absent(t, "git: %v, %s", err, text)
	}
	const script = `
		touch /tmp/.initbox-hosts; mount --bind /tmp/.initbox-hosts "$(readlink -f /etc/hosts)"; rm -f /tmp/.initbox-hosts
		cd "$1"; rm -rf wrok config; mkdir -p work tools wrok; mount -t tmpfs none work; mount -t tmpfs none tools; chmod 755 wrok
		shift; id=$1; shift; exec setpriv --reuid "$id" --regid "$id" --clear-groups ./initbox "$@" --termination-log ""`
	run := func(t *testing.T, uid string, args ...string) (stderr string, status int) {
		t.Helper()
		cmd := exec.Command("unshare", append([]string{"-m", "--propagation", "private", "sh", "-ec", script, "sh", outside, uid}, args...)...)
		cmd.Env = append(os.Environ(), "INITBOX_TERMINATION_LOG=", "GORACE=atexit_sleep_ms=10")
		text, _ := cmd.CombinedOutput()
		return string(text), cmd.ProcessState.ExitCode()
	}
	if text, status := run(t, "0", "sleep", "0"); status != 0 {
		servers.Absent(t, "no mount namespace: %s", text)
	}
	const there = "no volume is mounted there, and what is written to the container's own file system is lost when it ends; volumes are mounted at "
	meant := "did you mean " + outside + "/work?"
	for _, test := range []struct {
		name, uid string
		args      []string
		status    int
		want      []string // none: no warning
	}{
		{"render in a volume", "0", []string{"render", "--inline", "work/x=1"}, 0, nil},
		{"render", "0", []string{"render", "--inline", "wrok/x=1"}, 0, []string{"WARN wrok/x: " + there, outside + "/work", meant}},
		{"render, dry", "0", []string{"render", "--inline", "wrok/x=1", "--dry-run"}, 0, nil},
		{"render to stdout", "0", []string{"render", "--inline", "-=1"}, 0, nil},
		{"render elsewhere", "0", []string{"render", "--inline", "config/x=1", "--inline", "config/y=1"}, 0, []string{"WARN config/x, config/y: " + there}},
		{"install in a volume", "0", []string{"install", "tools"}, 0, nil},
		{"install", "0", []string{"install", "wrok"}, 0, []string{"WARN wrok: " + there, meant}},
		{"wait-for-dns", "0", []string{"wait-for-dns", "localhost", "--output", "wrok/x"}, 0, []string{"WARN wrok/x: " + there, meant}},
		{"git-clone", "0", []string{"git-clone", "file:///none", "wrok/x", "--timeout", "1ns"}, 124, []string{"WARN wrok/x: " + there, meant}},
		{"render as another user", "1234", []string{"render", "--inline", "wrok/x=1"}, 1, []string{"permission denied", "\nhint: " + there, meant}},
		{"install as another user", "1234", []string{"install", "wrok"}, 1, []string{"permission denied", "\nhint: " + there, meant}},
		{"git-clone as another user", "1234", []string{"git-clone", "file://" + repository, "wrok/x"}, 1, []string{"permission denied", "\nhint: " + there, meant}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, status := run(t, test.uid, test.args...)
			if status != test.status {
				t.Fatalf("exit status %d, want %d: %s", status, test.status, text)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in: %s", want, text)
				}
			}
			if test.want == nil && strings.Contains(text, "no volume") {
				t.Errorf("warned: %s", text)
			}
		})
	}
}
