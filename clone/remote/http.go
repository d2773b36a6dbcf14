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
	"initbox/internal/secret"
)

// web is the transport over HTTP (gitprotocol-http(5), "Smart Server Response").
type web struct {
	url    *URL
	o      Options
	base   *url.URL // URL of the repository after redirects, without user information
	client *httpclient.Client
	home   bool // base has the origin of url, to which credentials are sent

	mu      sync.Mutex
	secrets []string // never quoted
}

const (
	service = "git-upload-pack"

	// userAgent begins like git's: servers tell a Git client from a browser by it, and send a browser a page.
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

// newClient returns a client for the server of base. The client certificate is sent only to the origin of url.
func (w *web) newClient() (*httpclient.Client, error) {
	tls := w.o.HTTP.TLS
	if !w.home {
		tls = w.o.elsewhere()
	}
	return httpclient.New(httpclient.Options{
		Dial:       w.o.dialer(),
		TLS:        tls,
		Proxy:      w.o.Proxy,
		Protocol:   httpclient.HTTP1, // one connection for one pack, so that a stall shows
		NoRedirect: true,             // see follow
		Buffer:     readBuffer,
	})
}

func (w *web) live() bool { return true }

func (w *web) Close() error { w.client.Close(); return nil }

func (w *web) quote(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return secret.Quote(text, w.secrets...)
}

// advertise requests the server's features. If it redirects, all later requests go to the new location, as in git
// (git-config(1), http.followRedirects).
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

// send posts a message. If that requests a pack, the answer must not be compressed again.
func (w *web) send(ctx context.Context, message []byte, pack bool) (*reply, error) {
	resp, err := w.do(ctx, service, &body{message, pack})
	if err != nil {
		return nil, err
	}
	if isRedirect(resp) {
		resp.Body.Close()
		return nil, unexpected("redirected in the middle of the conversation (status %d)", resp.StatusCode)
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

// do sends a request for a path below that of the repository: GET without a body, else POST.
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
		return nil, unexpected("the URL cannot be requested")
	}
	req.URL = target
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Git-Protocol", "version=2")
	if b != nil {
		req.Header.Set("Content-Type", "application/x-"+service+"-request")
		req.Header.Set("Accept", "application/x-"+service+"-result")
	} else {
		req.Header.Set("Pragma", "no-cache") // an outdated list is useless
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

// target returns the URL of a path below that of the repository. If the repository's URL has a query, the path is
// appended to the query, as git does.
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
		return nil, unexpected("the path of the URL is malformed")
	}
	x.RawPath, x.RawQuery = escaped, query
	return x, nil
}

// authorize adds credentials to a request, if it is to the origin of the URL.
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

// anonymous reports whether no credentials were sent.
func (w *web) anonymous() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.secrets) == 0
}

// maxRemainder is how many bytes are read after the end of an answer, so that its connection can be used again.
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

// name turns an error of the client into a failure.
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
