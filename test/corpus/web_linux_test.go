package corpus_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"initbox/test/servers"
)

// names are the hosts of the rows; all are this machine.
var names = []string{
	"registry.example", "jdbc.example", "cdn.example", "github.example", "git.example", "download.example", "config.example",
	"raw.example", "maven.example", "snapshots.example", "objects.example", "tarballs.example", "dumps.example",
	"myeth-bootnode.default.example", "grafana.example", "storage.example", "myredis.example",
}

// hosts is the /etc/hosts of the containers.
var hosts = "127.0.0.1 localhost " + strings.Join(names, " ") + "\n"

// A web is all the servers that the rows know, on the ports 80 and 443, and one that only accepts connections, on 6379.
type web struct {
	ca      *servers.CA
	mu      sync.Mutex
	answers map[string]*served
	blobs   map[string][]byte // and manifests, by path
}

// served is what a URL answers.
type served struct {
	answer
	content  []byte
	requests int
}

func startWeb(t *testing.T) *web {
	w := &web{ca: servers.NewCA(t), answers: map[string]*served{}, blobs: map[string][]byte{}}
	pair := w.ca.Server(t, names...)
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(port string) net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	listen("6379") // the kernel accepts
	server := &http.Server{Handler: w}
	go server.Serve(listen("80"))
	go server.Serve(tls.NewListener(listen("443"), &tls.Config{Certificates: []tls.Certificate{cert}}))
	return w
}

// serve makes the servers answer.
func (w *web) serve(t *testing.T, answers map[string]answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for u, a := range answers {
		w.answers[u] = &served{answer: a, content: a.bytes(t)}
	}
	for _, s := range w.answers {
		for _, u := range s.Sums {
			s.content = fmt.Appendf(nil, "%064d  other.tar.gz\n%x  %s\n", 0, sha256.Sum256(w.answers[u].content), path.Base(u))
		}
	}
}

func (w *web) requests(answers map[string]answer) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for u := range answers {
		n += w.answers[u].requests
	}
	return n
}

func (a answer) bytes(t *testing.T) []byte {
	switch {
	case a.Gz != "":
		return gzipped([]byte(a.Gz))
	case a.TarGz != nil:
		return gzipped(tarOf(t, a.TarGz))
	case a.TarXz != nil:
		var b bytes.Buffer
		x, err := xz.NewWriter(&b)
		if err == nil {
			_, err = x.Write(tarOf(t, a.TarXz))
		}
		if err == nil {
			err = x.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	return []byte(a.Text)
}

// ServeHTTP answers as the servers of a row do, with an ETag, Last-Modified and ranges.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if r.Host == "registry.example" {
		w.serveRegistry(rw, r)
		return
	}
	s := w.answers[scheme+"://"+r.Host+r.RequestURI]
	if s == nil {
		http.NotFound(rw, r)
		return
	}
	s.requests++
	name, value, _ := strings.Cut(s.Header, ": ")
	switch {
	case r.Header.Get(name) != value:
		http.Error(rw, "not without "+name, http.StatusUnauthorized)
	case s.To != "":
		http.Redirect(rw, r, s.To, http.StatusFound)
	case s.requests <= s.Empty:
		rw.WriteHeader(http.StatusOK)
	default:
		rw.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(s.content)))
		http.ServeContent(rw, r, "", time.Unix(1e9, 0), bytes.NewReader(s.content))
	}
}

// push puts an image into the registry, under a name and a tag.
func (w *web) push(t *testing.T, repository string, files map[string]string) {
	image := servers.NewImage(t, runtime.GOARCH, gzipped(tarOf(t, files)))
	name, tag, _ := strings.Cut(repository, ":")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, reference := range []string{tag, servers.DigestOf(image.Manifest)} {
		w.blobs["/v2/"+name+"/manifests/"+reference] = image.Manifest
	}
	for _, blob := range image.Blobs {
		w.blobs["/v2/"+name+"/blobs/"+servers.DigestOf(blob)] = blob
	}
}

// serveRegistry answers as a registry does that anyone may read
// (https://github.com/opencontainers/distribution-spec, Pull).
func (w *web) serveRegistry(rw http.ResponseWriter, r *http.Request) {
	content, ok := w.blobs[r.URL.Path]
	switch {
	case r.URL.Path == "/v2/":
	case !ok:
		http.NotFound(rw, r)
	default:
		rw.Header().Set("Content-Type", "application/octet-stream")
		if strings.Contains(r.URL.Path, "/manifests/") {
			rw.Header().Set("Content-Type", servers.MediaManifest)
		}
		rw.Header().Set("Docker-Content-Digest", servers.DigestOf(content))
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// tarOf returns a tar file with these files and their directories, all of root.
func tarOf(t *testing.T, files map[string]string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = io.Copy(w, bytes.NewReader(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dirs := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s, err := parseSpec(files[name])
		if err != nil {
			t.Fatal(err)
		}
		name = strings.TrimPrefix(name, "/")
		var above []string
		for dir := path.Dir(name); !dirs[dir]; dir = path.Dir(dir) {
			above, dirs[dir] = append(above, dir), true
		}
		slices.Reverse(above)
		for _, dir := range above {
			put(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
		}
		h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, ModTime: time.Unix(1e9, 0)}
		if s.link != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, s.link, 0o777
		}
		if s.mode >= 0 {
			h.Mode = s.mode
		}
		put(h, s.bytes())
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
