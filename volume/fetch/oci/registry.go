package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/secret"
)

const (
	maxManifest = 4 << 20 // as registries limit it, https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pushing-manifests
	maxMessage  = 64 << 10
	userAgent   = "initbox"
)

// endpoint is a server that has the image: the registry, or a mirror of it. It is for one goroutine.
type endpoint struct {
	name       string // for messages, and for its login
	mirror     bool
	base       *url.URL
	repository string
	o          *Options
	client     *http.Client       // follows redirects, over the two below
	home, away *httpclient.Client // for its origin, and for servers that it redirects to or gets tokens from
	reported   bool               // that it failed

	authorization string // of the requests to its origin, once it has asked for it

	secrets []string
	helper  string // the credential helper that would have the login
	login   bool   // there was one
}

// endpoints returns the mirrors of the registry, and the registry.
func endpoints(r reference, o *Options) (list []*endpoint, err error) {
	for _, text := range o.Mirrors[r.registry] {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("%s is not the URL of a mirror: want https://HOST[:PORT][/PREFIX]", secret.Word(text))
		}
		prefix := strings.TrimPrefix(strings.Trim(u.Path, "/")+"/", "/")
		list = append(list, &endpoint{name: u.Host, mirror: true, base: &url.URL{Scheme: u.Scheme, Host: u.Host}, repository: prefix + r.repository, o: o})
	}
	scheme := "https"
	if slices.Contains(o.PlainHTTP, r.registry) {
		scheme = "http"
	}
	list = append(list, &endpoint{name: r.registry, base: &url.URL{Scheme: scheme, Host: r.host()}, repository: r.repository, o: o})
	for _, e := range list {
		e.client = &http.Client{Transport: e, CheckRedirect: mayRedirect}
	}
	return list, nil
}

func (e *endpoint) close() {
	for _, c := range []*httpclient.Client{e.home, e.away} {
		if c != nil {
			c.Close()
		}
	}
}

// RoundTrip sends one request, without following redirects. An answer with a status of 400 or more is an error, except
// for a challenge.
func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	own := httpclient.SameOrigin(req.URL, e.base)
	resp, err := e.roundTrip(req, own)
	if err == nil && resp.StatusCode >= 400 && resp.StatusCode != http.StatusUnauthorized {
		err = e.refused(resp)
	}
	var u *url.Error
	if errors.As(err, &u) { // the caller adds another one
		err = u.Err
	}
	if err != nil && !own {
		f := failure.Of(failure.HTTP(err, req.URL.Host))
		f.Text, f.Err, f.Elsewhere = e.quote(req.URL.Host)+", to which it leads: "+f.Text, err, true
		err = f
	}
	if err != nil {
		return nil, err
	}
	resp.Request = req
	return resp, nil
}

func (e *endpoint) roundTrip(req *http.Request, own bool) (*http.Response, error) {
	client, err := e.connections(own)
	if err != nil {
		return nil, err
	}
	out := req.Clone(httpclient.Trace(req.Context()))
	out.Header.Del("Referer") // of a redirect: it would carry the query, and a token in it
	if own && !e.mirror {
		secrets, err := httpclient.Credentials{Header: e.o.Who.Header, HeaderFiles: e.o.Who.HeaderFiles}.Apply(out)
		if err != nil {
			return nil, err
		}
		e.hide(secrets...)
	}
	_, sent, _ := strings.Cut(out.Header.Get("Authorization"), " ")
	_, password, _ := out.BasicAuth()
	e.hide(sent, password)
	return client.Do(out)
}

// connections returns the client for the endpoint's own server or for others, which get no client certificate.
func (e *endpoint) connections(own bool) (*httpclient.Client, error) {
	o, client := e.o.HTTP, &e.home
	if !own || e.mirror {
		o = o.Elsewhere()
	}
	if !own {
		client = &e.away
	}
	if *client != nil {
		return *client, nil
	}
	o.NoRedirect = true
	var err error
	*client, err = httpclient.New(o)
	return *client, err
}

// hide remembers secrets, which are removed from messages of servers.
func (e *endpoint) hide(secrets ...string) {
	for _, s := range secrets {
		if s != "" && !slices.Contains(e.secrets, s) {
			e.secrets = append(e.secrets, s)
		}
	}
}

func (e *endpoint) quote(text string) string { return secret.Quote(text, e.secrets...) }

