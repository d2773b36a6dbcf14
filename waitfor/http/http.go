// Package http waits for answers of HTTP servers: http://HOST[:PORT]/PATH, https:// and, for a Unix socket,
// http+unix://%2FPATH%2FOF%2FSOCKET/PATH.
//
// A server is ready when it answers with a status from 200 to 399, or one in the setting status. The settings body,
// json and header say what else must be in the answer; method and those that begin with request- what is sent; user
// with password-file, or token-file, how to log in.
package http

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/readfile"
	"initbox/internal/setting"
	"initbox/waitfor/expect"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/httpapi"
)

// Kind is the kind of targets with the schemes http, https and http+unix.
var Kind = target.Kind{
	Schemes: []string{"http", "https", "http+unix"},
	Usage:   "http://HOST[:PORT]/PATH",
	Ready:   "answers with a status from 200 to 399",
	Settings: slices.Concat([]target.Setting{
		{Name: "status", Value: "LIST", Usage: "statuses that count, as in 200,401-403, or any (default 200-399)"},
		{Name: "body", Value: "TEXT|/REGEX/", Usage: "the body contains the text, or a match", Multi: true},
		{Name: "json", Value: "PATH[==VALUE]", Usage: "the JSON body has the path, as in .status==UP or .items[0].ready", Multi: true},
		{Name: "header", Value: "NAME[:VALUE]", Usage: "the answer has the header, with the value or a match of /REGEX/", Multi: true},
		{Name: "method", Value: "METHOD", Usage: "method of the request (default GET, with a body POST)"},
		{Name: "request-header", Value: "NAME:VALUE", Usage: "header of the request, not secret", Multi: true},
		{Name: "request-header-file", Value: "FILE", Usage: "file with headers of the request, one per line", Multi: true},
		{Name: "request-body", Value: "TEXT", Usage: "body of the request", Excludes: []string{"request-body-file"}},
		{Name: "request-body-file", Value: "FILE", Usage: "file with the body of the request"},
		{Name: "token-file", Value: "FILE", Usage: "file with a bearer token", Excludes: []string{"user"}},
		{Name: "no-redirect", Usage: "judge a redirect itself instead of following it"},
		{Name: "no-proxy", Usage: "connect directly, whatever HTTP_PROXY says"},
		{Name: "h2c", Usage: "speak HTTP/2 without TLS"},
	}, wire.LoginSettings, setting.TLS),
	Socket: "http+unix",
	Parse:  parse,
}

type check struct {
	*target.Target
	client      httpclient.Options
	method      string
	credentials httpclient.Credentials
	status      httpclient.Statuses
	expect      []func(*http.Response, []byte) error
	needsBody   bool
}

func parse(t *target.Target) (target.Check, error) {
	if t.URL.Host == "" && t.Socket == "" {
		return nil, errors.New("host missing, want " + t.Kind.Usage)
	}
	if port := t.URL.Port(); port != "" {
		if _, _, err := target.HostPort(t); err != nil {
			return nil, err
		}
	}
	c := &check{Target: t, method: http.MethodGet}
	for _, part := range []func() error{c.parseClient, c.parseRequest, c.parseCredentials, c.parseExpectations} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// parseClient reads how to connect.
func (c *check) parseClient() error {
	s := c.Settings
	c.client = httpclient.Options{Dial: dial.New(c.Resolver).DialContext, TLS: s.TLS(), NoProxy: s.On("no-proxy"), NoRedirect: s.On("no-redirect")}
	if c.Socket != "" {
		c.client.NoProxy = true
		c.client.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return wire.DialUnix(ctx, c.Socket) }
	}
	c.client.Dial = wire.BoundedDial(2*expect.BodyLimit, c.client.Dial) // including headers, however HTTP/2 sends them
	if s.On("h2c") {
		if c.Scheme == "https" {
			return errors.New("h2c is HTTP/2 without TLS: use it with http://")
		}
		c.client.Protocol = httpclient.H2C
	}
	return nil
}

// parseRequest reads the method; the body is read at each attempt.
func (c *check) parseRequest() error {
	s := c.Settings
	if s.On("request-body") || s.On("request-body-file") {
		c.method = http.MethodPost // as curl does
	}
	if s.On("method") {
		c.method = s.Get("method")
	}
	if c.method == "" || strings.ContainsAny(c.method, " \t\r\n:/") {
		return errors.New("method: want one such as HEAD or POST")
	}
	return nil
}

// parseCredentials reads the headers, and the names of files with credentials.
func (c *check) parseCredentials() error {
	s := c.Settings
	if s.On("user") != s.On("password-file") {
		return errors.New("user and password-file go together")
	}
	if c.URL.User != nil && (s.On("token-file") || s.On("user")) {
		return errors.New("user in the URL and another way to authenticate are mutually exclusive")
	}
	c.credentials = httpclient.Credentials{
		Header: http.Header{}, HeaderFiles: s["request-header-file"],
		User: s.Get("user"), PasswordFile: s.Get("password-file"), TokenFile: s.Get("token-file"),
	}
	for _, line := range s["request-header"] {
		if err := httpclient.AddHeader(c.credentials.Header, line); err != nil {
			return fmt.Errorf("request-header: %w", err)
		}
	}
	for name := range c.credentials.Header {
		if httpclient.SecretHeader(name) {
			return fmt.Errorf("request-header: %s is secret and would show in the Pod's specification: put the line into a file and pass it with request-header-file", name)
		}
	}
	return nil
}

