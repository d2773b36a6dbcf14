package command

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"initbox/test/fakeapi"
	"initbox/test/registries"
)

// serverOptions are the options of the script command serve:
//
//	closed                refuses connections until it is opened; see [cmdOpen]
//	up=DURATION down=…    listens, and does not, in turns
//	tls=CERTIFICATE       speaks TLS; see [serverCertificate]
//	client-ca             asks for a certificate that pki/ca.pem has signed
//	socket=FILE           listens on a unix socket
//	ipv6                  listens on ::1
//	zone=FILE             of kind dns: its answers; see [parseZone]
//	dir=DIR breaks=N      of kind files; see [serveFiles]
type serverOptions map[string]string

func (o serverOptions) duration(name string) (time.Duration, error) {
	if o[name] == "" {
		return 0, nil
	}
	return time.ParseDuration(o[name])
}

// serverKinds says what each kind of server does with a listener until that is closed.
var serverKinds = map[string]func(s *server, l net.Listener){
	"tcp":     each(func(c net.Conn) { io.Copy(io.Discard, c) }),
	"hang":    each(func(c net.Conn) { io.Copy(io.Discard, c) }), // says nothing, whatever it is asked
	"close":   each(func(net.Conn) {}),
	"reset":   each(reset),
	"drip":    each(drip),
	"garbage": each(func(c net.Conn) { io.WriteString(c, "220 mail.example ESMTP\r\n"); io.Copy(io.Discard, c) }),
	"http":    serveHTTP,
	"files":   serveFiles,
	"grpc":    serveGRPC,
	"k8s":     serveK8s, // see cmdK8s

	"management": serveRegistry(func() registries.Registry { return &registries.Management{} }),
	"eureka":     serveRegistry(func() registries.Registry { return &registries.Eureka{} }),

	"down":       nil, // never listens
	"black-hole": nil, // does not even refuse
	"trap":       nil, // fails the script if it is touched; see cmdUntouched
	"dns":        nil, // over UDP and TCP
}

// server is a server with a fault, on a port of loopback that is its own from
// the beginning to the end, also while nothing listens there.
type server struct {
	addr    string
	network string
	options serverOptions
	serve   func(*server, net.Listener)
	tls     *tls.Config
	zone    *zone
	k8s     *fakeapi.Server // of kind k8s

	registry *registries.Faults // of a kind that is a registry

	opened  chan struct{}
	open    func() // ends the option closed
	stopped chan struct{}
	stop    func() // closes for good, but holds the port
	release func() // gives the port back
	wg      sync.WaitGroup

	mu   sync.Mutex
	log  []string
	trap *trap
}

func newServer(kind string, o serverOptions) (*server, error) {
	serve, ok := serverKinds[kind]
	if !ok {
		return nil, fmt.Errorf("no such kind of server: %s", kind)
	}
	s := &server{
		network: "tcp", options: o, serve: serve, k8s: fakeapi.New(),
		opened: make(chan struct{}), stopped: make(chan struct{}), release: func() {},
	}
	s.open = sync.OnceFunc(func() { close(s.opened) })
	s.stop = sync.OnceFunc(func() { close(s.stopped); s.wg.Wait() })
	if name, ok := o["tls"]; ok {
		var err error
		if s.tls, err = serverCertificate(name); err != nil {
			return nil, err
		}
		if _, ok := o["client-ca"]; ok {
			s.tls.ClientAuth, s.tls.ClientCAs = tls.RequireAndVerifyClientCert, pki().pool
		}
	}
	if s.addr = o["socket"]; s.addr != "" {
		s.network = "unix"
		return s, s.start()
	}
	var err error
	if kind == "dns" || kind == "trap" {
		s.addr, s.release, err = holdBothPorts()
	} else {
		s.addr, s.release, err = holdPort(has(o, "ipv6"))
	}
	if err != nil {
		return nil, err
	}
	switch kind {
	case "down":
		return s, nil
	case "black-hole":
		return s, s.swallow()
	case "trap":
		return s, s.setTrap()
	case "dns":
		return s, s.startDNS()
	}
	return s, s.start()
}

