package httpclient

import (
	"context"
	"net"
	"net/http"
	"time"
)

// A connection of a [Client] takes no longer than this to be there. A Transport
// goes on connecting when the request that wanted it has given up, which says
// better what it was waiting for.
const connectWithin = 15 * time.Second

// An HTTP/2 connection on which nothing was heard for pingAfter is asked for a
// sign of life, and given up with all its requests when there is none within
// pingWithin: a server that is gone without a word does not answer by waiting.
const (
	pingAfter  = 10 * time.Second
	pingWithin = 5 * time.Second
)

// idleFor is how long a connection that nobody uses is kept.
const idleFor = 30 * time.Second

// Client sends requests over connections that it keeps, to a server that is
// asked again and again. What kept connections cannot do is [Do]'s.
type Client struct {
	options   Options
	transport *http.Transport
}

// New returns a client. It reads the certificate files once; a failure to do so
// is a [ConfigError].
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

// Do sends req. Its response's body is to be read to the end, or closed.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	return c.options.send(req, c.transport)
}

// Close gives up the connections: now those that are idle, the others when
// their last request is over and idleFor has passed.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// dialWithin bounds a dial, which a Transport does not end with the request
// that wanted the connection.
func dialWithin(limit time.Duration, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return dial(ctx, network, addr)
	}
}
