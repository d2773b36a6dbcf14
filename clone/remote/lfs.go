package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"initbox/clone/local"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
)

// Store says where the Git LFS objects of a repository are, and which credentials to send there.
type Store struct {
	URL       *url.URL // of the repository: http or https, without user information; guessed if the repository has another scheme, nil for a directory
	Directory string   // the .git of a repository on this machine; "" for others
	HTTP      httpclient.Options

	// Authorize adds credentials to a request to the origin of URL, and returns the secrets among them. It is nil if
	// there are no credentials.
	Authorize func(ctx context.Context, req *http.Request) (secrets []string, err error)

	// Authenticate asks over SSH where the objects are, and which headers to send there. It is nil for a repository
	// that is not reached over SSH. The address is "" if the server does not know the command.
	Authenticate func(ctx context.Context) (address string, header map[string]string, err error)
}

// StoreOf returns the store of the repository at u.
func StoreOf(u *URL, o Options) (*Store, error) {
	s := &Store{HTTP: httpclient.Options{Dial: o.dialer(), TLS: o.HTTP.TLS, Proxy: o.Proxy}}
	switch u.Scheme {
	case "file":
		r, err := local.Open(u.Path)
		if err != nil {
			return nil, dirFailure(err)
		}
		s.Directory = r.Directory()
		return s, r.Close()
	case "http", "https":
		at, err := u.web.Expand()
		if err != nil {
			return nil, err
		}
		user := at.User
		s.Authorize = func(ctx context.Context, req *http.Request) ([]string, error) {
			req.URL.User = user
			secrets, err := o.authorize(ctx, req)
			return append(secrets, u.Secrets()...), err
		}
		bare := *at
		bare.User = nil
		s.URL = &bare
	case "ssh":
		s.Authenticate = func(ctx context.Context) (string, map[string]string, error) { return askSSH(ctx, u, o) }
		fallthrough
	default:
		s.URL = &url.URL{Scheme: "https", Host: (&URL{Host: u.Host}).authority(), Path: "/" + strings.TrimPrefix(u.Path, "/")}
		s.HTTP.TLS = o.elsewhere()
	}
	return s, nil
}

// maxAccess is a limit for the answer to git-lfs-authenticate, in bytes: larger than that of any server.
const maxAccess = 64 << 10

// askSSH runs git-lfs-authenticate
// (https://github.com/git-lfs/git-lfs/blob/main/docs/api/server-discovery.md).
func askSSH(ctx context.Context, u *URL, o Options) (address string, header map[string]string, err error) {
	server := openSSH(u, o)
	defer server.Close()
	command, err := remoteCommand("git-lfs-authenticate", u.Path)
	if err != nil {
		return "", nil, err
	}
	st, err := server.start(ctx, command+" download")
	if err != nil {
		return "", nil, err
	}
	defer st.Close()
	answer, err := io.ReadAll(io.LimitReader(st, maxAccess))
	var reported *failure.Failure
	switch {
	case ctx.Err() != nil:
		return "", nil, ctx.Err()
	case err != nil && errors.As(err, &reported) && reported.Class == failure.Authentication:
		return "", nil, err
	case err != nil:
		return "", nil, nil // most servers without LFS do not have the command
	}
	var access struct {
		Href   string            `json:"href"`
		Header map[string]string `json:"header"`
	}
	if err := json.Unmarshal(answer, &access); err != nil {
		return "", nil, unexpected("the answer of git-lfs-authenticate is not JSON") // and not quoted: it may contain a token
	}
	return access.Href, access.Header, nil
}
