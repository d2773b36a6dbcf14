package remote

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

// defaultUser is who one is on nearly every server: the key tells who asks.
const defaultUser = "git"

// sshServer runs git-upload-pack on a server by SSH (RFC 4251 to 4254), each in a
// session of one connection.
type sshServer struct {
	url    *URL
	o      Options
	dialer *dial.Dialer
	log    *slog.Logger

	mu   sync.Mutex
	conn *sshConn // nil before the first command, and after the loss of it
}

func openSSH(u *URL, o Options) dialer { return newSSHServer(u, o) }

func newSSHServer(u *URL, o Options) *sshServer {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &sshServer{url: u, o: o, dialer: dial.New(o.Resolver), log: log}
}

func (s *sshServer) dial(ctx context.Context) (stream, error) {
	command, err := remoteCommand("git-upload-pack", s.url.Path)
	if err != nil {
		return nil, err
	}
	return s.start(ctx, command)
}

// start starts a command. There are servers that end the connection after the first,
// or allow no second session in it; for these it is made anew.
func (s *sshServer) start(ctx context.Context, command string) (_ stream, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		if st, err := s.conn.start(ctx, command); err == nil {
			return st, nil
		}
		s.conn.Close()
		s.conn = nil
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if s.conn, err = s.connect(ctx); err != nil {
		return nil, err
	}
	st, err := s.conn.start(ctx, command)
	if err != nil {
		s.conn.Close()
		s.conn = nil
		return nil, err
	}
	return st, nil
}

func (s *sshServer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	s.conn.Close()
	s.conn = nil
	return nil
}

// remoteCommand is the command line for the server's shell.
func remoteCommand(name, path string) (string, error) {
	if strings.HasPrefix(path, "-") {
		return "", poll.Permanent(failure.New(failure.Local, "the path of the repository begins with -, like an option"))
	}
	return name + " " + quote(path), nil
}

// quote quotes for a Bourne shell, and for csh, as git's sq_quote_buf does.
func quote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(s) + "'"
}

// sshConn is a connection that is authenticated.
type sshConn struct {
	*ssh.Client
	raw   *noted
	stall time.Duration // 0 for none
	log   *slog.Logger
}

// noted notes why reading ended, which the multiplexer above it keeps for itself.
type noted struct {
	net.Conn
	end atomic.Pointer[error]
}

func (n *noted) Read(p []byte) (int, error) {
	k, err := n.Conn.Read(p)
	if err != nil {
		n.end.CompareAndSwap(nil, &err)
	}
	return k, err
}

// listen gives the server until then to send something, and heard ends that. A
// server that has nothing to say while nobody waits for it does not stall.
func (c *sshConn) listen() {
	if c.stall > 0 {
		c.raw.SetReadDeadline(time.Now().Add(c.stall))
	}
}

func (c *sshConn) heard() {
	if c.stall > 0 {
		c.raw.SetReadDeadline(time.Time{})
	}
}

// lost returns why the connection is no more; nil if it is there.
func (c *sshConn) lost(ctx context.Context) error {
	end := c.raw.end.Load()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case end == nil:
		return nil
	}
	silent := stallConn{limit: c.stall}
	return failure.Of(silent.name(*end))
}

// start runs the command in a session of its own, which ends with ctx.
func (c *sshConn) start(ctx context.Context, command string) (*sshStream, error) {
	poll.Doing(ctx, "starting git-upload-pack")
	s := &sshStream{ctx: ctx, conn: c, stderr: &tail{limit: maxStderr}}
	// Whatever hangs is waiting for the connection.
	s.stop = context.AfterFunc(ctx, func() { c.Close() })
	c.listen()
	err := s.start(command)
	c.heard()
	if err == nil {
		return s, nil
	}
	s.stop()
	if lost := c.lost(ctx); lost != nil {
		return nil, lost
	}
	f := failure.New(failure.Unexpected, "the server starts no git-upload-pack: %s", failure.Printable(strings.TrimPrefix(err.Error(), "ssh: ")))
	f.Err = err
	return nil, f
}

func (s *sshStream) start(command string) (err error) {
	if s.session, err = s.conn.NewSession(); err != nil {
		return err
	}
	if s.stdout, err = s.session.StdoutPipe(); err != nil {
		return err
	}
	if s.stdin, err = s.session.StdinPipe(); err != nil {
		return err
	}
	s.session.Stderr = s.stderr
	// As OpenSSH does, without waiting for what the server thinks of it: many accept
	// no variables, and speak version 0.
	env := ssh.Marshal(struct{ Name, Value string }{"GIT_PROTOCOL", "version=2"})
	if _, err := s.session.SendRequest("env", false, env); err != nil {
		return err
	}
	return s.session.Start(command)
}
