package lfs

import (
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

// ConfigFile is the file at the top of a tree that may say where its objects are.
const ConfigFile = ".lfsconfig"

// endpoint is where the batch API is, and what its requests carry.
type endpoint struct {
	url    *url.URL
	header http.Header // of the server that ssh has named; for it alone
	ours   bool        // of the repository's origin: what proves who asks is for it
}

// endpoint finds the server, as git-lfs does: what .lfsconfig says, what the server
// answers over ssh, or a path below the repository's.
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
		return nil, permanent(failure.New(failure.Unexpected, "fetch the objects of Git LFS: it is not known where from"), "name the server in "+ConfigFile+" (lfs.url)")
	}
	u := *c.Remote
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	if !strings.HasSuffix(u.Path, ".git") {
		u.Path += ".git"
	}
	u.Path += "/info/lfs"
	return &endpoint{url: &u, ours: true}, nil
}

// configured returns what .lfsconfig says of the server, or "". Git LFS goes by
// lfs.url before that of the remote.
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
	if address == "" {
		address = ofRemote
	}
	return address, nil
}

// elsewhere is the server that a file of the repository names. Who wrote that may
// have any server asked, but has nothing secret sent to another than that of the
// repository, and no password of the file's own.
func (c *Client) elsewhere(address string) (*endpoint, error) {
	u, err := parseWeb(address)
	if err != nil {
		f := failure.New(failure.Unexpected, "%s of the repository names a server of Git LFS that is not one of http or https", ConfigFile)
		return nil, permanent(f, "correct lfs.url in the file")
	}
	if c.Remote != nil && c.Remote.Scheme == "https" && u.Scheme == "http" {
		f := failure.New(failure.Unexpected, "%s of the repository, which came over https, names a server of Git LFS without TLS", ConfigFile)
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

// authenticated is the server that git-lfs-authenticate has named over ssh.
func authenticated(href string, header map[string]string) (*endpoint, error) {
	u, err := parseWeb(href)
	if err != nil {
		return nil, permanent(failure.New(failure.Unexpected, "git-lfs-authenticate on the server names no URL of http or https"), "")
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
		return nil, fmt.Errorf("not a URL of http or https") // without the URL, which may hold a token
	}
	return u, nil
}

// headers takes those that a server gives for a request.
func headers(from map[string]string) (http.Header, error) {
	h := http.Header{}
	for name, value := range from {
		switch http.CanonicalHeaderKey(name) {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Range":
			continue // what net/http decides
		}
		if httpclient.AddHeader(h, name+": "+value) != nil {
			return nil, permanent(failure.New(failure.Unexpected, "the server of Git LFS names a header that is none"), "")
		}
	}
	return h, nil
}

func permanent(f *failure.Failure, hint string) error {
	f.Hint = hint
	return poll.Permanent(f)
}
