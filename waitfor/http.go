package waitfor

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/readfile"
)

var httpKind = Kind{
	Schemes: []string{"http", "https", "http+unix"},
	Usage:   "http://HOST[:PORT]/PATH",
	Ready:   "answers with a status from 200 to 399",
	Settings: append([]Setting{
		{Name: "status", Value: "LIST", Usage: "statuses that count, as in 200,401-403 (default 200-399)"},
		{Name: "body", Value: "TEXT|/REGEX/", Usage: "the body contains the text, or a match", Multi: true},
		{Name: "json", Value: "PATH[==VALUE]", Usage: "the JSON body has the path, as in .status==UP or .items[0].ready", Multi: true},
		{Name: "header", Value: "NAME[:VALUE]", Usage: "the answer has the header, with the value or a match of /REGEX/", Multi: true},
		{Name: "method", Value: "METHOD", Usage: "method of the request (default GET, with a body POST)"},
		{Name: "request-header", Value: "NAME:VALUE", Usage: "header of the request, not secret", Multi: true},
		{Name: "request-header-file", Value: "FILE", Usage: "file with headers of the request, one per line", Multi: true},
		{Name: "request-body", Value: "TEXT", Usage: "body of the request"},
		{Name: "request-body-file", Value: "FILE", Usage: "file with the body of the request"},
		{Name: "user", Value: "NAME", Usage: "user for basic authentication, with --password-file"},
		{Name: "password-file", Value: "FILE", Usage: "file with the password for basic authentication"},
		{Name: "token-file", Value: "FILE", Usage: "file with a bearer token"},
		{Name: "no-redirect", Usage: "judge a redirect itself instead of following it"},
		{Name: "no-proxy", Usage: "connect directly, whatever HTTP_PROXY says"},
		{Name: "h2c", Usage: "speak HTTP/2 without TLS"},
	}, tlsSettings...),
	parse: parseHTTP,
}

// bodyLimit is as much of an answer's body as is read to judge it. An endless
// body must not fill the memory.
const bodyLimit = 1 << 20

type httpCheck struct {
	*target
	client    httpclient.Options
	method    string
	header    http.Header
	status    []statusRange
	expect    []func(*http.Response, []byte) error
	needsBody bool
}

type statusRange struct{ low, high int }

func parseHTTP(t *target) (Check, error) {
	s := t.settings
	if t.url.Host == "" && t.socket == "" {
		return nil, errors.New("host missing, want " + t.kind.Usage)
	}
	if port := t.url.Port(); port != "" {
		if _, _, err := t.hostPort(); err != nil {
			return nil, err
		}
	}
	c := &httpCheck{target: t, method: http.MethodGet, header: http.Header{}}
	c.client = httpclient.Options{Dial: t.dialer().DialContext, TLS: s.tls(), NoProxy: s.on("no-proxy"), NoRedirect: s.on("no-redirect")}
	if t.socket != "" {
		c.client.NoProxy = true
		c.client.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialUnix(ctx, t.socket) }
	}
	if s.on("h2c") {
		if t.scheme == "https" {
			return nil, errors.New("h2c is HTTP/2 without TLS: use it with http://")
		}
		c.client.Protocol = httpclient.H2C
	}
	if s.on("request-body") || s.on("request-body-file") {
		c.method = http.MethodPost // as curl does
	}
	if s.on("method") {
		c.method = s.get("method")
		if c.method == "" || strings.ContainsAny(c.method, " \t\r\n:/") {
			return nil, errors.New("method: want one such as HEAD or POST")
		}
	}
	if s.on("user") != s.on("password-file") {
		return nil, errors.New("user and password-file go together")
	}
	for what, both := range map[string]bool{
		"token-file and user":                             s.on("token-file") && s.on("user"),
		"request-body and request-body-file":              s.on("request-body") && s.on("request-body-file"),
		"user in the URL and another way to authenticate": t.url.User != nil && (s.on("token-file") || s.on("user")),
	} {
		if both {
			return nil, errors.New(what + " exclude each other")
		}
	}
	var err error
	if c.status, err = parseStatus(s.get("status")); err != nil {
		return nil, err
	}
	for _, line := range s["request-header"] {
		if err := addHeader(c.header, line); err != nil {
			return nil, fmt.Errorf("request-header: %w", err)
		}
	}
	for name := range c.header {
		if secretHeader(name) {
			return nil, fmt.Errorf("request-header: %s is secret and would show in the Pod's specification: put the line into a file and give it with request-header-file", name)
		}
	}
	return c, c.parseExpectations()
}

