package lfs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

func TestParse(t *testing.T) {
	t.Parallel()
	oid := strings.Repeat("0a", 32)
	good := "version https://git-lfs.github.com/spec/v1\noid sha256:" + oid + "\nsize 123\n"
	for text, ok := range map[string]bool{
		good:                                   true,
		strings.TrimSpace(good):                true,
		strings.ReplaceAll(good, "\n", "\r\n"): true,
		"version http://git-media.io/v/2\noid sha256:" + oid + "\nsize 0\n": true,
		"":                                   false,
		"size 123\n" + good:                  false,
		good + "more x\n":                    false,
		good + good:                          false,
		strings.Replace(good, "0a", "0A", 1): false,
		strings.Replace(good, "0a", "", 1):   false,
		strings.Replace(good, "sha256", "sha512", 1):            false,
		strings.Replace(good, "123", "-1", 1):                   false,
		strings.Replace(good, "123", "99999999999999999999", 1): false,
		strings.Replace(good, "spec/v1", "spec/v9", 1):          false,
		good + strings.Repeat("\n", MaxPointer):                 false,
		strings.Replace(good, "0a0a", "../x", 1):                false,
	} {
		p, is := Parse([]byte(text))
		if is != ok || is && (p.OID != oid || p.Extended) || !is && p != (Pointer{}) {
			t.Errorf("%q: %+v, %v", text, p, is)
		}
	}
	for size, want := range map[int]bool{MaxPointer - 1: true, MaxPointer: false} {
		if _, ok := Parse([]byte(good + strings.Repeat("\n", size-len(good)))); ok != want {
			t.Errorf("%d bytes: %v", size, ok)
		}
	}
	if p, ok := Parse([]byte(strings.Replace(good, "oid", "ext-0-foo sha256:"+oid+"\noid", 1))); !ok || !p.Extended {
		t.Errorf("%+v, %v", p, ok)
	}
}

// TestGitLFS has git-lfs fetch from the server of the tests, to prove that it is one, and initbox fetch the same.
func TestGitLFS(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	contents := map[string][]byte{"a.bin": []byte("one"), "b.bin": bytes.Repeat([]byte("two\x00"), 300_000), "c.bin": []byte("one"), "empty.bin": {}}
	dir := lfsRepo(t, contents)
	s := newServer(t, contents["a.bin"], contents["b.bin"])
	other := t.TempDir()
	gitLFS(t, other, "-c", "filter.lfs.smudge=", "-c", "filter.lfs.process=", "clone", "-q", dir, "r")
	at := strings.Replace(s.URL, "://", "://"+user+":"+password+"@", 1) + repoPath + "/info/lfs"
	gitLFS(t, filepath.Join(other, "r"), "-c", "lfs.url="+at, "lfs", "fetch")
	if s.saw("POST "+repoPath+"/info/lfs/objects/batch Basic") == 0 || s.saw("GET /objects/") != 2 {
		t.Fatalf("git-lfs asked %q", s.requests)
	}

	var pointers []Pointer
	for name := range contents {
		blob := gitLFS(t, dir, "cat-file", "blob", "HEAD:"+name)
		p, ok := Parse([]byte(blob))
		if p.Path = name; ok {
			pointers = append(pointers, p)
		} else if name != "empty.bin" {
			t.Errorf("%s: %q is no pointer", name, blob)
		}
	}
	var received atomic.Int64
	c := s.client()
	c.Received = &received
	over, local := placed{}, placed{}
	if err := c.Fetch(t.Context(), pointers, over.place); err != nil {
		t.Fatal(err)
	}
	if err := (&Client{Directory: filepath.Join(dir, ".git"), Temp: c.Temp}).Fetch(t.Context(), pointers, local.place); err != nil {
		t.Fatal(err)
	}
	for _, p := range pointers {
		if want := string(contents[p.Path]); over[p.Path] != want || local[p.Path] != want {
			t.Errorf("%s: %d bytes over HTTP, %d from the directory, want %d", p.Path, len(over[p.Path]), len(local[p.Path]), len(want))
		}
	}
	if want := int64(len("one") + 1_200_000); received.Load() != want {
		t.Errorf("%d bytes received, want %d: what two files point to is fetched once", received.Load(), want)
	}
}

