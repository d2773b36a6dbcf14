package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// maxToken limits the answer of a token server.
const maxToken = 128 << 10

// credential is a login: a name and a password, or a token that is exchanged for others, or one for the registry.
type credential struct{ user, password, refreshToken, accessToken string }

// do sends a request to the registry. If it is asked to log in, it logs in and sends the request again. The login is
// kept for later requests, and renewed when the registry asks again.
func (e *endpoint) do(req *http.Request) (*http.Response, error) {
	resp, err := e.authorized(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !httpclient.SameOrigin(resp.Request.URL, e.base) {
		return resp, err
	}
	scheme, parameters := challenge(resp.Header)
	if scheme == "" {
		return resp, nil
	}
	resp.Body.Close()
	if e.authorization, err = e.logIn(req.Context(), scheme, parameters); err != nil {
		return nil, err
	}
	return e.authorized(req)
}

func (e *endpoint) authorized(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", userAgent)
	if e.authorization != "" {
		req.Header.Set("Authorization", e.authorization)
	}
	return e.client.Do(req)
}

// mayRedirect keeps credentials from servers other than the first one. It is asked for each redirect, and net/http
// takes the headers of each request from the first one, so all that came before count.
func mayRedirect(req *http.Request, via []*http.Request) error {
	home := via[0].URL
	away := func(r *http.Request) bool { return !httpclient.SameOrigin(home, r.URL) }
	if slices.ContainsFunc(via, away) || away(req) {
		req.Header.Del("Authorization")
		if req.Body != nil && req.Body != http.NoBody { // of a request for a token: it is a secret
			return unexpected("the request for a token was redirected to another server, which gets no secret")
		}
	}
	return httpclient.MayRedirect(len(via), home, req.URL)
}

// logIn returns the header Authorization for a challenge.
func (e *endpoint) logIn(ctx context.Context, scheme string, parameters map[string]string) (string, error) {
	who, err := e.credential()
	if err != nil {
		return "", err
	}
	if scheme == "bearer" {
		token, err := e.token(ctx, who, parameters)
		e.hide(token)
		return "Bearer " + token, err
	}
	switch {
	case who == credential{}:
		return "", e.status(http.StatusUnauthorized, nil, nil)
	case who.user == "" || who.password == "":
		return "", unexpected("the registry requires a user name and a password, and the login has none")
	}
	req := &http.Request{Header: http.Header{}}
	req.SetBasicAuth(who.user, who.password)
	return req.Header.Get("Authorization"), nil
}

// token returns a token for pulling the image, see https://distribution.github.io/distribution/spec/auth/token/ and,
// for identity tokens, https://distribution.github.io/distribution/spec/auth/oauth/.
func (e *endpoint) token(ctx context.Context, who credential, parameters map[string]string) (string, error) {
	if who.accessToken != "" {
		return who.accessToken, nil
	}
	realm, err := e.realm(parameters["realm"])
	if err != nil {
		return "", err
	}
	req := (&http.Request{Method: http.MethodGet, URL: realm, Header: http.Header{"User-Agent": {userAgent}}}).WithContext(ctx)
	scopes := e.scopes(parameters["scope"])
	if who.refreshToken != "" {
		form := url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {who.refreshToken}, "client_id": {userAgent},
			"service": {parameters["service"]}, "scope": {strings.Join(scopes, " ")},
		}.Encode()
		req.Method, req.ContentLength = http.MethodPost, int64(len(form))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(form)), nil }
		req.Body, _ = req.GetBody()
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else {
		query := realm.Query()
		if service := parameters["service"]; service != "" {
			query.Set("service", service)
		}
		for _, scope := range scopes {
			query.Add("scope", scope)
		}
		realm.RawQuery = query.Encode()
		if who.user != "" || who.password != "" {
			req.SetBasicAuth(who.user, who.password)
		}
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", e.refused(resp)
	}
	return readToken(resp)
}

