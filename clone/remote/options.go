package remote

import (
	"log/slog"
	"net/url"
	"time"

	"initbox/internal/httpclient"
	"initbox/internal/resolver"
	"initbox/internal/tlsconfig"
)

// Options say how to reach servers, and what proves who asks. All of it is sent
// to the host of the URL alone, also after a redirect. Files are read again by
// every attempt.
type Options struct {
	HTTP HTTP
	SSH  SSH

	Proxy    *url.URL // http, https or socks5; nil for what the environment says
	Resolver *resolver.Resolver
	Getenv   func(string) string // for ${env:NAME} in URLs
	Stall    time.Duration       // a server that sends nothing for so long is given up; 0 for none
	Log      *slog.Logger        // nil for none
}

// HTTP is what counts for http and https.
type HTTP struct {
	TLS        tlsconfig.Options
	Who        httpclient.Credentials // user and password, bearer token, headers from files
	CookieFile string                 // as curl and Netscape write it
	Netrc      string                 // file; machines and their logins
	AskpassURL string                 // answers username=… and password=… lines, as git-sync's --askpass-url
	App        *GitHubApp
}

// GitHubApp makes a token of an installation of a GitHub App.
type GitHubApp struct {
	ID           string // or the client id
	Installation string
	KeyFile      string // RSA, PEM
	BaseURL      string // of the API; "" for https://api.github.com
}

// SSH is what counts for ssh and the scp form.
type SSH struct {
	KeyFiles       []string
	PassphraseFile string
	KnownHosts     []string // files
	KnownHostKeys  []string // lines, as in the files
	AcceptNew      bool     // trust the key of a host that is in no file, and log its fingerprint
}

// Elsewhere returns the options for another origin than that of the URL for which
// they were given, as a submodule's may be: without what proves who asks, but for
// what says itself for which host it is, and for keys of SSH, which do not leave
// this machine.
func (o Options) Elsewhere() Options {
	tls := o.HTTP.TLS
	o.HTTP = HTTP{
		TLS:        tlsconfig.Options{CAFile: tls.CAFile, CA: tls.CA, Insecure: tls.Insecure},
		CookieFile: o.HTTP.CookieFile,
		Netrc:      o.HTTP.Netrc,
	}
	return o
}
