package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// fake is a registry in memory, which says what the test wants it to say.
type fake struct {
	*httptest.Server
	host      string
	manifests map[string]servers.Image // by REPOSITORY:TAG and REPOSITORY@DIGEST
	blobs     map[string][]byte

	// before handles a request, or returns false.
	before func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests []*http.Request
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{manifests: map[string]servers.Image{}, blobs: map[string][]byte{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	f.host = strings.TrimPrefix(f.URL, "http://")
	return f
}

func (f *fake) push(repository, tag string, i servers.Image) {
	f.manifests[repository+":"+tag] = i
	f.manifests[repository+"@"+servers.DigestOf(i.Manifest)] = i
	for _, content := range i.Blobs {
		f.blobs[servers.DigestOf(content)] = content
	}
	for _, part := range i.Parts {
		f.push(repository, servers.DigestOf(part.Manifest), part)
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	if f.before != nil && f.before(w, r) {
		return
	}
	rest := strings.TrimPrefix(r.URL.Path, "/v2/")
	if repository, reference, ok := strings.Cut(rest, "/manifests/"); ok {
		i, found := f.manifests[repository+":"+reference]
		if !found {
			i, found = f.manifests[repository+"@"+reference]
		}
		if found {
			w.Header().Set("Content-Type", i.MediaType)
			w.Header().Set("Docker-Content-Digest", servers.DigestOf(i.Manifest))
			w.Write(i.Manifest)
			return
		}
	}
	if _, digest, ok := strings.Cut(rest, "/blobs/"); ok && f.blobs[digest] != nil {
		http.ServeContent(w, r, "", noTime, bytes.NewReader(f.blobs[digest]))
		return
	}
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
}

// count returns how many requests had a method, and a path that contains part.
func (f *fake) count(method, part string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if r.Method == method && strings.Contains(r.URL.Path, part) {
			n++
		}
	}
	return n
}

// result is what was fetched: a line for each name.
type result map[string]string

func (r result) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		lines = append(lines, name+" "+r[name])
	}
	return strings.Join(lines, "\n")
}

// put adds an entry as an unpacker would.
func (r result) put(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		r[h.Name] = fmt.Sprintf("dir %o", h.Mode)
	case tar.TypeSymlink:
		r[h.Name] = "-> " + h.Linkname
	case tar.TypeLink:
		if r[h.Linkname] == "" {
			return fmt.Errorf("the hard link %s comes before %s", h.Name, h.Linkname)
		}
		r[h.Name] = r[h.Linkname]
	default:
		text, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if int64(len(text)) != h.Size {
			return fmt.Errorf("%s has %d bytes and not %d", h.Name, len(text), h.Size)
		}
		r[h.Name] = fmt.Sprintf("%o %s", h.Mode, text)
	}
	for dir := filepath.Dir(h.Name); dir != "."; dir = filepath.Dir(dir) {
		if r[dir] == "" {
			r[dir] = "dir 755"
		}
	}
	return nil
}

func options(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	dialer := new(net.Dialer)
	return Options{
		HTTP: httpclient.Options{Dial: dialer.DialContext},
		Temp: func() (*os.File, error) {
			f, err := os.CreateTemp(dir, "")
			if err == nil {
				err = os.Remove(f.Name())
			}
			return f, err
		},
	}
}

// fetch fetches a path of what is at host.
func fetch(t *testing.T, reference, path string, change ...func(*Options)) (result, error) {
	t.Helper()
	o := options(t)
	o.Path = path
	host, _, _ := strings.Cut(reference, "/")
	o.PlainHTTP = []string{host}
	for _, f := range change {
		f(&o)
	}
	i, err := Open("oci://"+reference, o)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	got := result{}
	err = i.Fetch(context.Background(), got.put)
	return got, err
}

// hintOf returns the hint of an error.
func hintOf(err error) string {
	if err == nil {
		return ""
	}
	return failure.Of(err).Hint
}
