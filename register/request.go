package register

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"initbox/internal/httpclient"
	"initbox/register/exchange"
)

// request is a call with everything filled in but secrets.
type request struct {
	method string
	ref    *url.URL // below the server's URL, or a whole one
	below  bool
	body   *exchange.Body
}

func (r *Registration) request(c *call) (*request, error) {
	names := r.names()
	escape := url.PathEscape
	if strings.HasPrefix(c.path, "{") && strings.HasSuffix(c.path, "}") { // it is a whole URL that a server's answer has named
		escape = func(s string) string { return s }
	}
	path, err := expand(c.path, names, escape)
	if err != nil {
		return nil, err
	}
	ref, err := url.Parse(path)
	if err != nil {
		return nil, errors.New("the value taken from the answer is not valid in a URL")
	}
	query, err := expand(c.query, names, url.QueryEscape)
	if err != nil {
		return nil, err
	}
	if query != "" {
		ref.RawQuery = strings.Trim(ref.RawQuery+"&"+query, "&")
	}
	body, err := c.content(&r.entry)
	return &request{cmp.Or(c.method, http.MethodPost), ref, r.o.Protocol.Custom == nil, body}, err
}

// resolve returns the request's URL at the server. The query of the server's own URL is for all calls below it.
func (q *request) resolve(server *url.URL) *url.URL {
	if !q.below && (q.ref.Scheme != "" || q.ref.Host != "" || q.ref.Path != "") {
		u := server.ResolveReference(q.ref)
		if httpclient.SameOrigin(u, server) {
			u.User = server.User
		}
		return u
	}
	u := *server
	if q.ref.Path != "" { // JoinPath would make a relative path of none
		u.Path, u.RawPath = strings.TrimSuffix(server.Path, "/")+q.ref.Path, strings.TrimSuffix(server.EscapedPath(), "/")+q.ref.EscapedPath()
	}
	u.RawQuery = strings.Trim(server.RawQuery+"&"+q.ref.RawQuery, "&")
	return &u
}

// identity returns a hash that is the same whenever the same Pod registers the same entry with the same server.
func (r *Registration) identity() (string, error) {
	h := sha256.New()
	add := func(parts ...string) {
		for _, part := range parts {
			fmt.Fprintf(h, "%d:%s", len(part), part) // so that two parts are never one
		}
	}
	add(r.o.Pod, r.o.Server.URL, r.protocol.Name)
	for i := range r.protocol.register {
		q, err := r.request(&r.protocol.register[i])
		if err != nil {
			return "", err
		}
		add(q.method, q.ref.String())
		if q.body != nil {
			add(q.body.Type, string(q.body.Content))
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// idempotencyKey returns the same key for the same registration, and another one for each
// round: a server that knows the key repeats its answer and does nothing else. The key has
// the form of a UUID (RFC 9562, version 8), which many servers require.
func idempotencyKey(identity string, round int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", identity, round))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
