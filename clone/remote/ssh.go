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

// defaultUser is the user on nearly every server, where the key identifies the account.
const defaultUser = "git"

// sshServer runs commands on a server over SSH (RFC 4251 to 4254), each in a session of the same connection.
type sshServer struct {
	url    *URL
	o      Options
	dialer *dial.Dialer
	log    *slog.Logger

	mu   sync.Mutex
	conn *sshConn // nil before the first command, and after the connection is lost
}

func openSSH(u *URL, o Options) *sshServer {
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

// start starts a command. Some servers close the connection after the first command, or refuse a second session in it:
// then it connects again.
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

// remoteCommand returns the command line for the server's shell.
func remoteCommand(name, path string) (string, error) {
	if strings.HasPrefix(path, "-") {
		return "", poll.Permanent(failure.New(failure.Local, "the path of the repository begins with -, like an option"))
	}
	return name + " " + quote(path), nil
}

// quote quotes s for a Bourne shell and for csh, like git's sq_quote_buf.
func quote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(s) + "'"
}

// sshConn is an authenticated connection.
type sshConn struct {
	*ssh.Client
	raw   *noted
	stall time.Duration // 0 for none
	log   *slog.Logger
}

// noted records why reading ended, which the multiplexer of package ssh does not return.
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

// listen starts the time within which the server must send something, and heard ends it. A server that is silent while
// nothing is read from it does not stall.
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

// lost returns why the connection ended; nil if it has not.
func (c *sshConn) lost(ctx context.Context) error {
	end := c.raw.end.Load()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case end == nil:
		return nil
	}
	return failure.Of(dial.Stalled(*end, c.stall))
}

// start runs the command in a new session, which ends with ctx.
func (c *sshConn) start(ctx context.Context, command string) (*sshStream, error) {
	poll.Doing(ctx, "starting git-upload-pack")
	s := &sshStream{ctx: ctx, conn: c, stderr: &tail{limit: maxStderr}}
	// Whatever hangs waits for the connection.
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
	f := failure.New(failure.Unexpected, "the server cannot start git-upload-pack: %s", failure.Printable(strings.TrimPrefix(err.Error(), "ssh: ")))
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
	// Like OpenSSH, do not wait for the reply: many servers accept no variables, and speak version 0.
	env := ssh.Marshal(struct{ Name, Value string }{"GIT_PROTOCOL", "version=2"})
	if _, err := s.session.SendRequest("env", false, env); err != nil {
		return err
	}
	return s.session.Start(command)
}
