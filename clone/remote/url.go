package remote

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/secret"
)

// URL is the address of a repository, in one of the forms that git-clone(1) lists under "GIT URLs". It does not change
// after [ParseURL].
type URL struct {
	Scheme string // http, https, ssh, git or file
	User   string // of ssh; "" if the URL has none
	Host   string // a name or an address without brackets; "" for file
	Port   string // digits; "" for the scheme's default

	// Path of the repository. For file it is a path on this machine; for ssh and git it is the argument of the command
	// on the server, which may be relative to the home directory there (repo.git, ~user/repo.git); for http and https
	// it is only displayed.
	Path string

	web *secret.URL // of http and https
	scp bool        // written as HOST:PATH
}

// maxURL is the longest URL accepted, in bytes: more than any server accepts as a path.
const maxURL = 8 << 10

// ParseURL parses the URL of a repository: http, https, ssh (also as USER@HOST:PATH), git, file, or an absolute path.
// The whole text may be a reference, ${file:/PATH} or ${env:NAME}, and an HTTP URL may refer to secrets. Errors do not
// quote the URL, which may contain a password.
func ParseURL(text string, getenv func(string) string) (*URL, error) {
	value, whole, err := secret.Resolve(text, "the URL", getenv)
	if err != nil {
		return nil, err
	}
	u, err := parse(value)
	switch {
	case err != nil && whole: // some errors quote a part
		return nil, errors.New("the value that the URL refers to is not the URL of a repository")
	case err != nil:
		return nil, err
	case u == nil:
		return parseWeb(text, getenv)
	}
	return u, nil
}

// parse parses any URL but that of an HTTP server, for which it returns nil.
func parse(text string) (*URL, error) {
	switch {
	case text == "":
		return nil, errors.New("the URL is empty")
	case len(text) > maxURL:
		return nil, fmt.Errorf("the URL is longer than %d bytes", maxURL)
	case hasControl(text):
		return nil, errors.New("the URL contains a line break or another control character")
	case strings.HasPrefix(text, "-"):
		return nil, errors.New("the URL begins with -, like an option")
	case strings.HasPrefix(text, "/"):
		return &URL{Scheme: "file", Path: path.Clean(text)}, nil
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	if isURL && !strings.ContainsAny(scheme, "/:@") {
		return parseScheme(strings.ToLower(scheme), rest)
	}
	return parseSCP(text)
}

// parseScheme parses rest, which follows SCHEME://.
func parseScheme(scheme, rest string) (*URL, error) {
	switch scheme {
	case "http", "https":
		return nil, nil
	case "file":
		return parseFile(rest)
	case "git":
		return parseHost("git", rest)
	case "ssh", "git+ssh", "ssh+git":
		return parseHost("ssh", rest)
	}
	return nil, fmt.Errorf("the URL's scheme %s is not one of http, https, ssh, git and file", strconv.Quote(failure.Printable(scheme)))
}

// parseWeb parses the URL of an HTTP server.
func parseWeb(text string, getenv func(string) string) (*URL, error) {
	web, err := secret.ParseURL(text, getenv)
	if err != nil {
		return nil, err
	}
	web.Whole = false // the path of a repository is no secret
	return ofWeb(web)
}

func ofWeb(web *secret.URL) (*URL, error) {
	if err := checkHost(web.Hostname()); err != nil {
		return nil, err
	}
	return &URL{Scheme: web.Scheme, Host: web.Hostname(), Port: web.Port(), Path: web.Hide(web.Path), web: web}, nil
}

func parseFile(rest string) (*URL, error) {
	if after, ok := strings.CutPrefix(rest, "localhost/"); ok {
		rest = "/" + after
	}
	if !strings.HasPrefix(rest, "/") {
		return nil, errors.New("the URL names a host or a relative path after file://: want file:///PATH")
	}
	name := unescape(rest)
	if hasControl(name) {
		return nil, errControl
	}
	return &URL{Scheme: "file", Path: path.Clean(name)}, nil
}

// parseHost parses [USER@]HOST[:PORT]/PATH.
func parseHost(scheme, rest string) (*URL, error) {
	switch {
	case strings.Contains(rest, "${"):
		return nil, errReference
	case strings.Contains(rest, "#"):
		return nil, errors.New("the URL contains a #: give the revision with --ref, or write %23")
	case strings.Contains(rest, "?"):
		return nil, errors.New("the URL contains a ?: give the revision with --ref, or write %3F")
	}
	authority, name, found := strings.Cut(rest, "/")
	if !found || strings.Trim(name, "/") == "" {
		return nil, errNoPath
	}
	u := &URL{Scheme: scheme, Path: "/" + unescape(name)}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user := authority[:at]
		switch {
		case scheme == "git":
			return nil, errors.New("the URL has a user, which git:// does not support: use ssh:// or https://")
		case strings.Contains(user, ":"):
			return nil, errors.New("the URL has a password, but SSH needs a key: see --ssh-key-file")
		}
		u.User, authority = unescape(user), authority[at+1:]
	}
	var err error
	if u.Host, u.Port, err = splitHost(authority); err != nil {
		return nil, err
	}
	return u.finish()
}

// splitHost parses HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT.
func splitHost(text string) (host, port string, err error) {
	parsed, err := url.Parse("ssh://" + text)
	if err != nil || parsed.Host != text {
		if problem := secret.AddressProblem("ssh://" + text); problem != nil {
			return "", "", fmt.Errorf("the URL: %w", problem)
		}
		return "", "", errors.New("the URL has an invalid host")
	}
	if problem := secret.HostProblem(parsed); problem != nil {
		return "", "", fmt.Errorf("the URL: %w", problem)
	}
	return parsed.Hostname(), parsed.Port(), nil
}

