package main

import (
	"cmp"
	"errors"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/clone"
	"initbox/clone/access"
	"initbox/clone/remote"
	"initbox/clone/worktree"
	"initbox/internal/httpclient"
	"initbox/internal/podinfo"
	"initbox/internal/secret"
	"initbox/internal/suggest"
)

// defaultGitTimeout is for how long a server may say nothing. It is longer than
// that of other commands: a server says nothing while it looks for what to send.
const defaultGitTimeout = 30 * time.Second

// options returns what the flags say of one clone.
func (g *gitFlags) options(c *cli.Context, e *env, url, dir string) (clone.Options, error) {
	o := clone.Options{
		URL: url, Dir: dir,
		Ref: g.ref, Depth: g.depth, SingleBranch: g.singleBranch,
		Submodules: clone.Submodules(g.submodules),
		Sparse:     g.sparse.Value(),
		Filter:     g.filter, LFS: g.lfs,
		GitDir: g.gitDir, Subdir: g.subdir, Link: g.link,
		Keys: g.signedBy.Value(), RejectEscapingSymlinks: g.rejectEscaping,
		MaxSize: int64(g.maxSize), MaxFiles: g.maxFiles,
		AttemptTimeout: g.attemptTimeout.Duration(),
		RetryAuth:      g.retryAuth,
		Seed:           podinfo.Seed(),
		Log:            e.log,
		Terminal:       isTerminal(e.stderr),
	}
	if patterns := g.sparsePatterns.Value(); len(patterns) > 0 {
		o.Sparse, o.Patterns = patterns, true
	}
	if o.Subdir != "" && !c.IsSet("git-dir") {
		o.GitDir = clone.GitRemove // it would call everything else deleted
	}
	for _, check := range []func(*cli.Context, clone.Options) error{checkPlaces, g.checkRevision, g.checkCredentials} {
		if err := check(c, o); err != nil {
			return o, err
		}
	}
	var err error
	if o.Access, err = g.access(); err != nil {
		return o, err
	}
	if g.owner != "" {
		owner, err := parseOwner(g.owner)
		if err != nil {
			return o, usagef("--owner %s: %w", g.owner, err)
		}
		o.Access.Owner = (*access.Owner)(&owner)
	}
	o.Remote, err = g.remote(e)
	return o, err
}

// checkPlaces refuses a URL or a folder that is none, before anything is tried.
func checkPlaces(_ *cli.Context, o clone.Options) error {
	for what, text := range map[string]string{"the URL": o.URL, "the folder": o.Dir, "--ref": o.Ref} {
		if name := variableReference().FindStringSubmatch(text); name != nil {
			return usagef("%s has $(%s) in it, which Kubernetes leaves as it is when the container has no such variable", what, name[1]).
				hint("set it in the container's env")
		}
	}
	if _, err := remote.ParseURL(o.URL, os.Getenv); err != nil {
		return usageError{err}
	}
	if web, err := secret.ParseURL(o.URL, os.Getenv); err == nil && web.User != nil {
		if password, set := web.User.Password(); set && !web.In(password) {
			return usagef("a password in the URL shows in the Pod's specification").
				hint("refer to a file, as in https://user:${file:/secrets/password}@HOST/PATH, or use --user and --password-file")
		}
	}
	switch dir := path.Clean(o.Dir); {
	case o.Dir == "":
		return usagef("the folder has no name")
	case dir == "/":
		return usagef("the folder cannot be /, where everything is")
	case strings.Contains(o.Dir, "://"):
		return usagef("the folder %s looks like a URL", o.Dir).hint("the URL comes first, then the folder: initbox git-clone URL DIR")
	}
	return nil
}

// checkRevision refuses what does not go together of what is cloned.
func (g *gitFlags) checkRevision(c *cli.Context, o clone.Options) error {
	kinds := []string{string(clone.SubmodulesOff), string(clone.SubmodulesShallow), string(clone.SubmodulesRecursive)}
	switch {
	case strings.HasPrefix(o.Ref, "-"), strings.ContainsAny(o.Ref, "\n\r\x00"), c.IsSet("ref") && o.Ref == "":
		return usagef("--ref %s: want a branch, a tag, a commit, refs/… or a range of versions", o.Ref)
	case o.Depth < 0:
		return usagef("--depth %d: want a number of commits, or 0 for all", o.Depth)
	case !slices.Contains(kinds, string(o.Submodules)):
		return usagef("--submodules: want %s, got %q", strings.Join(kinds, ", "), o.Submodules)
	case len(g.sparse.Value()) > 0 && o.Patterns:
		return usagef("--sparse and --sparse-pattern exclude each other").hint("a pattern /FOLDER/ stands for --sparse FOLDER")
	case o.Filter != "" && o.Filter != "blob:none":
		return usagef("--filter: want blob:none, got %q", o.Filter)
	case o.MaxFiles < 0 || c.IsSet("max-files") && o.MaxFiles == 0:
		return usagef("--max-files %d: want a number from 1", o.MaxFiles)
	case c.IsSet("max-size") && o.MaxSize == 0:
		return usagef("--max-size 0: want a size such as 500Mi")
	case o.Subdir != "" && o.GitDir != clone.GitRemove:
		return usagef("--subdir and --git-dir %s exclude each other: git would call all other files deleted", o.GitDir).
			hint("to have .git too, use --sparse " + o.Subdir)
	}
	if err := g.checkSparse(o); err != nil {
		return err
	}
	if o.Link != "" && (strings.Contains(o.Link, "/") || slices.Contains([]string{".", "..", ".git", ".worktrees"}, o.Link)) {
		return usagef("--link %s: want the name of a link in DIR, without a /", o.Link)
	}
	return checkGitDir(o.GitDir)
}

