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
	"initbox/internal/netrc"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/internal/tlsconfig"
)

// authorize adds credentials to req, which must be to the origin of the repository's URL. It reads all files again,
// because they rotate. It returns the secrets that were added, which must be removed from text of the server.
//
// Headers and cookies are always sent. Of the rest, the first one given is used:
//   - the Authorization of a header file, the password file (the user may be in the URL), or the token file
//   - the token of the GitHub App
//   - a password in the URL
//   - the answer of the askpass URL
//   - the entry of the netrc file for the host, and for the user if the URL has one
//   - the user in the URL without a password: some servers accept a token there
func (o Options) authorize(ctx context.Context, req *http.Request) (secrets []string, err error) {
	user := req.URL.User
	if user != nil { // or net/http would send it
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

// login returns the user and the password to send to u, whose user information is user; nil to send none.
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
		if l := netrc.Find(text, u.Hostname(), user.Username()); l != nil {
			return &login{l.User, l.Password}, nil
		}
	}
	if user.Username() != "" {
		return &login{user.Username(), ""}, nil
	}
	return nil, nil
}

// elsewhere returns the TLS settings for servers other than the repository's: with the same trusted CAs, but without
// the client certificate.
func (o Options) elsewhere() tlsconfig.Options {
	return tlsconfig.Options{CAFile: o.HTTP.TLS.CAFile, CA: o.HTTP.TLS.CA, Insecure: o.HTTP.TLS.Insecure}
}

// maxAnswer limits the answer of servers that are asked for credentials, in bytes.
const maxAnswer = 64 << 10

// ask sends a request to a server other than the repository's, without the credentials for that, and returns the status
// and the body of the answer. Errors begin with what.
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
