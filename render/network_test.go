package render

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"initbox/internal/resolver"
	"initbox/render/values"
)

// TestFetch has a server that is not ready at first, wants a token, and tells the format by its media type.
func TestFetch(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case asked.Add(1) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("Authorization") != "Bearer t0ken":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"a": {"b": 1000000}}`)
		}
	}))
	defer server.Close()
	var log strings.Builder
	f := Fetcher{TokenFile: token, Log: slog.New(slog.NewTextHandler(&log, nil))}
	got, _, err := rendered(t, Options{Values: []values.Source{{Kind: values.File, Text: server.URL + "/values?key=s3cret"}}, Fetch: f.Fetch}, map[string]string{"a.tmpl": "{{ .Values.a.b }}"})
	if err != nil || got["a"] != "rw-r--r-- 1000000" {
		t.Errorf("%q, %v", got["a"], err)
	}
	if !strings.Contains(log.String(), "status 503") || strings.Contains(log.String(), "s3cret") {
		t.Errorf("the log says %s", log.String())
	}
}

// TestFetchFails pins that the last reason is told when the time is up, and no secret of the URL.
func TestFetchFails(t *testing.T) {
	again := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Write(make([]byte, 2<<20))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		again <- struct{}{}
	}))
	defer server.Close()
	for address, want := range map[string]string{
		server.URL + "/?key=s3cret":    "status 404 Not Found",
		server.URL + "/long":           "longer than",
		"http://user:s3cret@localhost": "--values-token-file",
		"http://":                      "want a URL",
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { // the time is up when the first answer has been seen, which is when it asks again
			<-again
			<-again
			cancel(context.DeadlineExceeded)
		}()
		_, err := values.Load(ctx, []values.Source{{Kind: values.File, Text: address}}, values.Options{Fetch: Fetcher{Log: slog.New(slog.DiscardHandler)}.Fetch})
		cancel(nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %v, want %s", address, err, want)
		}
	}
}

// TestFetchDiagnoses pins that the log and the error say why there is no answer, as
// wait-for-service does, and what to do about it.
func TestFetchDiagnoses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	token := filepath.Join(t.TempDir(), "token")
	for _, tt := range []struct {
		Fetcher
		want, hint string
	}{
		{Fetcher{}, "connection refused", "nothing listens there yet"},
		{Fetcher{TokenFile: token}, "cannot read secret file " + token, ""},
		{Fetcher{CAFile: token}, token + ": no such file", ""},
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		var log strings.Builder
		tt.Log = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			cancel(context.DeadlineExceeded) // when there is something to say
			return log.Write(p)
		}), nil))
		_, _, err := tt.Fetch(ctx, "http://"+l.Addr().String()+"/?key=s3cret")
		var h interface{ Hint() string }
		hint := ""
		if errors.As(err, &h) {
			hint = h.Hint()
		}
		if err == nil || !strings.Contains(err.Error(), "the last attempt: ") || !strings.Contains(err.Error(), tt.want) || !strings.Contains(log.String(), tt.want) {
			t.Errorf("error %v, log %s, want %s", err, log.String(), tt.want)
		}
		if !strings.HasPrefix(hint, tt.hint) || tt.hint == "" && hint != "" {
			t.Errorf("%v: hint %q, want %q", err, hint, tt.hint)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestResolve(t *testing.T) {
	for host, want := range map[string]string{"10.0.0.1": "10.0.0.1", "fd00::0001": "fd00::1", "localhost": "127.0.0.1"} {
		got, err := Names{new(resolver.Resolver)}.Addresses(t.Context(), host)
		if err != nil || len(got) == 0 || got[0] != want {
			t.Errorf("Resolve(%s) = %v, %v, want %s first", host, got, err, want)
		}
	}
}
