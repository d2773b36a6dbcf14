package remote

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"initbox/internal/failure"
	"initbox/test/servers"
)

// fakeSSH is a server with faults that sshd does not have.
type fakeSSH struct {
	addr        string
	known       string                        // its line of known_hosts
	connections atomic.Int32                  // so far
	oneSession  bool                          // refuses a second one in a connection
	keys        bool                          // accepts keys, but no key is the right one
	passwords   bool                          // accepts passwords, but none is the right one
	run         func(ssh.Channel, string) int // handles a command, and returns its status; -1 for none

	mu       sync.Mutex
	users    []string
	commands []string
}

func startFakeSSH(t *testing.T, f *fakeSSH) *fakeSSH {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: !f.keys && !f.passwords}
	if f.keys {
		config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }
	}
	if f.passwords {
		config.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, errors.New("no") }
	}
	config.AddHostKey(signer)
	f.addr = servers.Serve(t, func(c net.Conn) { f.serve(c, config) })
	f.known = knownhosts.Line([]string{f.addr}, signer.PublicKey())
	return f
}

func (f *fakeSSH) serve(c net.Conn, config *ssh.ServerConfig) {
	f.connections.Add(1)
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	defer conn.Close()
	f.mu.Lock()
	f.users = append(f.users, conn.User())
	f.mu.Unlock()
	go ssh.DiscardRequests(requests)
	sessions := 0
	for offered := range channels {
		if sessions++; f.oneSession && sessions > 1 {
			offered.Reject(ssh.ResourceShortage, "one is enough")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go f.session(channel, requests)
	}
}

func (f *fakeSSH) session(c ssh.Channel, requests <-chan *ssh.Request) {
	defer c.Close()
	for r := range requests {
		if r.Type != "exec" {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		f.mu.Lock()
		f.commands = append(f.commands, string(r.Payload[4:]))
		f.mu.Unlock()
		if status := f.run(c, string(r.Payload[4:])); status >= 0 {
			c.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
		}
		return
	}
}

func (f *fakeSSH) url(path string) *URL {
	host, port, _ := net.SplitHostPort(f.addr)
	return &URL{Scheme: "ssh", Host: host, Port: port, Path: path}
}

func (f *fakeSSH) options() Options { return Options{SSH: SSH{KnownHostKeys: []string{f.known}}} }

// speak is a server that advertises version 2, and nothing else.
func speak(c ssh.Channel, _ string) int {
	io.WriteString(c, "000eversion 2\n0000")
	io.Copy(io.Discard, io.LimitReader(c, 4))
	return 0
}

// TestSSHDefaults pins the default user, and the command that is run.
func TestSSHDefaults(t *testing.T) {
	f := startFakeSSH(t, &fakeSSH{run: speak})
	d := openSSH(f.url("~ann/it's.git"), f.options())
	defer d.Close()
	if said, err := converse(within(t, time.Minute), d); err != nil || said != "version 2\n" {
		t.Errorf("%q, %v", said, err)
	}
	if f.users[0] != "git" || f.commands[0] != `git-upload-pack '~ann/it'\''s.git'` {
		t.Errorf("%q runs %q", f.users, f.commands)
	}
}

// TestSSHOneSession pins that a server that allows one command per connection gets a connection for each.
func TestSSHOneSession(t *testing.T) {
	f := startFakeSSH(t, &fakeSSH{run: speak, oneSession: true})
	d := openSSH(f.url("/x"), f.options())
	defer d.Close()
	for range 3 {
		if _, err := converse(within(t, time.Minute), d); err != nil {
			t.Error(err)
		}
	}
	if n := f.connections.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

// TestSSHOutcomes pins the errors for commands that fail in different ways.
func TestSSHOutcomes(t *testing.T) {
	says := func(text string, status int) func(ssh.Channel, string) int {
		return func(c ssh.Channel, _ string) int {
			io.WriteString(c.Stderr(), text)
			return status
		}
	}
	for name, tt := range map[string]struct {
		run   func(ssh.Channel, string) int
		class failure.Class
		text  string
	}{
		"GitHub":         {says("ERROR: Repository not found.\nfatal: Could not read\x1b[2J from remote repository.\n", 1), failure.NoRepository, `no such repository: the server reported: ERROR: Repository not found.; fatal: Could not read\x1b[2J`},
		"denied":         {says("Permission denied to ann", 128), failure.Authentication, "refuses access to the repository (status 128): the server reported: Permission"},
		"no git":         {says("sh: git-upload-pack: not found", 127), failure.Unexpected, "is git installed"},
		"without status": {says("fatal: out of memory", -1), failure.Unexpected, "out of memory"},
		"endless":        {says(strings.Repeat("y\n", 1<<20), 1), failure.Unexpected, "y; y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFakeSSH(t, &fakeSSH{run: tt.run})
			d := openSSH(f.url("/x"), f.options())
			defer d.Close()
			_, err := converse(within(t, time.Minute), d)
			mustFail(t, err, tt.class, tt.text)
		})
	}
}

// TestSSHLost pins that the loss of a connection is not taken for the end of a command's output.
func TestSSHLost(t *testing.T) {
	var cut atomic.Pointer[net.Conn]
	f := startFakeSSH(t, &fakeSSH{run: func(c ssh.Channel, _ string) int {
		io.WriteString(c, "half")
		io.Copy(io.Discard, io.LimitReader(c, 1)) // until it was read
		(*cut.Load()).Close()
		return 0
	}})
	address := servers.Serve(t, func(c net.Conn) { // a wire that can be cut
		to, err := net.Dial("tcp", f.addr)
		if err != nil {
			return
		}
		cut.Store(&to)
		join(c, c, to)
	})
	host, port, _ := net.SplitHostPort(address)
	o := f.options()
	o.SSH = SSH{AcceptNew: true}
	accepted.Delete(address) // which another server of the tests may have had
	d := openSSH(&URL{Scheme: "ssh", Host: host, Port: port, Path: "/x"}, o)
	defer d.Close()
	s, err := d.dial(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := io.CopyN(io.Discard, s, 4); err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "x")
	_, err = io.Copy(io.Discard, s)
	mustFail(t, err, failure.Reset)
}

// TestSSHStallIsTheServers pins that a pause of the reader does not count as a stall of the server, and that large
// output arrives intact.
func TestSSHStallIsTheServers(t *testing.T) {
	t.Parallel()
	const size = 8 << 20 // four times what is under way at once
	f := startFakeSSH(t, &fakeSSH{run: func(c ssh.Channel, _ string) int {
		c.Write(bytes.Repeat([]byte("0123456789abcdef"), size/16))
		return 0
	}})
	d := openSSH(f.url("/x"), f.options())
	defer d.Close()
	s, err := d.dial(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limits := &limits{Conn: d.conn.raw.Conn}
	d.conn.stall, d.conn.raw = time.Minute, &noted{Conn: limits}
	if _, err := io.CopyN(io.Discard, s, 1<<20); err != nil {
		t.Fatal(err)
	}
	if limits.set.Load() == 0 || !limits.last.Load().IsZero() {
		t.Errorf("between reads, the server has until %v, after %d limits", limits.last.Load(), limits.set.Load())
	}
	if n, err := io.Copy(io.Discard, s); n != size-1<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// limits records the limits of a connection, without obeying them.
type limits struct {
	net.Conn
	set  atomic.Int32
	last atomic.Pointer[time.Time]
}

func (l *limits) SetReadDeadline(at time.Time) error {
	l.set.Add(1)
	l.last.Store(&at)
	return nil
}

// TestSSHTooManyKeys pins the hint for a server that closes the connection after several keys.
func TestSSHTooManyKeys(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := t.TempDir()
	var keys []string
	for _, name := range []string{"a", "b", "c"} {
		keys = append(keys, servers.SSHKey(t, filepath.Join(dir, name), "ed25519", ""))
	}
	s := servers.StartSSHD(t, servers.SSHDOptions{Authorized: []string{keys[2] + ".pub"}, Config: "MaxAuthTries 2"})
	o := Options{SSH: SSH{KeyFiles: keys, KnownHostKeys: []string{s.KnownHosts(t, 0)}}}
	_, err := converse(within(t, time.Minute), openSSH(sshURL(t, s, "/x"), o))
	mustFail(t, err, failure.Authentication, dir+"/c (ssh-ed25519 SHA256:", "give only the right one")
}

// TestSSHWithoutKey pins the errors for servers that require a key when none is given, or accept no keys.
func TestSSHWithoutKey(t *testing.T) {
	f := startFakeSSH(t, &fakeSSH{keys: true})
	_, err := converse(within(t, time.Minute), openSSH(f.url("/x"), f.options()))
	mustFail(t, err, failure.Authentication, "requires a key from the user git, and none was given")
	f = startFakeSSH(t, &fakeSSH{passwords: true})
	_, err = converse(within(t, time.Minute), openSSH(f.url("/x"), f.options()))
	mustFail(t, err, failure.Authentication, "the server accepts no keys from the user git: it offers password")
}
