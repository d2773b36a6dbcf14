package httpclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// ending closes the connections of one request when its context ends. A Transport lets a connection attempt and a TLS
// handshake continue after the end of their request, since another request may use them; no other request does so here.
//
// What error the Transport then returns depends on which of its goroutines notices first:
// the context's, net.ErrClosed, "malformed HTTP response" for half a line, or a text that
// wraps nothing. The server caused none of them, so that all become the context's.
type ending struct {
	ctx    context.Context
	closed atomic.Bool // a connection was closed here, because ctx had ended
	hungUp atomic.Bool // a server closed its connection without having sent anything
}

// dialer returns dial with connections that end with the context.
func (e *ending) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(e.ctx, network, addr)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(e.ctx, func() {
			e.closed.Store(true) // before it can cause an error
			conn.Close()
		})
		return &endingConn{Conn: conn, ending: e}, nil
	}
}

// endingConn notices a server that closes the connection without having sent anything.
type endingConn struct {
	net.Conn
	*ending
	heard atomic.Bool
}

func (c *endingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case n > 0:
		c.heard.Store(true)
	case err != nil && !c.heard.Load():
		c.hungUp.Store(true)
	}
	return n, err
}

// response passes on what the Transport returned, with the errors put right.
func (e *ending) response(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // it tells which of several servers it was
			u.Err = e.cause(u.Err)
		}
		return nil, err
	}
	resp.Body = &endingBody{resp.Body, e}
	return resp, nil
}

// cause returns the reason of err: if a connection was closed here, that; and if the server hung up before it was
// asked, that, and not what the Transport makes of it. HTTP/1's may write to the connection that it has closed by then,
// and HTTP/2's does not tell it from a malformed answer: "client conn could not be established".
func (e *ending) cause(err error) error {
	switch {
	case e.closed.Load():
		return e.ctx.Err()
	case e.hungUp.Load() && (errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "client conn could not be established")):
		return io.EOF
	}
	return err
}

// endingBody is a body whose reading ends with the context.
type endingBody struct {
	io.ReadCloser
	*ending
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.cause(err)
	}
	return n, err
}
