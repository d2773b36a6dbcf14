package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"initbox/test/servers"
)

// git DIR arg… runs git in DIR, which is created if it is missing, without the user's configuration.
func cmdGit(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: git DIR arg…")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	cmd := exec.Command("git", args[1:]...)
	cmd.Dir, cmd.Env = dir, servers.GitEnv("init.defaultBranch=main", "protocol.file.allow=always")
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	if err := cmd.Run(); (err != nil) != neg {
		ts.Fatalf("git %s: %v", strings.Join(args[1:], " "), err)
	}
}

// gitserver NAME http|https|ssh|git [user=U] [password=P] [token=T] serves the
// repositories in $WORK/repos, and puts the URL of that directory into $NAME, of http and
// https also its HOST:PORT into $NAME_host. Of https, $NAME_ca is the file of its CA; of ssh, files key and known_hosts
// are made for it.
func cmdGitServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: gitserver NAME http|https|ssh|git [user=U] [password=P] [token=T]")
	}
	t := &scriptTB{TB: nil, ts: ts}
	root := ts.MkAbs("repos")
	ts.Check(os.MkdirAll(root, 0o777))
	o := servers.GitOptions{Config: []string{"uploadpack.allowFilter=true", "uploadpack.allowAnySHA1InWant=true"}}
	for _, option := range args[2:] {
		name, value, _ := strings.Cut(option, "=")
		*map[string]*string{"user": &o.User, "password": &o.Password, "token": &o.Token}[name] = value
	}
	name := args[0]
	switch args[1] {
	case "https":
		o.CA = servers.NewCA(t)
		ts.Setenv(name+"_ca", o.CA.File)
		fallthrough
	case "http":
		s := servers.StartGit(t, root, o)
		ts.Setenv(name, s.URL)
		ts.Setenv(name+"_host", s.Host)
	case "git":
		ts.Setenv(name, servers.StartGitDaemon(t, root, o.Config...))
	case "ssh":
		key := servers.SSHKey(t, ts.MkAbs("key"), "ed25519", "")
		s := servers.StartSSHD(t, servers.SSHDOptions{Authorized: []string{key + ".pub"}})
		ts.Check(os.WriteFile(ts.MkAbs("known_hosts"), []byte(s.KnownHosts(t, 0)), 0o666))
		ts.Setenv(name, "ssh://"+s.User+"@"+s.Addr+root)
	default:
		ts.Fatalf("no such protocol: %s", args[1])
	}
}

// scriptTB lets a script start what tests start.
type scriptTB struct {
	testing.TB  // nil: only the methods below are called
	ts          *testscript.TestScript
	directories int
}

func (t *scriptTB) Helper()                           {}
func (t *scriptTB) Failed() bool                      { return false }
func (t *scriptTB) Name() string                      { return t.ts.Name() }
func (t *scriptTB) Cleanup(f func())                  { t.ts.Defer(f) }
func (t *scriptTB) Logf(format string, args ...any)   { t.ts.Logf(format, args...) }
func (t *scriptTB) Fatalf(format string, args ...any) { t.ts.Fatalf(format, args...) }
func (t *scriptTB) Fatal(args ...any)                 { t.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (t *scriptTB) Skipf(format string, args ...any)  { t.ts.Fatalf(format, args...) } // scripts skip by [exec:…]

func (t *scriptTB) TempDir() string {
	t.directories++
	dir := t.ts.MkAbs(filepath.Join(".servers", fmt.Sprint(t.directories)))
	t.ts.Check(os.MkdirAll(dir, 0o777))
	return dir
}
