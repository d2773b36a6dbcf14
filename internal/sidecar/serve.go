package sidecar

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// server answers HTTP requests, one per connection. The server of net/http would add half a megabyte to the program.
type server struct {
	net.Listener
	answer func(path, accept string) answer
}

// answer is what a request gets.
type answer struct {
	status string // as in "200 OK"
	kind   string // the content type; "" for plain text
	text   string
}

// listen begins to answer requests at an address, see [Address].
func listen(address string, handler func(path, accept string) answer) (*server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("listen for probes: %w", err), "is the port used by another container of the Pod, and the address one of the Pod's?")
	}
	s := &server{l, handler}
	go s.serve()
	return s, nil
}

// acceptPause is how long serve waits after an error, which the next call would only return again.
const acceptPause = 100 * time.Millisecond

// maxOpen is how many connections may be open. A newer one closes the oldest, which had the most time: connections that
// send nothing take neither memory without limit nor the place of the kubelet's.
const maxOpen = 64

func (s *server) serve() {
	var open [maxOpen]net.Conn
	next := 0
	for {
		conn, err := s.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			if oldest := open[next]; oldest != nil {
				oldest.Close() // again, if it has been answered
			}
			open[next], next = conn, (next+1)%maxOpen
			go s.handle(conn)
		default: // too many open files, perhaps
			_ = poll.Sleep(context.Background(), acceptPause)
		}
	}
}

// handle answers the request of a connection.
func (s *server) handle(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	r := textproto.NewReader(bufio.NewReader(io.LimitReader(conn, 64<<10)))
	line, err := r.ReadLine()
	if err != nil {
		return // a connection without a request
	}
	header, _ := r.ReadMIMEHeader() // unread, it would reset the connection before the answer is read
	method, target, _ := strings.Cut(line, " ")
	path, _, _ := strings.Cut(strings.Fields(target + " /")[0], "?")
	a := s.answer(path, strings.Join(header["Accept"], ","))
	if a.kind == "" {
		a.kind, a.text = "text/plain; charset=utf-8", failure.Printable(a.text)+"\n"
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", a.status, a.kind, len(a.text))
	if method != "HEAD" {
		io.WriteString(conn, a.text)
	}
}

// answers returns what the port answers for a path. Without a path, the kubelet asks for /. git-sync answers all paths
// but /metrics alike.
func (l *loop) answers(path, accept string) answer {
	probe := func(err error, good string) answer {
		if err != nil {
			return answer{status: "503 Service Unavailable", text: err.Error()}
		}
		return answer{status: "200 OK", text: good}
	}
	switch {
	case path == "/metrics":
		kind, text := encode(l.metrics(), accept)
		return answer{"200 OK", kind, text}
	case path == "/", path == "/startupz", path == "/readyz", l.GitSync:
		return probe(l.unready(), "ready")
	case path == "/livez":
		return probe(l.stuck(), "alive")
	case path == "/healthz":
		return probe(l.unhealthy(), "healthy")
	}
	return answer{status: "404 Not Found", text: "want /startupz, /readyz, /livez, /healthz or /metrics"}
}
