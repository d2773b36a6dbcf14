package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
					os.WriteFile(secret, []byte("old"), 0o644), os.Mkdir(vol+"/dir", 0o755),
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
				return string(text) != "old"
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
