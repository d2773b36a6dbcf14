package corpus_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"initbox/test/fakeapi"
	"initbox/test/servers"
	"initbox/test/webdatabases"
)

// hosts are the servers that one Pod knows, at loopback addresses of its own.
type hosts struct {
	t     *testing.T
	web   *web
	addr  string            // of the API server and of the name server
	addrs map[string]string // of the others, by name
	mu    sync.Mutex
	known map[string]*known // by URL
	api   *fakeapi.Server   // nil if the Pod has no API server

	said    chan struct{} // closed when a container of the Pod has said something
	hasSaid func()
}

// known is what a URL answers.
type known struct {
	answer
	content  []byte
	handler  http.Handler // of a URL of a whole server, such as a repository's
	requests int          // or connections, of a server that does not speak HTTP
}

var lastAddr atomic.Uint32

// startHosts starts the servers of a run.
func startHosts(t *testing.T, w *web, r run) *hosts {
	n := lastAddr.Add(1)
	network := fmt.Sprintf("127.%d.%d.", 1+n/250, n%250)
	h := &hosts{t: t, web: w, addr: network + "1", addrs: map[string]string{}, known: map[string]*known{}}
	h.said = make(chan struct{})
	h.hasSaid = sync.OnceFunc(func() { close(h.said) })
	for u, a := range r.Server {
		h.known[u] = &known{answer: a, content: a.bytes(t)}
	}
	for _, k := range h.known {
		for _, u := range k.Sums {
			k.content = fmt.Appendf(nil, "%064d  other.tar.gz\n%x  %s\n", 0, sha256.Sum256(h.known[u].content), path.Base(u))
		}
	}
	listening := map[string]bool{}
	for _, text := range slices.Sorted(maps.Keys(r.Server)) {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if u.Scheme == "dns" {
			h.startDNS(u.Opaque, h.known[text])
			continue
		}
		if h.addrs[u.Hostname()] == "" {
			h.addrs[u.Hostname()] = network + fmt.Sprint(len(h.addrs)+2)
		}
		port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		if addr := net.JoinHostPort(h.addrs[u.Hostname()], port); !listening[addr] {
			listening[addr] = true
			h.start(text, u.Scheme, addr)
		}
		if h.known[text].Git != nil {
			h.known[text].handler = h.git(h.known[text].answer, u.Path)
		}
	}
	if r.Cluster != nil {
		h.startCluster(r)
	}
	return h
}

// start starts the server of a URL, or, for HTTP, that of all URLs with this address.
func (h *hosts) start(text, scheme, addr string) {
	k := h.known[text]
	switch scheme {
	case "http":
		h.serve(addr, nil, h)
	case "https":
		h.serve(addr, &h.web.cert, h)
	case "clickhouse":
		user, password, _ := strings.Cut(k.Login, ":")
		o := webdatabases.Options{"user": user, "password": password, "value": k.Text, "database": k.Database, "after": fmt.Sprint(k.Late)}
		handler := webdatabases.Kinds[scheme](o)
		h.serve(addr, nil, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { h.late(k); handler.ServeHTTP(rw, r) }))
	case "tcp":
		go func() {
			select {
			case <-h.said: // that the connection is refused
			case <-h.t.Context().Done():
				return
			}
			h.converse(addr, scheme, k)
		}()
	default:
		h.converse(addr, scheme, k)
	}
}

// converse accepts connections, and closes the first ones if the server is late.
func (h *hosts) converse(addr, scheme string, k *known) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		h.t.Error(err)
		return
	}
	context.AfterFunc(h.t.Context(), func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if !h.late(k) {
					speaks[scheme](c, k.answer)
				}
			}()
		}
	}()
}

// Write is told what the containers say.
func (h *hosts) Write(p []byte) (int, error) {
	h.hasSaid()
	return len(p), nil
}

// serve serves HTTP, with a certificate HTTPS.
func (h *hosts) serve(addr string, cert *tls.Certificate, handler http.Handler) {
	l := listen(h.t, addr)
	if cert != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert}})
	}
	server := &http.Server{Handler: handler, Protocols: webdatabases.Protocols(), ErrorLog: log.New(io.Discard, "", 0)}
	h.t.Cleanup(func() { server.Close() })
	go server.Serve(l)
}

// late counts a request, and returns whether the server is not ready for it.
func (h *hosts) late(k *known) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	k.requests++
	return k.requests <= k.Late
}

// ServeHTTP answers as the servers of a row do, with an ETag, Last-Modified and ranges.
func (h *hosts) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	k := h.known[scheme+"://"+r.Host+r.RequestURI]
	for u, other := range h.known {
		if other.handler != nil && strings.HasPrefix(scheme+"://"+r.Host+r.RequestURI, u+"/") {
			h.late(other)
			other.handler.ServeHTTP(rw, r)
			return
		}
	}
	if k == nil {
		http.NotFound(rw, r)
		return
	}
	late := h.late(k)
	h.mu.Lock()
	early := k.requests <= k.Empty
	h.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	name, value, _ := strings.Cut(k.Header, ": ")
	user, password, _ := r.BasicAuth()
	switch {
	case k.Login != "" && user+":"+password != k.Login:
		http.Error(rw, "not without a login", http.StatusUnauthorized)
	case r.Header.Get(name) != value:
		http.Error(rw, "not without "+name, http.StatusUnauthorized)
	case k.Wants != "" && r.Method+" "+r.Header.Get("Content-Type")+" "+string(body) != k.Wants:
		http.Error(rw, "not that", http.StatusBadRequest)
	case late:
		http.Error(rw, "not yet", http.StatusServiceUnavailable)
	case k.To != "":
		http.Redirect(rw, r, k.To, http.StatusFound)
	case early:
		rw.WriteHeader(http.StatusOK)
	default:
		rw.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(k.content)))
		http.ServeContent(rw, r, "", time.Unix(1e9, 0), strings.NewReader(string(k.content)))
	}
}

