package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/pktline"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
	"initbox/test/servers"
)

// fails checks an error and its hint, and that neither contains the secret.
func fails(t testing.TB, err error, class failure.Class, text, hint string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s: %s", class, text)
		return
	}
	f := failure.Of(err)
	if f.Class != class || !strings.Contains(f.Text, text) || !strings.Contains(f.Hint, hint) {
		t.Errorf("%s: %s [%s]\nwant %s: %s [%s]", f.Class, f.Text, f.Hint, class, text, hint)
	}
	if strings.Contains(f.Text+f.Hint+err.Error(), secretText) {
		t.Errorf("the secret is printed: %v [%s]", err, f.Hint)
	}
}

const secretText = "hunter2hunter2"

func file(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestLogin logs in over TLS, with every kind of credentials.
func TestLogin(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir, ca := makeRepository(t), servers.NewCA(t)
	g := servers.StartGit(t, dir, servers.GitOptions{CA: ca, WantClient: true, User: "app", Password: secretText, Token: secretText + "t"})
	client := ca.Client(t, "initbox")
	with := func(who httpclient.Credentials) Options {
		return Options{HTTP: HTTP{Who: who, TLS: tlsconfig.Options{CAFile: ca.File, CertFile: client.CertFile, KeyFile: client.KeyFile}}}
	}
	url := g.URL + "/repo.git"
	for name, tt := range map[string]struct {
		url string
		who httpclient.Credentials
	}{
		"password file":       {url, httpclient.Credentials{User: "app", PasswordFile: file(t, secretText)}},
		"token file":          {url, httpclient.Credentials{TokenFile: file(t, secretText+"t")}},
		"header file":         {url, httpclient.Credentials{HeaderFiles: []string{file(t, "Authorization: Bearer "+secretText+"t")}}},
		"password in the URL": {strings.Replace(url, "//", "//app:"+secretText+"@", 1), httpclient.Credentials{}},
		"reference":           {strings.Replace(url, "//", "//app:${file:"+file(t, secretText)+"}@", 1), httpclient.Credentials{}},
	} {
		r, err := open(t, tt.url, with(tt.who))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if refs, err := r.Refs(t.Context(), "HEAD"); err != nil || len(refs) != 1 {
			t.Errorf("%s: %v, %v", name, refs, err)
		}
	}
	_, err := open(t, url, with(httpclient.Credentials{}))
	fails(t, err, failure.Authentication, "status 401 Unauthorized", "give --user and --password-file")
	_, err = open(t, url, with(httpclient.Credentials{User: "app", PasswordFile: file(t, secretText+"x")}))
	fails(t, err, failure.Authentication, "status 401 Unauthorized", "are the credentials right")
	_, err = open(t, strings.Replace(url, "//", "//app:"+secretText+"x@", 1), with(httpclient.Credentials{}))
	fails(t, err, failure.Authentication, "status 401 Unauthorized", "are the credentials right")
	_, err = open(t, url, Options{HTTP: HTTP{TLS: tlsconfig.Options{CAFile: ca.File}}})
	fails(t, err, failure.TLS, "refused the handshake", "--cert-file")
	_, err = open(t, url, Options{})
	fails(t, err, failure.TLS, "unknown authority", "--ca-file")
}

// TestRefusedByHTTP pins the errors for servers that are not Git servers, or refuse access.
func TestRefusedByHTTP(t *testing.T) {
	page := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	const advertisement = "application/x-git-upload-pack-advertisement"
	id := strings.Repeat("a", 40)
	for name, tt := range map[string]struct {
		answer     http.HandlerFunc
		class      failure.Class
		text, hint string
		never      bool
	}{
		"not found":     {page(404, "text/plain", ""), failure.NoRepository, "no such repository: status 404 Not Found", "hide private repositories", false},
		"forbidden":     {page(403, "text/plain", secretText), failure.Authentication, "status 403 Forbidden", "--token-file", false},
		"too many":      {page(429, "text/plain", ""), failure.Unexpected, "status 429 Too Many Requests", "", false},
		"unavailable":   {page(503, "text/plain", ""), failure.Unexpected, "status 503 Service Unavailable", "not ready", false},
		"web page":      {page(200, "text/html; charset=utf-8", "<html>log in"), failure.NoRepository, "the answer is a web page", "login page", false},
		"something":     {page(200, "image/png", "x"), failure.Unexpected, "its type is image/png", "is it a Git server", false},
		"no type":       {page(200, "", ""), failure.Unexpected, "not that of a Git server", "", false},
		"dumb":          {page(200, "text/plain", id+"\trefs/heads/main\n"), failure.Unexpected, "dumb HTTP protocol", "git http-backend", true},
		"garbage":       {page(200, advertisement, "hello there"), failure.Unexpected, "not in Git's protocol", "", false},
		"nothing":       {page(200, advertisement, ""), failure.Reset, "connection closed", "", false},
		"half":          {page(200, advertisement, "001e# service=git-uplo"), failure.Reset, "connection closed", "", false},
		"error":         {page(200, advertisement, "001e# service=git-upload-pack\n0000"+string(pktline.Append(nil, "ERR go \x1b[2Jaway\nnow!!"))), failure.Unexpected, `the server reported: go \x1b[2Jaway now!!`, "", false},
		"sha256":        {page(200, advertisement, "000eversion 2\n0019object-format=sha256\n0000"), failure.Unexpected, "uses SHA-256 object names, which initbox does not support", "", true},
		"sha256, old":   {page(200, advertisement, string(pktline.Append(nil, id+id[:24]+" HEAD\x00side-band"))), failure.Unexpected, "uses SHA-256 object names", "", true},
		"version 3":     {page(200, advertisement, "000eversion 3\n"), failure.Unexpected, "another version", "", false},
		"endless":       {page(200, advertisement, "000eversion 2\n"+strings.Repeat("0009abcde", maxFeatures+1)), failure.Unexpected, "is too long", "", false},
		"to the moon":   {redirect("ftp://example.com/repo/info/refs?service=git-upload-pack"), failure.Unexpected, "a URL that is not http or https", "", true},
		"to a page":     {redirect("/login?back=/repo"), failure.NoRepository, "redirected to something else", "login page", false},
		"to nowhere":    {page(302, "", ""), failure.Unexpected, "redirected to an invalid URL", "", false},
		"to no service": {redirect("/repo/info/refs"), failure.NoRepository, "redirected to something else", "", false},
		"in a circle": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) },
			failure.Unexpected, "redirected more than 10 times", "loop", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tt.answer)
			defer s.Close()
			_, err := open(t, s.URL+"/repo", Options{})
			fails(t, err, tt.class, tt.text, tt.hint)
			if poll.IsPermanent(err) != tt.never {
				t.Errorf("permanent: %t", !tt.never)
			}
		})
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusMovedPermanently)
	}
}

