package request

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"initbox/internal/httpclient"
	"initbox/register/exchange"
)

// options returns what a request to a URL needs.
func options(url string) Options {
	return Options{
		URL: url, Method: http.MethodGet, Getenv: func(string) string { return "" },
		Retry: httpclient.Retry{
			Options:        httpclient.Options{Dial: new(net.Dialer).DialContext},
			AttemptTimeout: 500 * time.Millisecond, Spread: time.Millisecond,
		},
	}
}

// bodyOf returns a Body that sends the text.
func bodyOf(text string) func(context.Context, *File) (*exchange.Body, []string, error) {
	return func(context.Context, *File) (*exchange.Body, []string, error) {
		return &exchange.Body{Content: []byte(text)}, nil, nil
	}
}

// secretFile returns a file with a secret.
func secretFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestHostileServers pins that a server which never ends, drips, breaks off or sends too much is given up at the
// deadline or at a limit, without the memory being filled.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serve func(w http.ResponseWriter, r *http.Request)
		want  string // in the error
	}{
		"endless answer": {func(w http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 1<<16); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "the answer is longer than 1 MiB"},
		"endless refusal": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			for {
				if _, err := io.WriteString(w, "no \x1b[31m"); err != nil {
					return
				}
			}
		}, `status 400 Bad Request: "no `},
		"slow drip": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				io.WriteString(w, "x")
				http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}, "reading the answer: no answer"},
		"hang": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "waiting for the answer: no answer"},
		"huge header": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 200 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
			}
		}, "header"},
		"shorter than announced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "x")
		}, "closed by the server"},
		"loop": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/", http.StatusFound)
		}, "redirected more than 10 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(tt.serve))
			defer server.CloseClientConnections()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			o := options(server.URL)
			o.Answer, o.Output = true, exchange.Output{Name: filepath.Join(t.TempDir(), "answer"), Mode: 0o600}
			_, err := Run(ctx, o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if _, err := os.Stat(o.Output.Name); err == nil {
				t.Error("an answer was written")
			}
		})
	}
}

// TestCredentialsStayHere pins that a redirect to another server gets neither credentials nor headers, nor the body.
func TestCredentialsStayHere(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[http.Request]
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got.Store(r) }))
	defer other.Close()
	var asked atomic.Bool
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		asked.Store(password == "hunter2-hunter2" && r.Header.Get("X-Key") == "k3y-k3y-k3y")
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	password := secretFile(t, "hunter2-hunter2\n")
	o := options("http://me:${file:" + password + "}@" + strings.TrimPrefix(first.URL, "http://"))
	o.Credentials.HeaderFiles = []string{secretFile(t, "X-Key: k3y-k3y-k3y\n")}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r := got.Load()
	if !asked.Load() || r == nil || r.Header.Get("Authorization") != "" || r.Header.Get("X-Key") != "" || strings.Contains(fmt.Sprint(r.Header), "hunter2") {
		t.Errorf("asked with credentials: %v; the other server got %+v", asked.Load(), r)
	}
	got.Store(nil)
	o.Method, o.Body = http.MethodPost, bodyOf("{}")
	if _, err := Run(t.Context(), o); err == nil || got.Load() != nil || !strings.Contains(err.Error(), "must not receive the request's body") {
		t.Errorf("%v, and the other server got %+v", err, got.Load())
	}
}

// TestEchoesAreRedacted pins that a server that repeats what it was sent, in whichever form, does not bring a secret
// into the message, nor does the last answer before the deadline.
func TestEchoesAreRedacted(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(int(status.Load()))
		_, password, _ := r.BasicAuth()
		fmt.Fprintf(w, "%s %s %q %v\n%s", password, r.URL, r.URL.Query(), r.Header, body)
	}))
	defer server.Close()
	o := options(server.URL + "/?key=${file:" + secretFile(t, "qu3ry/s3cret&") + "}")
	o.Method = http.MethodPost
	o.Credentials = httpclient.Credentials{User: "me", PasswordFile: secretFile(t, "pa55/w0rd\"x"), HeaderFiles: []string{secretFile(t, "Cookie: a=c00kie-value")}}
	o.Body = func(context.Context, *File) (*exchange.Body, []string, error) {
		return &exchange.Body{Content: []byte("b0dy-secret")}, []string{"b0dy-secret"}, nil
	}
	for _, code := range []int64{400, 503} {
		status.Store(code)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := Run(ctx, o)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "[…]") {
			t.Errorf("%d: %v", code, err)
			continue
		}
		for _, leak := range []string{"qu3ry", "pa55", "w0rd", "c00kie", "b0dy", "bWU6"} {
			if strings.Contains(err.Error(), leak) {
				t.Errorf("%d: %q is in %v", code, leak, err)
			}
		}
	}
}

// TestNotEncrypted pins that a redirect from https to http is refused, for good.
func TestNotEncrypted(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked without TLS") }))
	defer plain.Close()
	server := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer server.Close()
	o := options(server.URL)
	o.Retry.TLS.Insecure = true
	if _, err := Run(t.Context(), o); !errors.Is(err, httpclient.ErrNotEncrypted) {
		t.Error(err)
	}
}

// TestRetryAfter pins that the server's Retry-After is heeded, and that the deadline still holds.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if first.CompareAndSwap(0, time.Now().UnixMilli()) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		second.CompareAndSwap(0, time.Now().UnixMilli())
	}))
	defer server.Close()
	if _, err := Run(t.Context(), options(server.URL)); err != nil || second.Load()-first.Load() < 1000 {
		t.Errorf("%v; came back after %d ms", err, second.Load()-first.Load())
	}
}

// TestNames pins how the names of files stand in a URL, whatever they are: they are one element of the path, and refer
// to no secret.
func TestNames(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.RequestURI }))
	defer server.Close()
	for name, want := range map[string]string{
		"a.json":                 "/x/a/y?f=a.json",
		"a b+c&d=e%.tar.gz":      "/x/a%20b%2Bc%26d%3De%25.tar/y?f=a%20b%2Bc%26d%3De%25.tar.gz",
		"${env:HOME}":            "/x/%24%7Benv%3AHOME%7D/y?f=%24%7Benv%3AHOME%7D",
		"?#@$(X).json":           "/x/%3F%23%40%24%28X%29/y?f=%3F%23%40%24%28X%29.json",
		"{file}":                 "/x/%7Bfile%7D/y?f=%7Bfile%7D",
		"\xff\n.json":            "/x/%FF%0A/y?f=%FF%0A.json",
		"ü.json":                 "/x/%C3%BC/y?f=%C3%BC.json",
		strings.Repeat("n", 255): "/x/" + strings.Repeat("n", 255) + "/y?f=" + strings.Repeat("n", 255),
	} {
		o := options(server.URL + "/x/{name}/y?f={file}")
		o.Each = t.TempDir()
		if err := os.WriteFile(filepath.Join(o.Each, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), o); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got := <-paths; got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
