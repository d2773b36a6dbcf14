package lfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"initbox/internal/httpclient"
	"initbox/test/servers"
)

// skipIfShort skips what starts a real server, or takes more than about a second.
func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real server, or takes more than a second")
	}
}

// server is a Git LFS server: the batch API and basic transfers, with basic authentication. TestGitLFS proves with
// git-lfs that it works.
type server struct {
	*httptest.Server
	t       testing.TB
	objects map[string][]byte

	// Replace its behaviour if set.
	batch    func(w http.ResponseWriter, r *http.Request, answer map[string]any) bool // true: answered
	download func(w http.ResponseWriter, r *http.Request, content []byte) bool
	href     func(oid string) string
	ownAuth  bool // the downloads want what the answer's header says, and nothing else

	mu       sync.Mutex
	requests []string // METHOD PATH Authorization
	asked    int      // objects
	ref      string   // of the last request
}

const (
	user     = "app"
	password = "hunter22hunter22"
	repoPath = "/team/repo.git"
)

func newServer(t testing.TB, contents ...[]byte) *server {
	t.Helper()
	s := &server{t: t, objects: map[string][]byte{}}
	for _, content := range contents {
		s.objects[oidOf(content)] = content
	}
	s.Server = httptest.NewUnstartedServer(s) // set before another program may ask
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func oidOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	s.mu.Unlock()
	oid, isObject := strings.CutPrefix(r.URL.Path, "/objects/")
	if isObject {
		s.object(w, r, oid)
		return
	}
	if name, secret, ok := r.BasicAuth(); !ok || name != user || secret != password {
		w.Header().Set("WWW-Authenticate", `Basic realm="lfs"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != repoPath+"/info/lfs/objects/batch" ||
		!strings.HasPrefix(r.Header.Get("Accept"), mediaType) || !strings.HasPrefix(r.Header.Get("Content-Type"), mediaType) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var request batchRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Operation != "download" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	s.asked += len(request.Objects)
	s.ref = ""
	if request.Ref != nil {
		s.ref = request.Ref.Name
	}
	s.mu.Unlock()
	var objects []map[string]any
	for _, o := range request.Objects {
		objects = append(objects, s.describe(o))
	}
	answer := map[string]any{"transfer": "basic", "objects": objects, "hash_algo": "sha256"}
	if s.batch != nil && s.batch(w, r, answer) {
		return
	}
	w.Header().Set("Content-Type", mediaType)
	json.NewEncoder(w).Encode(answer)
}

func (s *server) describe(o batchObject) map[string]any {
	content, ok := s.objects[o.OID]
	if !ok {
		return map[string]any{"oid": o.OID, "size": o.Size, "error": map[string]any{"code": 404, "message": "no such\nobject"}}
	}
	href := s.URL + "/objects/" + o.OID
	if s.href != nil {
		href = s.href(o.OID)
	}
	download := map[string]any{"href": href}
	if s.ownAuth {
		download["header"] = map[string]string{"Authorization": "RemoteAuth xyz", "X-Other": "1"}
	}
	return map[string]any{"oid": o.OID, "size": len(content), "actions": map[string]any{"download": download}}
}

func (s *server) object(w http.ResponseWriter, r *http.Request, oid string) {
	content, ok := s.objects[oid]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if s.ownAuth && r.Header.Get("Authorization") != "RemoteAuth xyz" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if s.download != nil && s.download(w, r, content) {
		return
	}
	w.Write(content)
}

// saw returns how many requests contained a text.
func (s *server) saw(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.Contains(r, part) {
			n++
		}
	}
	return n
}

// client returns a client for the repository of the server.
func (s *server) client() *Client {
	remote, err := url.Parse(s.URL + repoPath)
	if err != nil {
		s.t.Fatal(err)
	}
	return &Client{
		Remote: remote,
		Authorize: func(_ context.Context, req *http.Request) ([]string, error) {
			req.SetBasicAuth(user, password)
			return nil, nil
		},
		HTTP: httpclient.Options{Dial: new(net.Dialer).DialContext, NoProxy: true},
		Temp: func() (*os.File, error) { return os.CreateTemp(s.t.TempDir(), "") },
	}
}

// placed collects what is placed.
type placed map[string]string

func (p placed) place(ptr Pointer, content io.Reader) error {
	data, err := io.ReadAll(content)
	p[ptr.Path] = string(data)
	return err
}

func pointersTo(contents ...[]byte) (pointers []Pointer) {
	for i, content := range contents {
		pointers = append(pointers, Pointer{OID: oidOf(content), Size: int64(len(content)), Path: fmt.Sprintf("file%d", i)})
	}
	return pointers
}

func pointerText(content []byte) string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oidOf(content), len(content))
}

// gitLFS runs git with git-lfs, in a directory.
func gitLFS(t testing.TB, dir string, args ...string) string {
	t.Helper()
	servers.Need(t, "git-lfs")
	cmd := exec.Command(servers.Need(t, "git"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir, "GIT_TERMINAL_PROMPT=0", "no_proxy=127.0.0.1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, &out)
	}
	return out.String()
}

// lfsRepo is a repository that git-lfs has made: the directory, and its .git.
func lfsRepo(t testing.TB, contents map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	gitLFS(t, dir, "init", "-q", "-b", "main")
	gitLFS(t, dir, "lfs", "install", "--local")
	gitLFS(t, dir, "lfs", "track", "*.bin")
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitLFS(t, dir, "add", "-A")
	gitLFS(t, dir, "commit", "-q", "-m", "objects")
	return dir
}

func answerOf(body []byte) *httpclient.Answer {
	return &httpclient.Answer{Status: http.StatusOK, Body: body}
}