func has(o serverOptions, name string) bool { _, ok := o[name]; return ok }

func (s *server) close() {
	s.stop()
	s.release()
}

// start listens when and for as long as the options say. Unless it is closed, it does so before it returns.
func (s *server) start() error {
	up, err1 := s.options.duration("up")
	down, err2 := s.options.duration("down")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !has(s.options, "closed") {
		l, err := s.listen()
		if err != nil {
			return err
		}
		s.wg.Go(func() { s.run(l, up, down) })
		return nil
	}
	s.wg.Go(func() {
		if !s.awaitOpen() {
			return
		}
		if l, err := s.listen(); err == nil {
			s.run(l, up, down)
		}
	})
	return nil
}

func (s *server) run(l net.Listener, up, down time.Duration) {
	for {
		var serving sync.WaitGroup
		if s.tls != nil {
			l = tls.NewListener(l, s.tls)
		}
		serving.Go(func() { s.serve(s, l) })
		goOn := up > 0 && s.pause(up)
		if up == 0 {
			<-s.stopped
		}
		l.Close()
		serving.Wait()
		if !goOn || !s.pause(down) {
			return
		}
		var err error
		if l, err = s.listen(); err != nil {
			return
		}
	}
}

// listen listens where the server's port is held.
func (s *server) listen() (net.Listener, error) {
	return rebind(func() (net.Listener, error) { return net.Listen(s.network, s.addr) })
}

// rebind takes a port again that was just given up: a process that is being
// started at this moment has a copy of the old socket until it executes.
func rebind[T any](bind func() (T, error)) (T, error) {
	for attempt := 0; ; attempt++ {
		t, err := bind()
		if !errors.Is(err, syscall.EADDRINUSE) || attempt == 100 {
			return t, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// awaitOpen returns whether the server was opened before it was stopped.
func (s *server) awaitOpen() bool {
	select {
	case <-s.opened:
		return true
	case <-s.stopped:
		return false
	}
}

// pause returns whether the server goes on after d.
func (s *server) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.stopped:
		return false
	}
}

func (s *server) record(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.log...)
}

// each returns the server that handles every connection, then closes it.
func each(handle func(net.Conn)) func(*server, net.Listener) {
	return func(_ *server, l net.Listener) {
		var (
			mu    sync.Mutex
			conns []net.Conn
			wg    sync.WaitGroup
		)
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	}
}

// reset makes the close that follows send RST.
func reset(c net.Conn) {
	if c, ok := c.(*net.TCPConn); ok {
		c.SetLinger(0)
	}
}

// drip answers a request one byte a second.
func drip(c net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	for _, b := range []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.Copy(io.Discard, c); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// holdPort takes a free TCP port of loopback that refuses connections, and that net.Listen can listen on, until it is
// released. A socket that is bound but does not listen does this.
func holdPort(ipv6 bool) (addr string, release func(), err error) {
	family, sa := syscall.AF_INET, syscall.Sockaddr(&syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if ipv6 {
		family, sa = syscall.AF_INET6, &syscall.SockaddrInet6{Addr: [16]byte(net.IPv6loopback)}
	}
	fd, err := boundSocket(family, sa)
	if err != nil {
		return "", nil, err
	}
	release = func() { syscall.Close(fd) }
	if sa, err = syscall.Getsockname(fd); err != nil {
		release()
		return "", nil, err
	}
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return fmt.Sprintf("127.0.0.1:%d", sa.Port), release, nil
	case *syscall.SockaddrInet6:
		return fmt.Sprintf("[::1]:%d", sa.Port), release, nil
	}
	release()
	return "", nil, fmt.Errorf("unexpected address %v", sa)
}

// holdBothPorts is holdPort for a port that is free for UDP as well: any socket that
// asks a name server at the moment has one of the same range.
func holdBothPorts() (addr string, release func(), err error) {
	for range 100 {
		if addr, release, err = holdPort(false); err != nil {
			return "", nil, err
		}
		var c net.PacketConn
		if c, err = net.ListenPacket("udp", addr); err == nil {
			return addr, release, c.Close()
		}
		release()
	}
	return "", nil, err
}

// boundSocket returns a TCP socket that other sockets may share the address of as long as only one of them listens.
func boundSocket(family int, sa syscall.Sockaddr) (fd int, err error) {
	syscall.ForkLock.RLock()
	fd, err = syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, err
	}
	if err = errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, sa)); err != nil {
		syscall.Close(fd)
	}
	return fd, err
}

