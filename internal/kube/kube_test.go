package kube

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
)

// tlsServer is a server with TLS and HTTP/2 that counts its connections.
func tlsServer(t *testing.T, h http.HandlerFunc) (s *httptest.Server, connections *atomic.Int32) {
	connections = new(atomic.Int32)
	s = httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s, connections
}

func caOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// One connection, many watches: also when all of them are opened at once.
func TestOneConnection(t *testing.T) {
	const watches = 40
	var open sync.WaitGroup
	open.Add(watches)
	s, connections := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("%s, want HTTP/2", r.Proto)
		}
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		open.Done()
		<-r.Context().Done()
	})
	server, _ := url.Parse(s.URL)
	c := New(&Config{Server: server, NoProxy: true, TLS: func() (tlsconfig.Options, error) { return tlsconfig.Options{CA: caOf(s)}, nil }}, Options{})
	c.times.answer = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range watches {
		all.Go(func() {
			q := Query{Resource: pods, Namespace: "default", Names: []string{fmt.Sprint(i)}}
			c.converse(ctx, q.request("watch", nil), time.Hour, func(r io.Reader) error {
				return readEvents(r, func(event) error { return nil })
			})
		})
	}
	open.Wait()
	cancel()
	all.Wait()
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A CA that is another one is heeded at once, and no other is trusted.
func TestCAChanges(t *testing.T) {
	s, connections := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"metadata":{"name":"a"}}`)
	})
	server, _ := url.Parse(s.URL)
	var ca, other string
	ca = caOf(s)
	o, _ := tlsServer(t, nil)
	other = caOf(o) + "\n" + ca
	now := ca
	c := New(&Config{Server: server, NoProxy: true, TLS: func() (tlsconfig.Options, error) { return tlsconfig.Options{CA: now}, nil }}, Options{})
	get := func() error {
		_, err := c.Get(t.Context(), pods, "default", "a")
		return err
	}
	for range 3 {
		if err := get(); err != nil {
			t.Fatal(err)
		}
	}
	now = other
	if err := get(); err != nil || connections.Load() != 2 {
		t.Errorf("%v, %d connections", err, connections.Load())
	}
	now = ""
	if err := get(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
	now = "no certificate"
	if err := get(); !errors.As(err, new(*CredentialsError)) {
		t.Errorf("%v", err)
	}
}

// No error quotes a token, nor what else the URL has.
func TestNoSecrets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c := New(&Config{
		Server: &url.URL{Scheme: "http", Host: l.Addr().String()}, NoProxy: true,
		Authorize: func(h http.Header) error { return bearer(h, "s3cr3t") },
	}, Options{})
	_, err = c.List(t.Context(), Query{Resource: pods, LabelSelector: "s3cr3t"})
	if err == nil || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	c.config.Authorize = func(h http.Header) error { return bearer(h, "s3cr3t\n") }
	_, err = c.List(t.Context(), Query{Resource: pods})
	if !errors.As(err, new(*CredentialsError)) || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("%v", err)
	}
}

// A kubeconfig's proxy-url is heeded, whatever the environment says.
func TestProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"metadata":{"name":"a"},"url":%q}`, r.URL)
	}))
	t.Cleanup(proxy.Close)
	p, _ := url.Parse(proxy.URL)
	c := New(&Config{Server: &url.URL{Scheme: "http", Host: "api.test", Path: "/prefix/"}, NoProxy: true, Proxy: p}, Options{})
	o, err := c.Get(t.Context(), pods, "default", "a")
	if want := "http://api.test/prefix/api/v1/namespaces/default/pods/a"; err != nil || o.At("url") != want {
		t.Errorf("%v, %v, want %s", o, err, want)
	}
	hangUp(c)
}

// An attempt's own deadline is the caller's to name.
func TestHungSays(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, c *Client) {
		f.do(func() {
			f.answer = func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		})
		_, err := c.Get(t.Context(), pods, "default", "a")
		var hung *poll.Hung
		if !errors.As(err, &hung) || hung.For != 10*time.Second || hung.Doing != "connected, waiting for the answer" {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = c.Get(ctx, pods, "default", "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestStatusUser(t *testing.T) {
	e := StatusError{Code: 403, Message: `pods is forbidden: User "system:serviceaccount:default:me" cannot list resource "pods" in API group "" in the namespace "default"`}
	if e.User() != "system:serviceaccount:default:me" {
		t.Error(e.User())
	}
	e.Message = "no"
	if e.User() != "" {
		t.Error(e.User())
	}
}
