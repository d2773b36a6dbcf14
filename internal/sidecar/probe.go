package sidecar

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Address returns the address at which the value of --startup-probe says to listen, as in [net.Listen], or "" if it
// names a file.
func Address(text string) (string, error) {
	const want = "--startup-probe %s: want a file, or a port from 1 to 65535, or HOST:PORT"
	port, numeric := text, strings.Trim(text, "0123456789") == ""
	if !numeric {
		colon := strings.LastIndexByte(text, ':')
		if port = text[colon+1:]; colon < 0 || strings.Contains(text, "/") || strings.Trim(port, "0123456789") != "" {
			return "", nil
		}
		if _, _, err := net.SplitHostPort(text); err != nil {
			return "", failure.WithHint(fmt.Errorf(want, text), "an IPv6 address stands in brackets, as in [::1]:9000")
		}
	}
	n, err := strconv.Atoi(port)
	switch {
	case text == "":
		return "", nil
	case err != nil || n < 1 || n > 65535:
		return "", fmt.Errorf(want, text)
	case numeric:
		return ":" + port, nil
	}
	return text, nil
}

// Probe answers the kubelet's probes of a sidecar, with a file or at a port. The containers after a sidecar start once
// its startupProbe has succeeded.
type Probe struct {
	file     string
	listener net.Listener
	health   func() error // nil for a port that answers every path alike

	mu    sync.Mutex
	ready bool
}

// OpenProbe removes the file that a killed run has left, since it would be wrong until Ready is called, or begins to
// listen at the port. A file with content is not one of these, and an error. An empty text is neither file nor port.
//
// Without health, the port answers every request with status 503 until Ready is called, and then with 200. With it, /,
// /startupz and /readyz are answered so; /livez with 200; /healthz with 503 and the error while health returns one; and
// other paths with 404.
func OpenProbe(text string, health func() error) (*Probe, error) {
	address, err := Address(text)
	if err != nil {
		return nil, err
	}
	p := &Probe{health: health}
	if address != "" {
		if p.listener, err = net.Listen("tcp", address); err != nil {
			return nil, failure.WithHint(fmt.Errorf("listen for the --startup-probe: %w", err), "is the port used by another container of the Pod, and the address one of the Pod's?")
		}
		go p.serve()
		return p, nil
	}
	if p.file = text; p.file == "" {
		return p, nil
	}
	if stat, err := os.Lstat(p.file); err == nil && stat.Mode().IsRegular() && stat.Size() > 0 {
		return nil, failure.WithHint(fmt.Errorf("the --startup-probe file %s exists, and is not empty as those that are made for probes: it is not replaced", failure.Printable(p.file)),
			"name a file of its own, which only the probe uses")
	}
	if err := os.Remove(p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the --startup-probe file of an earlier run: %w", err)
	}
	return p, nil
}

// Ready creates the file, or has the port answer with success.
func (p *Probe) Ready() error {
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	if p.file == "" {
		return nil
	}
	if err := atomicfile.Write(p.file, nil, 0o644); err != nil {
		return failure.WithHint(fmt.Errorf("create the --startup-probe file: %w", err), "is the volume mounted, and writable by this user?")
	}
	return nil
}

// Close removes the file, or stops listening.
func (p *Probe) Close() {
	if p.file != "" {
		os.Remove(p.file)
	}
	if p.listener != nil {
		p.listener.Close()
	}
}

// acceptPause is how long serve waits after an error, which the next call would only return again.
const acceptPause = 100 * time.Millisecond

func (p *Probe) serve() {
	for {
		conn, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			go p.answer(conn)
		default: // too many open files, perhaps
			_ = poll.Sleep(context.Background(), acceptPause)
		}
	}
}

// answer answers one HTTP request. The server of net/http would add half a megabyte to the program.
func (p *Probe) answer(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	r := textproto.NewReader(bufio.NewReader(io.LimitReader(conn, 64<<10)))
	line, err := r.ReadLine()
	if err != nil {
		return // a connection without a request
	}
	_, _ = r.ReadMIMEHeader() // unread, it would reset the connection before the answer is read
	method, target, _ := strings.Cut(line, " ")
	path, _, _ := strings.Cut(strings.Fields(target + " /")[0], "?")
	status, text := p.state(path)
	body := text + "\n"
	if method == "HEAD" {
		body = ""
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(text)+1, body)
}

// state returns what the port answers for a path.
func (p *Probe) state(path string) (status, text string) {
	const ok, unavailable = "200 OK", "503 Service Unavailable"
	p.mu.Lock()
	ready := p.ready
	p.mu.Unlock()
	if p.health != nil {
		switch path {
		case "/livez":
			return ok, "alive"
		case "/healthz":
			if err := p.health(); err != nil {
				return unavailable, failure.Printable(err.Error())
			}
			return ok, "healthy"
		case "/", "/startupz", "/readyz": // without a path, the kubelet asks for /
		default:
			return "404 Not Found", "want /startupz, /readyz, /livez or /healthz"
		}
	}
	if ready {
		return ok, "ready"
	}
	return unavailable, "not ready"
}
