package fetch

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/netrc"
	"initbox/internal/poll"
	"initbox/internal/secret"
)

// readBuffer is how much of a connection is read at once.
const readBuffer = 64 << 10

// connections returns how servers are reached for a source.
func connections(o *Options, src *Source) httpclient.Options {
	return httpclient.Options{
		Dial:     dial.Stalling(dial.New(o.Resolver).DialContext, o.AttemptTimeout),
		TLS:      src.TLS,
		Proxy:    o.Proxy,
		NoProxy:  o.NoProxy,
		Protocol: httpclient.HTTP1, // one connection for one download, so that a stall shows
		Buffer:   readBuffer,
	}
}

// get requests a URL and follows redirects. The header is sent to all servers, but credentials and the client
// certificate to the origin of the source's URL only, never to where a redirect leads. An answer other than a redirect,
// whatever its status, is no error.
func (d *download) get(ctx context.Context, u *secret.URL, header http.Header) (*http.Response, error) {
	origin, err := d.src.URL.Expand()
	if err != nil {
		return nil, err
	}
	first, err := u.Expand()
	if err != nil {
		return nil, err
	}
	user := first.User
	first.User = nil // net/http would send it
	req := (&http.Request{Method: http.MethodGet, URL: first, Header: header}).WithContext(ctx)
	resp, err := d.site.Do(req, origin, func(req *http.Request) error { return d.authorize(req, origin, first, user) })
	if errors.Is(err, httpclient.ErrNotEncrypted) {
		err = failure.WithHint(err, "give the URL that it leads to, with a checksum")
	}
	return resp, err
}

// authorize adds the credentials that are for the server of the request: the source's for its origin, the user in the
// URL for the origin of that, and those of the netrc file for the host that it names.
func (d *download) authorize(req *http.Request, origin, first *url.URL, user *url.Userinfo) error {
	if httpclient.SameOrigin(req.URL, origin) {
		if _, err := d.src.Who.Apply(req); err != nil {
			return err
		}
	}
	if req.Header.Get("Authorization") != "" {
		return nil
	}
	name, password := "", ""
	if user != nil && httpclient.SameOrigin(req.URL, first) {
		name = user.Username()
		password, _ = user.Password()
	}
	if password == "" && d.src.Netrc != "" {
		text, err := secret.Read(d.src.Netrc)
		if err != nil {
			return err
		}
		if l := netrc.Find(text, req.URL.Hostname(), name); l != nil {
			name, password = cmp.Or(name, l.User), l.Password
		}
	}
	if name+password != "" {
		req.SetBasicAuth(name, password)
	}
	return nil
}

// refused returns the failure of an answer that has no content for us.
func (d *download) refused(resp *http.Response) error {
	status := resp.StatusCode
	f := failure.Status(status)
	f.Err = &httpclient.StatusError{Answer: httpclient.Answer{Status: status, Header: resp.Header}}
	if origin, err := d.src.URL.Expand(); err == nil && !httpclient.SameOrigin(resp.Request.URL, origin) {
		f.Text, f.Elsewhere = "redirected to another server: "+f.Text, true
		f.Hint = "credentials are not sent to the server that the URL redirects to: if it needs them, give the URL that it leads to"
	} else if status == http.StatusNotFound || status == http.StatusGone {
		f.Hint = "is the URL right? many servers hide this way what may not be read without credentials; if it will be there later, wait for it with --retry-status 404"
	}
	if httpclient.ByStatus(&httpclient.Answer{Status: status}) == httpclient.Again || d.src.RetryStatus.Has(status) {
		return f
	}
	return poll.Permanent(f)
}
