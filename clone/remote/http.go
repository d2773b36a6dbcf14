package remote

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"initbox/clone/pktline"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// web is the transport over HTTP (gitprotocol-http(5), "Smart Server Response").
type web struct {
	url    *URL
	o      Options
	base   *url.URL // the repository's, where a redirect may have led to; without user information
	client *httpclient.Client
	home   bool // base is at the origin of url, to which what proves who asks is sent

	mu      sync.Mutex
	secrets []string // not to be quoted
}

const (
	service = "git-upload-pack"

	// userAgent begins as git's does, by which servers tell a Git client from a
	// browser, to which they show a page.
	userAgent = "git/2 (initbox)"

	// readBuffer is how much of a connection is read at once.
	readBuffer = 64 << 10
)

func openHTTP(ctx context.Context, u *URL, o Options) (Repository, error) {
	w := &web{url: u, o: o, home: true}
	var err error
	if w.client, err = w.newClient(); err != nil {
		return nil, err
	}
	return openServer(ctx, u, o, w)
}

// newClient returns one for where base is: a client's certificate is not for others.
func (w *web) newClient() (*httpclient.Client, error) {
	tls := w.o.HTTP.TLS
	if !w.home {
		tls = w.o.Elsewhere().HTTP.TLS
	}
	return httpclient.New(httpclient.Options{
		Dial:       w.o.dialer(),
		TLS:        tls,
		Proxy:      w.o.Proxy,
		Protocol:   httpclient.HTTP1, // one connection for one pack, whose silence tells
		NoRedirect: true,             // they are followed here
		Buffer:     readBuffer,
	})
}

func (w *web) live() bool { return true }

func (w *web) Close() error { w.client.Close(); return nil }

func (w *web) quote(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return quoted(text, w.secrets)
}

// advertise asks what the server can do. The redirects that it answers with count
// for all that follows, as git has it (git-config(1), http.followRedirects).
func (w *web) advertise(ctx context.Context) (*reply, error) {
	for range maxRedirects {
		resp, err := w.do(ctx, "info/refs", nil)
		if err != nil {
			return nil, err
		}
		if !isRedirect(resp) {
			return w.advertisement(ctx, resp)
		}
		resp.Body.Close()
		if err := w.follow(resp); err != nil {
			return nil, err
		}
	}
	return nil, never("the redirects probably form a loop", "redirected more than %d times", maxRedirects)
}

// send posts a message. The answer to one that asks for a pack is not compressed
// once more.
func (w *web) send(ctx context.Context, message []byte, pack bool) (*reply, error) {
	resp, err := w.do(ctx, service, &body{message, pack})
	if err != nil {
		return nil, err
	}
	if isRedirect(resp) {
		resp.Body.Close()
		return nil, unexpected("redirected in the midst of the conversation (status %d)", resp.StatusCode)
	}
	if err := w.check(resp, "result"); err != nil {
		return nil, err
	}
	return w.reply(ctx, resp, resp.Body), nil
}

// body is what is posted.
type body struct {
	message []byte
	pack    bool
}

// do asks for a path below the repository's.
func (w *web) do(ctx context.Context, path string, b *body) (*http.Response, error) {
	target, err := w.target(path)
	if err != nil {
		return nil, err
	}
	method, content := http.MethodGet, io.Reader(nil)
	if b != nil {
		method, content = http.MethodPost, bytes.NewReader(b.message)
	}
	req, err := http.NewRequestWithContext(httpclient.Trace(ctx), method, target.String(), content)
	if err != nil {
		return nil, unexpected("the URL is not one that can be asked")
	}
	req.URL = target
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Git-Protocol", "version=2")
	if b != nil {
		req.Header.Set("Content-Type", "application/x-"+service+"-request")
		req.Header.Set("Accept", "application/x-"+service+"-result")
	}
	if b == nil {
		req.Header.Set("Pragma", "no-cache") // an old list is of no use
	}
	if b != nil && b.pack {
		req.Header.Set("Accept-Encoding", "identity")
	}
	if err := w.authorize(ctx, req); err != nil {
		return nil, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, w.name(ctx, err)
	}
	return resp, nil
}

// target is the URL of a path below the repository's. A query of the repository's URL
// goes on with it, as with git.
func (w *web) target(path string) (*url.URL, error) {
	x, err := w.url.web.Expand()
	if err != nil {
		return nil, err
	}
	if w.base != nil {
		user := x.User
		x = new(*w.base)
		if w.home {
			x.User = user
		}
	}
	query := ""
	if path == "info/refs" {
		query = "service=" + service
	}
	if x.RawQuery != "" {
		x.RawQuery = strings.TrimSuffix(x.RawQuery, "/") + "/" + path
		if query != "" {
			x.RawQuery += "&" + query
		}
		return x, nil
	}
	escaped := strings.TrimRight(x.EscapedPath(), "/") + "/" + path
	if x.Path, err = url.PathUnescape(escaped); err != nil {
		return nil, unexpected("the path is not one")
	}
	x.RawPath, x.RawQuery = escaped, query
	return x, nil
}

// authorize adds what proves who asks, to requests to the origin of the URL alone.
func (w *web) authorize(ctx context.Context, req *http.Request) error {
	if !w.home {
		return nil
	}
	secrets, err := w.o.authorize(ctx, req)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = append(w.url.Secrets(), secrets...)
	return err
}

// anonymous reports whether nothing proved who asks.
func (w *web) anonymous() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.secrets) == 0
}

// maxRemainder is as much as is read of an answer that is over, so that its
// connection can be used again.
const maxRemainder = 4 << 10

func (w *web) reply(ctx context.Context, resp *http.Response, content io.Reader) *reply {
	return &reply{
		Reader: pktline.NewReader(content),
		end: func() {
			io.CopyN(io.Discard, resp.Body, maxRemainder)
			resp.Body.Close()
		},
		fail: func(err error) error {
			resp.Body.Close()
			return w.name(ctx, err)
		},
	}
}

// name makes a failure of what a client says.
func (w *web) name(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case poll.IsPermanent(err):
		return err
	}
	host := w.url.web.Host
	if w.base != nil {
		host = w.base.Host
	}
	return named(failure.HTTP(err, host))
}
