package httpclient

import (
	"context"
	"net"
	"net/http"
	"time"
)

// connectWithin is the longest time in which a [Client] connects. A Transport continues to connect after its request
// has given up; the error of the request says better what it waited for.
const connectWithin = 15 * time.Second

// An HTTP/2 connection that has been silent for pingAfter is pinged, and closed with all its requests if there is no
// answer within pingWithin: the server may be gone without having closed it.
const (
	pingAfter  = 10 * time.Second
	pingWithin = 5 * time.Second
)

// idleFor is how long an unused connection is kept.
const idleFor = 30 * time.Second

// Client sends requests over connections that it keeps, to a server that it asks again and
// again. Use [Do] where each request needs a new connection.
type Client struct {
	options   Options
	transport *http.Transport
}

// New returns a client. It reads the certificate files once; the error of one that cannot be
// read is that of [failure.TLSFiles].
func New(o Options) (*Client, error) {
	t, err := o.transport()
	if err != nil {
		return nil, err
	}
	t.DialContext = dialWithin(connectWithin, o.Dial)
	t.TLSHandshakeTimeout = connectWithin
	t.IdleConnTimeout = idleFor
	t.ReadBufferSize = o.Buffer
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWithin}
	return &Client{o, t}, nil
}

// Do sends req. The caller reads the response's body to its end, or closes it.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	return c.options.send(req, c.transport)
}

// Close closes idle connections at once, and the others when their last request is over and idleFor has passed.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// dialWithin bounds a dial, which a Transport does not end with the request that wanted the connection.
func dialWithin(limit time.Duration, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return dial(ctx, network, addr)
	}
}