// TestManyAtOnce pins that objects are requested in batches.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	var contents [][]byte
	for i := range 250 {
		contents = append(contents, bytes.Repeat([]byte{byte(i), 'x'}, i+1))
	}
	s := newServer(t, contents...)
	got := placed{}
	if err := s.client().Fetch(t.Context(), pointersTo(contents...), got.place); err != nil {
		t.Fatal(err)
	}
	if len(got) != 250 || got["file77"] != string(contents[77]) || s.saw("POST") != 3 || s.asked != 250 {
		t.Errorf("%d files, %d requests for %d objects", len(got), s.saw("POST"), s.asked)
	}
	if err := s.client().Fetch(t.Context(), nil, got.place); err != nil || s.saw("POST") != 3 {
		t.Errorf("nothing to fetch: %v", err)
	}
}

// TestEmpty pins that the empty object is not requested.
func TestEmpty(t *testing.T) {
	t.Parallel()
	s, got := newServer(t), placed{}
	if err := s.client().Fetch(t.Context(), pointersTo(nil), got.place); err != nil || got["file0"] != "" || len(got) != 1 || len(s.requests) > 0 {
		t.Errorf("%v, %v, %v", err, got, s.requests)
	}
}

var one, two = []byte("the first object"), []byte("the second object, which is longer")

// TestRefused pins the errors for servers whose answers do not match the pointers.
func TestRefused(t *testing.T) {
	t.Parallel()
	first := func(answer map[string]any) map[string]any { return answer["objects"].([]map[string]any)[0] }
	for name, tt := range map[string]struct {
		change func(s *server, c *Client)
		want   string
		class  failure.Class
	}{
		"missing":  {func(s *server, c *Client) { delete(s.objects, oidOf(one)) }, "of file0 (" + oidOf(one)[:12] + "…) is not on the server", failure.Missing},
		"password": {func(s *server, c *Client) { c.Authorize = nil }, "401 Unauthorized", failure.Authentication},
		"no LFS":   {func(s *server, c *Client) { c.Remote.Path = "/other" }, "status 404 Not Found", failure.Unexpected},
		"forbidden": {func(s *server, c *Client) {
			s.batch = func(_ http.ResponseWriter, _ *http.Request, a map[string]any) bool {
				first(a)["error"] = map[string]any{"code": 403}
				return false
			}
		}, "refused by the server: status 403", failure.Authentication},
		"others": {func(s *server, c *Client) {
			s.batch = func(_ http.ResponseWriter, _ *http.Request, a map[string]any) bool {
				first(a)["oid"] = oidOf(two)
				return false
			}
		}, "missing from the server's answer", failure.Unexpected},
		"no action": {func(s *server, c *Client) {
			s.batch = func(_ http.ResponseWriter, _ *http.Request, a map[string]any) bool {
				delete(first(a), "actions")
				return false
			}
		}, "is not on the server", failure.Missing},
		"tus": {func(s *server, c *Client) {
			s.batch = func(_ http.ResponseWriter, _ *http.Request, a map[string]any) bool {
				a["transfer"] = "tus"
				return false
			}
		}, "a transfer other than basic", failure.Unexpected},
		"hash": {func(s *server, c *Client) {
			s.batch = func(_ http.ResponseWriter, _ *http.Request, a map[string]any) bool {
				a["hash_algo"] = "md5"
				return false
			}
		}, "a hash other than sha256", failure.Unexpected},
		"HTML": {func(s *server, c *Client) {
			s.batch = func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
				io.WriteString(w, "<html>")
				return true
			}
		}, "not one of the batch API", failure.Unexpected},
		"endless answer": {func(s *server, c *Client) {
			s.batch = func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
				endless(w)
				return true
			}
		}, "not one of the batch API", failure.Unexpected},
		"href": {func(s *server, c *Client) { s.href = func(string) string { return "file:///etc/passwd" } }, "no http or https URL", failure.Unexpected},
		"header": {func(s *server, c *Client) {
			s.batch = func(_ http.ResponseWriter, _ *http.Request, a map[string]any) bool {
				first(a)["actions"].(map[string]any)["download"].(map[string]any)["header"] = map[string]string{"X": "a\r\nY: b"}
				return false
			}
		}, "invalid header name", failure.Unexpected},
		"gone": {func(s *server, c *Client) { s.href = func(string) string { return s.URL + "/objects/x" } }, "is not on the server", failure.Missing},
		"410": {func(s *server, c *Client) {
			s.download = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
				w.WriteHeader(http.StatusGone)
				return true
			}
		}, "is not on the server", failure.Missing},
		"longer":      {func(s *server, c *Client) { s.objects[oidOf(one)] = append(bytes.Clone(one), 'x') }, "has 17 bytes, but the pointer says 16", failure.Unexpected},
		"shorter":     {func(s *server, c *Client) { s.objects[oidOf(one)] = one[1:] }, "has 15 bytes, but the pointer says 16", failure.Unexpected},
		"other bytes": {func(s *server, c *Client) { s.objects[oidOf(one)] = bytes.ToUpper(one) }, "the SHA-256 of its content differs", failure.Unexpected},
		"endless": {func(s *server, c *Client) {
			s.download = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
				endless(w)
				return true
			}
		}, "has more than the", failure.Unexpected},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, one, two)
			c := s.client()
			tt.change(s, c)
			got := placed{}
			err := c.Fetch(t.Context(), pointersTo(one, two), got.place)
			var f *failure.Failure
			if err == nil || !strings.Contains(err.Error(), tt.want) || !poll.IsPermanent(err) || !errors.As(err, &f) || f.Class != tt.class {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if f != nil && strings.Contains(f.Hint, "no credentials are sent") {
				t.Errorf("hint %q", f.Hint)
			}
			if _, is := got["file0"]; is || err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// endless writes until the client closes the connection.
func endless(w http.ResponseWriter) {
	for {
		if _, err := w.Write(make([]byte, 64<<10)); err != nil {
			return
		}
	}
}

// TestPointersRefused pins the errors for invalid pointers.
func TestPointersRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, one)
	good := pointersTo(one)[0]
	for want, change := range map[string]func(p *Pointer){
		"is not a Git LFS pointer": func(p *Pointer) { p.OID = "../../" + p.OID[6:] },
		"extensions":               func(p *Pointer) { p.Extended = true },
		"with different lengths":   func(p *Pointer) { p.Size++ },
	} {
		p := good
		change(&p)
		if err := s.client().Fetch(t.Context(), []Pointer{good, p}, placed{}.place); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if len(s.requests) > 0 {
		t.Errorf("asked: %q", s.requests)
	}
}

