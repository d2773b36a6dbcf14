package remote

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"initbox/internal/failure"
	"initbox/internal/secret"
)

// sshStream is a running command on the server.
type sshStream struct {
	ctx     context.Context
	conn    *sshConn
	session *ssh.Session
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  *tail
	stop    func() bool // so that it no longer ends with ctx

	once sync.Once // the end of it
	err  error     // why it ended
}

// Read reads the command's output. At the end it returns io.EOF if the command succeeded, else why it failed.
func (s *sshStream) Read(p []byte) (int, error) {
	s.conn.listen()
	n, err := s.stdout.Read(p)
	if err == io.EOF {
		if end := s.end(); end != nil {
			err = end
		}
	}
	s.conn.heard()
	return n, err
}

func (s *sshStream) Write(p []byte) (int, error) {
	n, err := s.stdin.Write(p)
	if err != nil {
		if lost := s.conn.lost(s.ctx); lost != nil {
			err = lost
		}
	}
	return n, err
}

// Close ends the command.
func (s *sshStream) Close() error {
	s.once.Do(func() { s.stdin.Close() }) // it has not ended by itself
	s.session.Close()
	s.stop()
	return s.err
}

// end waits for a command that has closed its output to end, and returns why it failed.
func (s *sshStream) end() error {
	s.once.Do(func() { s.err = s.outcome(s.session.Wait()) })
	return s.err
}

func (s *sshStream) outcome(err error) error {
	said := s.stderr.lines()
	for _, line := range said {
		s.conn.log.Debug("message of the server", "text", failure.Printable(line))
	}
	if err == nil {
		return nil
	}
	var exit *ssh.ExitError
	if !errors.As(err, &exit) { // no status was sent
		if lost := s.conn.lost(s.ctx); lost != nil {
			return lost
		}
		if len(said) == 0 {
			return nil // some servers never send one
		}
		return refusal(said, -1)
	}
	return refusal(said, exit.ExitStatus())
}

// maxStderr is how much of the standard error is kept, in bytes.
const maxStderr = 4 << 10

// tail keeps the last bytes written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	bytes []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - t.limit; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
	}
	return len(p), nil
}

// lines returns the lines with text, without the frames and empty lines that forges put around them.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(t.bytes)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "remote:"))
		if strings.Trim(line, "=-* ") != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// How servers say, in lower case, that a repository does not exist or is not accessible: git, GitHub, GitLab, Gitea,
// Bitbucket, Azure DevOps, CodeCommit.
var (
	noRepository = []string{
		"repository not found", "does not appear to be a git repository", "not a git repository", "repository does not exist",
		"project you were looking for could not be found", "no such project", "no such repository", "cannot find repository", "tf401019",
		"repositorydoesnotexist",
	}
	noPermission = []string{"permission denied", "access denied", "not authorized", "unauthorized", "permission to access", "authentication failed", "not allowed"}
)

// refusal classifies the error output of a command, and its exit status: -1 if that is not known.
func refusal(said []string, status int) *failure.Failure {
	text := strings.Join(said, "; ")
	lower := strings.ToLower(text)
	f := failure.New(failure.Unexpected, "git-upload-pack failed on the server")
	switch {
	case strings.Contains(lower, "dubious ownership"):
		f.Hint = "on the server, the repository belongs to a user other than the one git runs as: see safe.directory in git-config(1)"
	case containsAny(lower, noRepository):
		return absent("the server reported: " + secret.Quote(text))
	case containsAny(lower, noPermission):
		f = failure.New(failure.Authentication, "the server refuses access to the repository")
		f.Hint = "does the key permit reading it, such as a deploy key of this repository?"
	case status == 127 || strings.Contains(lower, "command not found"):
		f.Hint = "is git installed on the server, and in the PATH of commands run over ssh?"
	}
	if status > 0 {
		f.Text += " (status " + strconv.Itoa(status) + ")"
	}
	if text != "" {
		f.Text += ": the server reported: " + secret.Quote(text)
	}
	return f
}
