package sidecars

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"initbox/test/fakeapi"
	"initbox/test/registries"
	"initbox/test/servers"
)

// door is an HTTP server that comes and goes at one address.
type door struct {
	addr    string
	handler http.Handler
	server  *http.Server
}

func (d *door) open(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", d.addr)
	for deadline := time.Now().Add(servers.Patience); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // another program has taken the port meanwhile
		l, err = net.Listen("tcp", d.addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.server = &http.Server{Handler: d.handler, ErrorLog: log.New(devNull{}, "", 0)}
	go d.server.Serve(l)
}

// close ends the server, with all its connections.
func (d *door) close() { d.server.Close() }

type devNull struct{}

func (devNull) Write(p []byte) (int, error) { return len(p), nil }

// world is what the sidecars look at: a repository, a Kubernetes API, a registry, a mounted Secret and a mounted
// ConfigMap; and the application that they notify. All but the registry have one version.
type world struct {
	dir                     string
	git, api, registry, app *door
	objects                 *fakeapi.Server
	entries                 *registries.Eureka

	mu      sync.Mutex
	version int
	told    map[string]int // which version each sidecar had in place when it last called the application
}

// sidecar is one of those that run.
type sidecar struct {
	name    string
	args    []string
	version func() int // which version it has in place; 0 for none
	cmd     *exec.Cmd
	log     *servers.Output
}

func newWorld(t *testing.T) *world {
	servers.Need(t, "git")
	w := &world{dir: t.TempDir(), objects: fakeapi.New(), entries: new(registries.Eureka), told: map[string]int{}}
	for _, dir := range []string{"repos/app", "secret", "config", "templates"} {
		if err := os.MkdirAll(filepath.Join(w.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	servers.RunGit(t, w.path("repos/app"), "init", "-q")
	w.write(t, "templates/version.tmpl", "{{ .Values.version }}")
	repos, err := servers.GitHandler(w.path("repos"), servers.GitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for d, handler := range map[**door]http.Handler{&w.git: repos, &w.api: w.objects, &w.registry: w.entries, &w.app: http.HandlerFunc(w.notified)} {
		*d = &door{addr: servers.FreeAddr(t), handler: handler}
	}
	w.write(t, "kubeconfig", fakeapi.Kubeconfig("http://"+w.api.addr))
	w.change(t)
	for _, d := range w.doors() {
		d.open(t)
		t.Cleanup(func() { d.close() })
	}
	return w
}

func (w *world) doors() []*door { return []*door{w.git, w.api, w.registry, w.app} }

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// write writes a file as the kubelet changes mounts: by a rename.
func (w *world) write(t *testing.T, name, content string) {
	t.Helper()
	temporary := w.path(name + ".new")
	if err := os.WriteFile(temporary, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, w.path(name)); err != nil {
		t.Fatal(err)
	}
}

// change makes the next version of everything.
func (w *world) change(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	w.version++
	version := strconv.Itoa(w.version)
	w.mu.Unlock()
	w.write(t, "repos/app/version", version)
	servers.RunGit(t, w.path("repos/app"), "add", "version")
	servers.RunGit(t, w.path("repos/app"), "commit", "-qm", version)
	object := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"app": "web"}}, "data": {"version": "` + version + `"}}`
	if err := w.objects.Apply(object); err != nil {
		t.Fatal(err)
	}
	w.write(t, "config/values.yaml", "version: "+version)
	cert, key := pair(t, version)
	w.write(t, "secret/tls.key", key) // half a renewal, for a moment
	w.write(t, "secret/tls.crt", cert)
}

// pair returns a certificate, whose subject is the version, and its key.
func pair(t *testing.T, version string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := strconv.ParseInt(version, 10, 64)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: version}, NotAfter: time.Now().AddDate(0, 0, 2)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", pkcs8)
}

// sidecars returns all sidecars, which have not started.
func (w *world) sidecars(t *testing.T) []*sidecar {
	file := func(name string) func() int {
		return func() int {
			content, _ := os.ReadFile(w.path(name))
			version, _ := strconv.Atoi(strings.TrimSpace(string(content)))
			return version
		}
	}
	stored := func() int {
		content, _ := os.ReadFile(w.path("store.pem"))
		for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
				return int(cert.SerialNumber.Int64())
			}
		}
		return 0
	}
	registered := func() int { // it has no version: its entry is there or not
		if len(w.entries.Entries()) != 1 {
			return 0
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.version
	}
	const watch = "--watch=500ms"
	return []*sidecar{
		{name: "git-clone", args: []string{"http://" + w.git.addr + "/app", w.path("clone"), "--link=current", watch}, version: file("clone/current/version")},
		{name: "kube-get", args: []string{"k8s:configmaps?selector=app=web", watch, w.path("objects/")}, version: file("objects/version")},
		{name: "keystore", args: []string{"--cert-file=" + w.path("secret/tls.crt"), "--key-file=" + w.path("secret/tls.key"), "--pem=" + w.path("store.pem"), watch}, version: stored},
		{name: "render", args: []string{w.path("templates") + ":" + w.path("rendered"), "--values=" + w.path("config/values.yaml"), watch}, version: file("rendered/version")},
		{name: "register", args: []string{"--url=http://" + w.registry.addr + "/eureka", "--preset=eureka", "--service=web", "--port=8080", "--hold", "--heartbeat=500ms"}, version: registered},
	}
}

// start starts a sidecar.
func (w *world) start(t *testing.T, s *sidecar) {
	t.Helper()
	s.log = new(servers.Output)
	args := append([]string{s.name}, s.args...)
	if s.name != "register" {
		args = append(args, "--webhook-url=http://"+w.app.addr+"/"+s.name, "--webhook-timeout=1s")
	}
	s.cmd = exec.Command(program, args...)
	s.cmd.Env = []string{"KUBECONFIG=" + w.path("kubeconfig"), "POD_NAME=web-0", "POD_NAMESPACE=shop", "POD_IP=10.1.2.3"}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = servers.DieWithParent()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		if text := s.log.String(); t.Failed() {
			t.Logf("%s said, at the end:\n%s", s.name, text[max(0, len(text)-4000):])
		}
	})
}

// notified is the application: a call at /NAME says that the sidecar NAME has put something in place.
func (w *world) notified(_ http.ResponseWriter, r *http.Request) {
	for _, s := range w.sidecars(nil) {
		if r.URL.Path == "/"+s.name {
			version := s.version()
			w.mu.Lock()
			w.told[s.name] = version
			w.mu.Unlock()
		}
	}
}

// behind says what is not up to date, or returns "".
func (w *world) behind(sidecars []*sidecar) string {
	var late []string
	for _, s := range sidecars {
		version := s.version()
		w.mu.Lock()
		told, want := w.told[s.name], w.version
		w.mu.Unlock()
		if s.name == "register" {
			told = want
		}
		if version != want || told != want {
			late = append(late, fmt.Sprintf("%s has version %d and told the application of %d, of %d", s.name, version, told, want))
		}
	}
	return strings.Join(late, "; ")
}

// settle waits until all are up to date.
func (w *world) settle(t *testing.T, sidecars []*sidecar) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	for {
		late := w.behind(sidecars)
		if late == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %v: %s", servers.Patience, late)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