// TestRedirect pins that all requests follow the redirect of the first one, without the credentials.
func TestRedirect(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := makeRepository(t)
	main := revision(t, dir, "main")
	elsewhere := servers.StartGit(t, dir, servers.GitOptions{})
	home := servers.StartGit(t, dir, servers.GitOptions{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch rest, old := strings.CutPrefix(r.URL.Path, "/old"); {
			case old:
				http.Redirect(w, r, rest+"?"+r.URL.RawQuery, http.StatusFound)
			case strings.HasPrefix(r.URL.Path, "/away"):
				http.Redirect(w, r, strings.Replace(elsewhere.URL, "//", "//evil:password@", 1)+strings.TrimPrefix(r.URL.Path, "/away")+"?"+r.URL.RawQuery, http.StatusFound)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}})
	o := Options{HTTP: HTTP{Who: httpclient.Credentials{TokenFile: file(t, secretText), HeaderFiles: []string{file(t, "X-Own: "+secretText)}}}}
	for path, server := range map[string]*servers.Git{"/old": home, "/away": elsewhere} {
		before := len(server.Requests())
		r, err := open(t, home.URL+path+"/repo.git", o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Refs(t.Context(), "HEAD"); err != nil {
			t.Fatal(err)
		}
		a, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{main}, Depth: 1})
		if err != nil {
			t.Fatal(err)
		}
		if n := objects(t, a.Pack); n != 3 {
			t.Errorf("%s: %d objects", path, n)
		}
		requests := server.Requests()[before:]
		for i, r := range requests[len(requests)-3:] {
			if want := []string{"/repo.git/info/refs", "/repo.git/git-upload-pack", "/repo.git/git-upload-pack"}[i]; r.URL.Path != want {
				t.Errorf("%s: asked for %s, want %s", path, r.URL, want)
			}
			if told := strings.Contains(fmt.Sprint(r.Header), secretText); told != (server == home) {
				t.Errorf("%s: the secret is sent: %t: %v", path, told, r.Header)
			}
			if server == elsewhere && r.Header.Get("Authorization") != "" {
				t.Errorf("a redirect's own credentials are sent: %v", r.Header)
			}
		}
	}
}