// requests returns how many requests all URLs have got.
func (h *hosts) requests() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.known {
		n += k.requests
	}
	return n
}

// unasked returns the URLs of servers that were late, but are still not ready: nothing asked them again.
func (h *hosts) unasked() (urls []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for u, k := range h.known {
		if k.Late > 0 && k.requests <= k.Late {
			urls = append(urls, u)
		}
	}
	return urls
}

// files returns /etc/hosts and /etc/resolv.conf.
func (h *hosts) files() (hosts, resolv string) {
	hosts = "127.0.0.1 localhost " + registry + "\n"
	for _, name := range slices.Sorted(maps.Keys(h.addrs)) {
		hosts += h.addrs[name] + " " + name + "\n"
	}
	return hosts, "nameserver " + h.addr + "\n"
}

// startDNS starts a name server that knows one name, and denies it at first.
func (h *hosts) startDNS(name string, k *known) {
	name = dns.Fqdn(name)
	conn, err := net.ListenPacket("udp", h.addr+":53")
	if err != nil {
		h.t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		reply := new(dns.Msg).SetReply(query)
		reply.RecursionAvailable = true
		q := query.Question[0]
		if strings.EqualFold(q.Name, name) && q.Qtype == dns.TypeA && !h.late(k) {
			for _, address := range k.Records {
				reply.Answer = append(reply.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: q.Qclass, Ttl: 1}, A: net.ParseIP(address)})
			}
		} else {
			soa, _ := dns.NewRR(". 0 IN SOA ns.test. root.test. 1 3600 600 86400 0")
			reply.Ns = []dns.RR{soa}
			if q.Qtype == dns.TypeA {
				reply.Rcode = dns.RcodeNameError
			}
		}
		w.WriteMsg(reply)
	})}
	go server.ActivateAndServe()
	h.t.Cleanup(func() { server.Shutdown() })
}

// repository makes a bare repository with one commit.
func (h *hosts) repository(dir string, files map[string]string) {
	tree := h.t.TempDir()
	for name, content := range files {
		if err := write(filepath.Join(tree, name), content); err != nil {
			h.t.Fatal(err)
		}
	}
	servers.RunGit(h.t, tree, "init", "-q", "-b", "main")
	servers.RunGit(h.t, tree, "add", ".")
	servers.RunGit(h.t, tree, "commit", "-q", "-m", "all")
	servers.RunGit(h.t, tree, "clone", "-q", "--bare", tree, dir)
}

// git returns the handler of a repository at a path.
func (h *hosts) git(a answer, path string) http.Handler {
	root := h.t.TempDir()
	h.repository(filepath.Join(root, path), a.Git)
	user, password, _ := strings.Cut(a.Login, ":")
	handler, err := servers.GitHandler(root, servers.GitOptions{User: user, Password: password})
	if err != nil {
		h.t.Fatal(err)
	}
	return handler
}

// withSSH starts sshd with a repository, and returns the run with what it has to know.
func (h *hosts) withSSH(r run) run {
	dir := h.t.TempDir()
	key := servers.SSHKey(h.t, filepath.Join(dir, "id_ed25519"), "ed25519", "")
	sshd := servers.StartSSHD(h.t, servers.SSHDOptions{Authorized: []string{key + ".pub"}})
	h.repository(filepath.Join(dir, "dags.git"), r.SSH)
	private, err := os.ReadFile(key)
	if err != nil {
		h.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(sshd.Addr)
	r.Env = map[string]string{"REPO_PORT": port, "REPO_PATH": dir + "/dags.git"}
	r.Before = map[string]string{"/keys/id_ed25519": "0400 = " + string(private), "/keys/known_hosts": "= " + sshd.KnownHosts(h.t, 0) + "\n"}
	return r
}

// startCluster starts the API server with the objects that are there before; those that come later are created when
// the container watches.
func (h *hosts) startCluster(r run) {
	h.api = fakeapi.New()
	h.apply(r.Cluster)
	cert := h.web.certificate(h.t, h.addr)
	h.serve(h.addr+":6443", &cert, h.api)
	go func() {
		for len(r.Becomes)+len(r.Vanishes) > 0 && h.t.Context().Err() == nil {
			if slices.ContainsFunc(h.api.Requests(), func(s string) bool { return strings.HasPrefix(s, "watch ") }) {
				h.apply(r.Becomes)
				for _, object := range r.Vanishes { // such as pods/web-0
					kind, name, _ := strings.Cut(object, "/")
					if err := h.api.Delete(kind, "default", name); err != nil {
						h.t.Error(err)
					}
				}
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
}

func (h *hosts) apply(objects []map[string]any) {
	for _, object := range objects {
		text, err := json.Marshal(object)
		if err == nil {
			err = h.api.Apply(string(text))
		}
		if err != nil {
			h.t.Error(err)
		}
	}
}

// serviceAccount makes the files that the kubelet mounts for a Pod's service account.
func (h *hosts) serviceAccount(dir string) error {
	ca, err := os.ReadFile(h.web.ca.File)
	if err != nil {
		return err
	}
	for name, content := range map[string]string{"ca.crt": string(ca), "token": "token", "namespace": "default"} {
		if err := write(filepath.Join(dir, name), "= "+content); err != nil {
			return err
		}
	}
	return nil
}
