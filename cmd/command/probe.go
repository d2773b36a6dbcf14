package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strconv"
	"time"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
)

// startupProbe answers the kubelet's startup probe of a sidecar, so that the containers after it start once the sidecar
// has done what they need.
type startupProbe struct {
	file     string
	port     string
	listener net.Listener
}

// checkProbe refuses a number that is not a port.
func checkProbe(text string) error {
	if port, err := strconv.Atoi(text); err == nil && (port < 1 || port > 65535) {
		return usagef("--startup-probe %s: want a file, or a port from 1 to 65535", text)
	}
	return nil
}

// openProbe removes the file that a killed run has left, since it would be wrong until ready is called.
func openProbe(text string) (*startupProbe, error) {
	p := &startupProbe{file: text}
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		p.file, p.port = "", text
	}
	if p.file == "" {
		return p, nil
	}
	if err := os.Remove(p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the --startup-probe file of an earlier run: %w", err)
	}
	return p, nil
}

// ready creates the file, or answers at the port.
func (p *startupProbe) ready() (err error) {
	if p.file != "" {
		if err := atomicfile.Write(p.file, nil, 0o644); err != nil {
			return failure.WithHint(fmt.Errorf("create the --startup-probe file: %w", err), "is the volume mounted, and writable by this user?")
		}
	}
	if p.port == "" {
		return nil
	}
	if p.listener, err = net.Listen("tcp", ":"+p.port); err != nil {
		return fmt.Errorf("listen for the --startup-probe: %w", err)
	}
	go func() {
		for {
			conn, err := p.listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go answerProbe(conn)
			}
		}
	}()
	return nil
}

// answerProbe answers one HTTP request, whatever it asks for; a TCP probe sends none. The server of net/http would add
// half a megabyte to the program.
func answerProbe(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := textproto.NewReader(bufio.NewReader(io.LimitReader(conn, 64<<10))).ReadMIMEHeader(); !errors.Is(err, io.EOF) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nready\n")
	}
}

func (p *startupProbe) close() {
	if p.file != "" {
		os.Remove(p.file)
	}
	if p.listener != nil {
		p.listener.Close()
	}
}
