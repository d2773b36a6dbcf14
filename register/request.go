package register

import (
	"cmp"
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
	parts := []string{r.o.Pod, r.o.Server.URL, r.protocol.Name}
	for i := range r.protocol.register {
		q, err := r.request(&r.protocol.register[i])
		if err != nil {
			return "", err
		}
		parts = append(parts, q.method, q.ref.String())
		if q.body != nil {
			parts = append(parts, q.body.Type, string(q.body.Content))
		}
	}
	return exchange.Digest(parts...), nil
}

// idempotencyKey returns the same key for the same registration, and another one for each round.
func idempotencyKey(identity string, round int) string {
	return exchange.UUID(fmt.Sprintf("%s %d", identity, round))
}