// send requests something of the repository, see "Endpoints" in
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md. The answer has status 200, or 206 if header
// has a Range.
func (e *endpoint) send(ctx context.Context, method, path string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.base.JoinPath("v2", e.repository, path).String(), nil)
	if err != nil {
		return nil, poll.Permanent(err)
	}
	req.Header = header
	resp, err := e.do(req)
	if err != nil {
		return nil, e.failed(ctx, err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent && header.Get("Range") != "" {
		return resp, nil
	}
	return nil, e.refused(resp)
}

// head returns the digest that a tag has, as the registry says, or "" if it does not.
func (e *endpoint) head(ctx context.Context, tag string) (digest, error) {
	resp, err := e.send(ctx, http.MethodHead, "manifests/"+tag, http.Header{"Accept": {accept}})
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	d := digest(resp.Header.Get("Docker-Content-Digest"))
	if d.validate() != nil {
		return "", nil
	}
	return d, nil
}

// manifest returns a manifest by its tag or digest, verified if want is not "", and its digest.
func (e *endpoint) manifest(ctx context.Context, name string, want digest) ([]byte, digest, error) {
	resp, err := e.send(ctx, http.MethodGet, "manifests/"+name, http.Header{"Accept": {accept}})
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, "", failure.HTTP(err, e.base.Host)
	}
	is := digestOf(content)
	if want != "" {
		is = want.of(content)
	}
	switch {
	case len(content) > maxManifest:
		return nil, "", poll.Permanent(failure.New(failure.Unexpected, "the manifest has more than %d MiB", maxManifest>>20))
	case want != "" && is != want:
		return nil, "", poll.Permanent(failure.New(failure.Unexpected, "the manifest that %s sent has the digest %s and not %s", e.name, is, want))
	}
	return content, is, nil
}

// failed names the error of a request.
func (e *endpoint) failed(ctx context.Context, err error) error {
	var (
		request *url.Error
		known   *failure.Failure
	)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &request), errors.As(err, &known), errors.As(err, new(net.Error)), errors.Is(err, io.ErrUnexpectedEOF):
		f := failure.HTTP(err, e.base.Host)
		if is := failure.Of(f); is.Class == failure.TLS && strings.Contains(is.Text, "does not speak TLS") {
			is.Hint = "if the registry has no TLS, give --plain-http " + e.name
			return is
		}
		return f
	}
	return poll.Permanent(failure.New(failure.Local, "%s", e.quote(err.Error()))) // of a file with a login
}

// refused returns the failure for an answer.
func (e *endpoint) refused(resp *http.Response) error {
	defer resp.Body.Close()
	var answer struct{ Errors []reason }
	content, _ := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	json.Unmarshal(content, &answer)
	return e.status(resp.StatusCode, resp.Header, answer.Errors)
}

// reason is why a registry refuses a request, see "Error Codes" in
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md.
type reason struct{ Code, Message string }

// status returns the failure for a status. The header of the answer says when to ask again.
func (e *endpoint) status(status int, header http.Header, reasons []reason) error {
	f := failure.Status(status)
	f.Err = &httpclient.StatusError{Answer: httpclient.Answer{Status: status, Header: header}}
	var text []string
	for _, r := range reasons {
		text = append(text, cmp.Or(r.Message, strings.ToLower(strings.ReplaceAll(r.Code, "_", " "))))
	}
	if len(text) > 0 {
		f.Text += ": " + e.quote(strings.Join(text, "; "))
	}
	switch {
	case e.helper != "" && f.Class == failure.Authentication:
		f.Hint = fmt.Sprintf("%s leaves the login to the credential helper %s, a program that initbox does not run: give a Secret with the login itself", e.o.DockerConfig, failure.Printable(e.helper))
	case f.Class == failure.Authentication && e.login:
		f.Hint = "are the credentials right, and do they permit to pull this image? many registries want a token instead of the password"
	case f.Class == failure.Authentication:
		f.Hint = "the registry requires a login for this image, or does not have it: mount an image pull secret and name it with --docker-config, or give --user and --password-file"
	case status == http.StatusNotFound:
		f.Class, f.Hint = failure.Missing, "are the name and the tag right? many registries hide private images this way"
	case status == http.StatusTooManyRequests:
		f.Hint = "the registry limits how often it is asked: give a login or a mirror"
	}
	if httpclient.ByStatus(&httpclient.Answer{Status: status}) == httpclient.Failed && !e.o.RetryStatus.Has(status) {
		return poll.Permanent(f)
	}
	return f
}
