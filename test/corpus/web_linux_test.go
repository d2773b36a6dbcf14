package corpus_test

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
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

// A web is what all Pods share: the CA of the servers, and the registry, on port 443.
type web struct {
	ca    *servers.CA
	cert  tls.Certificate // of all hosts of the rows
	mu    sync.Mutex
	blobs map[string][]byte // and manifests, by path
}

func startWeb(t *testing.T, rows []row) *web {
	w := &web{ca: servers.NewCA(t), blobs: map[string][]byte{}}
	hosts := map[string]bool{registry: true}
	for _, r := range rows {
		for _, run := range r.runs() {
			for u := range run.Server {
				if u, err := url.Parse(u); err == nil && u.Hostname() != "" {
					hosts[u.Hostname()] = true
				}
			}
		}
	}
	makePEMs(t)
	w.cert = w.certificate(t, slices.Sorted(maps.Keys(hosts))...)
	l := listen(t, "127.0.0.1:443")
	go http.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{w.cert}}), http.HandlerFunc(w.serveRegistry))
	return w
}

// registry is the host of the images; each Pod has an address of its own for the other hosts of its row.
const registry = "registry.example"

func (w *web) certificate(t *testing.T, hosts ...string) tls.Certificate {
	pair := w.ca.Server(t, hosts...)
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func listen(t *testing.T, addr string) net.Listener {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
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
	w.mu.Lock()
	defer w.mu.Unlock()
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