func TestRedirectDown(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	ca := servers.NewCA(t)
	g := servers.StartGit(t, t.TempDir(), servers.GitOptions{CA: ca, Wrap: func(http.Handler) http.Handler {
		return redirect("http://127.0.0.1/repo.git/info/refs?service=git-upload-pack")
	}})
	_, err := open(t, g.URL+"/repo.git", Options{HTTP: HTTP{TLS: tlsconfig.Options{CAFile: ca.File}}})
	fails(t, err, failure.Unexpected, "redirected from https to http", "https://")
}

// TestNotGiven requests objects that the server does not have, or does not serve.
func TestNotGiven(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := makeRepository(t)
	repo := filepath.Join(dir, "repo.git")
	gone := revision(t, dir, "main~1")
	servers.RunGit(t, repo, "branch", "-D", "side")
	servers.RunGit(t, repo, "tag", "-d", "v1.0")
	none := plumbing.NewHash(strings.Repeat("ab", 20))
	for name, tt := range map[string]struct {
		o     servers.GitOptions
		id    plumbing.Hash
		err   error // nil: it works
		anyID bool
	}{
		"version 2, within":          {servers.GitOptions{}, gone, nil, true},
		"version 2, none":            {servers.GitOptions{}, none, ErrMoved, true},
		"version 0, within":          {servers.GitOptions{V0: true}, gone, nil, false}, // git does not say so, but gives it
		"version 0, none":            {servers.GitOptions{V0: true}, none, ErrNotAdvertised, false},
		"version 0, within, allowed": {servers.GitOptions{V0: true, Config: []string{"uploadpack.allowReachableSHA1InWant=true"}}, gone, nil, false},
		"version 0, none, reachable": {servers.GitOptions{V0: true, Config: []string{"uploadpack.allowReachableSHA1InWant=true"}}, none, ErrMoved, false},
		"version 0, none, allowed":   {servers.GitOptions{V0: true, Config: []string{"uploadpack.allowAnySHA1InWant=true"}}, none, ErrMoved, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := open(t, servers.StartGit(t, dir, tt.o).URL+"/repo.git", Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Capable(AnyID) != tt.anyID {
				t.Errorf("any id: %t", !tt.anyID)
			}
			a, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{tt.id}, Depth: 1})
			if tt.err == nil {
				if err != nil {
					t.Fatal(err)
				}
				if n := objects(t, a.Pack); n != 3 {
					t.Errorf("%d objects", n)
				}
				return
			}
			if !errors.Is(err, tt.err) || !errors.Is(err, ErrMoved) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			fails(t, err, failure.NoRevision, "not our ref "+tt.id.String(), "")
		})
	}
	u, _ := ParseURL(repo, nil)
	r, err := opened(t)(openCommands(t.Context(), u, Options{}, &pipe{t: t, repo: repo}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{gone}}); !errors.Is(err, ErrNotAdvertised) {
		t.Errorf("%v, want %v", err, ErrNotAdvertised)
	}
}

// TestCut ends the connection at every tenth byte of an answer.
func TestCut(t *testing.T) {
	t.Parallel()
	dir := makeRepository(t)
	main := revision(t, dir, "main")
	live, err := servers.GitHandler(dir, servers.GitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replay := &servers.Replay{Live: live}
	fetch := func(wrap func(http.Handler) http.Handler) (n int64, err error) {
		s := httptest.NewUnstartedServer(wrap(replay))
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		s.Start()
		defer s.Close()
		r, err := open(t, s.URL+"/repo.git", Options{})
		if err != nil {
			return 0, err
		}
		a, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{main}})
		if err != nil {
			return 0, err
		}
		defer a.Pack.Close()
		return io.Copy(io.Discard, a.Pack)
	}
	whole, err := fetch(func(h http.Handler) http.Handler { return h })
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < int(whole); n += 10 {
		if _, err := fetch(servers.CutAfter(n)); err == nil {
			t.Errorf("cut after %d bytes: no error", n)
		} else if f := failure.Of(err); f.Class != failure.Reset {
			t.Errorf("cut after %d bytes: %s: %v", n, f.Class, err)
		}
	}
}