// TestRetries pins that temporary failures are retried, from the beginning.
func TestRetries(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	s := newServer(t, one, two)
	var broken, busy atomic.Int32
	s.download = func(w http.ResponseWriter, r *http.Request, content []byte) bool {
		if broken.Add(1) > 2 {
			return false
		}
		w.Header().Set("Content-Length", "16")
		w.Write(content[:5])
		panic(http.ErrAbortHandler) // the connection breaks
	}
	s.batch = func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		if busy.Add(1) > 1 {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	got := placed{}
	if err := s.client().Fetch(t.Context(), pointersTo(one), got.place); err != nil || got["file0"] != string(one) {
		t.Errorf("%v, %q", err, got)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var refused atomic.Int32
	s.download = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if refused.Add(1) == 3 {
			cancel(context.DeadlineExceeded) // as if the time was over, when 503 has been seen
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	err := s.client().Fetch(ctx, pointersTo(two), got.place)
	if err == nil || !strings.Contains(err.Error(), "503") || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestCredentials pins that credentials are sent only to the server of the repository, and not if the server gave
// others.
func TestCredentials(t *testing.T) {
	t.Parallel()
	var leaked atomic.Int32
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // such as S3
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Other") != "" && r.URL.Path != "/own" {
			leaked.Add(1)
		}
		w.Write(one)
	}))
	defer store.Close()
	fetch := func(s *server, change func(c *Client)) error {
		c, got := s.client(), placed{}
		if change != nil {
			change(c)
		}
		err := c.Fetch(t.Context(), pointersTo(one), got.place)
		if err == nil && got["file0"] != string(one) {
			t.Errorf("%q", got)
		}
		return err
	}

	s := newServer(t, one)
	s.href = func(string) string { return store.URL + "/elsewhere" }
	if err := fetch(s, nil); err != nil || leaked.Load() > 0 {
		t.Errorf("another host: %v, leaked %d", err, leaked.Load())
	}
	s = newServer(t, one)
	s.ownAuth = true
	if err := fetch(s, nil); err != nil || s.saw("GET /objects/"+oidOf(one)+" RemoteAuth xyz") != 1 {
		t.Errorf("the action's header: %v, %q", err, s.requests)
	}
	s.download = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		http.Redirect(w, r, store.URL+"/redirected", http.StatusFound)
		return true
	}
	if err := fetch(s, nil); err != nil || leaked.Load() > 0 {
		t.Errorf("a redirect: %v, leaked %d", err, leaked.Load())
	}
	s.batch = func(w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
		http.Redirect(w, r, store.URL+"/batch", http.StatusTemporaryRedirect)
		return true
	}
	if err := fetch(s, nil); err == nil || leaked.Load() > 0 {
		t.Errorf("a redirect of the request: %v, leaked %d", err, leaked.Load())
	}

	// A server that .lfsconfig names.
	s, real := newServer(t, one), newServer(t, one)
	err := fetch(s, func(c *Client) {
		c.Config = []byte("[lfs]\n\turl = " + strings.Replace(real.URL, "://", "://u:p@", 1) + repoPath + "/info/lfs\n")
	})
	if err == nil || !strings.Contains(failure.Of(err).Hint, "to which no credentials are sent") || real.saw("Basic") > 0 || real.saw("POST") != 1 || len(s.requests) > 0 {
		t.Errorf("%v; the other server saw %q", err, real.requests)
	}
	if err := fetch(s, func(c *Client) {
		c.Remote.Path = "/x"
		c.Config = []byte("[lfs]\nurl=" + s.URL + repoPath + "/info/lfs/")
	}); err != nil {
		t.Errorf("the same server: %v", err)
	}
	if err := fetch(s, func(c *Client) {
		c.Remote.Path = "/x"
		c.Config = []byte("[remote \"origin\"]\nlfsurl=" + s.URL + repoPath + "/info/lfs")
	}); err != nil {
		t.Errorf("lfsurl: %v", err)
	}
	if err := fetch(s, func(c *Client) {
		c.Config = []byte("[lfs \"x\"]\nurl=" + real.URL + "\n[lfs]\nother=x\n[remote \"other\"]\nlfsurl=" + real.URL + "\n[remote \"origin\"]\nurl=" + real.URL + "\n[x]\nurl=y\nlfsurl=z")
	}); err != nil || real.saw("POST") != 1 {
		t.Errorf("other settings: %v; the other server saw %q", err, real.requests)
	}
	if err := fetch(s, func(c *Client) { c.Remote, c.Config = nil, []byte("[lfs]\nurl="+s.URL+repoPath+"/info/lfs") }); failure.Of(err).Class != failure.Authentication {
		t.Errorf("without the URL of the repository: %v", err)
	}
	asked := ""
	if err := fetch(s, func(c *Client) {
		c.Remote.User, c.Config = url.User("bob"), []byte("[lfs]\nurl="+s.URL+repoPath+"/info/lfs")
		authorize := c.Authorize
		c.Authorize = func(ctx context.Context, req *http.Request) ([]string, error) {
			if strings.HasSuffix(req.URL.Path, "/batch") {
				asked = req.URL.User.Username()
			}
			return authorize(ctx, req)
		}
	}); err != nil || asked != "bob" {
		t.Errorf("the user of the URL: %q, %v", asked, err)
	}
	refused := errors.New("no such Secret")
	if err := fetch(s, func(c *Client) {
		c.Authorize = func(context.Context, *http.Request) ([]string, error) { return nil, poll.Permanent(refused) }
	}); !errors.Is(err, refused) {
		t.Errorf("no credentials: %v", err)
	}
	for config, want := range map[string]string{
		"[lfs]\nurl = http:///x":         "that is not http or https",
		"[lfs]\nurl = http://[":          "that is not http or https",
		"[lfs]\nurl = ssh://git@host/x":  "that is not http or https",
		"[lfs]\nurl = file:///etc":       "that is not http or https",
		"[lfs\nurl":                      "read .lfsconfig of the repository: line 1",
		"[lfs]\nurl = http://127.0.0.1/": "without TLS",
	} {
		err := fetch(s, func(c *Client) { c.Remote.Scheme = "https"; c.Config = []byte(config) })
		if err == nil || !strings.Contains(err.Error(), want) || !poll.IsPermanent(err) {
			t.Errorf("%q: %v, want %q", config, err, want)
		}
	}
}

