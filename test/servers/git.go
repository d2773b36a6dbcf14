package servers

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// GitOptions configure [StartGit] and [GitHandler].
type GitOptions struct {
	CA         *CA    // issues the server's certificate for HTTPS; nil for HTTP
	WantClient bool   // reject clients without a certificate of the CA
	User       string // has read access, with the Password; "" gives it to every client
	Password   string
	Token      string   // gives read access, as a bearer token or as any user's password
	V0         bool     // hide from git that the client supports version 2
	Config     []string // settings of git, such as "uploadpack.allowFilter=true"

	// Wrap, if set, wraps the handler between the client and git.
	Wrap func(http.Handler) http.Handler
}

// Git is a Git server over HTTP: git http-backend.
type Git struct {
	URL  string // of the directory; a repository is at URL/NAME
	Host string // host:port

	mu       sync.Mutex
	requests []*http.Request
}

// Requests returns the requests so far, without their bodies.
func (g *Git) Requests() []*http.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*http.Request{}, g.requests...)
}

// StartGit serves the repositories in the directory root.
func StartGit(t testing.TB, root string, o GitOptions) *Git {
	t.Helper()
	Need(t, "git")
	h, err := GitHandler(root, o)
	if err != nil {
		t.Fatal(err)
	}
	g := new(Git)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := r.Clone(r.Context())
		seen.Body = nil
		g.mu.Lock()
		g.requests = append(g.requests, seen)
		g.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the tests' clients disconnect early
	t.Cleanup(s.Close)
	if o.CA == nil {
		s.Start()
	} else {
		s.TLS = gitTLS(t, o)
		s.StartTLS()
	}
	g.URL, g.Host = s.URL, s.Listener.Addr().String()
	return g
}

func gitTLS(t testing.TB, o GitOptions) *tls.Config {
	t.Helper()
	pair := o.CA.Server(t, "127.0.0.1", "localhost")
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}}
	if o.WantClient {
		c.ClientCAs = x509.NewCertPool()
		c.ClientCAs.AddCert(o.CA.cert)
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c
}

// GitHandler serves the repositories in the directory root by git http-backend. It applies all options except those for
// TLS.
func GitHandler(root string, o GitOptions) (http.Handler, error) {
	dir, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, err
	}
	env := append(GitEnv(o.Config...), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1")
	backend := filepath.Join(strings.TrimSpace(string(dir)), "git-http-backend")
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &cgi.Handler{Path: backend, Root: "/", Dir: root, Env: env, Stderr: io.Discard, Logger: log.New(io.Discard, "", 0)}
		if protocol := r.Header.Get("Git-Protocol"); protocol != "" && !o.V0 {
			c.Env = append(append([]string{}, env...), "GIT_PROTOCOL="+protocol)
		}
		r.Header.Del("Git-Protocol")
		c.ServeHTTP(w, r)
	})
	if o.Wrap != nil {
		h = o.Wrap(h)
	}
	if o.User != "" || o.Token != "" {
		h = gitLogin(h, o)
	}
	return h, nil
}

// gitLogin only passes requests with valid credentials to next.
func gitLogin(next http.Handler, o GitOptions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case o.User != "" && user == o.User && password == o.Password:
		case o.Token != "" && (password == o.Token || r.Header.Get("Authorization") == "Bearer "+o.Token):
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// GitEnv returns the environment of a git that reads no configuration except the given settings, KEY=VALUE, and does
// not check the owners of repositories.
func GitEnv(settings ...string) []string {
	settings = append([]string{"safe.directory=*"}, settings...)
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=author@example.com", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=C O Mitter", "GIT_COMMITTER_EMAIL=committer@example.com", "GIT_COMMITTER_DATE=1700000000 +0000",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings)),
	}
	for i, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env
}

// RunGit runs git in the directory dir, and returns its output, without the last line break.
func RunGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return FeedGit(t, nil, dir, args...)
}

// FeedGit is RunGit with an input.
func FeedGit(t testing.TB, in io.Reader, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(Need(t, "git"), args...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, in, GitEnv("init.defaultBranch=main", "protocol.file.allow=always", "gc.auto=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// StartGitDaemon serves the repositories in the directory root by git daemon, and returns its git://host:port.
func StartGitDaemon(t testing.TB, root string, settings ...string) string {
	t.Helper()
	addr := FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	// env sets the environment, which a daemon does not inherit.
	args := append(append([]string{"-i"}, GitEnv(settings...)...), Need(t, "git"), "daemon",
		"--listen="+host, "--port="+port, "--reuseaddr", "--export-all", "--informative-errors", "--base-path="+root, root)
	run(t, "/usr/bin/env", args...).untilListening(t, addr)
	return "git://" + addr
}

// CutAfter closes the connection after n bytes of an answer to a POST.
func CutAfter(n int) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w = &cutWriter{w, n}
			}
			next.ServeHTTP(w, r)
		})
	}
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	c.ResponseWriter.Write(p[:c.left])
	http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// Replay answers repeated requests from memory: those with the same method, URL, version of the protocol and body.
type Replay struct {
	Live http.Handler // answers new requests

	mu      sync.Mutex
	answers map[[32]byte]*httptest.ResponseRecorder
}

func (p *Replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %s\n%s", r.Method, r.URL, r.Header.Get("Git-Protocol"), content))
	p.mu.Lock()
	answer := p.answers[key]
	p.mu.Unlock()
	if answer == nil {
		answer = httptest.NewRecorder()
		p.Live.ServeHTTP(answer, r)
		p.mu.Lock()
		if p.answers == nil {
			p.answers = map[[32]byte]*httptest.ResponseRecorder{}
		}
		p.answers[key] = answer
		p.mu.Unlock()
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}