// TestLies pins the errors for what a server may send instead of a pack.
func TestLies(t *testing.T) {
	band := func(n byte, text string) string { return string(pktline.Append(nil, string(n)+text)) }
	const pack = "000dpackfile\n"
	for name, tt := range map[string]struct {
		answer     string
		class      failure.Class
		text, read string
	}{
		"whole":             {pack + band(1, "PA") + band(2, "hm\r\n") + band(1, "") + band(1, "CK") + "0000", "", "", "PACK"},
		"an error":          {pack + band(1, "PA") + band(3, "upload-pack: \x07 out of "+secretText+"\n"), failure.Unexpected, `the server reported: upload-pack: \a out of […]`, "PA"},
		"another error":     {pack + band(1, "PA") + string(pktline.Append(nil, "ERR out of memory")), failure.Unexpected, "the server reported: out of memory", "PA"},
		"a long error":      {pack + band(3, strings.Repeat("x", 60000)), failure.Unexpected, strings.Repeat("x", 512) + "…", ""},
		"no flush":          {pack + band(1, "PACK"), failure.Reset, "connection closed", "PACK"},
		"a wrong band":      {pack + band(4, "PACK"), failure.Unexpected, "malformed in the middle", ""},
		"an empty packet":   {pack + "0004", failure.Unexpected, "malformed in the middle", ""},
		"a delimiter":       {pack + "0001", failure.Unexpected, "malformed in the middle", ""},
		"no packet":         {pack + "PACK", failure.Unexpected, "malformed in the middle", ""},
		"nothing":           {"", failure.Reset, "connection closed", ""},
		"no pack":           {"0000", failure.Unexpected, "no pack", ""},
		"a section":         {"000ahello\n0009abcde0001" + pack + band(1, "PACK") + "0000", "", "", "PACK"},
		"a section at end":  {"000ahello\n0000", failure.Unexpected, "no pack", ""},
		"malformed shallow": {"0011shallow-info\n"[:4] + "shallow-info\n" + "0010shallow none0001", failure.Unexpected, "where the history is truncated", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
					io.WriteString(w, "000eversion 2\n0012fetch=shallow\n0000")
					return
				}
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				io.WriteString(w, tt.answer)
			}))
			defer s.Close()
			r, err := open(t, s.URL, Options{HTTP: HTTP{Who: httpclient.Credentials{TokenFile: file(t, secretText)}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, by := range []func(io.Reader) (string, error){readSlowly, writeTo} {
				var got string
				a, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{{1}}, Depth: 1})
				if err == nil {
					got, err = by(a.Pack)
				}
				if got != tt.read {
					t.Errorf("read %q, want %q", got, tt.read)
				}
				if tt.class != "" {
					fails(t, err, tt.class, tt.text, "")
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestLies0 is TestLies for a server of version 0.
func TestLies0(t *testing.T) {
	const id = "0123456789012345678901234567890123456789"
	list := string(pktline.Append(nil, id+" HEAD\x00side-band shallow")) + "0000"
	for name, tt := range map[string]struct {
		said       string
		class      failure.Class
		text, read string
	}{
		"whole":             {"00000008NAK\n0009\x01PACK0000", "", "", "PACK"},
		"acknowledged":      {"0000003bACK " + id + " common   \n0031ACK " + id + "\n0009\x01PACK0000", "", "", "PACK"},
		"cut off":           {"00000008NAK\n0009\x01PACK", failure.Reset, "connection closed", "PACK"},
		"an error":          {"00000008NAK\n" + string(pktline.Append(nil, "\x03no memory")), failure.Unexpected, "the server reported: no memory", ""},
		"an early error":    {string(pktline.Append(nil, "ERR upload-pack: not our ref "+id)), failure.NoRevision, "not our ref", ""},
		"malformed shallow": {"000bshallow", failure.Unexpected, "where the history is truncated", ""},
		"no answer":         {"0000", failure.Reset, "connection closed", ""},
		"another answer":    {"00000008YES\n", failure.Unexpected, "no pack", ""},
	} {
		u, err := ParseURL("git://example.com/r", nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := opened(t)(openCommands(t.Context(), u, Options{}, script{strings.NewReader(list + tt.said)}))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		a, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{{1}}, Depth: 1})
		if err == nil {
			got, err = readSlowly(a.Pack)
		}
		if got != tt.read || tt.class == "" && err != nil {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
		if tt.class != "" {
			fails(t, err, tt.class, tt.text, "")
		}
	}
}

func readSlowly(r io.Reader) (string, error) {
	b, err := io.ReadAll(struct{ io.Reader }{r})
	return string(b), err
}

func writeTo(r io.Reader) (string, error) {
	var b bytes.Buffer
	_, err := r.(io.WriterTo).WriteTo(&b)
	return b.String(), err
}

// TestEndless pins the errors for lists of references that are wrong or endless.
func TestEndless(t *testing.T) {
	const id = "0123456789012345678901234567890123456789"
	advert0 := string(pktline.Append(nil, id+" HEAD\x00shallow symref=HEAD:refs/heads/main"))
	for name, tt := range map[string]struct {
		refs []string // lines
		want int
		text string
	}{
		"odd names": {[]string{id + " refs/heads/a", id + " refs/heads/a~b", id + " refs/heads/..", id + " refs/heads/x.lock", id + " refs/heads/\x1b[2J", id + " .have"}, 1, ""},
		"no id":     {[]string{"zzz refs/heads/a"}, 0, "malformed"},
		"no name":   {[]string{id}, 0, "malformed"},
	} {
		for version, advert := range map[string]string{"version 2": "000eversion 2\n000cls-refs\n0000", "version 0": advert0} {
			var list []byte
			for _, line := range tt.refs {
				list = pktline.Append(list, line+"\n")
			}
			list = pktline.AppendFlush(list)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
					io.WriteString(w, advert)
					if version == "version 2" {
						return
					}
				} else {
					w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				}
				w.Write(list)
			}))
			r, err := open(t, s.URL, Options{})
			if err != nil {
				t.Fatal(err)
			}
			refs, err := r.Refs(t.Context(), "refs/")
			if tt.text != "" {
				fails(t, err, failure.Unexpected, tt.text, "")
			} else if err != nil || version == "version 2" && len(refs) != tt.want {
				t.Errorf("%s, %s: %v, %v", name, version, refs, err)
			}
			s.Close()
		}
	}
}

