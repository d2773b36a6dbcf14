package remote

import (
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/internal/tlsconfig"
)

// authorize sets what proves who sends req, which must be to the origin of the
// repository's URL. All files are read anew, for they rotate. It returns what is
// secret of it, for whoever quotes an answer.
//
// Headers and cookies are always sent. Of the rest the first that is there counts:
//   - an Authorization of a header file, the password file or the token file; a
//     user that goes with the password may stand in the URL
//   - the token of the GitHub App
//   - a password in the URL
//   - what the askpass URL answers
//   - what the netrc file has for the host, and for the user in the URL if one is there
//   - the user in the URL without a password, as which some servers take a token
func (o Options) authorize(ctx context.Context, req *http.Request) (secrets []string, err error) {
	user := req.URL.User
	if user != nil { // net/http would send it by itself
		bare := *req.URL
		bare.User = nil
		req.URL = &bare
	}
	who := o.HTTP.Who
	who.User = cmp.Or(who.User, user.Username())
	if secrets, err = who.Apply(req); err != nil {
		return nil, err
	}
	cookies, err := o.HTTP.addCookies(req)
	if err != nil {
		return nil, err
	}
	secrets = append(secrets, cookies...)
	if req.Header.Get("Authorization") != "" {
		return secrets, nil
	}
	l, err := o.login(ctx, req.URL, user)
	if err != nil || l == nil {
		return secrets, err
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(l.user + ":" + l.password))
	req.Header.Set("Authorization", "Basic "+encoded)
	secrets = append(secrets, encoded)
	switch {
	case l.password != "":
		secrets = append(secrets, l.password)
	case len(l.user) >= secret.Likely:
		secrets = append(secrets, l.user)
	}
	return secrets, nil
}

// login is a user and a password.
type login struct{ user, password string }

// login returns what is to be sent to u, which has user in front of its host; nil
// for nothing.
func (o Options) login(ctx context.Context, u *url.URL, user *url.Userinfo) (*login, error) {
	password, hasPassword := user.Password()
	switch {
	case o.HTTP.App != nil:
		token, err := o.appToken(ctx)
		return &login{"x-access-token", token}, err
	case hasPassword:
		return &login{user.Username(), password}, nil
	case o.HTTP.AskpassURL != "":
		return o.askpass(ctx)
	case o.HTTP.Netrc != "":
		text, err := secret.Read(o.HTTP.Netrc)
		if err != nil {
			return nil, err
		}
		if l := netrcLogin(text, u.Hostname(), user.Username()); l != nil {
			return l, nil
		}
	}
	if user.Username() != "" {
		return &login{user.Username(), ""}, nil
	}
	return nil, nil
}

// elsewhere are the TLS settings for other servers than the repository's: whom to
// trust is the same, but not who asks.
func (o Options) elsewhere() tlsconfig.Options {
	return tlsconfig.Options{CAFile: o.HTTP.TLS.CAFile, CA: o.HTTP.TLS.CA, Insecure: o.HTTP.TLS.Insecure}
}

// maxAnswer is far above what anyone answers who is asked for a password.
const maxAnswer = 64 << 10

// ask sends a request to another server than the repository's, which gets nothing
// of what is for that one, and returns status and body of its answer. The errors
// begin with what.
func (o Options) ask(req *http.Request, what string, proxy *url.URL) (int, []byte, error) {
	ctx := req.Context()
	poll.Doing(ctx, "asking "+what)
	resp, err := httpclient.Do(req, httpclient.Options{Dial: dial.New(o.Resolver).DialContext, TLS: o.elsewhere(), Proxy: proxy, NoRedirect: true})
	if err == nil {
		defer resp.Body.Close()
		var body []byte
		if body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err == nil {
			return resp.StatusCode, body, nil
		}
	}
	if ctx.Err() != nil {
		return 0, nil, ctx.Err()
	}
	f := failure.Of(failure.HTTP(err, req.URL.Host))
	f.Text, f.Err, f.Elsewhere = what+": "+f.Text, err, true
	return 0, nil, f
}
