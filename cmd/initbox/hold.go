package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"initbox/internal/atomicfile"
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
	if err != nil {
		if errors.As(err, new(stopped)) { // the request may have been received
			r.leave(e, registration)
		}
		return err
	}
	if err := r.print(e, result); err != nil {
		return err
	}
	if err := probe.ready(); err != nil {
		return err
	}
	registration.Keep(e.untilStopped)
	probe.close()
	return r.leave(e, registration)
}

// leave deregisters after a signal. If that is done, the command is done.
func (r *registerFlags) leave(e *env, registration *register.Registration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), r.leaveTimeout.Duration(), deadlinePassed(r.leaveTimeout))
	defer cancel()
	err := registration.Leave(ctx)
	if errors.Is(err, register.ErrCannotLeave) {
		e.log.Info(err.Error())
		return nil
	}
	return err
}

// startupProbe tells the kubelet that the sidecar has registered, so that the
// containers after it may start.
type startupProbe struct {
	file   string
	port   string
	server *http.Server
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
func (p *startupProbe) ready() error {
	if p.file != "" {
		if err := atomicfile.Write(p.file, nil, 0o644); err != nil {
			return hintedError{fmt.Errorf("make the --startup-probe: %w", err), "is the volume mounted, and writable for this user?"}
		}
	}
	if p.port == "" {
		return nil
	}
	listener, err := net.Listen("tcp", ":"+p.port)
	if err != nil {
		return fmt.Errorf("listen for the --startup-probe: %w", err)
	}
	p.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "registered\n") }),
		ReadHeaderTimeout: 5 * time.Second,
	}
	go p.server.Serve(listener)
	return nil
}

func (p *startupProbe) close() {
	if p.file != "" {
		os.Remove(p.file)
	}
	if p.server != nil {
		p.server.Close()
	}
}