func (c *httpCheck) parseExpectations() error {
	for _, text := range c.settings["header"] {
		name, value, valued := strings.Cut(text, ":")
		name = strings.TrimSpace(name)
		m, err := parseMatcher(strings.TrimSpace(value))
		if err != nil || name == "" {
			return fmt.Errorf("header: want NAME, NAME:VALUE or NAME:/REGEX/")
		}
		c.expect = append(c.expect, func(r *http.Response, _ []byte) error {
			values := r.Header.Values(name)
			if len(values) > 0 && !valued || slices.ContainsFunc(values, m.whole) {
				return nil
			}
			if len(values) == 0 {
				return failure(Unexpected, "the answer has no header %s", name)
			}
			return failure(Unexpected, "header %s is not %s", name, shorten(m.text))
		})
	}
	for _, text := range c.settings["body"] {
		m, err := parseMatcher(text)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		c.needsBody = true
		c.expect = append(c.expect, func(_ *http.Response, body []byte) error {
			if m.within(string(body)) {
				return nil
			}
			return failure(Unexpected, "the body does not contain %s", shorten(text))
		})
	}
	for _, text := range c.settings["json"] {
		j, err := parseJSONExpectation(text)
		if err != nil {
			return fmt.Errorf("json: %w", err)
		}
		c.needsBody = true
		c.expect = append(c.expect, func(_ *http.Response, body []byte) error { return j.check(body) })
	}
	return nil
}

// parseStatus reads a list such as 200,401-403.
func parseStatus(list string) ([]statusRange, error) {
	if list == "" {
		return []statusRange{{200, 399}}, nil
	}
	var ranges []statusRange
	for _, part := range strings.Split(list, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		l, err1 := strconv.Atoi(low)
		h, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || l < 100 || h > 999 || h < l {
			return nil, errors.New("status: want numbers and ranges from 100 to 999, as in 200,401-403")
		}
		ranges = append(ranges, statusRange{l, h})
	}
	return ranges, nil
}

// addHeader adds a line such as "Accept: text/plain". Its errors do not quote
// the line.
func addHeader(h http.Header, line string) error {
	name, value, ok := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	// RFC 9110, sections 5.1 and 5.5.
	nameFits := name != "" && strings.Trim(name, tokenCharacters) == ""
	valueFits := !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
	if !ok || !nameFits || !valueFits {
		return errors.New("want NAME: VALUE")
	}
	h.Add(name, value)
	return nil
}

const tokenCharacters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// secretHeader reports whether a header's value is likely to be a secret.
func secretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "auth-key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func (c *httpCheck) Check(ctx context.Context) error {
	req, err := c.request(ctx)
	if err != nil {
		return err
	}
	resp, err := httpclient.Do(req, c.client)
	if err != nil {
		return elsewhere(err, req.URL.Host, httpFailure(err))
	}
	defer resp.Body.Close()
	return c.judge(ctx, resp)
}

// request puts the request together, reading its files anew: they rotate.
func (c *httpCheck) request(ctx context.Context) (*http.Request, error) {
	u, err := c.expanded()
	if err != nil {
		return nil, err
	}
	if c.socket != "" {
		u.Scheme = "http"
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	// The phases of a request, for the message if one of them never ends, are
	// noted by the dialer and here.
	req, err := http.NewRequestWithContext(trace(ctx), c.method, "http://placeholder.invalid", body)
	if err != nil {
		return nil, poll.Permanent(errors.New("method or body is not valid"))
	}
	req.URL, req.Host = u, u.Host
	req.Header = c.header.Clone()
	req.Header.Set("User-Agent", "initbox")
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	for _, name := range c.settings["request-header-file"] {
		lines, err := readSecret(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(lines) {
			if strings.TrimSpace(line) == "" {
				continue
			}
			if err := addHeader(req.Header, strings.TrimRight(line, "\r\n")); err != nil {
				return nil, &Failure{Class: Local, Text: "header file " + name + ": " + err.Error()}
			}
		}
	}
	return req, c.authenticate(req)
}

func (c *httpCheck) authenticate(req *http.Request) error {
	if name := c.settings.get("token-file"); name != "" {
		token, err := readSecret(name)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if name := c.settings.get("password-file"); name != "" {
		password, err := readSecret(name)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.settings.get("user")+":"+password)))
	}
	if strings.ContainsAny(req.Header.Get("Authorization"), "\r\n\x00") {
		return &Failure{Class: Local, Text: "the password or token has a line break in it"}
	}
	return nil
}

func (c *httpCheck) body() (io.Reader, error) {
	if name := c.settings.get("request-body-file"); name != "" {
		data, err := readfile.All(name)
		if err != nil {
			return nil, &Failure{Class: Local, Text: "request body: " + err.Error(), Err: err, Hint: "is the volume mounted, and may this user read it?"}
		}
		return bytes.NewReader(data), nil
	}
	if c.settings.on("request-body") {
		return strings.NewReader(c.settings.get("request-body")), nil
	}
	return nil, nil
}

