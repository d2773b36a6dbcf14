package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/internal/failure"
	"initbox/test/servers"
)

// newRepository makes a bare repository with one commit.
func newRepository(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(servers.Need(t, "git"), args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
			"GIT_AUTHOR_DATE=2024-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2024-01-01T00:00:00Z")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "--bare", "-b", "main", dir)
	commit := git("-C", dir, "commit-tree", "-m", "first", git("-C", dir, "hash-object", "-t", "tree", "-w", "/dev/null"))
	git("-C", dir, "update-ref", "refs/heads/main", commit)
	return dir
}

// sshURL is a repository of the server.
func sshURL(t *testing.T, s *servers.SSHD, path string) *URL {
	t.Helper()
	host, port, _ := net.SplitHostPort(s.Addr)
	return &URL{Scheme: "ssh", User: s.User, Host: host, Port: port, Path: path}
}

// converse runs git-upload-pack, reads the first line of its advertisement, and ends it. It returns that line, and the
// error of the step that failed.
func converse(ctx context.Context, d dialer) (string, error) {
	s, err := d.dial(ctx)
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	_, err = io.CopyN(&said, s, 4)
	if err == nil {
		n, _ := strconv.ParseInt(said.String(), 16, 32)
		said.Reset()
		_, err = io.CopyN(&said, s, max(n-4, 0))
	}
	if err == nil {
		_, err = io.WriteString(s, "0000")
	}
	if err == nil {
		_, err = io.Copy(io.Discard, s)
	}
	return said.String(), errors.Join(err, s.Close())
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func writeTemp(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func readAll(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// mustFail checks the class of a failure, and its text or hint for some words.
func mustFail(t *testing.T, err error, class failure.Class, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	f := failure.Of(err)
	if f.Class != class {
		t.Errorf("class %s, want %s: %v", f.Class, class, err)
	}
	for _, text := range texts {
		if !strings.Contains(f.Error()+"\n"+f.Hint, text) {
			t.Errorf("%q is not in: %s\n%s", text, f.Error(), f.Hint)
		}
	}
}

// TestSSHKeys pins which formats of key files are accepted.
func TestSSHKeys(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := t.TempDir()
	key := func(name, kind, passphrase string, more ...string) string {
		return servers.SSHKey(t, filepath.Join(dir, name), kind, passphrase, more...)
	}
	passphrase := filepath.Join(dir, "passphrase")
	if err := os.WriteFile(passphrase, []byte("open sesame\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ca := key("ca", "ed25519", "")
	rsa := key("rsa", "rsa", "", "-b", "2048") // generating one is slow
	again := func(name, passphrase, form string) string {
		file := filepath.Join(dir, name)
		for _, suffix := range []string{"", ".pub"} {
			if err := os.WriteFile(file+suffix, []byte(readAll(t, rsa+suffix)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		servers.SSHKeygen(t, "-q", "-p", "-f", file, "-N", passphrase, "-m", form)
		return file
	}
	plain := map[string]string{
		"Ed25519": key("ed25519", "ed25519", ""), "RSA": rsa,
		"ECDSA 256": key("e256", "ecdsa", "", "-b", "256"), "ECDSA 521": key("e521", "ecdsa", "", "-b", "521"),
		"RSA in PEM": again("rsapem", "", "PEM"), "RSA in PKCS #8": again("rsa8", "", "PKCS8"),
		"ECDSA in PEM": key("epem", "ecdsa", "", "-m", "PEM"),
		"encrypted":    key("enc", "ed25519", "open sesame", "-a", "1"), "encrypted PEM": again("encpem", "open sesame", "PEM"),
		"encrypted PKCS #8": key("enc8", "ecdsa", "open sesame", "-m", "PKCS8"),
	}
	var authorized []string
	for _, file := range plain {
		authorized = append(authorized, file+".pub")
	}
	s := servers.StartSSHD(t, servers.SSHDOptions{Authorized: authorized, UserCA: ca + ".pub"})
	text := readAll(t, plain["Ed25519"])
	rewritten := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain["no newline"] = rewritten("nonl", strings.TrimSpace(text))
	plain["CRLF"] = rewritten("crlf", strings.ReplaceAll(text, "\n", "\r\n"))
	plain["indented"] = rewritten("indented", "  "+strings.ReplaceAll(text, "\n", "\n  "))
	certified := key("certified", "ecdsa", "")
	servers.SSHKeygen(t, "-q", "-s", ca, "-I", "me", "-n", s.User, certified+".pub")
	plain["certified"] = certified
	repository := newRepository(t, "it's a repo!.git")
	for name, file := range plain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openSSH(sshURL(t, s, repository), Options{SSH: SSH{KeyFiles: []string{file}, PassphraseFile: passphrase, KnownHostKeys: []string{s.KnownHosts(t, 0)}}})
			defer d.Close()
			for range 2 { // on the same connection
				if said, err := converse(within(t, time.Minute), d); err != nil || said != "version 2\n" {
					t.Errorf("%q, %v", said, err)
				}
			}
		})
	}
}

// TestSSHKeyFiles pins the errors for files that are not private keys, and that nothing of them is quoted.
func TestSSHKeyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := servers.SSHKey(t, filepath.Join(dir, "good"), "ed25519", "")
	text := readAll(t, good)
	encrypted := servers.SSHKey(t, filepath.Join(dir, "encrypted"), "ed25519", "open sesame", "-a", "1")
	pkcs8 := servers.SSHKey(t, filepath.Join(dir, "pkcs8"), "ecdsa", "open sesame", "-m", "PKCS8")
	wrong := writeTemp(t, "hunter2")
	for name, tt := range map[string]struct {
		file, passphrase string
		class            failure.Class
		text             string
	}{
		"absent":                {filepath.Join(dir, "absent"), "", failure.Missing, "no such file"},
		"empty":                 {writeTemp(t, "\n"), "", failure.Missing, "is empty"},
		"public":                {good + ".pub", "", failure.Local, "a public key, not a private one"},
		"no passphrase":         {encrypted, "", failure.Local, "--ssh-passphrase-file"},
		"wrong passphrase":      {encrypted, wrong, failure.Local, "the passphrase is wrong"},
		"no passphrase file":    {encrypted, filepath.Join(dir, "absent"), failure.Missing, "no such file"},
		"PKCS #8 without":       {pkcs8, "", failure.Local, "--ssh-passphrase-file"},
		"PKCS #8 with another":  {pkcs8, wrong, failure.Local, "the passphrase is wrong"},
		"one line":              {writeTemp(t, strings.ReplaceAll(text, "\n", " ")), "", failure.Local, "its line breaks are lost"},
		"backslash n":           {writeTemp(t, strings.ReplaceAll(text, "\n", `\n`)), "", failure.Local, "its line breaks are lost"},
		"cut off":               {writeTemp(t, text[:100]), "", failure.Local, "cut off"},
		"base64":                {writeTemp(t, "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZ"), "", failure.Local, "once, not twice"},
		"PuTTY":                 {writeTemp(t, "PuTTY-User-Key-File-3: ssh-ed25519\n"), "", failure.Local, "puttygen"},
		"damaged":               {writeTemp(t, strings.Replace(text, "AAAA", "AABA", 1)), "", failure.Local, "cannot be parsed"},
		"certificate as itself": {writeTemp(t, "ssh-ed25519-cert-v01@openssh.com AAAA\n"), "", failure.Local, "not a private key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := SSH{KeyFiles: []string{tt.file}, PassphraseFile: tt.passphrase}.keys()
			mustFail(t, err, tt.class, tt.text)
			if s := err.Error() + failure.Of(err).Hint; strings.Contains(s, "hunter2") || strings.Contains(s, "sesame") || strings.Contains(s, "AAAA") {
				t.Errorf("a secret is quoted: %s", s)
			}
		})
	}
}

// TestSSHKnownHosts pins which host keys are accepted, at a server that has several, on a port that is not 22.
func TestSSHKnownHosts(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := t.TempDir()
	key := servers.SSHKey(t, filepath.Join(dir, "key"), "ed25519", "")
	hostCA := servers.SSHKey(t, filepath.Join(dir, "ca"), "ecdsa", "")
	s := servers.StartSSHD(t, servers.SSHDOptions{HostKeys: []string{"ecdsa", "rsa", "ed25519"}, Authorized: []string{key + ".pub"}})
	signed := servers.StartSSHD(t, servers.SSHDOptions{Authorized: []string{key + ".pub"}, HostCA: hostCA})
	repository := newRepository(t, "repo.git")
	keyOf := func(file string) string { return strings.TrimSpace(readAll(t, file+".pub")) }
	other := keyOf(servers.SSHKey(t, filepath.Join(dir, "other"), "ed25519", ""))
	hashed := writeTemp(t, s.KnownHosts(t, 1)+"example.com "+other+"\n")
	servers.SSHKeygen(t, "-H", "-f", hashed)
	ed25519 := s.KnownHosts(t, 2)
	_, port, _ := net.SplitHostPort(s.Addr)
	accepted.Delete(s.Addr) // which another server of the tests may have had
	for name, tt := range map[string]struct {
		server *servers.SSHD
		SSH
		text string // of the failure; "" for none
	}{
		"ECDSA":             {s, SSH{KnownHostKeys: []string{s.KnownHosts(t, 0)}}, ""},
		"RSA":               {s, SSH{KnownHostKeys: []string{s.KnownHosts(t, 1)}}, ""},
		"Ed25519":           {s, SSH{KnownHostKeys: []string{ed25519}}, ""},
		"hashed, RSA":       {s, SSH{KnownHosts: []string{hashed}}, ""},
		"second file":       {s, SSH{KnownHosts: []string{writeTemp(t, ""), writeTemp(t, "# comment\n\n"+ed25519)}}, ""},
		"odd line, CRLF":    {s, SSH{KnownHosts: []string{writeTemp(t, "x ssh-new AAAA\r\n127.* ssh-what\r\n"+strings.TrimSpace(ed25519)+"\r\n")}}, ""},
		"wildcard":          {s, SSH{KnownHostKeys: []string{"*.example.com,[127.0.?.*]:" + port + " " + keyOf(s.HostKeys[2])}}, ""},
		"without port":      {s, SSH{KnownHostKeys: []string{"127.0.0.1 " + keyOf(s.HostKeys[2])}}, ""},
		"rotating":          {s, SSH{KnownHostKeys: []string{"[127.0.0.1]:" + port + " " + other + "\n" + ed25519}}, ""},
		"new":               {s, SSH{AcceptNew: true}, ""},
		"authority":         {signed, SSH{KnownHostKeys: []string{"@cert-authority * " + keyOf(hostCA)}}, ""},
		"none":              {s, SSH{}, "as no known_hosts is given: ssh-ed25519 SHA256:"},
		"others":            {s, SSH{KnownHostKeys: []string{"example.com " + other}}, strings.TrimSuffix(strings.TrimSpace(ed25519), " test")},
		"unreadable":        {s, SSH{KnownHosts: []string{writeTemp(t, "\n"+ed25519[:60]+"\n")}}, "1 line cannot be parsed, the first is "},
		"negated":           {s, SSH{KnownHostKeys: []string{"*,!127.0.0.1,![127.0.0.1]:" + port + " " + keyOf(s.HostKeys[2])}}, "is not known"},
		"mismatch":          {s, SSH{KnownHosts: []string{writeTemp(t, "\n[127.0.0.1]:"+port+" "+other)}, AcceptNew: true}, "file:2"},
		"other kind":        {signed, SSH{KnownHostKeys: []string{"* " + keyOf(s.HostKeys[1])}}, "THE CONNECTION MAY BE INTERCEPTED"},
		"no such file":      {s, SSH{KnownHosts: []string{filepath.Join(dir, "absent")}}, "read known_hosts file"},
		"bad line":          {s, SSH{KnownHostKeys: []string{other}}, "want HOST TYPE KEY"},
		"revoked":           {s, SSH{KnownHostKeys: []string{ed25519, "@revoked * " + keyOf(s.HostKeys[2])}}, "is revoked"},
		"revoked authority": {signed, SSH{KnownHostKeys: []string{"@cert-authority * " + keyOf(hostCA), "@revoked * " + keyOf(hostCA)}}, "is revoked"},
		"authority of else": {signed, SSH{KnownHostKeys: []string{"@cert-authority example.com " + keyOf(hostCA)}}, "is not known"},
		"authority, plain":  {s, SSH{KnownHostKeys: []string{"@cert-authority * " + keyOf(s.HostKeys[2])}, AcceptNew: true}, "an authority in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.KeyFiles = []string{key}
			d := openSSH(sshURL(t, tt.server, repository), Options{SSH: tt.SSH})
			defer d.Close()
			_, err := converse(within(t, time.Minute), d)
			switch {
			case tt.text == "" && err != nil:
				t.Errorf("%v\n%s", err, failure.Of(err).Hint)
			case tt.text != "":
				class := failure.HostKey
				if strings.HasPrefix(name, "no such") {
					class = failure.Missing
				} else if strings.HasPrefix(name, "bad") {
					class = failure.Local
				}
				mustFail(t, err, class, tt.text)
			}
		})
	}
}

// TestSSHAcceptNew pins that an accepted key is logged once, and not replaced.
func TestSSHAcceptNew(t *testing.T) {
	const host = "accept-new.example:22"
	accepted.Delete(host)
	var logged strings.Builder
	k, err := SSH{AcceptNew: true}.knownHosts(slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := k.check(host, testKey(1)); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(logged.String(), "level=INFO") != 1 || !strings.Contains(logged.String(), fingerprint(testKey(1))) {
		t.Errorf("logged: %s", logged.String())
	}
	mustFail(t, k.check(host, testKey(2)), failure.HostKey, "has changed since it was accepted")
}

// TestSSHRefusals pins the errors for what a server refuses.
func TestSSHRefusals(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := t.TempDir()
	key := servers.SSHKey(t, filepath.Join(dir, "key"), "ed25519", "")
	other := servers.SSHKey(t, filepath.Join(dir, "other"), "ecdsa", "")
	s := servers.StartSSHD(t, servers.SSHDOptions{Authorized: []string{key + ".pub"}, NoEnv: true})
	known := []string{s.KnownHosts(t, 0)}
	open := func(path string, keys ...string) dialer {
		d := openSSH(sshURL(t, s, path), Options{SSH: SSH{KeyFiles: keys, KnownHostKeys: known}})
		t.Cleanup(func() { d.Close() })
		return d
	}
	repository := newRepository(t, "repo.git")
	ctx := within(t, time.Minute)

	said, err := converse(ctx, open(repository, other, key))
	if err != nil || !strings.Contains(said, "HEAD") {
		t.Errorf("version 0: %q, %v", said, err)
	}
	_, err = converse(ctx, open(repository, other))
	mustFail(t, err, failure.Authentication, "the user "+s.User, other+" (ecdsa-sha2-nistp256 SHA256:", "it offers publickey")
	_, err = converse(ctx, open(repository))
	mustFail(t, err, failure.Authentication, "none was given", "--ssh-key-file")
	_, err = converse(ctx, open(filepath.Join(dir, "none.git"), key))
	mustFail(t, err, failure.NoRepository, "does not appear to be a git repository")
	_, err = converse(ctx, open("-oProxyCommand=x", key))
	mustFail(t, err, failure.Local, "begins with -")
}

// TestRefusal pins how the error messages of forges are classified.
func TestRefusal(t *testing.T) {
	for said, class := range map[string]failure.Class{
		"ERROR: Repository not found.\nfatal: Could not read from remote repository.":                                                                     failure.NoRepository,
		"remote:\nremote: ========\nremote:\nremote: ERROR: The project you were looking for could not be found or you don't have permission to view it.": failure.NoRepository,
		"Gitea: Repository does not exist":                                              failure.NoRepository,
		"remote: TF401019: The Git repository with name or identifier x does not exist": failure.NoRepository,
		"fatal: '/x' does not appear to be a git repository":                            failure.NoRepository,
		"ERROR: Permission to a/b denied to c.\nPermission denied":                      failure.Authentication,
		"fatal: detected dubious ownership in repository at '/x'\ngit config safe.x":    failure.Unexpected,
		"bash: git-upload-pack: command not found":                                      failure.Unexpected,
	} {
		kept := tail{limit: maxStderr}
		io.WriteString(&kept, said)
		f := refusal(kept.lines(), 1)
		if f.Class != class || strings.Contains(f.Text, "===") || strings.Contains(f.Text, "remote:") {
			t.Errorf("%s: %s", f.Class, f.Text)
		}
	}
	kept := tail{limit: 10}
	for range 100 {
		io.WriteString(&kept, "0123456789abcdef\x1b[31m\n")
	}
	if lines := kept.lines(); len(strings.Join(lines, "")) > 10 {
		t.Errorf("%q", lines)
	}
}

// TestSSHEnds pins that nothing lasts longer than the context or the stall limit, with a server that accepts
// connections and is silent, and one that stops halfway.
func TestSSHEnds(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it never accepts: the kernel does
	host, port, _ := net.SplitHostPort(l.Addr().String())
	silent := &URL{Scheme: "ssh", Host: host, Port: port, Path: "/x"}
	_, err = converse(within(t, 50*time.Millisecond), openSSH(silent, Options{}))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's error", err)
	}
	_, err = converse(within(t, time.Minute), openSSH(silent, Options{Stall: 50 * time.Millisecond}))
	mustFail(t, err, failure.TimedOut, "stalled")

	key := servers.SSHKey(t, filepath.Join(t.TempDir(), "key"), "ed25519", "")
	s := servers.StartSSHD(t, servers.SSHDOptions{Authorized: []string{key + ".pub"}, Config: "ForceCommand read x"})
	o := Options{SSH: SSH{KeyFiles: []string{key}, KnownHostKeys: []string{s.KnownHosts(t, 0)}}}
	d := openSSH(sshURL(t, s, "/x"), o)
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	st, err := d.dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := st.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
	st.Close()
	if st, err = d.dial(within(t, time.Minute)); err != nil { // over a new connection
		t.Fatal(err)
	}
	st.Close()

	if st, err = d.dial(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	d.conn.stall = 50 * time.Millisecond // not of the handshake, which takes longer where much else runs
	_, err = st.Read(make([]byte, 1))
	mustFail(t, err, failure.TimedOut, "stalled")
	st.Close()

	_, err = converse(within(t, time.Minute), openSSH(&URL{Scheme: "ssh", Host: host, Port: strings.Split(notSSH(t), ":")[1], Path: "/x"}, Options{}))
	mustFail(t, err, failure.Unexpected, "does not speak SSH")
}

// notSSH answers with something else.
func notSSH(t *testing.T) string {
	return servers.Serve(t, func(c net.Conn) {
		c.Write([]byte(strings.Repeat("HTTP/1.1 400 Bad Request\r\nx: y\r\n\r\n", 1000)))
	})
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{"/a b.git": "'/a b.git'", "it's": `'it'\''s'`, "wow!": `'wow'\!''`, "~u/x": "'~u/x'"} {
		if got := quote(s); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestSSHProxy pins that SSH goes through a proxy, with its password, and the error for one that refuses.
func TestSSHProxy(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	key := servers.SSHKey(t, filepath.Join(t.TempDir(), "key"), "ed25519", "")
	s := servers.StartSSHD(t, servers.SSHDOptions{Authorized: []string{key + ".pub"}})
	repository := newRepository(t, "repo.git")
	for name, tt := range map[string]struct{ url, text string }{
		"CONNECT":        {"http://ann:hunter2@" + servers.Serve(t, connectProxy), ""},
		"CONNECT, wrong": {"http://ann:hunter3@" + servers.Serve(t, connectProxy), "status 407"},
		"SOCKS":          {"socks5://ann:hunter2@" + servers.Serve(t, socksProxy), ""},
		"SOCKS, wrong":   {"socks5://ann:hunter3@" + servers.Serve(t, socksProxy), "authentication failed"},
		"none":           {"http://" + servers.FreeAddr(t), "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := url.Parse(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			d := openSSH(sshURL(t, s, repository), Options{Proxy: p, SSH: SSH{KeyFiles: []string{key}, KnownHostKeys: []string{s.KnownHosts(t, 0)}}})
			defer d.Close()
			_, err = converse(within(t, time.Minute), d)
			if tt.text == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "the proxy "+p.Host+": ") || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("%v, want %s", err, tt.text)
			}
		})
	}
}

// TestSSHRepository pins that references and a pack are fetched over one SSH connection, in both versions of Git's
// protocol.
func TestSSHRepository(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	key := servers.SSHKey(t, filepath.Join(t.TempDir(), "key"), "ed25519", "")
	repository := newRepository(t, "repo.git")
	for name, old := range map[string]bool{"version 2": false, "version 0": true} {
		t.Run(name, func(t *testing.T) {
			s := servers.StartSSHD(t, servers.SSHDOptions{Authorized: []string{key + ".pub"}, NoEnv: old})
			ctx := within(t, time.Minute)
			r, err := Open(ctx, sshURL(t, s, repository), Options{SSH: SSH{KeyFiles: []string{key}, KnownHostKeys: []string{s.KnownHosts(t, 0)}}})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			refs, err := r.Refs(ctx, "HEAD")
			if err != nil || len(refs) == 0 || refs[0].Target != "refs/heads/main" {
				t.Fatalf("%v, %v", refs, err)
			}
			a, err := r.Fetch(ctx, Request{Wants: []plumbing.Hash{refs[0].ID}, Depth: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Pack.Close()
			if pack, err := io.ReadAll(a.Pack); err != nil || !bytes.HasPrefix(pack, []byte("PACK")) {
				t.Errorf("%q, %v", pack, err)
			}
			if n := strings.Count(s.Log.String(), "Accepted publickey"); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

// TestSSHThroughTLSProxy pins that a proxy with an https URL is reached over TLS, and verified.
func TestSSHThroughTLSProxy(t *testing.T) {
	ca := servers.NewCA(t)
	pair := ca.Server(t, "127.0.0.1")
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	address := servers.Serve(t, func(c net.Conn) { connectProxy(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})) })
	f := startFakeSSH(t, &fakeSSH{run: speak})
	o := f.options()
	o.Proxy = &url.URL{Scheme: "https", User: url.UserPassword("ann", "hunter2"), Host: address}
	_, err = converse(within(t, time.Minute), openSSH(f.url("/x"), o))
	mustFail(t, err, failure.TLS, "the proxy "+address)
	o.HTTP.TLS.CAFile = ca.File
	d := openSSH(f.url("/x"), o)
	defer d.Close()
	if _, err := converse(within(t, time.Minute), d); err != nil {
		t.Error(err)
	}
}
