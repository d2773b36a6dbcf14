package kube

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"initbox/internal/httpclient"
	"initbox/internal/tlsconfig"
	"initbox/test/servers"
)

// front stands before a real API server and counts what is asked of it.
type front struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func startFront(t *testing.T, s *servers.APIServer) *front {
	f := new(front)
	behind, err := httpclient.New(httpclient.Options{
		Dial: new(net.Dialer).DialContext, TLS: tlsconfig.Options{CAFile: s.CA.File}, NoProxy: true, NoRedirect: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: s.Addr})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		r.RequestURI = "" // which an http.Client does not take
		return behind.Do(r)
	})
	proxy.FlushInterval = -1
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb := "list"
		switch q := r.URL.Query(); {
		case q.Get("watch") != "":
			verb = "watch"
		case !strings.HasSuffix(r.URL.Path, "s"):
			verb = "get"
		}
		f.mu.Lock()
		f.seen = append(f.seen, verb)
		f.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
		behind.Close()
	})
	return f
}

func (f *front) counts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.seen...)
}

func (f *front) client(t *testing.T, token string) *Client {
	server, _ := url.Parse(f.URL)
	c := New(&Config{Server: server, NoProxy: true, Authorize: func(h http.Header) error { return bearer(h, token) }}, Options{})
	c.times.watch, c.times.answer = 5*time.Minute, time.Minute
	t.Cleanup(func() { hangUp(c) })
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }
