package waitfor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// An httpServer is a server whose protocol is HTTP underneath. It is asked itself: not
// through a proxy, and not where a redirect leads.
type httpServer struct {
	server
	client httpclient.Options
}

func newHTTPServer(t *target, port string) (httpServer, error) {
	s, err := newServer(t, port)
	s.encrypted = s.encrypted || yes(t.param("tls", "ssl", "secure", "use_ssl"))
	s.tls.Insecure = s.tls.Insecure || yes(t.param("skip_verify", "insecure")) || no(t.param("verify_certs"))
	return httpServer{s, httpclient.Options{Dial: bounded(conversationLimit, s.dialer.DialContext), TLS: s.tls, NoProxy: true, NoRedirect: true}}, err
}

// An httpCall is one request to an httpServer.
type httpCall struct {
	doing  string // for the message if there is no answer
	path   string // percent-encoded
	query  url.Values
	header http.Header
	body   string // with one it is a POST, else a GET
	secret []string
}

// httpAnswer is what the server said.
type httpAnswer struct {
	status  int
	header  http.Header
	body    []byte
	secrets []string // what of the request must not be told
}

// answerLimit is as much of an answer as is read.
const answerLimit = 256 << 10

func (s httpServer) call(ctx context.Context, addr string, c httpCall) (*httpAnswer, error) {
	u := &url.URL{Scheme: "http", Host: addr, Path: "/", RawQuery: c.query.Encode()}
	if s.encrypted {
		u.Scheme = "https"
	}
	u = u.JoinPath(c.path)
	method, body := http.MethodGet, io.Reader(nil)
	if c.body != "" {
		method, body = http.MethodPost, strings.NewReader(c.body)
	}
	poll.Doing(ctx, c.doing)
	req, err := newRequest(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.header)
	resp, err := httpclient.Do(req, s.client)
	if err != nil {
		return nil, httpFailure(s.target, err, addr)
	}
	defer resp.Body.Close()
	a := &httpAnswer{status: resp.StatusCode, header: resp.Header, secrets: append(s.url.Secrets(), c.secret...)}
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, answerLimit)); err != nil {
		return nil, httpFailure(s.target, err, addr)
	}
	return a, nil
}

// httpFailure is the failure of a request without an answer.
func httpFailure(t *target, err error, addr string) error {
	err = failure.HTTP(err, addr)
	if text := failure.Of(err).Text; text == failure.NotHTTP || text == failure.LongHeader {
		return t.otherProtocol()
	}
	return err
}

// newRequest returns a request of a check.
func newRequest(ctx context.Context, method string, u *url.URL, body io.Reader) (*http.Request, error) {
	// The phases of a request, for the message if one of them never ends, are
	// noted by the dialer and here.
	req, err := http.NewRequestWithContext(httpclient.Trace(ctx), method, "http://placeholder.invalid", body)
	if err != nil {
		return nil, poll.Permanent(errors.New("method or body is not valid"))
	}
	req.URL, req.Host = u, u.Host
	req.Header.Set("User-Agent", "initbox")
	return req, nil
}

// json decodes the answer, and reports whether it is JSON of the shape of v.
func (a *httpAnswer) json(v any) bool { return json.Unmarshal(a.body, v) == nil }

// quote is [quote] of what the server said.
func (a *httpAnswer) quote(text string) string { return quote(text, a.secrets...) }

// words returns what a server says in JSON of why it does not do what it was asked to,
// or "". The servers have it in an error that is a text or has a type and a reason, or
// in a message.
func (a *httpAnswer) words() string {
	var said struct {
		Error   any `json:"error"`
		Message any `json:"message"`
		Err     any `json:"err"`
	}
	if !a.json(&said) {
		return ""
	}
	text := func(v any) string { s, _ := v.(string); return s }
	words := cmp.Or(text(said.Error), text(said.Message), text(said.Err))
	if object, ok := said.Error.(map[string]any); ok {
		words = strings.Trim(text(object["type"])+": "+text(object["reason"]), ": ")
	}
	return a.quote(words)
}

// failure is that of an answer with a status that is not of one which is ready. An
// answer that the servers of the kind do not give is another protocol's.
func (s httpServer) failure(a *httpAnswer) *failure.Failure {
	f := failure.Status(a.status)
	words := a.words()
	switch {
	case words != "":
		f.Text, f.Note = words, fmt.Sprintf("status %d", a.status)
	case a.status < 300, a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
		return s.otherProtocol()
	}
	switch {
	case a.status == http.StatusBadRequest:
		f.Hint = "does the server want TLS on this port? then add #tls"
	case a.status >= 300 && a.status < 400:
		f.Hint = "redirects are not followed: does it lead to TLS? then add #tls; else give the server that it leads to"
	}
	return f
}

// basic is the header of basic authentication, and what of it is secret. It is empty
// without a user and a password.
func basic(user, password string) (http.Header, []string) {
	if user == "" && password == "" {
		return nil, nil
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return http.Header{"Authorization": {"Basic " + encoded}}, []string{password, encoded}
}

// authorization is the header with a token of a scheme, as in "Bearer …".
func authorization(scheme, token string) (http.Header, []string, error) {
	if strings.ContainsAny(token, "\r\n\x00") {
		return nil, nil, &failure.Failure{Class: failure.Local, Text: "the token has a line break in it", Hint: "is it the right file? a line break at its end does no harm"}
	}
	return http.Header{"Authorization": {scheme + " " + token}}, []string{token}, nil
}
