package remote

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/proxy"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
)

// reach connects to addr, through the proxy if there is one. Like OpenSSH and git, it ignores the proxy of the
// environment, which is for HTTP.
func (o Options) reach(ctx context.Context, dial dialFunc, addr string) (net.Conn, error) {
	if o.Proxy == nil {
		return dial(ctx, "tcp", addr)
	}
	var conn net.Conn
	var err error
	if o.Proxy.Scheme == "socks5" || o.Proxy.Scheme == "socks5h" {
		conn, err = throughSOCKS(ctx, dial, o.Proxy, addr)
	} else {
		conn, err = o.throughHTTP(ctx, dial, addr)
	}
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f := failure.Of(err)
	f.Text, f.Err, f.Elsewhere = "the proxy "+proxyAddress(o.Proxy)+": "+f.Text, err, true
	return nil, f
}

// proxyAddress returns HOST:PORT, with the scheme's default port if the URL has none.
func proxyAddress(p *url.URL) string {
	standard := map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[p.Scheme]
	return net.JoinHostPort(p.Hostname(), cmp.Or(p.Port(), standard, "80"))
}

// throughSOCKS connects through a SOCKS 5 proxy, which resolves the name (RFC 1928).
func throughSOCKS(ctx context.Context, dial dialFunc, p *url.URL, addr string) (net.Conn, error) {
	var auth *proxy.Auth
	if p.User != nil {
		password, _ := p.User.Password()
		auth = &proxy.Auth{User: p.User.Username(), Password: password}
	}
	d, err := proxy.SOCKS5("tcp", proxyAddress(p), auth, dial)
	if err != nil {
		return nil, err
	}
	return d.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
}

// Dial implements [proxy.Dialer]; only DialContext is called.
func (d dialFunc) Dial(network, addr string) (net.Conn, error) {
	return d(context.Background(), network, addr)
}

func (d dialFunc) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// throughHTTP connects through a tunnel of an HTTP proxy (RFC 9110, section 9.3.6).
func (o Options) throughHTTP(ctx context.Context, dial dialFunc, addr string) (_ net.Conn, err error) {
	p := o.Proxy
	conn, err := dial(ctx, "tcp", proxyAddress(p))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			conn.Close()
		}
	}()
	if p.Scheme == "https" {
		config, err := o.elsewhere().Load()
		if err != nil {
			return nil, failure.TLSFiles(err)
		}
		tlsconfig.EmbedRoots()
		config.ServerName = p.Hostname()
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secured
	}
	poll.Doing(ctx, "asking the proxy for a tunnel")
	return conn, askTunnel(conn, p.User, addr)
}

func askTunnel(conn net.Conn, user *url.Userinfo, addr string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{"User-Agent": {"initbox"}}}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	head, err := readHead(conn)
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), req)
	if err != nil {
		return failure.New(failure.Unexpected, "the answer is not HTTP") // the error may quote the answer
	}
	if resp.StatusCode/100 != 2 {
		return failure.Status(resp.StatusCode).WithHint("does the proxy permit connections to " + addr + ", and are its user and password right?")
	}
	return nil
}

// readHead reads an answer's header and not one byte more: in SSH the server speaks first, and its first bytes follow.
func readHead(conn net.Conn) ([]byte, error) {
	const limit = 16 << 10
	var head []byte
	b := make([]byte, 1)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if len(head) == limit {
			return nil, errors.New("the answer's header is too long")
		}
		if _, err := conn.Read(b); err != nil {
			return nil, err
		}
		head = append(head, b[0])
	}
	return head, nil
}