func (c *httpCheck) judge(ctx context.Context, resp *http.Response) error {
	if !slices.ContainsFunc(c.status, func(r statusRange) bool { return r.low <= resp.StatusCode && resp.StatusCode <= r.high }) {
		return statusFailure(resp.StatusCode)
	}
	var body []byte
	if c.needsBody {
		poll.Doing(ctx, "reading the body")
		var err error
		if body, err = io.ReadAll(io.LimitReader(resp.Body, bodyLimit)); err != nil {
			return httpFailure(err)
		}
	}
	for _, expectation := range c.expect {
		if err := expectation(resp, body); err != nil {
			return err
		}
	}
	return nil
}

func statusFailure(status int) *Failure {
	f := failure(Unexpected, "status %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired:
		f.Class = Authentication
		f.Hint = "are the credentials right? give them with --token-file, or --user and --password-file; if an answer of this kind is good enough, expect it with --status"
	case status == http.StatusBadRequest:
		f.Hint = "does the server want TLS (https://) on this port?"
	case status == http.StatusNotFound:
		f.Hint = "is the path right? if an answer of this kind is good enough, expect it with --status"
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		f.Hint = "the server, or a proxy in front of it, says that it is not ready: look at its log"
	case status >= 500:
		f.Hint = "the server fails: look at its log"
	}
	f.Text = strings.TrimRight(f.Text, " ")
	return f
}

// elsewhere marks the failure of a request that a proxy, or the server that a
// redirect led to, has caused: it says nothing of the target at host.
func elsewhere(err error, host string, failed error) error {
	f := classify(failed)
	var proxy *net.OpError
	var urlErr *url.Error
	switch {
	case errors.As(err, &proxy) && proxy.Op == "proxyconnect":
		f.Text = "the proxy that HTTP_PROXY or HTTPS_PROXY names: " + f.Text
		f.Hint = "connect directly with --no-proxy, or name the target in NO_PROXY"
	case errors.As(err, &urlErr):
		last, parseErr := url.Parse(urlErr.URL)
		if parseErr != nil || last.Host == host || last.Host == "" {
			return failed
		}
		f.Text = "redirected to another server: " + f.Text // not where to: it is the server's text, and may hold a token
		f.Hint = "judge the redirect itself with --no-redirect, or look where it leads"
	default:
		return failed
	}
	f.elsewhere, f.Err = true, failed
	return f
}

// httpFailure classes what net/http says in words of its own.
func httpFailure(err error) error {
	var config *httpclient.ConfigError
	if errors.As(err, &config) {
		return tlsFilesFailure(err)
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err // it quotes the URL
	}
	f := classify(err)
	if f.Class != Unexpected || errors.As(err, new(*Failure)) {
		return err
	}
	text := err.Error()
	switch {
	case errors.Is(err, httpclient.ErrBodyElsewhere):
		f := failure(Unexpected, "redirected to another server, which must not get the request's body")
		f.Hint = "judge the redirect itself with --no-redirect, or give the target that it leads to"
		return f
	case errors.Is(err, httpclient.ErrRedirects):
		f := failure(Unexpected, "redirected more than 10 times")
		f.Hint = "the redirects probably form a loop; judge the first one with --no-redirect"
		return f
	case strings.Contains(text, "server response headers exceeded"), strings.Contains(text, "response headers too large"):
		return failure(Unexpected, "the answer's header is longer than 64 KiB")
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		f := failure(TLS, "TLS: the server does not speak TLS on this port")
		f.Hint = "use http://, or the server's TLS port"
		return f
	case strings.Contains(text, "Location header"):
		return failure(Unexpected, "redirected to what is not a URL")
	case strings.Contains(text, "client conn could not be established"):
		// All that HTTP/2's client says when the server refuses its certificate.
		f := failure(Reset, "connection closed by the server")
		f.Hint = certificateHint
		return f
	case strings.Contains(text, "readLoopPeekFailLocked"), // spoke before it was asked
		strings.Contains(text, "malformed"), strings.Contains(text, "bad Content-Length"), strings.Contains(text, "transfer encoding"), strings.Contains(text, "http2: "):
		f := failure(Unexpected, "the answer is not HTTP")
		f.Hint = "is it the right port? does the server want TLS (https://) or HTTP/2 (--h2c)?"
		return f
	}
	f.Text = quoted.ReplaceAllString(f.Text, "…") // what the server sent, perhaps with a secret
	return f
}

// quoted is a Go string in an error's text.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)
