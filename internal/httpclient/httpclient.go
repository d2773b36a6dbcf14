// Package httpclient is the only HTTP client of initbox.
//
// [Do] sends one request over a connection of its own, as a readiness check needs it; a
// [Client] keeps connections to one server, as the Kubernetes API needs it; [Retry] repeats a
// request until the answer is final. [Credentials] are the headers that come from secrets.
package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"initbox/internal/failure"
	"initbox/internal/tlsconfig"
)

// Protocol says which versions of HTTP a client speaks.
type Protocol int

const (
	Auto  Protocol = iota // HTTP/1.1, and HTTP/2 where TLS negotiates it
	H2C                   // HTTP/2 without TLS, by prior knowledge (RFC 9113, section 3.3)
	HTTP2                 // HTTP/2 over TLS only
	HTTP1                 // HTTP/1.1 only, so that each request has a connection of its own
)

// Options configures [Do].
type Options struct {
	// Dial connects to a host; its error says why a name does not resolve.
	Dial       func(ctx context.Context, network, addr string) (net.Conn, error)
	TLS        tlsconfig.Options
	Protocol   Protocol
	Proxy      *url.URL // through which to connect, whatever the environment says; may be nil
	NoProxy    bool     // ignore HTTP_PROXY and similar variables
	NoRedirect bool     // return the redirect itself
	Buffer     int      // bytes that a [Client] reads of a connection at once; 0 for a size that suits short answers
	Window     int      // bytes of an answer over HTTP/2 that may wait to be read; 0 for the 4 MiB of net/http
	KeepMethod bool     // refuse a redirect that makes another method of the request's, or leads from https to http; see [ErrMethodChanged]
}

// maxHeader is how many bytes of a response's header are read.
const maxHeader = 64 << 10

// bufferSize suits the short messages of health checks; there may be a thousand of them at once.
const bufferSize = 1 << 10

// maxRedirects is what browsers and curl's users are used to.
const maxRedirects = 10

// Do sends req over a new connection, which it does not keep, after reading the certificate
// files again: a connection that was kept proves only that the server was ready. The error
// of a file that cannot be read is that of [failure.TLSFiles].
func Do(req *http.Request, o Options) (*http.Response, error) {
	t, err := o.transport()
	if err != nil {
		return nil, err
	}
	e := &ending{ctx: req.Context()}
	t.DialContext = e.dialer(o.Dial)
	t.DisableKeepAlives = true
	t.ReadBufferSize, t.WriteBufferSize = bufferSize, bufferSize
	return e.response(o.send(req, t))
}

// transport returns what [Do] and [Client] have in common.
func (o Options) transport() (*http.Transport, error) {
	conf, err := o.TLS.Load()
	if err != nil {
		return nil, failure.TLSFiles(err)
	}
	t := &http.Transport{
		TLSClientConfig:        conf,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              new(http.Protocols),
	}
	if o.Window > 0 {
		t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: o.Window}
	}
	switch {
	case o.Proxy != nil:
		t.Proxy = http.ProxyURL(o.Proxy)
	case !o.NoProxy:
		t.Proxy = proxy
	}
	switch o.Protocol {
	case Auto:
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	case H2C:
		t.Protocols.SetUnencryptedHTTP2(true)
	case HTTP2:
		t.Protocols.SetHTTP2(true)
	case HTTP1:
		t.Protocols.SetHTTP1(true)
	}
	return t, nil
}

func (o Options) send(req *http.Request, t *http.Transport) (*http.Response, error) {
	if req.URL.Scheme == "https" && o.TLS.CA == "" {
		tlsconfig.EmbedRoots()
	}
	client := &http.Client{Transport: t, CheckRedirect: o.checkRedirect}
	return client.Do(req)
}

func (o Options) checkRedirect(req *http.Request, via []*http.Request) error {
	if o.NoRedirect {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return ErrRedirects
	}
	if o.KeepMethod && req.Method != via[0].Method {
		return methodChanged(req.Response.StatusCode)
	}
	if o.KeepMethod && req.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https" {
		return ErrNotEncrypted
	}
	if req.URL.Scheme == "https" {
		tlsconfig.EmbedRoots()
	}
	req.Header.Del("Referer") // it would carry the query, and a token in it
	if !SameOrigin(req.URL, via[0].URL) {
		if req.Body != nil && req.Body != http.NoBody { // 307 and 308 repeat it
			return ErrBodyElsewhere
		}
		// net/http removes only the headers that it knows to be secret, and only
		// for another domain; a header from a file may have any name.
		for name := range req.Header {
			switch name {
			case "Accept", "Accept-Encoding", "Content-Type", "If-Modified-Since", "If-None-Match", "If-Range", "Range", "User-Agent":
			default:
				req.Header.Del(name)
			}
		}
	}
	return nil
}

// ErrBodyElsewhere is the error of a redirect that would send the request's
// body to another server, for which it is not meant.
var ErrBodyElsewhere error = &failure.Failure{
	Class: failure.Unexpected, Text: "redirected to another server, which must not receive the request's body", Elsewhere: true,
	Hint: failure.RedirectHint,
}

// ErrRedirects is the error of a chain of redirects that is too long.
var ErrRedirects error = &failure.Failure{
	Class: failure.Unexpected, Text: fmt.Sprintf("redirected more than %d times", maxRedirects),
	Hint: "the redirects probably form a loop: give a URL that is not redirected",
}

// ErrMethodChanged is the error of a redirect that would turn a POST or PUT into a GET without the body, whose
// success would mean nothing: 301 and 302, as browsers treat them (RFC 9110, sections 15.4.2 and 15.4.3), and 303.
var ErrMethodChanged = errors.New("redirected to another method")

func methodChanged(status int) error {
	f := failure.New(failure.Unexpected, "the server redirects the request (%d), which would drop its body", status)
	f.Hint = failure.RedirectHint
	f.Err, f.Elsewhere = ErrMethodChanged, true
	return f
}

// SameOrigin reports whether credentials for a may be sent to b.
func SameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
