package httpclient

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/servers"
)

// serve handles each connection to a port of loopback, and leaves it to the client to close it.
func serve(t *testing.T, handle func(net.Conn)) (addr string) {
	t.Helper()
	return servers.Serve(t, func(c net.Conn) {
		handle(c)
		io.Copy(io.Discard, c)
	})
}

// answer returns a handler that reads a request and answers with text, which may be a part of an answer.
func answer(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, text)
		}
	}
}

// TestEndIsTheContexts pins that the error of a request whose context ended is the
// context's, whichever side noticed first, and not the state of the connection.
func TestEndIsTheContexts(t *testing.T) {
	t.Parallel()
	silent := serve(t, func(net.Conn) {})
	for name, tt := range map[string]struct {
		url string
		Protocol
	}{
		"nothing":       {"http://" + silent, Auto},
		"half a line":   {"http://" + serve(t, answer("HTTP/1.1 2")), Auto},
		"half a header": {"http://" + serve(t, answer("HTTP/1.1 200 OK\r\nA: b\r\n")), Auto},
		"half a body":   {"http://" + serve(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")), Auto},
		"half a chunk":  {"http://" + serve(t, answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf")), Auto},
		"no handshake":  {"https://" + silent, Auto},
		"no settings":   {"http://" + silent, H2C},
		"neither":       {"https://" + silent, HTTP2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 100 { // it is a race, which each may win
				err := get(t, tt.url, tt.Protocol, 5*time.Millisecond)
				// A dial fails at the deadline by itself, in words of package net.
				if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("%v, want the context's error", err)
				}
			}
		})
	}
}

// TestServersEndIsItsOwn pins that what the server does is not taken for the end of the context.
func TestServersEndIsItsOwn(t *testing.T) {
	closes := serve(t, func(c net.Conn) { c.Close() })
	if err := get(t, "http://"+closes, Auto, time.Minute); err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want the server's close", err)
	}
	if err := get(t, "http://"+serve(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhalf")), Auto, time.Minute); err != nil {
		t.Error(err)
	}
}

// get sends one request that may take so long, and reads the body.
func get(t *testing.T, url string, p Protocol, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := Do(req, Options{Dial: new(net.Dialer).DialContext, Protocol: p, NoProxy: true})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return err
}

// TestHangsUpAtOnce pins that a server which hangs up before it was asked is told from one
// that speaks something else: which of the two HTTP/2's client notices first is chance.
func TestHangsUpAtOnce(t *testing.T) {
	t.Parallel()
	addr := servers.Serve(t, func(net.Conn) {})
	for _, protocol := range []Protocol{Auto, H2C} {
		for range 300 {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := Do(req, Options{Dial: new(net.Dialer).DialContext, Protocol: protocol})
			if err == nil {
				resp.Body.Close()
				t.Fatal("an answer")
			}
			if f := failure.Of(failure.HTTP(err, "api")); f.Class != failure.Reset {
				t.Fatalf("protocol %d: %s: %s, from %v", protocol, f.Class, f.Text, err)
			}
		}
	}
}