// TestTooManyRefs pins the limit for references.
func TestTooManyRefs(t *testing.T) {
	k := &keeper{s: &server{transport: &commands{}, log: slog.New(slog.DiscardHandler)}}
	name := "refs/heads" + strings.Repeat("/"+strings.Repeat("x", 199), 20)
	for range maxNames / 4000 * 2 {
		if err := k.keep(Ref{Name: name, ID: plumbing.Hash{1}}); err != nil {
			fails(t, err, failure.Unexpected, "more than", "")
			return
		}
	}
	t.Error("kept them all")
}

// TestStalled pins the error for a server that stops sending, at each point where that can happen.
func TestStalled(t *testing.T) {
	for silent, method := range map[string]string{"000eversion 2\n": "GET", "000eversion 2\n0000": "POST"} {
		s, hang := httptest.NewUnstartedServer(nil), make(chan struct{})
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
				io.WriteString(w, silent)
			} else {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				io.WriteString(w, "000dpackfile\n0009\x01PACK")
			}
			http.NewResponseController(w).Flush()
			if r.Method == method {
				<-hang
			}
		})
		s.Start()
		r, err := open(t, s.URL, Options{Stall: 100 * time.Millisecond})
		if err == nil {
			var a *Answer
			if a, err = r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{{1}}}); err == nil {
				_, err = io.Copy(io.Discard, a.Pack)
			}
		}
		fails(t, err, failure.TimedOut, "stalled: the server has sent nothing for 100ms", "")
		close(hang)
		s.Close()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, scheme := range []string{"http://", "https://", "git://"} {
		_, err := open(t, scheme+l.Addr().String()+"/repo", Options{Stall: 100 * time.Millisecond})
		fails(t, err, failure.TimedOut, "stalled: the server has sent nothing for 100ms", "")
	}
}

// TestDaemonRefuses pins the errors of git://.
func TestDaemonRefuses(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	base := servers.StartGitDaemon(t, makeRepository(t))
	_, err := open(t, base+"/none.git", Options{})
	fails(t, err, failure.NoRepository, "no such repository: the server reported:", "not found, or not permitted")
	_, err = open(t, "git://"+servers.FreeAddr(t)+"/none.git", Options{})
	fails(t, err, failure.Refused, "connection refused", "")
}

func TestSHA256(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := t.TempDir()
	servers.RunGit(t, dir, "init", "-q", "--object-format=sha256", "work")
	servers.RunGit(t, filepath.Join(dir, "work"), "commit", "-q", "--allow-empty", "-m", "x")
	servers.RunGit(t, dir, "clone", "-q", "--bare", "work", "repo.git")
	for name, open := range versions(dir) {
		if strings.Contains(name, "features") || strings.Contains(name, "narrow") {
			continue // their test server cannot
		}
		_, err := open(t)
		fails(t, err, failure.Unexpected, "uses SHA-256 object names, which initbox does not support", "")
		if !poll.IsPermanent(err) {
			t.Errorf("%s: not permanent", name)
		}
	}
}

