package httpclient

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"initbox/internal/failure"
)

// TestKeepMethod pins that a redirect which would turn a request with a body into a
// GET without it is refused, and that 307 and 308 repeat it.
func TestKeepMethod(t *testing.T) {
	for _, tt := range []struct {
		method string
		status int
		keeps  bool
	}{
		{http.MethodPost, http.StatusMovedPermanently, false},
		{http.MethodPost, http.StatusFound, false},
		{http.MethodPost, http.StatusSeeOther, false},
		{http.MethodPut, http.StatusFound, false},
		{http.MethodDelete, http.StatusSeeOther, false},
		{http.MethodPost, http.StatusTemporaryRedirect, true},
		{http.MethodPut, http.StatusPermanentRedirect, true},
		{http.MethodGet, http.StatusFound, true},
		{http.MethodGet, http.StatusSeeOther, true},
	} {
		var method, body atomic.Value
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				http.Redirect(w, r, "/there?t=hunter2", tt.status)
				return
			}
			b, _ := io.ReadAll(r.Body)
			method.Store(r.Method)
			body.Store(string(b))
		}))
		req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := Do(req, Options{Dial: new(net.Dialer).DialContext, KeepMethod: true})
		if err == nil {
			resp.Body.Close()
		}
		if tt.keeps && (err != nil || method.Load() != tt.method) {
			t.Errorf("%s, %d: %v, then %v", tt.method, tt.status, err, method.Load())
		}
		if tt.keeps && tt.method != http.MethodGet && body.Load() != "body" {
			t.Errorf("%s, %d: the body is %q", tt.method, tt.status, body.Load())
		}
		if !tt.keeps {
			f := failure.Of(failure.HTTP(err, req.URL.Host))
			if !errors.Is(err, ErrMethodChanged) || method.Load() != nil || !strings.Contains(f.Text, "redirects the request") || f.Hint == "" || strings.Contains(f.Error()+f.Hint, "hunter2") {
				t.Errorf("%s, %d: %v, then %v", tt.method, tt.status, err, method.Load())
			}
		}
		server.Close()
	}
}

// TestMethodChanges pins that a check, which does not ask for KeepMethod, follows redirects as curl and browsers do.
func TestMethodChanges(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	defer server.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("body"))
	resp, err := Do(req, Options{Dial: new(net.Dialer).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Request.Method != http.MethodGet || resp.StatusCode != http.StatusOK {
		t.Errorf("%s, %s", resp.Request.Method, resp.Status)
	}
}

// TestRedirectsRefused pins what the refused redirects are called, wherever they lead.
func TestRedirectsRefused(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for path, want := range map[string]error{"/loop": ErrRedirects, "/elsewhere": ErrBodyElsewhere} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/loop" {
				http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
				return
			}
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}))
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader("body"))
		_, err := Do(req, Options{Dial: new(net.Dialer).DialContext})
		if f := failure.Of(failure.HTTP(err, req.URL.Host)); !errors.Is(err, want) || f.Text != want.Error() || f.Hint == "" {
			t.Errorf("%s: %v, told as %q, want %v", path, err, f.Text, want)
		}
		server.Close()
	}
}