// TestSSH pins how the answer of git-lfs-authenticate is used.
func TestSSH(t *testing.T) {
	t.Parallel()
	s := newServer(t, one)
	auth, err := http.NewRequest("GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	auth.SetBasicAuth(user, password)
	header := map[string]string{"Authorization": auth.Header.Get("Authorization"), "Host": "other"}
	c, got := s.client(), placed{}
	c.Remote, c.Authorize = &url.URL{Scheme: "https", Host: "unused.invalid"}, nil
	c.Authenticate = func(context.Context) (string, map[string]string, error) {
		return s.URL + repoPath + "/info/lfs", header, nil
	}
	if err := c.Fetch(t.Context(), pointersTo(one), got.place); err != nil || got["file0"] != string(one) {
		t.Errorf("%v, %q", err, got)
	}
	if s.saw("GET /objects/"+oidOf(one)+" Basic") > 0 {
		t.Errorf("the header is for the batch API alone: %q", s.requests)
	}
	for name, value := range map[string]string{"invalid header name": "a\r\nb: c", "401": "Basic x"} {
		c.Authenticate = func(context.Context) (string, map[string]string, error) {
			return s.URL + repoPath + "/info/lfs", map[string]string{"Authorization": value}, nil
		}
		if err := c.Fetch(t.Context(), pointersTo(one), got.place); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(failure.Of(err).Hint, "no credentials are sent") {
			t.Errorf("%q: %v, want %s", value, err, name)
		}
	}
	broken := errors.New("the connection broke")
	c.Authenticate = func(context.Context) (string, map[string]string, error) { return "", nil, broken }
	if err := c.Fetch(t.Context(), pointersTo(one), got.place); !errors.Is(err, broken) {
		t.Error(err)
	}
	c.Authenticate = func(context.Context) (string, map[string]string, error) { return "ssh://x", nil, nil }
	if err := c.Fetch(t.Context(), pointersTo(one), got.place); err == nil || !strings.Contains(err.Error(), "named no http or https URL") {
		t.Error(err)
	}
	c.Authenticate = func(context.Context) (string, map[string]string, error) { return "", nil, nil }
	c.Remote = nil
	if err := c.Fetch(t.Context(), pointersTo(one), got.place); err == nil || !strings.Contains(err.Error(), "their server is not known") {
		t.Error(err)
	}
}

// TestDirectory pins the errors for objects in a directory.
func TestDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(content []byte, make func(name string) error) {
		oid := oidOf(content)
		name := filepath.Join(dir, "lfs", "objects", oid[:2], oid[2:4], oid)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := make(name); err != nil {
			t.Fatal(err)
		}
	}
	damaged, pipe := []byte("damaged"), []byte("pipe")
	put(damaged, func(name string) error { return os.WriteFile(name, []byte("dAmaged"), 0o644) })
	put(pipe, func(name string) error { return syscall.Mkfifo(name, 0o644) })
	c := &Client{Directory: dir}
	for want, content := range map[string][]byte{"the SHA-256 of its content differs": damaged, "not a file": pipe, "is not in the repository": one} {
		err := c.Fetch(t.Context(), pointersTo(content), placed{}.place)
		if err == nil || !strings.Contains(err.Error(), want) || !poll.IsPermanent(err) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestDirectoryFails pins the errors for a directory that has no objects, and after the context is canceled.
func TestDirectoryFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &Client{Directory: dir}
	if err := c.Fetch(ctx, pointersTo(one), placed{}.place); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lfs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.Fetch(t.Context(), pointersTo(one), placed{}.place); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}

// TestEmptyFails pins that an empty object is placed or reported as an error, and that no other object counts as empty.
func TestEmptyFails(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	s := newServer(t, one)
	c := s.client()
	c.Authenticate = func(context.Context) (string, map[string]string, error) {
		t.Error("asked for the server")
		return "", nil, nil
	}
	if err := c.Fetch(t.Context(), pointersTo(nil), placed{}.place); err != nil {
		t.Error(err)
	}
	if err := c.Fetch(t.Context(), pointersTo(nil), func(Pointer, io.Reader) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	c.Temp = func() (*os.File, error) {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err == nil {
			f.Close()
		}
		return f, err
	}
	if err := c.Fetch(t.Context(), pointersTo(nil), func(Pointer, io.Reader) error { return nil }); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	c = s.client()
	c.Temp = func() (*os.File, error) { return nil, full }
	for _, content := range [][]byte{nil, one} {
		if err := c.Fetch(t.Context(), pointersTo(content), placed{}.place); !errors.Is(err, full) {
			t.Errorf("%q: %v", content, err)
		}
	}
	c, got := s.client(), placed{}
	if err := c.Fetch(t.Context(), []Pointer{{OID: oidOf(one), Path: "a"}}, got.place); err == nil || len(got) > 0 {
		t.Errorf("%v, %v", err, got)
	}
}

func TestRef(t *testing.T) {
	t.Parallel()
	s := newServer(t, one)
	for _, ref := range []string{"refs/heads/main", ""} {
		c := s.client()
		c.Ref = ref
		if err := c.Fetch(t.Context(), pointersTo(one), placed{}.place); err != nil || s.ref != ref {
			t.Errorf("%q, %v, want %q", s.ref, err, ref)
		}
	}
}

func TestPause(t *testing.T) {
	for header, want := range map[string]time.Duration{"": time.Second, "soon": time.Second, "-5": time.Second, "0": time.Second, "7": 7 * time.Second, "3600": time.Minute} {
		if got := pause(header); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

// TestPlaceFails pins that an error of the disk is not reported as one of the server.
func TestPlaceFails(t *testing.T) {
	t.Parallel()
	s := newServer(t, one)
	full := errors.New("no space left")
	if err := s.client().Fetch(t.Context(), pointersTo(one), func(Pointer, io.Reader) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	c := s.client()
	c.Temp = func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	if err := c.Fetch(t.Context(), pointersTo(one), placed{}.place); !errors.Is(err, syscall.EINVAL) || !poll.IsPermanent(err) { // of ftruncate(2)
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.client().Fetch(ctx, pointersTo(one), placed{}.place); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(pointerText(one)))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\next-0-a sha256:00\noid sha256:00\nsize 1"))
	f.Fuzz(func(t *testing.T, blob []byte) {
		p, ok := Parse(blob)
		if ok && (!validOID(p.OID) || p.Size < 0) || !ok && p != (Pointer{}) {
			t.Fatalf("%+v", p)
		}
		if again, isOne := Parse(append([]byte("\n"), blob...)); ok && len(blob)+1 < MaxPointer && (!isOne || again != p) {
			t.Fatalf("%+v, then %+v", p, again)
		}
	})
}

// FuzzAnswer pins that no answer of a server breaks the client.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"transfer":"basic","objects":[{"oid":"x","size":1,"actions":{"download":{"href":"http://a/","header":{"A":"b"}}}},{"oid":"y","error":{"code":404}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := decode(answerOf(body))
		if err != nil {
			return
		}
		for i := range answer.Objects {
			o := &answer.Objects[i]
			target := &target{oid: oidOf(one), pointers: []Pointer{{Path: "a"}}}
			if available(target, o) == nil {
				parseWeb(o.Actions.Download.Href)
				headers(o.Actions.Download.Header)
			}
		}
	})
}