// TestProgress pins that the server's progress messages are logged.
func TestProgress(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	u, err := ParseURL("https://example.com/r", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{transport: &commands{}, url: u, log: log}
	s.progress([]byte("Counting objects: 10%\rCounting \x1b[K objects: 20%\n"))
	if got := b.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "\x1b") || !strings.Contains(got, "example.com") {
		t.Errorf("%q", got)
	}
}

// TestHTTPProxy pins that requests go through a proxy, which gets no credentials of the server.
func TestHTTPProxy(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir, ca := makeRepository(t), servers.NewCA(t)
	g := servers.StartGit(t, dir, servers.GitOptions{CA: ca})
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host + r.Header.Get("Authorization")
		up, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer up.Close()
		w.WriteHeader(http.StatusOK)
		down, received, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer down.Close()
		go io.Copy(up, received) // which may have read the first byte already
		io.Copy(down, up)
	}))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Proxy: at, HTTP: HTTP{TLS: tlsconfig.Options{CAFile: ca.File}, Who: httpclient.Credentials{TokenFile: file(t, secretText)}}}
	r, err := open(t, g.URL+"/repo.git", o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Refs(t.Context(), "HEAD"); err != nil {
		t.Error(err)
	}
	if first := <-asked; first != "CONNECT "+g.Host || len(asked) != 0 {
		t.Errorf("asked for %q, and %d times more", first, len(asked))
	}
	r.Close()
}

// TestElsewhere pins which options are used for servers other than that of the URL.
func TestElsewhere(t *testing.T) {
	o := Options{HTTP: HTTP{
		Who: httpclient.Credentials{TokenFile: "a"}, AskpassURL: "b", App: &GitHubApp{}, Netrc: "c", CookieFile: "d",
		TLS: tlsconfig.Options{CAFile: "e", CertFile: "f", KeyFile: "g", ServerName: "h"},
	}}
	want := Options{HTTP: HTTP{Netrc: "c", CookieFile: "d", TLS: tlsconfig.Options{CAFile: "e"}}}
	if got := o.Elsewhere(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// script is a stream that says what it is told to, whatever it is asked.
type script struct{ io.Reader }

func (s script) Write(p []byte) (int, error)          { return len(p), nil }
func (s script) Close() error                         { return nil }
func (s script) dial(context.Context) (stream, error) { return s, nil }

// FuzzServer has a server say anything at all. That it keeps to the protocol would be
// a coincidence: the client ends, and does not fall over.
func FuzzServer(f *testing.F) {
	const id = "0123456789012345678901234567890123456789"
	caps := "000eversion 2\n0013ls-refs=unborn\n0012fetch=shallow\n0000"
	f.Add([]byte(caps + string(pktline.Append(nil, id+" HEAD symref-target:refs/heads/main peeled:"+id)) + "0000000dpackfile\n0009\x01PACK0000"))
	f.Add([]byte(caps + "0000" + "0011shallow-info\n" + string(pktline.Append(nil, "shallow "+id)) + "0001000dpackfile\n0009\x02PACK0009\x03PACK"))
	f.Add([]byte(string(pktline.Append(nil, id+" HEAD\x00side-band shallow symref=HEAD:refs/heads/main")) + string(pktline.Append(nil, id+" refs/tags/a^{}")) + "0000" +
		string(pktline.Append(nil, "shallow "+id)) + "00000008NAK\n0009\x01PACK0000"))
	f.Add([]byte("000eversion 1\n0000"))
	f.Add([]byte("000cERR what"))
	u, err := ParseURL("git://example.com/r", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		r, err := openCommands(t.Context(), u, Options{}, script{bytes.NewReader(said)})
		if err != nil {
			return
		}
		defer r.Close()
		refs, _ := r.Refs(t.Context(), "HEAD", "refs/")
		for _, ref := range refs {
			if !validRef(ref.Name) || ref.Target != "" && !validRef(ref.Target) || ref.ID.IsZero() && ref.Target == "" {
				t.Errorf("%+v", ref)
			}
		}
		a, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{{1}}, Depth: 1, Filter: "blob:none"})
		if err == nil {
			n, _ := io.Copy(io.Discard, a.Pack)
			if n > int64(len(said)) {
				t.Errorf("%d bytes of %d", n, len(said))
			}
		}
	})
}
