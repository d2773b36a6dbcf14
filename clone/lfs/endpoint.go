package lfs

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"initbox/clone/gitconfig"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// ConfigFile is the name of the file in the top directory that may say where the objects are.
const ConfigFile = ".lfsconfig"

// endpoint is the URL of the batch API, with the headers of its requests.
type endpoint struct {
	url    *url.URL
	header http.Header // given over ssh, for that server only
	ours   bool        // it has the origin of the repository: send its credentials
}

// endpoint finds the server like git-lfs: from .lfsconfig, from the answer over ssh, or below the URL of the
// repository.
func (c *Client) endpoint(ctx context.Context) (*endpoint, error) {
	named, err := configured(c.Config)
	if err != nil {
		return nil, err
	}
	switch {
	case named != "":
		return c.elsewhere(named)
	case c.Authenticate != nil:
		href, header, err := c.Authenticate(ctx)
		if err != nil {
			return nil, err
		}
		if href != "" {
			return authenticated(href, header)
		}
	}
	if c.Remote == nil {
		return nil, permanent(failure.New(failure.Unexpected, "fetch the Git LFS objects: their server is not known"), "name the server in "+ConfigFile+" (lfs.url)")
	}
	u := *c.Remote
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	if !strings.HasSuffix(u.Path, ".git") {
		u.Path += ".git"
	}
	u.Path += "/info/lfs"
	return &endpoint{url: &u, ours: true}, nil
}

// configured returns the server's URL in .lfsconfig, or "". Git LFS prefers lfs.url to that of the remote.
func configured(content []byte) (address string, err error) {
	ofRemote := ""
	for e, err := range gitconfig.Parse(content) {
		if err != nil {
			return "", badConfig(err)
		}
		switch {
		case e.Section == "lfs" && e.Subsection == "" && e.Key == "url":
			address = e.Value
		case e.Section == "remote" && e.Subsection == "origin" && e.Key == "lfsurl":
			ofRemote = e.Value
		}
	}
	return cmp.Or(address, ofRemote), nil
}

// elsewhere returns the endpoint that a file of the repository names. The file is not trusted: it may name any server,
// but credentials are sent only to that of the repository, and a password in the file is ignored.
func (c *Client) elsewhere(address string) (*endpoint, error) {
	u, err := parseWeb(address)
	if err != nil {
		f := failure.New(failure.Unexpected, "%s of the repository names a Git LFS server with a URL that is not http or https", ConfigFile)
		return nil, permanent(f, "correct lfs.url in the file")
	}
	if c.Remote != nil && c.Remote.Scheme == "https" && u.Scheme == "http" {
		f := failure.New(failure.Unexpected, "%s of the repository, which was fetched over https, names a Git LFS server without TLS", ConfigFile)
		return nil, permanent(f, "correct lfs.url in the file")
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	ours := c.Remote != nil && httpclient.SameOrigin(u, c.Remote)
	if ours {
		u.User = c.Remote.User
	}
	return &endpoint{url: u, ours: ours}, nil
}

// authenticated returns the endpoint that git-lfs-authenticate has named over ssh.
func authenticated(href string, header map[string]string) (*endpoint, error) {
	u, err := parseWeb(href)
	if err != nil {
		return nil, permanent(failure.New(failure.Unexpected, "git-lfs-authenticate on the server named no http or https URL"), "")
	}
	h, err := headers(header)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return &endpoint{url: u, header: h}, nil
}

func parseWeb(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("not an http or https URL") // without the URL, which may contain a token
	}
	return u, nil
}

// headers returns the headers that a server wants in a request.
func headers(from map[string]string) (http.Header, error) {
	h := http.Header{}
	for name, value := range from {
		switch http.CanonicalHeaderKey(name) {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Range":
			continue // set by net/http
		}
		if httpclient.AddHeader(h, name+": "+value) != nil {
			return nil, permanent(failure.New(failure.Unexpected, "the Git LFS server sent an invalid header name or value"), "")
		}
	}
	return h, nil
}

func permanent(f *failure.Failure, hint string) error {
	f.Hint = hint
	return poll.Permanent(f)
}
