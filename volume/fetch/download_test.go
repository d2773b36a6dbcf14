package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/setting"
)

// content is longer than what is on its way between the goroutines.
var content = func() []byte {
	b := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

func hexSum(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

// got is what a download wrote.
type got struct {
	bytes.Buffer
	undone int
	d      *download
}

// fetched downloads a URL with settings.
func fetched(t *testing.T, url string, o Options, prev *version) (*got, *version, error) {
	t.Helper()
	src, err := Parse(url, setting.Settings{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.MaxSize == 0 {
		o.MaxSize = 1 << 30
	}
	o.Log = slog.New(slog.DiscardHandler)
	g := &got{}
	g.d = &download{
		o: &o, src: src, prev: prev,
		write: func(_ context.Context, r io.Reader) error { _, err := io.Copy(&g.Buffer, r); return err },
		undo:  func() error { g.Reset(); g.undone++; return nil },
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := g.d.run(ctx)
	return g, v, err
}

// breaking serves content, breaks the first answers off at the middle of what is left of it, and counts requests.
type breaking struct {
	breaks   int64 // how many
	requests atomic.Int64
	tag      func(request int64) string
	ranges   func(w http.ResponseWriter, r *http.Request) bool // an answer of its own to a Range
	seen     []string                                          // the ranges
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := b.requests.Add(1)
	b.seen = append(b.seen, r.Header.Get("Range"))
	w.Header().Set("ETag", `"1"`)
	if b.tag != nil {
		w.Header().Set("ETag", b.tag(n))
	}
	if b.ranges != nil && r.Header.Get("Range") != "" && b.ranges(w, r) {
		return
	}
	if n <= b.breaks {
		w = &breakingWriter{w, len(content) / 2}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// breakingWriter closes the connection after so many bytes.
type breakingWriter struct {
	http.ResponseWriter
	left int
}

func (w *breakingWriter) Write(p []byte) (int, error) {
	if len(p) >= w.left {
		w.ResponseWriter.Write(p[:w.left])
		http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	w.left -= len(p)
	return w.ResponseWriter.Write(p)
}

// TestResume pins that a download which breaks off goes on where it broke off, and only then.
func TestResume(t *testing.T) {
	t.Parallel()
	otherPart := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-9/%d", len(content)))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(content[:10])
		return true
	}
	for name, tt := range map[string]struct {
		server *breaking
		undone int // times the beginning was thrown away
	}{
		"once":               {&breaking{breaks: 1}, 0},
		"often":              {&breaking{breaks: 3}, 0},
		"weak tag":           {&breaking{breaks: 1, tag: func(int64) string { return `W/"1"` }}, 1},
		"changed":            {&breaking{breaks: 1, tag: func(n int64) string { return fmt.Sprintf(`"%d"`, n) }}, 1},
		"another part":       {&breaking{breaks: 1, ranges: otherPart}, 1},
		"not satisfiable":    {&breaking{breaks: 1, ranges: func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(416); return true }}, 1},
		"whole answer":       {&breaking{breaks: 1, ranges: func(w http.ResponseWriter, _ *http.Request) bool { w.Write(content); return true }}, 1},
		"busy in the middle": {&breaking{breaks: 1, ranges: onceBusy()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(tt.server)
			defer s.Close()
			g, v, err := fetched(t, s.URL+"/f#sha256="+hexSum(content), Options{Spread: time.Millisecond}, nil)
			if err != nil || !bytes.Equal(g.Bytes(), content) || v.SHA256 != hexSum(content) {
				t.Fatalf("%d bytes, %+v, %v", g.Len(), v, err)
			}
			if g.undone != tt.undone {
				t.Errorf("begun again %d times, want %d; ranges %q", g.undone, tt.undone, tt.server.seen)
			}
		})
	}
}

func onceBusy() func(w http.ResponseWriter, r *http.Request) bool {
	var n atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1) > 1 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "not now")
		return true
	}
}

// TestHostile pins the errors for servers that would fill the disk, send an error as a file, or never end.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serve    http.HandlerFunc
		settings string
		want     string
	}{
		"not found":    {http.NotFound, "", "status 404 Not Found"},
		"no content":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "", "status 204 No Content, without a file"},
		"unasked part": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206) }, "", "status 206 Partial Content, without a file"},
		"unasked 304":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "", "status 304 Not Modified, without a file"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; {
				_, err = w.Write(content)
			}
		}, "", "longer than 10.0 MB"},
		"large":          {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "20000000") }, "", "longer than 10.0 MB"},
		"other content":  {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }, "#sha256=" + hexSum(content), "the checksum does not match: sha256 of the 1 byte is " + hexSum([]byte("x"))},
		"other content2": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }, "#sha512=" + strings.Repeat("0", 128), "the checksum does not match: sha512 of"},
		"compressed":     {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") }, "", "compresses the answer (gzip)"},
		"loop":           {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/f", http.StatusFound) }, "", "redirected more than 10 times"},
		"to a file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "", "not http or https"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(tt.serve)
			defer s.Close()
			g, _, err := fetched(t, s.URL+"/f"+tt.settings, Options{MaxSize: 10e6}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !poll.IsPermanent(err) || g.Len() > 0 {
				t.Errorf("%v, with %d bytes left, want %q", err, g.Len(), tt.want)
			}
		})
	}
}

