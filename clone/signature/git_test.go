package signature

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// gitRepo is a repository in which a test signs.
type gitRepo struct {
	t   testing.TB
	dir string
	env []string
}

func newRepo(t testing.TB) *gitRepo {
	t.Helper()
	servers.Need(t, "git")
	r := &gitRepo{t, t.TempDir(), append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org", "GIT_COMMITTER_DATE=1700000000 +0100")}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *gitRepo) git(args ...string) []byte {
	r.t.Helper()
	return r.run("git", args...)
}

func (r *gitRepo) run(program string, args ...string) []byte {
	r.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// commit returns the bytes of a signed commit.
func (r *gitRepo) commit(args ...string) []byte {
	r.t.Helper()
	r.git(append(args, "commit", "-q", "--allow-empty", "-m", "subject\n\nbody -----BEGIN PGP SIGNATURE-----\n")...)
	return r.git("cat-file", "commit", "HEAD")
}

// tag returns the bytes of a signed tag of the last commit.
func (r *gitRepo) tag(name string, args ...string) []byte {
	r.t.Helper()
	r.git(append(args, "tag", "-s", "-m", "the tag\n\nbody", name)...)
	return r.git("cat-file", "tag", name)
}

// gpg is a home of GnuPG.
type gpg struct {
	*gitRepo
	home string
}

func newGPG(t testing.TB, r *gitRepo) *gpg {
	t.Helper()
	servers.Need(t, "gpg")
	home, err := os.MkdirTemp("", "gpg") // short, for the agent's socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		os.RemoveAll(home)
	})
	return &gpg{r, home}
}

func (g *gpg) do(args ...string) []byte {
	g.t.Helper()
	return g.run("gpg", append([]string{"--homedir", g.home, "--batch", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...)
}

// key makes a key, and returns its fingerprint.
func (g *gpg) key(name, algorithm, expire string, more ...string) string {
	g.t.Helper()
	g.do(append(more, "--quick-gen-key", name, algorithm, "sign", expire)...)
	for line := range strings.Lines(string(g.do("--with-colons", "--list-keys", name))) {
		if f := strings.Split(line, ":"); f[0] == "fpr" {
			return f[9]
		}
	}
	g.t.Fatal("no key")
	return ""
}

// export writes public keys to a file.
func (g *gpg) export(file string, args ...string) string {
	g.t.Helper()
	return writeFile(g.t, file, g.do(append([]string{"--export"}, args...)...))
}

// signWith returns git's configuration for a key; more are arguments of gpg.
func (g *gpg) signWith(fingerprint string, more ...string) []string {
	g.t.Helper()
	script := "#!/bin/sh\nexec gpg --homedir '" + g.home + "' --batch --no-tty --pinentry-mode loopback --passphrase '' " + strings.Join(more, " ") + " \"$@\"\n"
	program := filepath.Join(g.t.TempDir(), "gpg.sh")
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		g.t.Fatal(err)
	}
	return []string{"-c", "gpg.program=" + program, "-c", "user.signingKey=" + fingerprint, "-c", "commit.gpgSign=true"}
}

func writeFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sshKeygen makes a key, and returns its file and the public line.
func sshKeygen(t testing.TB, r *gitRepo, args ...string) (file, public string) {
	t.Helper()
	servers.Need(t, "ssh-keygen")
	file = filepath.Join(t.TempDir(), "key")
	r.run("ssh-keygen", append([]string{"-q", "-N", "", "-C", "alice@laptop", "-f", file}, args...)...)
	line, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, strings.TrimSpace(string(line))
}

func sshWith(file string) []string {
	return []string{"-c", "gpg.format=ssh", "-c", "user.signingKey=" + file, "-c", "commit.gpgSign=true"}
}

func command(r *gitRepo, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	return cmd
}
