package remote

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
)

// join copies both ways until either is over.
func join(a net.Conn, fromA io.Reader, b net.Conn) {
	done := make(chan struct{}, 2)
	pass := func(to io.Writer, from io.Reader) {
		io.Copy(to, from)
		done <- struct{}{}
	}
	go pass(b, fromA)
	go pass(a, b)
	<-done
	a.Close()
	b.Close()
	<-done
}

// connectProxy is an HTTP proxy for ann, whose password is hunter2.
func connectProxy(c net.Conn) {
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	if req.Method != http.MethodConnect || req.Header.Get("Proxy-Authorization") != "Basic YW5uOmh1bnRlcjI=" {
		io.WriteString(c, "HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n")
		return
	}
	to, err := net.Dial("tcp", req.Host)
	if err != nil {
		return
	}
	io.WriteString(c, "HTTP/1.1 200 Here you are\r\nVia: test\r\n\r\n")
	join(c, r, to)
}

// socksProxy is the same of SOCKS 5 (RFC 1928, RFC 1929).
func socksProxy(c net.Conn) {
	read := func(n int) []byte {
		b := make([]byte, n)
		io.ReadFull(c, b)
		return b
	}
	read(int(read(2)[1])) // methods
	c.Write([]byte{5, 2}) // user and password
	user := read(int(read(2)[1]))
	password := read(int(read(1)[0]))
	if string(user)+":"+string(password) != "ann:hunter2" {
		c.Write([]byte{1, 1})
		return
	}
	c.Write([]byte{1, 0})
	head := read(4)
	var host string
	switch head[3] {
	case 1:
		host = net.IP(read(4)).String()
	case 3:
		host = string(read(int(read(1)[0])))
	}
	port := read(2)
	to, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(int(port[0])<<8|int(port[1]))))
	if err != nil {
		return
	}
	c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	join(c, c, to)
}