func (c *check) parseExpectations() (err error) {
	if c.status, err = httpclient.ParseStatuses(cmp.Or(c.Settings.Get("status"), "200-399")); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	for _, text := range c.Settings["header"] {
		name, value, valued := strings.Cut(text, ":")
		name = strings.TrimSpace(name)
		m, err := expect.ParseMatcher(strings.TrimSpace(value))
		if err != nil || name == "" {
			return fmt.Errorf("header: want NAME, NAME:VALUE or NAME:/REGEX/")
		}
		c.expect = append(c.expect, func(r *http.Response, _ []byte) error {
			values := r.Header.Values(name)
			if len(values) > 0 && !valued || slices.ContainsFunc(values, m.Whole) {
				return nil
			}
			if len(values) == 0 {
				return failure.New(failure.Unexpected, "the answer has no header %s", name)
			}
			return failure.New(failure.Unexpected, "header %s is not %s", name, expect.Shorten(m.Text))
		})
	}
	for _, text := range c.Settings["body"] {
		m, err := expect.ParseMatcher(text)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		c.needsBody = true
		c.expect = append(c.expect, func(_ *http.Response, body []byte) error {
			if m.Within(string(body)) {
				return nil
			}
			return failure.New(failure.Unexpected, "the body does not contain %s", expect.Shorten(text))
		})
	}
	for _, text := range c.Settings["json"] {
		j, err := expect.ParseJSON(text)
		if err != nil {
			return fmt.Errorf("json: %w", err)
		}
		c.needsBody = true
		c.expect = append(c.expect, func(_ *http.Response, body []byte) error { return j.Check(body) })
	}
	if c.needsBody && strings.EqualFold(c.method, http.MethodHead) {
		return errors.New("body and json can never match with method=HEAD: its answer has no body")
	}
	return nil
}

func (c *check) Check(ctx context.Context) error {
	req, err := c.request(ctx)
	if err != nil {
		return err
	}
	resp, err := httpclient.Do(req, c.client)
	if err != nil {
		return explain(failure.HTTP(err, req.URL.Host))
	}
	defer resp.Body.Close()
	return c.judge(ctx, resp)
}

// explain returns err with a hint at the settings of a target, where there is one.
func explain(err error) error {
	f := failure.Of(err)
	switch {
	case strings.HasPrefix(f.Text, "redirected"):
		return f.WithHint(strings.TrimPrefix(f.Hint+", or ", ", or ") + "check the redirect itself with --no-redirect")
	case f.Text == failure.NotHTTP:
		return f.WithHint(f.Hint + " or HTTP/2 without TLS (--h2c)?")
	}
	return err
}

// request returns the request. It reads the files again each time, since they rotate.
func (c *check) request(ctx context.Context) (*http.Request, error) {
	u, err := c.URL.Expand()
	if err != nil {
		return nil, err
	}
	if c.Socket != "" {
		u.Scheme = "http"
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	req, err := httpapi.NewRequest(ctx, c.method, u, body)
	if err != nil {
		return nil, err
	}
	_, err = c.credentials.Apply(req)
	return req, err
}

func (c *check) body() (io.Reader, error) {
	if name := c.Settings.Get("request-body-file"); name != "" {
		data, err := readfile.All(name)
		if err != nil {
			return nil, &failure.Failure{Class: failure.Local, Text: "request body: " + err.Error(), Err: err, Hint: failure.Beside(err) + "is the volume mounted, and may this user read it?"}
		}
		return bytes.NewReader(data), nil
	}
	if c.Settings.On("request-body") {
		return strings.NewReader(c.Settings.Get("request-body")), nil
	}
	return nil, nil
}

func (c *check) judge(ctx context.Context, resp *http.Response) error {
	if !c.status.Has(resp.StatusCode) {
		return statusFailure(resp.StatusCode)
	}
	var body []byte
	if c.needsBody {
		poll.Doing(ctx, "reading the body")
		var err error
		if body, err = io.ReadAll(io.LimitReader(resp.Body, expect.BodyLimit)); err != nil {
			return failure.HTTP(err, resp.Request.URL.Host)
		}
	}
	for _, expectation := range c.expect {
		if err := expectation(resp, body); err != nil {
			return err
		}
	}
	return nil
}

// statusFailure returns the failure for an unexpected status.
func statusFailure(status int) *failure.Failure {
	f := failure.Status(status)
	const expect = "if such an answer is good enough, accept it with --status"
	switch {
	case f.Class == failure.Authentication:
		f.Hint += "; " + expect
	case status == http.StatusNotFound:
		f.Hint += " " + expect
	}
	return f
}
