// Package httpapi makes the requests of checks whose protocol is based on HTTP: to the server itself, without proxies
// and redirects, and with bounds on what is read.
package httpapi

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
	"initbox/internal/secret"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// A Server is a server whose protocol is based on HTTP. Requests to it use no proxy and follow no redirect.
type Server struct {
	wire.Server
	Client httpclient.Options
}

// New returns the client of a server. It also reads the TLS parameters of other clients' URLs.
func New(s wire.Server) Server {
	s.Encrypted = s.Encrypted || forms.Yes(s.URL.Param("tls", "ssl", "secure", "use_ssl"))
	s.TLS.Insecure = s.TLS.Insecure || forms.Yes(s.URL.Param("skip_verify", "insecure")) || forms.No(s.URL.Param("verify_certs"))
	return Server{s, httpclient.Options{Dial: wire.BoundedDial(wire.ConversationLimit, s.Dialer.DialContext), TLS: s.TLS, NoProxy: true, NoRedirect: true}}
}

// A Call is one request to a [Server].
type Call struct {
	Doing  string // what the request does, for the message if there is no answer
	Path   string // percent-encoded
	Query  url.Values
	Header http.Header
	Body   string // makes it a POST; otherwise it is a GET
	Secret []string
}

// Answer is the answer of a server.
type Answer struct {
	Status  int
	Header  http.Header
	Body    []byte
	Secrets []string // in the request, not to be shown
}

// answerLimit is how many bytes of an answer are read at most.
const answerLimit = 256 << 10

// Do makes a request to the server at addr.
func (s Server) Do(ctx context.Context, addr string, c Call) (*Answer, error) {
	u := &url.URL{Scheme: "http", Host: addr, Path: "/", RawQuery: c.Query.Encode()}
	if s.Encrypted {
		u.Scheme = "https"
	}
	u = u.JoinPath(c.Path)
	method, body := http.MethodGet, io.Reader(nil)
	if c.Body != "" {
		method, body = http.MethodPost, strings.NewReader(c.Body)
	}
	poll.Doing(ctx, c.Doing)
	req, err := NewRequest(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.Header)
	resp, err := httpclient.Do(req, s.Client)
	if err != nil {
		return nil, Failure(s.Target, err, addr)
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, Header: resp.Header, Secrets: append(s.URL.Secrets(), c.Secret...)}
	if a.Body, err = io.ReadAll(io.LimitReader(resp.Body, answerLimit)); err != nil {
		return nil, Failure(s.Target, err, addr)
	}
	return a, nil
}

// Failure returns the failure of a request without an answer.
func Failure(t *target.Target, err error, addr string) error {
	err = failure.HTTP(err, addr)
	if text := failure.Of(err).Text; text == failure.NotHTTP || text == failure.LongHeader {
		return t.Kind.OtherProtocol()
	}
	return err
}

// NewRequest returns a request to u.
func NewRequest(ctx context.Context, method string, u *url.URL, body io.Reader) (*http.Request, error) {
	// The dialer and the trace record the phase of the request, for the message if it hangs.
	req, err := http.NewRequestWithContext(httpclient.Trace(ctx), method, "http://placeholder.invalid", body)
	if err != nil {
		return nil, poll.Permanent(errors.New("method or body is not valid"))
	}
	req.URL, req.Host = u, u.Host
	req.Header.Set("User-Agent", "initbox")
	return req, nil
}

// JSON decodes the answer into v, and reports whether it is JSON of that shape.
func (a *Answer) JSON(v any) bool { return json.Unmarshal(a.Body, v) == nil }

// Quote is [secret.Quote] without the secrets of the request.
func (a *Answer) Quote(text string) string { return secret.Quote(text, a.Secrets...) }

// Words returns the reason for a failure in an answer in JSON, or "". Servers put it into an error, which is a text or
// has a type and a reason, or into a message.
func (a *Answer) Words() string {
	var said struct {
		Error   any `json:"error"`
		Message any `json:"message"`
		Err     any `json:"err"`
	}
	if !a.JSON(&said) {
		return ""
	}
	text := func(v any) string { s, _ := v.(string); return a.Quote(s) } // each alone: a secret may be cut off at its end
	words := cmp.Or(text(said.Error), text(said.Message), text(said.Err))
	if object, ok := said.Error.(map[string]any); ok {
		words = strings.Trim(text(object["type"])+": "+text(object["reason"]), ": ")
	}
	return words
}

// Failure returns the failure for an answer with a status that does not mean ready, or that of another protocol if
// servers of the kind do not give such an answer.
func (s Server) Failure(a *Answer) *failure.Failure {
	f := failure.Status(a.Status)
	words := a.Words()
	switch {
	case words != "":
		f.Text, f.Note = words, fmt.Sprintf("status %d", a.Status)
	case a.Status < 300, a.Status == http.StatusNotFound, a.Status == http.StatusMethodNotAllowed:
		return s.Kind.OtherProtocol()
	}
	switch {
	case a.Status == http.StatusBadRequest:
		f.Hint = "does the server expect TLS on this port? then add #tls"
	case a.Status >= 300 && a.Status < 400:
		f.Hint = "redirects are not followed: if this one leads to TLS, add #tls; otherwise name the server that it leads to"
	}
	return f
}

// Basic returns the header of basic authentication and the secrets in it, or nil without a user and a password.
func Basic(user, password string) (http.Header, []string) {
	if user == "" && password == "" {
		return nil, nil
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return http.Header{"Authorization": {"Basic " + encoded}}, []string{password, encoded}
}

// Authorization returns the header with a token of a scheme, as in "Bearer …", and the secrets in it.
func Authorization(scheme, token string) (http.Header, []string, error) {
	if strings.ContainsAny(token, "\r\n\x00") {
		return nil, nil, &failure.Failure{Class: failure.Local, Text: "the token has a line break in it", Hint: "is it the right file? a line break at its end is ignored"}
	}
	return http.Header{"Authorization": {scheme + " " + token}}, []string{token}, nil
}
