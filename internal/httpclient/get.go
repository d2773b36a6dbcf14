package httpclient

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
)

// Site sends requests to a server, and to those that it redirects to. These do not receive the client certificate, and
// credentials only as the caller decides.
type Site struct{ home, elsewhere *Client }

// NewSite returns a client for a server that is reached with these options.
func NewSite(o Options) (*Site, error) {
	o.NoRedirect = true // see Do
	home, err1 := New(o)
	elsewhere, err2 := New(o.Elsewhere())
	return &Site{home, elsewhere}, cmp.Or(err1, err2)
}

// Close closes the connections that are not in use.
func (s *Site) Close() { s.home.Close(); s.elsewhere.Close() }

// Do sends a request, and follows redirects unless it is a POST. home is the URL of the site's server. Each request is
// passed to authorize, which may add credentials for its server. An answer other than a redirect is no error, whatever
// its status; its Request has the URL that it is from. Errors are those of authorize, of [MayRedirect] and of [Reason].
func (s *Site) Do(req *http.Request, home *url.URL, authorize func(*http.Request) error) (*http.Response, error) {
	ctx, target := req.Context(), req.URL
	for redirects := 0; ; redirects++ {
		out := req.Clone(Trace(ctx))
		out.URL, out.Host = target, target.Host
		if err := authorize(out); err != nil {
			return nil, err
		}
		client := s.elsewhere
		if SameOrigin(target, home) {
			client = s.home
		}
		resp, err := client.Do(out)
		if err != nil {
			return nil, Reason(ctx, err, target.Host)
		}
		redirect := resp.StatusCode >= 300 && resp.StatusCode <= 399 && resp.StatusCode != http.StatusNotModified
		if !redirect || resp.Header.Get("Location") == "" || req.Method == http.MethodPost {
			return resp, nil
		}
		resp.Body.Close()
		to, err := resp.Location()
		if err != nil {
			return nil, poll.Permanent(failure.New(failure.Unexpected, "redirected to an invalid URL"))
		}
		if err := MayRedirect(redirects, target, to); err != nil {
			return nil, err
		}
		to.User, to.Fragment, to.RawFragment = nil, "", "" // net/http would send the user
		target = to
	}
}

// Reason returns the failure of a request to host, as in [url.URL.Host], or of reading its answer; or the error of ctx
// if that has ended. It is permanent if TLS failed.
func Reason(ctx context.Context, err error, host string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = failure.HTTP(err, host)
	if failure.Of(err).Class == failure.TLS {
		return poll.Permanent(err)
	}
	return err
}

// Elsewhere returns the options for other servers than the one that they are for: without the client certificate, and
// without the name that the server's certificate must have.
func (o Options) Elsewhere() Options {
	o.TLS = tlsconfig.Options{CAFile: o.TLS.CAFile, CA: o.TLS.CA, Insecure: o.TLS.Insecure}
	return o
}

// MayRedirect returns a permanent error unless a GET may be redirected, after a number of redirects: to http or https,
// and not to a connection without encryption from one that has it.
func MayRedirect(redirects int, from, to *url.URL) error {
	f := failure.New(failure.Unexpected, "")
	switch {
	case redirects >= maxRedirects:
		f.Text = fmt.Sprintf("redirected more than %d times", maxRedirects)
	case to.Scheme != "https" && to.Scheme != "http" || to.Hostname() == "":
		f.Text = "redirected to a URL that is not http or https"
	case from.Scheme == "https" && to.Scheme == "http":
		return poll.Permanent(ErrNotEncrypted)
	default:
		return nil
	}
	f.Elsewhere = true
	return poll.Permanent(f)
}

// ErrNotEncrypted is the error of a redirect from https to http.
var ErrNotEncrypted error = &failure.Failure{
	Class: failure.Unexpected, Text: "redirected from https to http, which is not encrypted", Elsewhere: true,
	Hint: failure.RedirectHint,
}

// IsPart returns whether the header of an answer with status 206 says that it begins at a byte of the content, which
// has total bytes, or -1 if that is unknown.
func IsPart(h http.Header, begin, total int64) bool {
	text, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	part, length, _ := strings.Cut(text, "/")
	first, _, _ := strings.Cut(part, "-")
	return ok && first == strconv.FormatInt(begin, 10) && (total < 0 || length == "*" || length == strconv.FormatInt(total, 10))
}