func readToken(resp *http.Response) (string, error) {
	defer resp.Body.Close()
	var answer struct {
		AccessToken string `json:"access_token"`
		Token       string `json:"token"`
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxToken))
	switch {
	case err != nil:
		return "", failure.HTTP(err, resp.Request.URL.Host)
	case json.Unmarshal(content, &answer) != nil:
		return "", unexpected("the answer of the token server is not JSON")
	case answer.AccessToken != "":
		return answer.AccessToken, nil
	case answer.Token != "":
		return answer.Token, nil
	}
	return "", unexpected("the token server sent an empty token")
}

func unexpected(format string, args ...any) error {
	return poll.Permanent(failure.New(failure.Unexpected, format, args...))
}

// realm returns the URL of the token server, which gets the password. The registry chooses it, so it must be as
// safe as the registry.
func (e *endpoint) realm(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" && (u.Scheme == "" || u.Scheme == "http" || u.Scheme == "https"):
		return nil, unexpected("the realm that %s names for tokens is not a URL", e.name)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, unexpected("the realm that %s names for tokens has the unsupported scheme %q", e.name, u.Scheme)
	case u.Scheme == "http" && e.base.Scheme == "https":
		return nil, unexpected("the realm that %s names for tokens is not encrypted: want https", e.name)
	}
	u.User, u.Fragment = nil, ""
	return u, nil
}

// scopes returns what a token has to permit: what the registry asks for, and to pull the image.
func (e *endpoint) scopes(asked string) []string {
	scopes := strings.Fields(asked)
	own := fmt.Sprintf("repository:%s:", e.repository)
	if !slices.ContainsFunc(scopes, func(s string) bool {
		actions, found := strings.CutPrefix(s, own)
		return found && slices.Contains(strings.Split(actions, ","), "pull")
	}) {
		scopes = append(scopes, own+"pull")
	}
	return scopes
}

// challenge returns the first scheme that an answer offers and we have, in lower case, and its parameters; see
// https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1.
func challenge(header http.Header) (scheme string, parameters map[string]string) {
	for _, value := range header.Values("WWW-Authenticate") {
		scheme, rest := token(value)
		switch scheme = strings.ToLower(scheme); scheme {
		case "basic":
			return scheme, nil
		case "bearer":
			return scheme, authParameters(rest)
		}
	}
	return "", nil
}

// authParameters reads NAME=VALUE or NAME="VALUE", separated by commas, up to what is not of this form.
func authParameters(text string) map[string]string {
	const space = " \t"
	parameters := map[string]string{}
	for {
		name, rest := token(strings.TrimLeft(text, space+","))
		rest, found := strings.CutPrefix(strings.TrimLeft(rest, space), "=")
		if name == "" || !found {
			return parameters
		}
		value, rest, err := tokenOrQuoted(strings.TrimLeft(rest, space))
		if err != nil {
			return parameters
		}
		parameters[strings.ToLower(name)] = value
		if text = strings.TrimLeft(rest, space); !strings.HasPrefix(text, ",") {
			return parameters
		}
	}
}

// token returns the token at the beginning of a text, https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2, and the
// rest.
func token(text string) (token, rest string) {
	rest = strings.TrimLeft(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return text[:len(text)-len(rest)], rest
}

func tokenOrQuoted(text string) (value, rest string, err error) {
	quoted, found := strings.CutPrefix(text, `"`)
	if !found {
		value, rest = token(text)
		if value == "" {
			err = errors.New("neither a token nor a quoted string")
		}
		return value, rest, err
	}
	var unquoted strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch c := quoted[i]; {
		case c == '"':
			return unquoted.String(), quoted[i+1:], nil
		case c == '\\' && i+1 < len(quoted):
			i++
			unquoted.WriteByte(quoted[i])
		default:
			unquoted.WriteByte(c)
		}
	}
	return "", "", errors.New("the quoted string has no end")
}
