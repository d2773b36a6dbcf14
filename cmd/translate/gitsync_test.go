package translate

import (
	"fmt"
	"strings"
	"testing"
)

// gitSyncLine translates a command line of git-sync, and appends the timeout.
func gitSyncLine(args []string, variables map[string]string) (string, error) {
	env := environment()
	env.Lookup = func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
	line, err := GitSync(args, env)
	if line.RefusalPause > 0 {
		line.Arguments = append(line.Arguments, fmt.Sprint(line.Refusals, " refusals, ", line.RefusalPause))
	}
	if line.Timeout != nil {
		line.Arguments = append(line.Arguments, line.Timeout.String())
	}
	return strings.TrimSpace(strings.ReplaceAll(line.String(), "'", "")), err
}

func TestGitSync(t *testing.T) {
	const repo = "--repo=https://git.example/app.git"
	for _, test := range []struct {
		args      string
		variables map[string]string
		want      string
	}{
		{repo + " --one-time", nil,
			"--link=app.git --submodules=recursive https://git.example/app.git /git 2m0s"},
		{"-repo https://git.example/app -root /data --link sub/now -one-time=true -v=2", nil,
			"--link=sub/now --submodules=recursive https://git.example/app /data 2m0s"},
		{repo + " --one-time --filter tree:0", nil, "--link=app.git --submodules=recursive --filter=tree:0 https://git.example/app.git /git 2m0s"},
		{repo + " --one-time --filter blob:limit=1k", nil, "--link=app.git --submodules=recursive --filter=blob:limit=1k https://git.example/app.git /git 2m0s"},
		{repo + " --one-time --filter sparse:oid=x", nil, "--link=app.git --submodules=recursive https://git.example/app.git /git 2m0s"},
		{"-repo https://git.example/app -root /data --link /other/now -one-time", nil,
			"--link=/other/now --submodules=recursive https://git.example/app /data 2m0s"},
		{repo + " --link=/git/now --root=/git/ --period 1m --submodules off --depth 0", nil,
			"--depth=0 --submodules=off --link=now --watch=1m0s https://git.example/app.git /git 2m0s"},
		{repo + " --branch main --rev HEAD --dest d --wait 0.5 --max-sync-failures 3 --timeout 60 --ssh", nil,
			"--link=d --ref=main --submodules=recursive --watch=500ms --retry-auth=true https://git.example/app.git /git 3 refusals, 500ms 3m0s"},
		{repo + " --one-time --max-failures=-1 --rev v1", nil,
			"--link=app.git --ref=v1 --submodules=recursive --retry-auth=true https://git.example/app.git /git 0 refusals, 10s 0s"},
		{repo + " --one-time --max-failures=5 --init-max-failures=2 --period=1m --init-period=1s", nil,
			"--link=app.git --submodules=recursive --retry-auth=true https://git.example/app.git /git 2 refusals, 1s 4m0s"},
		{repo + " --http-bind=:1234 --webhook-url=http://x/ --webhook-success-status=0 --webhook-timeout=3s", nil,
			"--webhook-url=http://x/ --link=app.git --submodules=recursive --webhook-success-status=100-999 --webhook-timeout=3s --watch=10s --http=:1234 https://git.example/app.git /git 2m0s"},
		{repo + " --one-time --stale-worktree-timeout=90s", nil,
			"--link=app.git --keep-old=1m30s --submodules=recursive https://git.example/app.git /git 2m0s"},
		{repo + " --exechook-command=/h --exechook-backoff=1s --pre-publish-exechook-command=/p --sync-on-signal=SIGHUP", nil,
			"--exechook-command=/h --exechook-backoff=1s --pre-publish-exechook-command=/p --link=app.git --submodules=recursive --watch=10s --sync-on-signal=SIGHUP https://git.example/app.git /git 2m0s"},
		{repo + ` --one-time --git-config=http.sslCAInfo:/ca,"safe.directory":"*" --git-config-add=protocol.file.allow:always --git-config-add=http.Proxy:"http://a:1"`, nil,
			"--link=app.git --submodules=recursive --ca-file=/ca --proxy=http://a:1 https://git.example/app.git /git 2m0s"},
		{repo + " --http-bind=127.0.0.1:1234", nil,
			"--link=app.git --submodules=recursive --watch=10s --http=127.0.0.1:1234 https://git.example/app.git /git 2m0s"},
		{repo + " --http-bind=[::1]:1234", nil,
			"--link=app.git --submodules=recursive --watch=10s --http=[::1]:1234 https://git.example/app.git /git 2m0s"},
		{repo + " --one-time --username=me", map[string]string{"GIT_SYNC_PASSWORD": "hunter2"},
			"--link=app.git --submodules=recursive https://me:${env:GIT_SYNC_PASSWORD}@git.example/app.git /git 2m0s"},
		{"--one-time --ssh-key-file=/k", map[string]string{"GITSYNC_REPO": "git@h:a/b", "GITSYNC_SSH_KEY_FILE": "/a:/b", "GITSYNC_REF": "x", "GITSYNC_SSH_KNOWN_HOSTS": "false"},
			"--ref=x --link=b --submodules=recursive --ssh-key-file=/k --ssh-accept-new=true git@h:a/b /git 2m0s"},
		{"", map[string]string{"GITSYNC_REPO": "/r/a", "GITSYNC_ONE_TIME": "1", "GITSYNC_SSH_KEY_FILE": "/a:/b", "GIT_SSH_KNOWN_HOSTS_FILE": "/c", "GITSYNC_COOKIE_FILE": "true"},
			"--link=a --submodules=recursive --ssh-key-file=/a --ssh-key-file=/b --known-hosts=/c --cookie-file=/etc/git-secret/cookie_file /r/a /git 2m0s"},
	} {
		if got, err := gitSyncLine(strings.Fields(test.args), test.variables); got != test.want || err != nil {
			t.Errorf("%s %v:\n%s, %v, want\n%s", test.args, test.variables, got, err, test.want)
		}
	}
}

