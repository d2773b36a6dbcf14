package command

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
	"sync/atomic"
	"time"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

// startupProbe answers the kubelet's startup probe of a sidecar, so that the containers after it start once the sidecar
// has done what they need.
type startupProbe struct {
	file     string
	listener net.Listener
	done     atomic.Bool
}

// staying is logged when a sidecar has done what the other containers need. Nothing in the container tells whether it
// is one: an ordinary init container would go on as well, and hold up the Pod.
const staying = "running until SIGTERM: an init container needs restartPolicy: Always for this, or the Pod stays at Init"

// probeAddress returns the address at which --startup-probe says to listen, as in [net.Listen], or "" if it names a
// file.
func probeAddress(text string) (string, error) {
	const want = "--startup-probe %s: want a file, or a port from 1 to 65535, or HOST:PORT"
	port, numeric := text, strings.Trim(text, "0123456789") == ""
	if !numeric {
		colon := strings.LastIndexByte(text, ':')
		if port = text[colon+1:]; colon < 0 || strings.Contains(text, "/") || strings.Trim(port, "0123456789") != "" {
			return "", nil
		}
		if _, _, err := net.SplitHostPort(text); err != nil {
			return "", usagef(want, text).hint("an IPv6 address stands in brackets, as in [::1]:9000")
		}
	}
	n, err := strconv.Atoi(port)
	switch {
	case text == "":
		return "", nil
	case err != nil || n < 1 || n > 65535:
		return "", usagef(want, text)
	case numeric:
		return ":" + port, nil
	}
	return text, nil
}

// openProbe removes the file that a killed run has left, since it would be wrong until ready is called, or begins to
// listen.
func openProbe(text string) (*startupProbe, error) {
	address, err := probeAddress(text)
	if err != nil {
		return nil, err
	}
	p := &startupProbe{}
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
	if err := os.Remove(p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the --startup-probe file of an earlier run: %w", err)
	}
	return p, nil
}

// ready creates the file, or has the port answer with success.
func (p *startupProbe) ready() error {
	p.done.Store(true)
	if p.file == "" {
		return nil
	}
	if err := atomicfile.Write(p.file, nil, 0o644); err != nil {
		return failure.WithHint(fmt.Errorf("create the --startup-probe file: %w", err), "is the volume mounted, and writable by this user?")
	}
	return nil
}

// acceptPause is how long serve waits after an error, which the next call would only return again.
const acceptPause = 100 * time.Millisecond

func (p *startupProbe) serve() {
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

// answer answers one HTTP request, whatever it asks for. The server of net/http would add half a megabyte to the
// program.
func (p *startupProbe) answer(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := textproto.NewReader(bufio.NewReader(io.LimitReader(conn, 64<<10))).ReadMIMEHeader(); errors.Is(err, io.EOF) {
		return // a connection without a request
	}
	status, text := "503 Service Unavailable", "not ready\n"
	if p.done.Load() {
		status, text = "200 OK", "ready\n"
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(text), text)
}

func (p *startupProbe) close() {
	if p.file != "" {
		os.Remove(p.file)
	}
	if p.listener != nil {
		p.listener.Close()
	}
}
