package remote

import (
	"bufio"
	"cmp"
	"context"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/lazy"
)

// maxRedirects is how many redirects are followed; httpclient has the same limit.
const maxRedirects = 10

func isRedirect(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// follow changes base to the target of a redirect.
func (w *web) follow(resp *http.Response) error {
	from := resp.Request.URL
	to, err := resp.Location()
	if err != nil {
		return unexpected("redirected to an invalid URL")
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	switch {
	case to.Scheme != "https" && to.Scheme != "http" || to.Hostname() == "":
		return never("give the URL that it leads to", "redirected to a URL that is not http or https")
	case from.Scheme == "https" && to.Scheme == "http":
		return never("have the server redirect to https://", "redirected from https to http, which is not encrypted")
	}
	if !stripService(to) {
		return failure.New(failure.NoRepository, "no such repository: redirected to something else").
			WithHint("is the path right? it may be a login page: give --user and --password-file, or --token-file")
	}
	w.base = to
	home := httpclient.SameOrigin(to, w.url.web.URL)
	if home != w.home {
		w.home = home
		w.client.Close()
		w.client, err = w.newClient()
	}
	return err
}

// stripService removes what the request for the advertisement had appended to the repository's URL.
func stripService(u *url.URL) bool {
	const path, query = "/info/refs", "service=" + service
	if before, ok := strings.CutSuffix(u.RawQuery, path+"&"+query); ok {
		u.RawQuery = before
		return before != ""
	}
	escaped, ok := strings.CutSuffix(u.EscapedPath(), path)
	if !ok || u.RawQuery != query {
		return false
	}
	var err error
	u.Path, err = url.PathUnescape(escaped)
	u.RawPath, u.RawQuery = escaped, ""
	return err == nil
}

// advertisement checks that the answer is that of a Git server.
func (w *web) advertisement(ctx context.Context, resp *http.Response) (*reply, error) {
	buffered := bufio.NewReaderSize(resp.Body, 4<<10)
	if resp.StatusCode == http.StatusOK && dumb(resp, buffered) {
		resp.Body.Close()
		return nil, never("set up git http-backend on the server, or use another of its protocols", "the server only speaks the dumb HTTP protocol, which serves files and cannot make packs")
	}
	if err := w.check(resp, "advertisement"); err != nil {
		return nil, err
	}
	return w.reply(ctx, resp, buffered), nil
}

// dumbLine matches a line of the file info/refs of a dumb server.
var dumbLine = lazy.Regexp(`^([0-9a-f]{40}|[0-9a-f]{64})\trefs/`)

// dumb reports whether the answer is the file info/refs itself.
func dumb(resp *http.Response, b *bufio.Reader) bool {
	if strings.HasPrefix(mediaType(resp), "application/x-git") {
		return false
	}
	start, _ := b.Peek(64 + len("\trefs/"))
	return dumbLine().Match(start)
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// check returns what is wrong with an answer that is not the expected one of the service, and closes it in that case.
func (w *web) check(resp *http.Response, what string) error {
	kind := mediaType(resp)
	if resp.StatusCode == http.StatusOK && kind == "application/x-"+service+"-"+what {
		return nil
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound || status == http.StatusGone:
		return w.missing(status)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return w.unauthorized(status)
	case status != http.StatusOK:
		f := failure.Status(status)
		f.Err = statusError(status)
		return f
	case kind == "text/html" || kind == "application/xhtml+xml":
		return failure.New(failure.NoRepository, "no such repository: the answer is a web page").
			WithHint("is it the URL to clone from? it may be a login page: give --user and --password-file, or --token-file")
	}
	return unexpected("the answer is not that of a Git server: its type is %s", cmp.Or(failure.Printable(kind), "unknown"))
}

// statusError is the cause of a failure, so that callers can tell the statuses apart.
func statusError(status int) error {
	return &httpclient.StatusError{Answer: httpclient.Answer{Status: status}}
}

// missing returns the failure for 404, with which many servers hide private repositories.
func (w *web) missing(status int) error {
	f := absent(failure.Status(status).Text)
	f.Err = statusError(status)
	if w.anonymous() {
		f.Hint = "not found, or not permitted: many servers hide private repositories this way. Give --user and --password-file, or --token-file"
	}
	return f
}

func (w *web) unauthorized(status int) error {
	f := failure.Status(status)
	f.Err = statusError(status)
	switch {
	case !w.home:
		f.Hint = "the request was redirected to another server, to which no credentials are sent: give the URL that it leads to"
	case w.anonymous():
		f.Hint = "the repository requires credentials: give --user and --password-file, --token-file, or another of the flags for credentials"
	default:
		f.Hint = "are the credentials right, and do they permit reading the repository? many servers require a token instead of the password"
	}
	return f
}
