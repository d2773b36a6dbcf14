package failure

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"initbox/internal/lazy"
)

// Status returns the failure of an answer with an HTTP status other than expected.
func Status(status int) *Failure {
	f := New(Unexpected, "status %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusProxyAuthRequired:
		f.Class = Authentication
		f.Hint = "the proxy needs a login: HTTP_PROXY and HTTPS_PROXY may have one, from a Secret"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.Class = Authentication
		f.Hint = "are the credentials right? give them with --token-file, or --user and --password-file"
	case status == http.StatusBadRequest:
		f.Hint = "does the server expect TLS (https://) on this port?"
	case status == http.StatusNotFound:
		f.Hint = "is the path right?"
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		f.Hint = "the server, or a proxy in front of it, reports that it is not ready: look at its log"
	case status >= 500:
		f.Hint = "the server failed: look at its log"
	}
	f.Text = strings.TrimRight(f.Text, " ")
	return f
}

// RedirectHint is the hint for a redirect that cannot be followed, or leads to a server that fails.
const RedirectHint = "give the URL that the redirect leads to"

// HTTP returns the failure of a request to host, as in [url.URL.Host], or of reading its
// answer. It returns an error that [Of] recognizes unchanged.
func HTTP(err error, host string) error { return elsewhere(err, host, ofHTTP(err)) }

// elsewhere marks a failure that was caused by a proxy or by the server that a redirect led
// to: it says nothing about the server at host.
func elsewhere(err error, host string, failed error) error {
	f := Of(failed)
	var proxy *net.OpError
	var urlErr *url.Error
	switch {
	case f.Elsewhere: // which its text says
		return failed
	case errors.As(err, &proxy) && proxy.Op == "proxyconnect":
		f.Text = "the proxy: " + f.Text
		f.Hint = "is it the right proxy? HTTP_PROXY and HTTPS_PROXY name it unless a flag does; hosts in NO_PROXY are reached directly"
	case errors.As(err, &urlErr):
		last, parseErr := url.Parse(urlErr.URL)
		if parseErr != nil || last.Host == host || last.Host == "" {
			return failed
		}
		f.Text = "redirected to another server: " + f.Text // not where to: it is the server's text, and may hold a token
		f.Hint = RedirectHint
	default:
		return failed
	}
	f.Elsewhere, f.Err = true, failed
	return f
}

// ofHTTP classifies the errors of net/http that have no type.
func ofHTTP(err error) error {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err // it quotes the URL
	}
	f := Of(err)
	if f.Class != Unexpected || errors.As(err, new(*Failure)) {
		return err
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "server response headers exceeded"), strings.Contains(text, "response headers too large"):
		return New(Unexpected, LongHeader).WithHint("is it the right port?")
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return New(TLS, "TLS: the server does not speak TLS on this port").WithHint("use http://, or the server's TLS port")
	case strings.Contains(text, "server closed idle connection"): // before the request was sent
		return New(Reset, "connection closed by the server").WithHint(closedHint)
	case strings.Contains(text, "Location header"):
		return New(Unexpected, "redirected to an invalid URL")
	case strings.Contains(text, "client conn could not be established") && (urlErr == nil || !strings.HasPrefix(urlErr.URL, "http://")):
		// All that HTTP/2's client says when the server refuses its certificate.
		return New(Reset, "connection closed by the server").WithHint(certificateHint)
	case strings.Contains(text, "client conn could not be established"), strings.Contains(text, "readLoopPeekFailLocked"), // spoke before it was asked
		strings.Contains(text, "malformed"), strings.Contains(text, "bad Content-Length"), strings.Contains(text, "transfer encoding"), strings.Contains(text, "http2: "),
		strings.HasPrefix(text, "connection error: "), strings.HasPrefix(text, "stream error: "): // the names of HTTP/2's errors come after
		return New(Unexpected, NotHTTP).WithHint("is it the right port? does the server expect TLS (https://)?")
	}
	f.Text = quoted().ReplaceAllString(f.Text, "…") // what the server sent, perhaps with a secret
	return f
}

// Texts of failures that another protocol on the port may have caused.
const (
	NotHTTP    = "the answer is not HTTP"
	LongHeader = "the answer's header is longer than 64 KiB"
)

// quoted is a Go string in an error's text.
var quoted = lazy.Regexp(`"(\\.|[^"\\])*"`)