// TestStalled pins that a server which stops sending is given up, and asked for the rest.
func TestStalled(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if n.Add(1) > 1 {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Write(content[:1000])
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	g, _, err := fetched(t, s.URL+"/f", Options{AttemptTimeout: 100 * time.Millisecond}, nil)
	if err != nil || !bytes.Equal(g.Bytes(), content) || g.undone > 0 {
		t.Errorf("%d bytes, %d times begun again, %v", g.Len(), g.undone, err)
	}
}

// TestUnchanged pins that a content that is there is not sent again, and not even asked for if its checksum is pinned.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	server := &breaking{}
	s := httptest.NewServer(server)
	defer s.Close()
	prev := &version{sums: sums{SHA256: hexSum(content)}, ETag: `"1"`}
	other := &version{sums: sums{SHA256: hexSum(nil)}, ETag: `"1"`}
	for _, tt := range []struct {
		settings string
		prev     *version
		same     bool
		requests int64
	}{
		{"", prev, true, 1},
		{"#sha256=" + hexSum(content), prev, true, 0},
		{"#sha256=" + hexSum(content), other, false, 1}, // another version is wanted, whatever its tag
		{"", &version{ETag: `"0"`}, false, 1},
	} {
		before := server.requests.Load()
		g, v, err := fetched(t, s.URL+"/f"+tt.settings, Options{}, tt.prev)
		if err != nil || g.d.same != tt.same || (g.Len() == 0) != tt.same || server.requests.Load()-before != tt.requests || v.ETag != `"1"` {
			t.Errorf("%s, %+v: same %t, %d bytes, %d requests, %+v, %v", tt.settings, tt.prev, g.d.same, g.Len(), server.requests.Load()-before, v, err)
		}
	}
}

// TestConsumerFails pins that the error of what writes ends the download at once.
func TestConsumerFails(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for err := error(nil); err == nil; {
			_, err = w.Write(content)
		}
	}))
	defer s.Close()
	o := Options{MaxSize: 1 << 40, Log: slog.New(slog.DiscardHandler)}
	src, _ := Parse(s.URL+"/f", nil, nil)
	bad := errors.New("not a tar")
	d := &download{o: &o, src: src, undo: func() error { return nil }, write: func(_ context.Context, r io.Reader) error {
		io.CopyN(io.Discard, r, 1<<20)
		return bad
	}}
	if _, err := d.run(t.Context()); !errors.Is(err, bad) || !poll.IsPermanent(err) {
		t.Error(err)
	}
}

// TestRetryStatus pins that 404 is retried only if that is asked for, and that a small answer is with min-size.
func TestRetryStatus(t *testing.T) {
	t.Parallel()
	for settings, busy := range map[string]func(w http.ResponseWriter){
		"#retry-status=404": func(w http.ResponseWriter) { w.WriteHeader(404) },
		"#min-size=1":       func(w http.ResponseWriter) {},
		"":                  func(w http.ResponseWriter) { w.Header().Set("Retry-After", "0"); w.WriteHeader(429) },
	} {
		var n atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1) < 3 {
				busy(w)
				return
			}
			io.WriteString(w, "there")
		}))
		g, _, err := fetched(t, s.URL+"/f"+settings, Options{Spread: time.Millisecond}, nil)
		if err != nil || g.String() != "there" {
			t.Errorf("%s: %q, %v", settings, g.String(), err)
		}
		s.Close()
	}
}

// TestCredentials pins that credentials go to the URL's origin only, wherever it redirects.
func TestCredentials(t *testing.T) {
	t.Parallel()
	var elsewhere http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { elsewhere = r.Header; io.WriteString(w, "file") }))
	defer other.Close()
	var there http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there = r.Header
		http.Redirect(w, r, other.URL+"/x?signature=1", http.StatusFound)
	}))
	defer s.Close()
	dir := t.TempDir()
	writeFile(t, dir+"/token", "hunter22")
	writeFile(t, dir+"/headers", "X-Api-Key: secret99\n")
	g, _, err := fetched(t, s.URL+"/f#token-file="+dir+"/token&header-file="+dir+"/headers&header=Accept:text/plain", Options{}, nil)
	if err != nil || g.String() != "file" {
		t.Fatal(g.String(), err)
	}
	if there.Get("Authorization") != "Bearer hunter22" || there.Get("X-Api-Key") != "secret99" || there.Get("Accept") != "text/plain" {
		t.Errorf("the server got %v", there)
	}
	if text := fmt.Sprint(elsewhere); strings.Contains(text, "hunter22") || strings.Contains(text, "secret99") {
		t.Errorf("the other server got %s", text)
	}
	writeFile(t, dir+"/netrc", "machine 127.0.0.1 login ann password pa55word")
	if _, _, err = fetched(t, s.URL+"/f#netrc="+dir+"/netrc", Options{}, nil); err != nil {
		t.Fatal(err)
	}
	if user, password, _ := (&http.Request{Header: there}).BasicAuth(); user != "ann" || password != "pa55word" {
		t.Errorf("the server got %v", there)
	}
}

// TestRefusedElsewhere pins whose refusal it is.
func TestRefusedElsewhere(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL+"/x?signature=hunter22", http.StatusFound))
	defer s.Close()
	_, _, err := fetched(t, s.URL+"/f", Options{}, nil)
	f := failure.Of(err)
	if !strings.Contains(f.Text, "redirected to another server: status 403") || strings.Contains(err.Error(), "hunter22") {
		t.Error(err)
	}
}
