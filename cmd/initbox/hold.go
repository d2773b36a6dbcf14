package main

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
	"time"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/register"
)

// stay registers, keeps the entry alive until a signal comes, and takes it away.
// The deadline is that of the registration.
func (r *registerFlags) stay(ctx context.Context, e *env, registration *register.Registration) error {
	probe, err := openProbe(r.startupProbe)
	if err != nil {
		return err
	}
	defer probe.close()
	result, err := registration.Register(ctx)
	if errors.As(err, new(stopped)) { // the request may have been received all the same
		if err := r.leave(e, registration, min(r.leaveTimeout, unsureTimeout)); err != nil {
			e.log.Warn(err.Error())
		}
	}
	if err != nil {
		return err
	}
	if err = r.print(e, result); err == nil {
		err = probe.ready()
	}
	if err != nil { // nobody stays to keep the entry alive and to take it away
		if err := r.leave(e, registration, r.leaveTimeout); err != nil {
			e.log.Warn(err.Error())
		}
		return err
	}
	registration.Keep(e.untilStopped)
	probe.close()
	return r.leave(e, registration, r.leaveTimeout)
}

// unsureTimeout is how long to try to take away what has probably not been
// registered: there may be no server at all.
const unsureTimeout = duration(time.Second)

// leave deregisters after a signal. If that is done, the command is done.
func (r *registerFlags) leave(e *env, registration *register.Registration, timeout duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout.Duration(), deadlinePassed(timeout))
	defer cancel()
	err := registration.Leave(ctx)
	if errors.Is(err, register.ErrCannotLeave) {
		e.log.Info(err.Error())
		return nil
	}
	return err
}

// startupProbe tells the kubelet that the sidecar has done what the containers
// after it want, so that they may start.
type startupProbe struct {
	file     string
	port     string
	listener net.Listener
}

// checkProbe refuses what looks like a port, and is none.
func checkProbe(text string) error {
	if port, err := strconv.Atoi(text); err == nil && (port < 1 || port > 65535) {
		return usagef("--startup-probe %s: want a file, or a port from 1 to 65535", text)
	}
	return nil
}

// openProbe removes the file that a killed run has left, for it says what is not
// true yet.
func openProbe(text string) (*startupProbe, error) {
	p := &startupProbe{file: text}
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		p.file, p.port = "", text
	}
	if p.file == "" {
		return p, nil
	}
	if err := os.Remove(p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the --startup-probe of an earlier run: %w", err)
	}
	return p, nil
}

// ready makes the file, or answers at the port.
func (p *startupProbe) ready() (err error) {
	if p.file != "" {
		if err := atomicfile.Write(p.file, nil, 0o644); err != nil {
			return failure.WithHint(fmt.Errorf("make the --startup-probe: %w", err), "is the volume mounted, and writable for this user?")
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

// answerProbe answers one request of HTTP, whatever it asks for; a probe by TCP asks
// for nothing. The server of net/http would be half a megabyte more.
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
