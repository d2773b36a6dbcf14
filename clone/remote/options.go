package remote

import (
	"log/slog"
	"net/url"
	"time"

	"initbox/internal/httpclient"
	"initbox/internal/resolver"
	"initbox/internal/tlsconfig"
)

// Options say how to reach a server, and with which credentials. Credentials are sent only to the host of the URL, also
// after a redirect. Files are read again at every attempt.
type Options struct {
	HTTP HTTP
	SSH  SSH

	Proxy    *url.URL // http, https or socks5; nil for the proxy of the environment
	Resolver *resolver.Resolver
	Getenv   func(string) string // for ${env:NAME} in URLs
	Stall    time.Duration       // how long a server may send nothing before the attempt fails; 0 for any time
	Log      *slog.Logger        // nil to discard

	asked *asked // nil to ask the askpass URL for each request
}

// ForRun returns the options for one run, in which the askpass URL is asked only once, as by git-sync: its server may
// make a new password for each answer.
func (o Options) ForRun() Options {
	o.asked = new(asked)
	return o
}

// HTTP are the options of http and https.
type HTTP struct {
	TLS        tlsconfig.Options
	Who        httpclient.Credentials // user and password, bearer token, headers from files
	CookieFile string                 // as curl and Netscape write it
	Netrc      string                 // file; machines and their logins
	AskpassURL string                 // answers with lines username=… and password=…, like git-sync's --askpass-url
	App        *GitHubApp
}

// GitHubApp identifies an installation of a GitHub App, for which tokens are requested.
type GitHubApp struct {
	ID           string // or the client id
	Installation string
	KeyFile      string // RSA, PEM
	BaseURL      string // of the API; "" for https://api.github.com
}

// SSH are the options of ssh and of the scp form.
type SSH struct {
	KeyFiles       []string
	PassphraseFile string
	KnownHosts     []string // files
	KnownHostKeys  []string // lines, as in the files
	AcceptNew      bool     // trust the key of a host that is in no file, and log its fingerprint
}

// Elsewhere returns the options for an origin other than the one they were given for, such as that of a submodule. They
// hold no credentials but those that name their host themselves (cookies, netrc), and the keys of SSH, which do not
// leave this machine.
func (o Options) Elsewhere() Options {
	o.HTTP = HTTP{TLS: o.elsewhere(), CookieFile: o.HTTP.CookieFile, Netrc: o.HTTP.Netrc}
	return o
}