// TestGitConfig pins that a setting is refused by its name unless its meaning is known, and that no value shows.
func TestGitConfig(t *testing.T) {
	for text, want := range map[string]string{
		"core.sshCommand:hunter2":             "core.sshCommand: no git program runs",
		"http.extraHeader:hunter2":            "http.extraHeader has no meaning here",
		"http.https://h/.extraHeader:hunter2": "http.https: no git program", // the name ends there, as in git-sync
		`"http.https://h/.extraHeader":x`:     "http.https://h/.extraHeader has no meaning here",
		"http.sslVerify:false":                "http.sslVerify has no meaning here",
		"protocol.file.allow:never":           "protocol.file.allow has no meaning here",
		"hunter2":                             "a setting without a colon",
		`a.b:"hunter2`:                        "a quote that does not end",
		`a.b:"x"hunter2`:                      `text after a quoted value of "a.b"`,
		`a.b:hunter2\q`:                       "an unknown escape",
		`a.b:hunter2\`:                        "a backslash at the end",
	} {
		_, err := gitSyncLine([]string{"--repo=https://h/a", "--one-time", "--git-config-add=" + text}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`http.proxy:"a\"b",gc.auto:0`: `--proxy=a"b`, `http.proxy:a\,b`: "--proxy=a,b", `"http.proxy":a b, gc.auto:1`: "--proxy=a b",
	} {
		if got, err := gitSyncLine([]string{"--repo=https://h/a", "--one-time", "--git-config=" + text}, nil); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestGitSyncFlags pins that each flag of git-sync is listed once, and that what is refused has a hint.
func TestGitSyncFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range syncFlags {
		if seen[f.name] {
			t.Errorf("%s is listed twice", f.name)
		}
		seen[f.name] = true
		if (f.refused != "") != (f.hint != "") {
			t.Errorf("%s: want a hint if, and only if, it is refused", f.name)
		}
	}
}

func TestGitSyncFiles(t *testing.T) {
	env := environment()
	env.ReadFile = func(name string) ([]byte, error) { return []byte("# comment\n/docs/\r\n\n!*.png\n"), nil }
	env.Exists = func(name string) bool { return name == gitSyncKey }
	line, err := GitSync([]string{"--repo=git@h:a/b", "--one-time", "--sparse-checkout-file=/sparse", "--error-file=err", "--git-gc=off", "--http-pprof"}, env)
	if want := " --link='b' --submodules='recursive' --sparse-pattern='/docs/' --sparse-pattern='!*.png' --ssh-key-file='/etc/git-secret/ssh' 'git@h:a/b' '/git'"; err != nil || line.String() != want {
		t.Errorf("%s, %v, want\n%s", line, err, want)
	}
	if line.ErrorFile != "/git/err" {
		t.Errorf("error file %s, want /git/err", line.ErrorFile)
	}
	if len(line.Warnings) != 1 || !strings.Contains(line.Warnings[0], "--http-pprof") {
		t.Errorf("warnings %q, want one of --http-pprof", line.Warnings)
	}
}

// TestNoSecretInLine pins that a line has no secret in its text, which is logged before what it says is checked.
func TestNoSecretInLine(t *testing.T) {
	for _, args := range []string{
		"--repo=http://u:hunter2@git.example/app", "--repo=https://hunter2@git.example", "--repo u:hunter2@git.example/app",
		"--repo=/r --webhook-url=http://u:hunter2@hook/", "--repo=/r --webhook-url=http://hook/?token=hunter2",
		"--repo=/r --askpass-url=http://u:hunter2@hook/", "--repo=/r http://u:hunter2@git.example/app",
	} {
		if text, err := gitSyncLine(strings.Fields(args), nil); strings.Contains(text, "hunter2") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %s, %v", args, text, err)
		}
	}
	env := environment("DEPENDENCY_SOCKET=/run/x", "COMMAND=mysql --password=hunter2")
	line, err := KubernetesEntrypoint(env)
	if want := " 'file:///run/x' -- 'mysql' …"; line.String() != want || err != nil {
		t.Errorf("%s, %v, want%s", line, err, want)
	}
}

// FuzzGitSync pins that no command line of git-sync panics, and that a password in a variable is never copied.
func FuzzGitSync(f *testing.F) {
	f.Add("--repo=https://h/a --root /x --link y -v 2 --one-time", "GITSYNC_PASSWORD", "x")
	f.Add("--repo a://b --username --=x - -- --ssh-key-file", "GIT_SYNC_WAIT", "1e300")
	f.Fuzz(func(t *testing.T, args, name, value string) {
		text, err := gitSyncLine(strings.Fields(args), map[string]string{name: value})
		if err == nil && value != "" && strings.HasSuffix(name, "_PASSWORD") && len(value) > 12 && !strings.Contains(args, value) && strings.Contains(text, value) {
			t.Errorf("the password shows: %s", text)
		}
	})
}