// swallow makes the port a black hole: Linux drops a SYN when the queue of
// connections to accept is full. When it is opened, it listens for good.
func (s *server) swallow() error {
	release, err := fullQueue(s.addr)
	if err != nil {
		return err
	}
	hold := s.release
	s.release = func() { release(); hold() }
	s.wg.Go(func() {
		if !s.awaitOpen() {
			return
		}
		release()
		if l, err := s.listen(); err == nil {
			s.serve = each(func(c net.Conn) { io.Copy(io.Discard, c) })
			s.run(l, 0, 0)
		}
	})
	return nil
}

// fullQueue listens at addr with a queue for one connection, and fills it.
func fullQueue(addr string) (release func(), err error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	fd, err := boundSocket(syscall.AF_INET, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: tcp.Port})
	if err != nil {
		return nil, err
	}
	var conns []net.Conn
	release = sync.OnceFunc(func() {
		syscall.Close(fd)
		for _, c := range conns {
			c.Close()
		}
	})
	err = syscall.Listen(fd, 0)
	for err == nil && len(conns) < 8 {
		c, dialErr := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if dialErr != nil {
			return release, nil // full
		}
		conns = append(conns, c)
	}
	release()
	return nil, errors.Join(err, errors.New("the queue does not fill"))
}

// trap is a port that notices whatever is sent to it. Nothing is read before
// the script asks, so that nothing can be missed.
type trap struct {
	tcp *net.TCPListener
	udp *net.UDPConn
}

func (s *server) setTrap() error {
	l, err := s.listen()
	if err != nil {
		return err
	}
	c, err := rebind(func() (net.PacketConn, error) { return net.ListenPacket("udp", s.addr) })
	if err != nil {
		l.Close()
		return err
	}
	s.trap = &trap{l.(*net.TCPListener), c.(*net.UDPConn)}
	release := s.release
	s.release = func() { l.Close(); c.Close(); release() }
	return nil
}

// sprung returns what touched the trap, if anything did.
func (s *server) sprung() string {
	if s.trap == nil {
		return "it is no trap"
	}
	soon := time.Now().Add(10 * time.Millisecond)
	s.trap.tcp.SetDeadline(soon)
	if c, err := s.trap.tcp.Accept(); err == nil {
		c.Close()
		return "a connection from " + c.RemoteAddr().String()
	}
	s.trap.udp.SetDeadline(soon)
	if n, _, err := s.trap.udp.ReadFrom(make([]byte, 1<<16)); err == nil {
		return fmt.Sprintf("a datagram of %d bytes", n)
	}
	return ""
}

// httpServer is the part that kinds http and grpc share.
func httpServer(l net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ErrorLog: discardLog}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.Serve(l)
	server.Close()
}

// requestLine is how a request is recorded: its line, headers and body.
func requestLine(r *http.Request, body []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s Host: %s;", r.Method, r.RequestURI, r.Proto, r.Host)
	r.Header.Write(&b)
	fmt.Fprintf(&b, " Body: %s", body)
	return strings.ReplaceAll(b.String(), "\r\n", "; ")
}
