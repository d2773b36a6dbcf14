package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A service is a thing to wait for. It is not there until open is called.
type service struct {
	vars  map[string]string    // what fills the placeholders of a waiter
	open  func() error         // returns once the service answers
	early time.Duration        // how long before it is to be there open is called
	took  func() time.Duration // of open, until it was there; nil if it is as soon as open is called
	close func() error
}

// The benchmarks' own corners of loopback: with an address of its own no service shares anything with another, and the
// port can lie below the range of ephemeral ports, from which a connection attempt to a port without a listener may
// connect to itself.
const (
	serviceNet = 77 // 127.77.0.0/16: services that appear
	deadNet    = 78 // 127.78.0.0/16: no server ever listens here
)

func loopback(network, n int) string {
	return fmt.Sprintf("127.%d.%d.%d", network, n/250, 1+n%250)
}

// claimHost is the host of serviceNet whose listener claims a port for one run.
const claimHost = 63_000

// claimPort finds a port on which nothing listens for all addresses, and that no
// other run uses until the claim is closed.
func claimPort() (port int, claim io.Closer, err error) {
	for port := 18000; port < 18100; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback(serviceNet, claimHost), strconv.Itoa(port)))
		if err == nil {
			return port, l, nil
		}
	}
	return 0, nil, errors.New("no free port from 18000 to 18099")
}

func (b *bench) vars(host string) map[string]string {
	port := strconv.Itoa(b.port)
	return map[string]string{"host": host, "port": port, "addr": net.JoinHostPort(host, port)}
}

// listening returns a service that serves connections on l's address.
func (b *bench) listening(n int, serve func(net.Listener)) *service {
	var l net.Listener
	s := &service{vars: b.vars(loopback(serviceNet, n))}
	s.open = func() (err error) {
		if l, err = net.Listen("tcp", s.vars["addr"]); err == nil {
			go serve(l)
		}
		return err
	}
	s.close = func() error {
		if l == nil {
			return nil
		}
		return l.Close()
	}
	return s
}

func tcpService(b *bench, n int) (*service, error) { return b.listening(n, hold), nil }

// hold accepts connections and keeps each until the other side is done with it:
// one that closed first would look like a proxy without a server behind it.
func hold(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer c.Close()
			// Reset by a peer that only wanted to see the connection: no failure.
			_, _ = io.Copy(io.Discard, c)
		}()
	}
}

func httpService(b *bench, n int) (*service, error) {
	handler := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }
	return b.listening(n, serveHTTP(handler)), nil
}

// grpcService answers every call as grpc.health.v1.Health/Check does for SERVING: one
// message (not compressed, two bytes long), whose field 1 is 1.
func grpcService(b *bench, n int) (*service, error) {
	serving := []byte{0, 0, 0, 0, 2, 0x08, 0x01}
	handler := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(serving)
		w.Header().Set("Grpc-Status", "0")
	}
	return b.listening(n, serveHTTP(handler)), nil
}

func serveHTTP(handler http.HandlerFunc) func(net.Listener) {
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	// Serve ends when the listener is closed, which is the only way it ends here.
	return func(l net.Listener) { _ = server.Serve(l) }
}

func unixService(b *bench, n int) (*service, error) {
	path := filepath.Join(b.dir, fmt.Sprintf("%d.sock", n))
	var l net.Listener
	return &service{
		vars: map[string]string{"path": path},
		open: func() (err error) {
			if l, err = net.Listen("unix", path); err == nil {
				go hold(l)
			}
			return err
		},
		close: func() error {
			if l == nil {
				return nil
			}
			return l.Close() // and removes the socket
		},
	}, nil
}

// fileService makes a file appear as initbox and the kubelet do: by a rename.
func fileService(b *bench, n int) (*service, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("files-%d", n))
	path := filepath.Join(dir, "ready")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	hidden := dir + ".new"
	if err := os.WriteFile(hidden, []byte("ok\n"), 0o644); err != nil {
		return nil, err
	}
	return &service{
		vars:  map[string]string{"path": path},
		open:  func() error { return os.Rename(hidden, path) },
		close: func() error { return os.RemoveAll(dir) },
	}, nil
}