// parseSCP parses [USER@]HOST:PATH; with a port it is [USER@][HOST:PORT]:PATH.
func parseSCP(text string) (*URL, error) {
	slash := strings.IndexByte(text, '/')
	if slash < 0 {
		slash = len(text)
	}
	colon := strings.IndexByte(text, ':')
	if open, closed := strings.IndexByte(text, '['), strings.Index(text, "]:"); open >= 0 && closed > open && closed < slash {
		colon = closed + 1
	}
	switch {
	case colon < 0 || colon > slash:
		return nil, notURL(text)
	case strings.HasPrefix(text[colon:], "::"):
		return nil, errors.New("the URL is for a remote helper of git (NAME::ADDRESS), which initbox does not support")
	case strings.Contains(text, "${"):
		return nil, errReference
	}
	if first, _, _ := strings.Cut(text[colon+1:], "/"); !strings.Contains(text[:colon], "@") && strings.Contains(first, "@") {
		return nil, errors.New("the URL has a login before its host, but no scheme: want https://HOST/PATH with --user and --password-file, or USER@HOST:PATH")
	}
	u := &URL{Scheme: "ssh", Path: text[colon+1:], scp: true}
	if u.Path == "" {
		return nil, errNoPath
	}
	host := text[:colon]
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		u.User, host = host[:at], host[at+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
		if strings.Count(host, ":") > 1 {
			host = "[" + host + "]"
		}
	}
	var err error
	if u.Host, u.Port, err = splitHost(host); err != nil {
		return nil, err
	}
	return u.finish()
}

// finish checks a URL of ssh or git, and turns its path into the argument of the command.
func (u *URL) finish() (*URL, error) {
	if strings.HasPrefix(u.Path, "/~") { // as git does
		u.Path = u.Path[1:]
	}
	switch {
	case hasControl(u.Path), hasControl(u.User):
		return nil, errControl
	case strings.HasPrefix(u.Path, "-"), strings.HasPrefix(u.User, "-"):
		return nil, errors.New("the user or the path in the URL begins with -, like an option")
	}
	return u, checkHost(u.Host)
}

var (
	errNoPath    = errors.New("the URL names no repository: the path is missing")
	errControl   = errors.New("the URL contains an encoded line break or another control character")
	errReference = errors.New("the URL contains ${…}, but only the URL of an HTTP server can refer to a secret")
)

func checkHost(host string) error {
	switch {
	case host == "":
		return errors.New("the URL names no host")
	case strings.HasPrefix(host, "-"):
		return errors.New("the URL's host begins with -, like an option")
	}
	return nil
}

// notURL returns the error for text that is not a URL, with what was probably meant.
func notURL(text string) error {
	first, _, more := strings.Cut(text, "/")
	if more && strings.Contains(strings.Trim(first, "."), ".") && strings.Trim(first, hostCharacters) == "" {
		return fmt.Errorf("the URL has no scheme: want https://%s/…, or %s:PATH for ssh", first, first)
	}
	return errors.New("not a repository URL: want https://HOST/PATH, ssh://HOST/PATH, USER@HOST:PATH, git://HOST/PATH, file:///PATH or an absolute path")
}

const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// unescape decodes %XX; like git, it leaves malformed text as it is.
func unescape(s string) string {
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}

// String returns the URL for display: without the user information and the query of HTTP, and without the secrets that
// it refers to.
func (u *URL) String() string {
	switch {
	case u.web != nil:
		return failure.Printable(u.web.String())
	case u.Scheme == "file":
		return "file://" + (&url.URL{Path: u.Path}).EscapedPath()
	}
	user := ""
	if u.User != "" {
		user = u.User + "@"
	}
	if u.scp {
		host := u.Host
		if u.Port != "" || strings.Contains(host, ":") {
			host = "[" + strings.TrimSuffix(host+":"+u.Port, ":") + "]"
		}
		return user + host + ":" + u.Path
	}
	return u.Scheme + "://" + user + u.authority() + "/" + (&url.URL{Path: strings.TrimPrefix(u.Path, "/")}).EscapedPath()
}

// Plain returns the URL for a file that others read, such as remote.origin.url in .git/config: like [URL.String], but
// without any trace of the query.
func (u *URL) Plain() string {
	if u.web == nil {
		return u.String()
	}
	plain := url.URL{Scheme: u.Scheme, Host: u.web.Host, Path: u.web.Path, RawPath: u.web.RawPath}
	return u.web.Hide(plain.String())
}

// authority returns HOST or HOST:PORT, with brackets where they are needed.
func (u *URL) authority() string {
	switch {
	case u.Port != "":
		return net.JoinHostPort(u.Host, u.Port)
	case strings.Contains(u.Host, ":"):
		return "[" + u.Host + "]"
	}
	return u.Host
}

// Address returns HOST:PORT, to connect to; "" for file.
func (u *URL) Address() string {
	standard := map[string]string{"http": "80", "https": "443", "ssh": "22", "git": "9418"}[u.Scheme]
	if standard == "" {
		return ""
	}
	return net.JoinHostPort(u.Host, cmp.Or(u.Port, standard))
}

// SameOrigin returns whether credentials for u may be sent to v: whether scheme, host and port are the same.
func (u *URL) SameOrigin(v *URL) bool {
	if u.web != nil && v.web != nil {
		return httpclient.SameOrigin(u.web.URL, v.web.URL)
	}
	return u.Scheme == v.Scheme && u.Address() == v.Address()
}

// Secrets returns the secrets in the URL, which must be removed from text of the server before it is printed.
func (u *URL) Secrets() []string {
	if u.web == nil {
		return nil
	}
	return u.web.Secrets()
}