// checkSparse refuses folders and patterns that are none.
func (g *gitFlags) checkSparse(o clone.Options) error {
	for _, folder := range append(g.sparse.Value(), o.Subdir) {
		if slices.Contains(strings.Split(folder, "/"), "..") {
			return usagef("%s leads out of the repository", folder)
		}
	}
	flag, parse := "sparse", worktree.Cone
	if o.Patterns {
		flag, parse = "sparse-pattern", worktree.Patterns
	}
	if _, err := parse(o.Sparse); len(o.Sparse) > 0 && err != nil {
		return usagef("--%s: %w", flag, err)
	}
	return nil
}

func checkGitDir(text string) error {
	if text == clone.GitKeep || text == clone.GitRemove || strings.Contains(text, "/") {
		return nil
	}
	err := usagef("--git-dir: want keep, remove or a folder such as /state/git, got %q", text)
	if meant := suggest.Closest(text, []string{clone.GitKeep, clone.GitRemove}); meant != "" {
		return err.hint("did you mean " + meant + "?")
	}
	return err
}

// checkCredentials refuses credentials that exclude each other, or miss a part.
func (g *gitFlags) checkCredentials(c *cli.Context, _ clone.Options) error {
	for _, pair := range [][2]string{
		{"password-file", "user"}, {"user", "password-file"}, {"key-file", "cert-file"}, {"ssh-passphrase-file", "ssh-key-file"},
		{"github-app-id", "github-app-installation"}, {"github-app-id", "github-app-key-file"},
		{"github-app-installation", "github-app-id"}, {"github-app-key-file", "github-app-id"}, {"github-app-url", "github-app-id"},
	} {
		if c.IsSet(pair[0]) && !c.IsSet(pair[1]) {
			return usagef("--%s wants a --%s", pair[0], pair[1])
		}
	}
	var ways []string
	for _, way := range []string{"user", "token-file", "askpass-url", "github-app-id"} {
		if c.IsSet(way) {
			ways = append(ways, "--"+way)
		}
	}
	if len(ways) > 1 {
		return usagef("%s exclude each other: a request has one Authorization", strings.Join(ways, " and "))
	}
	for flag, text := range map[string]string{"askpass-url": g.askpassURL, "github-app-url": g.appURL} {
		if text == "" {
			continue
		}
		if _, err := secret.ParseURL(text, os.Getenv); err != nil {
			return usagef("--%s: %w", flag, err)
		}
	}
	return nil
}

// access returns what --mode and --group-write allow.
func (g *gitFlags) access() (access.Access, error) {
	mode, err := parseMode(g.mode)
	if err == nil && mode&0o700 != 0o700 {
		err = errors.New("the owner has to be allowed everything, as in 0750")
	}
	if err != nil {
		return access.Access{}, usagef("--mode %s: %w", g.mode, err)
	}
	return access.Access{Umask: 0o777 &^ mode, GroupWrite: g.groupWrite}, nil
}

// remote returns how servers are reached.
func (g *gitFlags) remote(e *env) (remote.Options, error) {
	o := remote.Options{
		HTTP: remote.HTTP{
			TLS:        g.tls,
			Who:        httpclient.Credentials{HeaderFiles: g.headerFiles.Value(), User: g.user, PasswordFile: g.passwordFile, TokenFile: g.tokenFile},
			CookieFile: g.cookieFile, Netrc: g.netrc, AskpassURL: g.askpassURL,
		},
		SSH: remote.SSH{
			KeyFiles: g.sshKeys.Value(), PassphraseFile: g.sshPassphrase,
			KnownHosts: g.knownHosts.Value(), KnownHostKeys: g.knownHostKeys.Value(), AcceptNew: g.sshAcceptNew,
		},
		Getenv: os.Getenv,
		Stall:  g.attemptTimeout.Duration(),
		Log:    e.log,
	}
	if g.appID != "" {
		o.HTTP.App = &remote.GitHubApp{ID: g.appID, Installation: g.appInstallation, KeyFile: g.appKey, BaseURL: g.appURL}
	}
	var err error
	if o.Proxy, err = parseProxy(g.proxy); err != nil {
		return o, err
	}
	o.Resolver, err = g.names.resolver()
	return o, err
}

// parseProxy reads --proxy. It does not quote it, since there may be a password.
func parseProxy(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme):
		return nil, usagef("--proxy: want a URL such as http://HOST:PORT or socks5://HOST:PORT")
	case u.User != nil:
		return nil, usagef("--proxy: a password in it shows in the Pod's specification").hint("set HTTPS_PROXY from a Secret: valueFrom: secretKeyRef")
	}
	if problem := secret.HostProblem(u); problem != nil {
		return nil, usagef("--proxy: %w", problem)
	}
	return u, nil
}

// isTerminal reports whether what is written to w is seen by somebody as it comes.
func isTerminal(w io.Writer) bool {
	if out, ok := w.(*outlet); ok {
		w = out.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	stat, err := f.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}

// overlapping returns two of the folders of which one is in the other, or the same.
func overlapping(clones []clone.Options) (outer, inner string) {
	type place struct{ path, dir string }
	var places []place
	for _, o := range clones {
		p, err := filepath.Abs(filepath.Join(o.Dir, o.Link))
		places = append(places, place{p, o.Dir})
		if err != nil {
			return "", ""
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.path, b.path) })
	for i, a := range places {
		for _, b := range places[i+1:] {
			if b.path == a.path || strings.HasPrefix(b.path, a.path+"/") {
				return a.dir, b.dir
			}
		}
	}
	return "", ""
}
