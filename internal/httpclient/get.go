package httpclient

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
)

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
		f.Text = "redirected from https to http, which is not encrypted"
	default:
		return nil
	}
	f.Elsewhere = true
	return poll.Permanent(f)
}

// IsPart returns whether the header of an answer with status 206 says that it begins at a byte of the content, which
// has total bytes, or -1 if that is unknown.
func IsPart(h http.Header, begin, total int64) bool {
	text, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	part, length, _ := strings.Cut(text, "/")
	first, _, _ := strings.Cut(part, "-")
	return ok && first == strconv.FormatInt(begin, 10) && (total < 0 || length == "*" || length == strconv.FormatInt(total, 10))
}
