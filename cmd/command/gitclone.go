package command

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/clone"
	"initbox/clone/access"
	"initbox/clone/remote"
	"initbox/clone/worktree"
	"initbox/cmd/duration"
	"initbox/cmd/help"
	"initbox/cmd/translate"
	"initbox/internal/httpclient"
	"initbox/internal/perm"
	"initbox/internal/podinfo"
	"initbox/internal/secret"
	"initbox/internal/suggest"
)

// Categories of git-clone's flags.
const (
	categoryRevision    = "What is cloned"
	categoryPlace       = "Destination"
	categoryLimits      = "Limits and checks"
	categoryCredentials = "Credentials, for http and https"
	categorySSH         = "Credentials, for ssh"
	categoryReach       = "Server"
	categorySeveral     = "Several clones"
	categoryWatch       = "Staying up to date"
	categoryHooks       = "Programs to run"
)

// With this value, flagCompat has git-clone read git-sync's command line, which is all that follows it; see [permute].
const (
	flagCompat    = "compat"
	compatGitSync = "git-sync"
)

func gitClone(e *env) *cli.Command {
	g := &gitFlags{}
	return &cli.Command{
		Usage:     "put one revision of a Git repository into a directory",
		ArgsUsage: "URL DIR",
		Description: `Makes DIR the tree of a revision of the repository, whichever revision DIR held before
and however often it runs. At every instant DIR is all of the old tree or all of the
new one, even if the program is killed. What DIR already has is not fetched again.
A DIR with files that are not from git-clone is refused unless --replace is given.

URL is one of
  https://HOST/PATH, http://…    refer to a secret in it, as in
                                 https://${file:/secrets/user}:${file:/secrets/token}@HOST/PATH
  ssh://[USER@]HOST[:PORT]/PATH
  [USER@]HOST:PATH               the same, in git's short form
  git://HOST/PATH
  file:///PATH, /PATH            a repository on a volume

Examples:
  initbox git-clone https://github.com/kubernetes/examples /work --ref v1.2.0
  initbox git-clone git@git.example:config.git /config --ssh-key-file /git/key --known-hosts /git/hosts
  initbox git-clone https://git.example/mono /work --sparse services/web --filter blob:none
  initbox git-clone https://git.example/config /config --link current --watch 30s`,
		Flags: g.flags(),
		Action: e.action(func(c *cli.Context) (work, error) {
			work, err := e.gitClone(c, g)
			if err != nil {
				return nil, withHint(g.errorFile.report(err))
			}
			return func(ctx context.Context) error { return withHint(g.errorFile.report(work(ctx))) }, nil
		}),
	}
}

// clonePercent is the limit of garbage, in percent of the memory in use. Little of what a clone allocates stays in use,
// so frequent collection costs little and saves a third of the memory.
const clonePercent = 30

// gitClone returns what clones as the flags say.
func (e *env) gitClone(c *cli.Context, g *gitFlags) (work, error) {
	url, dir, err := g.arguments(c, e)
	if err != nil {
		return nil, err
	}
	after, err := g.after(c, e)
	if err != nil {
		return nil, err
	}
	if g.config != "" {
		return func(ctx context.Context) error { return g.several(ctx, c, e, after) }, nil
	}
	o, err := g.options(c, e, url, dir)
	if err != nil {
		return nil, err
	}
	if err := g.checkOutside(o); err != nil {
		return nil, err
	}
	const forever = "git-sync's command line keeps running without --one-time"
	switch {
	case g.sidecar.watch > 0 && e.once != "":
		return nil, usagef("--%s is for commands that end, and "+forever, flagOnce)
	case g.sidecar.watch > 0 && e.chained():
		return nil, usagef("a chain is for commands that end, and " + forever)
	}
	return func(ctx context.Context) error {
		ctx, cancel := g.within(ctx, e)
		defer cancel()
		if os.Getenv("GOGC") == "" {
			defer debug.SetGCPercent(debug.SetGCPercent(clonePercent))
		}
		if g.sidecar.watch > 0 {
			return g.stay(ctx, e, o, after)
		}
		result, err := clone.Run(ctx, o)
		if err != nil {
			return err
		}
		return after.done(ctx, e, o, result)
	}, nil
}

// gitFlags are the values of the flags.
type gitFlags struct {
	o                         clone.Options // what flags set directly
	sparse, sparsePatterns    cli.StringSlice
	mode, owner               string
	signedBy                  cli.StringSlice
	credentials               credentialFlags
	app                       remote.GitHubApp
	sshKeys                   cli.StringSlice
	knownHosts, knownHostKeys cli.StringSlice
	proxy                     string
	config                    string
	parallel                  int
	output                    string
	sidecar                   sidecarFlags
	compat                    string
	retryStatus               string
	names                     resolverFlags
	hook, hookBefore          execHook
	wakeSignal                string

	deadline  *time.Duration // instead of --timeout; nil for that
	errorFile errorFile
}

func (g *gitFlags) flags() []cli.Flag {
	g.o.AttemptTimeout = defaultGitTimeout
	return slices.Concat(g.entryFlags(), []cli.Flag{
		textFlag("config", "`FILE`, YAML or JSON, with a list of clones, each with the keys url and dir and any of the flags above; flags hold for all clones without such a key", categorySeveral, &g.config),
		&cli.IntFlag{Name: "parallel", Usage: "`N` clones at a time (default the number of processors)", Category: categorySeveral, Destination: &g.parallel},

		textFlag("output", "`FILE` for what was cloned, as JSON: url, ref, sha, date, author, subject, bytes, seconds, changed; - is stdout", categoryResult, &g.output),
	}, g.sidecar.flags(sidecarTexts{
		look: "look for a new commit this often", changed: "DIR has changed",
		revision: "the commit's id", header: "Gitsync-Hash", there: "DIR is there",
	}), []cli.Flag{
		textFlag("sync-on-signal", "with --watch, `HUP|USR1|USR2`: check at once when this signal comes", categoryWatch, &g.wakeSignal),
	}, g.hook.flags("exechook", "in the tree after each change"), g.hookBefore.flags("pre-publish-exechook", "in the new tree before it is published, which waits until it succeeds"), []cli.Flag{
		textFlag(flagCompat, "`git-sync`: everything that follows is a command line of git-sync, whose variables GITSYNC_… and GIT_SYNC_… count too", categoryFrom, &g.compat),

		textFlag("retry-status", "`LIST` of statuses to retry after that otherwise end it, as in 401,403,404; 404 stands for no such revision too; over ssh and git://, 401 stands for refused credentials, and 404 for no such repository", categoryWait, &g.retryStatus),
		onFlag("retry-auth", "the same as --retry-status 401,403,404; also retry another host key and an untrusted certificate", categoryWait, &g.o.RetryAuth),
		durationFlag("attempt-timeout", "give up an attempt after so long without progress, 0 for never", categoryWait, &g.o.AttemptTimeout, "INITBOX_ATTEMPT_TIMEOUT"),
	}, g.names.flags())
}

// entryFlags returns the flags of one clone, which are keys in --config too.
func (g *gitFlags) entryFlags() []cli.Flag {
	g.o.Depth, g.o.Submodules, g.o.GitDir, g.mode = 1, clone.SubmodulesOff, clone.GitKeep, "0755"
	return slices.Concat([]cli.Flag{
		textFlag("ref", "`REF`: branch, tag, commit, refs/… or a range of versions such as '^1.2' (default the remote's HEAD)", categoryRevision, &g.o.Ref),
		&cli.IntFlag{Name: "depth", Usage: "`N` commits of history, 0 for all", Category: categoryRevision, Value: g.o.Depth, Destination: &g.o.Depth},
		onFlag("single-branch", "with --depth 0, only the history of --ref", categoryRevision, &g.o.SingleBranch),
		textFlag("submodules", "`off|shallow|recursive`: clone submodules too, with recursive also their own", categoryRevision, (*string)(&g.o.Submodules)),
		textsFlag("sparse", "`PATH` of a directory to check out, with the files at the top, instead of everything", categoryRevision, &g.sparse),
		textsFlag("sparse-pattern", "`PATTERN` of files to check out, as in .gitignore", categoryRevision, &g.sparsePatterns),
		textFlag("filter", "`blob:none|blob:limit=SIZE|tree:0`: fetch only the files that are checked out, and those of the history up to SIZE; or with tree:0, of the history only the commits", categoryRevision, &g.o.Filter),
		onFlag("lfs", "fetch the files that Git LFS stores elsewhere", categoryRevision, &g.o.LFS),
		textFlag("subdir", "`PATH` of the directory of the repository whose content becomes DIR; without .git", categoryRevision, &g.o.Subdir),

		textFlag("git-dir", "`keep|remove|PATH`: .git stays in DIR, is left out, or is that directory", categoryPlace, &g.o.GitDir),
		textFlag("mode", "`MODE` limit of directories and executable files; for other files, without the x", categoryPlace, &g.mode),
		onFlag("group-write", "give the group the rights of the owner, as a volume with fsGroup needs", categoryPlace, &g.o.Access.GroupWrite),
		textFlag("owner", "`UID[:GID]` of the files: "+perm.OwnerUsage+"; needs the right to change owners", categoryPlace, &g.owner),
		textFlag("link", "`NAME` of a link in DIR, or the path of one, to the tree, which has a new directory in DIR for each commit, as with git-sync", categoryPlace, &g.o.Link),
		durationFlag("keep-old", "with --link, keep the trees of earlier commits this long after they are replaced, for programs that still read them", categoryPlace, &g.o.KeepOld),
		durationFlag("link-lease", "with --link PATH, keep its tree this long after the last run for that link, or check of --watch, when other Pods clone into DIR, too; 0 for forever (default 720h with --watch, otherwise 0)", categoryPlace, &g.o.LinkLease),
		onFlag("replace", "replace what is in DIR even if it is not from git-clone: other files, which are lost", categoryPlace, &g.o.Replace),
		followFlag(categoryPlace, &g.o.Follow),

		textsFlag("verify-signature", "`FILE` with OpenPGP or SSH keys: the commit or the tag must be signed by one of them", categoryLimits, &g.signedBy),
		onFlag("reject-escaping-symlinks", "refuse a tree with symbolic links that lead out of it", categoryLimits, &g.o.RejectEscapingSymlinks),
		&cli.GenericFlag{Name: "max-size", Usage: "`SIZE` limit of all files together, as in 500Mi", Category: categoryLimits, Value: (*byteCount)(&g.o.MaxSize)},
		&cli.IntFlag{Name: "max-files", Usage: "`N` files at most", Category: categoryLimits, Destination: &g.o.MaxFiles},
	}, g.credentials.flags(categoryCredentials), []cli.Flag{
		textFlag("cookie-file", "`FILE` with cookies, as curl writes it", categoryCredentials, &g.o.Remote.HTTP.CookieFile),
		textFlag("netrc", "`FILE` with logins by host, also for submodules and LFS on other hosts", categoryCredentials, &g.o.Remote.HTTP.Netrc),
		textFlag("askpass-url", "`URL` that answers username=… and password=… on two lines", categoryCredentials, &g.o.Remote.HTTP.AskpassURL),
		textFlag("github-app-id", "`ID` or client ID of a GitHub App, to use a token of its installation", categoryCredentials, &g.app.ID),
		textFlag("github-app-installation", "`ID` of the App's installation", categoryCredentials, &g.app.Installation),
		textFlag("github-app-key-file", "`FILE` with the App's private key", categoryCredentials, &g.app.KeyFile),
		textFlag("github-app-url", "`URL` of the API (default https://api.github.com)", categoryCredentials, &g.app.BaseURL),

		textsFlag("ssh-key-file", "`FILE` with a private key", categorySSH, &g.sshKeys),
		textFlag("ssh-passphrase-file", "`FILE` with the passphrase of the keys", categorySSH, &g.o.Remote.SSH.PassphraseFile),
		textsFlag("known-hosts", "`FILE` with host keys, as ssh-keyscan prints them", categorySSH, &g.knownHosts),
		textsFlag("known-hosts-key", "`LINE` of such a file, as in 'git.example ssh-ed25519 AAAA…'", categorySSH, &g.knownHostKeys),
		onFlag("ssh-accept-new", "trust a host whose key is not known, and log its fingerprint", categorySSH, &g.o.Remote.SSH.AcceptNew),
	}, tlsFlags(categoryReach, &g.o.Remote.HTTP.TLS), []cli.Flag{
		textFlag("proxy", "`URL` of an http, https or socks5 proxy, instead of those in HTTPS_PROXY and similar variables", categoryReach, &g.proxy),
	})
}

// gitNames are flags of git clone, and their names here.
var gitNames = map[string]string{
	"b": "ref", "branch": "ref", "revision": "ref", "tag": "ref",
	"recurse-submodules": "submodules", "recursive": "submodules", "shallow-submodules": "submodules",
	"separate-git-dir": "git-dir", "no-checkout": "sparse",
}

// arguments returns URL and directory. It translates arguments of git-sync into flags first.
func (g *gitFlags) arguments(c *cli.Context, e *env) (url, dir string, err error) {
	before, foreign := arguments(c)
	if g.compat != "" {
		if g.compat != compatGitSync {
			return "", "", usagef("--%s: want %s, got %q", flagCompat, compatGitSync, g.compat)
		}
		if len(before) > 0 {
			return "", "", usagef("unexpected argument before --%s: %s", flagCompat, secret.Word(before[0]))
		}
		return g.fromGitSync(c, e, foreign)
	}
	const example = "as in: initbox git-clone https://github.com/kubernetes/examples /work"
	switch {
	case g.config != "" && len(before) > 0:
		return "", "", usagef("unexpected argument with --config: %s", secret.Word(before[0])).hint("the file has url and dir of each clone")
	case g.config != "":
		return "", "", nil
	case len(before) == 0:
		return "", "", usagef("no repository given").hint(example)
	case len(before) == 1:
		return "", "", usagef("no directory given for the repository").hint(example)
	case len(before) > 2:
		return "", "", usagef("want a URL and a directory, got %d arguments", len(before)).hint(example)
	}
	return before[0], before[1], nil
}

// fromGitSync sets the flags that git-sync's arguments and variables translate into, and returns URL and directory.
func (g *gitFlags) fromGitSync(c *cli.Context, e *env, args []string) (url, dir string, err error) {
	line, err := translate.GitSync(args, e.environment())
	if err != nil {
		return "", "", usagef("--%s %s: %w", flagCompat, compatGitSync, err)
	}
	line.Flags = append(line.Flags, translate.Flag{Name: "replace", Value: "true"}) // git-sync does not ask
	for _, f := range line.Flags {
		if err := c.Set(f.Name, f.Value); err != nil {
			return "", "", usagef("--%s %s: %w", flagCompat, compatGitSync, help.WrongValue(err, c.Command.Flags))
		}
	}
	if !isSet(c, "timeout") {
		g.deadline = line.Timeout
		if e.inspecting && line.Timeout != nil {
			e.timeout = *line.Timeout
		}
	}
	g.errorFile, g.sidecar.once = errorFile(line.ErrorFile), line.CallOnce
	g.hook.once, g.hookBefore.once = line.CallOnce, line.CallOnce
	g.o.MaxRefusals, g.o.RefusalPause = line.Refusals, line.RefusalPause
	e.logTranslation(line)
	return line.Arguments[0], line.Arguments[1], nil
}

// within returns a context that ends at the deadline of git-sync's flags, if there is one, instead of at --timeout.
func (g *gitFlags) within(ctx context.Context, e *env) (context.Context, context.CancelFunc) {
	switch {
	case g.deadline == nil:
		return ctx, func() {}
	case *g.deadline == 0:
		return e.untilStopped, func() {}
	}
	return context.WithTimeoutCause(e.untilStopped, *g.deadline, deadlinePassed(*g.deadline))
}

// defaultGitTimeout is how long a server may be silent. It is longer than in other subcommands, since a server is
// silent while it looks for what to send.
const defaultGitTimeout = 30 * time.Second

// options returns the options of one clone.
func (g *gitFlags) options(c *cli.Context, e *env, url, dir string) (clone.Options, error) {
	o := g.o
	o.URL, o.Dir = url, dir
	e.warnNowhere(dir)
	if path.IsAbs(o.Link) {
		e.warnNowhere(o.Link)
	}
	o.Sparse, o.Keys = g.sparse.Value(), g.signedBy.Value()
	o.Before, o.Program, o.Unchecked = g.hookBefore.before(e), g.hookBefore.command, g.hook.command != ""
	o.Seed, o.Log, o.Terminal = podinfo.Seed(), e.log, isTerminal(e.stderr)
	if g.sidecar.watch > 0 && !isSet(c, "link-lease") {
		o.LinkLease = max(defaultLease, g.shortestLease())
	}
	if patterns := g.sparsePatterns.Value(); len(patterns) > 0 {
		o.Sparse, o.Patterns = patterns, true
	}
	if o.Subdir != "" && !isSet(c, "git-dir") {
		o.GitDir = clone.GitRemove // git would report everything else as deleted
	}
	for _, check := range []func(*cli.Context, clone.Options) error{checkPlaces, g.checkRevision, g.checkCredentials} {
		if err := check(c, o); err != nil {
			return o, err
		}
	}
	if err := g.setAccess(&o.Access); err != nil {
		return o, err
	}
	if g.retryStatus != "" {
		var err error
		if o.RetryStatus, err = httpclient.ParseStatuses(g.retryStatus); err != nil {
			return o, usagef("--retry-status %s: %w", g.retryStatus, err)
		}
	}
	err := g.setRemote(e, &o.Remote)
	return o, err
}

// checkPlaces refuses an invalid URL or directory, before anything is tried.
func checkPlaces(_ *cli.Context, o clone.Options) error {
	for _, place := range [][2]string{{"the URL", o.URL}, {"the directory", o.Dir}, {"--ref", o.Ref}} {
		if err := unreplaced(place[0], place[1]); err != nil {
			return err
		}
	}
	if _, err := remote.ParseURL(o.URL, os.Getenv); err != nil {
		return usageError{err}
	}
	if web, err := secret.ParseURL(o.URL, os.Getenv); err == nil && web.PasswordShown() {
		return usagef("a password in the URL would show in the Pod's specification").
			hint("refer to a file, as in https://user:${file:/secrets/password}@HOST/PATH, or use --user and --password-file")
	}
	switch dir := path.Clean(o.Dir); {
	case o.Dir == "":
		return usagef("the name of the directory is empty")
	case dir == "/":
		return usagef("the directory cannot be /, which holds everything")
	case strings.Contains(o.Dir, "://"):
		return usagef("the directory %s looks like a URL", secret.Word(o.Dir)).hint("the URL comes first, then the directory: initbox git-clone URL DIR")
	}
	return nil
}

// checkRevision refuses flags of the revision that exclude each other, and values that cannot be right.
func (g *gitFlags) checkRevision(c *cli.Context, o clone.Options) error {
	kinds := []string{string(clone.SubmodulesOff), string(clone.SubmodulesShallow), string(clone.SubmodulesRecursive)}
	switch {
	case strings.HasPrefix(o.Ref, "-"), strings.ContainsAny(o.Ref, "\n\r\x00"), isSet(c, "ref") && o.Ref == "":
		return usagef("--ref %s: want a branch, a tag, a commit, refs/… or a range of versions", o.Ref)
	case o.Depth < 0:
		return usagef("--depth %d: want a number of commits, or 0 for all", o.Depth)
	case !slices.Contains(kinds, string(o.Submodules)):
		return usagef("--submodules: want %s, got %q", strings.Join(kinds, ", "), o.Submodules)
	case len(g.sparse.Value()) > 0 && o.Patterns:
		return usagef("--sparse and --sparse-pattern are mutually exclusive").hint("a pattern /DIR/ stands for --sparse DIR")
	case o.Filter != "" && !clone.IsFilter(o.Filter):
		return usagef("--filter: want blob:none, blob:limit=SIZE or tree:0, got %q", o.Filter).
			hint("git's other filters would omit what the files need; --sparse says which files")
	case o.MaxFiles < 0 || isSet(c, "max-files") && o.MaxFiles == 0:
		return usagef("--max-files %d: want a number from 1", o.MaxFiles)
	case o.KeepOld < 0:
		return usagef("--keep-old %v: want a time such as 10m", o.KeepOld)
	case o.KeepOld > 0 && o.Link == "":
		return usagef("--keep-old needs --link: without it, the new tree replaces the old one")
	case o.LinkLease < 0 || o.LinkLease > 0 && o.LinkLease < g.shortestLease():
		return usagef("--link-lease %s: want at least %s, or 0 for forever", duration.Short(o.LinkLease), duration.Short(g.shortestLease()))
	case isSet(c, "link-lease") && o.Link == "":
		return usagef("--link-lease needs --link")
	case isSet(c, "link-lease") && path.Dir(o.Path()) == path.Clean(o.Dir):
		return usagef("--link-lease needs a --link outside of DIR, such as /app/current: all Pods with DIR see a link in it, so its tree stays as long as the link")
	case isSet(c, "max-size") && o.MaxSize == 0:
		return usagef("--max-size 0: want a size such as 500Mi")
	case o.Subdir != "" && o.GitDir != clone.GitRemove:
		return usagef("--subdir and --git-dir %s are mutually exclusive: git would report all other files as deleted", o.GitDir).
			hint("to have .git too, use --sparse " + o.Subdir)
	}
	if err := g.checkSparse(o); err != nil {
		return err
	}
	if o.Link != "" && !clone.IsLink(o.Link) {
		return usagef("--link %s: want the name of a link in DIR, or the path of one", o.Link)
	}
	return checkGitDir(o.GitDir)
}

// defaultLease is the --link-lease of a sidecar, which may be down for days while the other containers of its Pod run.
const defaultLease = 30 * 24 * time.Hour

// shortestLease is the shortest --link-lease. Each look renews it, which may have to wait for the clones of other Pods.
func (g *gitFlags) shortestLease() time.Duration { return max(time.Hour, 3*g.sidecar.watch) }

// checkSparse refuses invalid directories and patterns.
func (g *gitFlags) checkSparse(o clone.Options) error {
	for _, directory := range append(g.sparse.Value(), o.Subdir) {
		if slices.Contains(strings.Split(directory, "/"), "..") {
			return usagef("%s leads out of the repository", directory)
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
	return usagef("--git-dir: want keep, remove or a directory such as /state/git, got %q", text).
		hint(strings.TrimSpace(suggest.Question(text, []string{clone.GitKeep, clone.GitRemove}, "")))
}

// checkCredentials refuses credentials that exclude each other, or are incomplete.
func (g *gitFlags) checkCredentials(c *cli.Context, o clone.Options) error {
	if err := needs(c, [][2]string{
		{"password-file", "user"}, {"user", "password-file"}, {"key-file", "cert-file"}, {"ssh-passphrase-file", "ssh-key-file"},
		{"github-app-id", "github-app-installation"}, {"github-app-id", "github-app-key-file"},
		{"github-app-installation", "github-app-id"}, {"github-app-key-file", "github-app-id"}, {"github-app-url", "github-app-id"},
	}); err != nil {
		return err
	}
	if ways := given(c, "user", "token-file", "askpass-url", "github-app-id"); len(ways) > 1 {
		return usagef("%s are mutually exclusive: a request has one Authorization header", strings.Join(ways, " and "))
	}
	for flag, text := range map[string]string{"askpass-url": o.Remote.HTTP.AskpassURL, "github-app-url": g.app.BaseURL} {
		if text == "" {
			continue
		}
		if _, err := secret.ParseURL(text, os.Getenv); err != nil {
			return usagef("--%s: %w", flag, err)
		}
	}
	return nil
}

// setAccess sets the owner, and the rights that --mode allows.
func (g *gitFlags) setAccess(a *access.Access) error {
	parsed, err := parsePermissions(g.mode)
	mode := fs.FileMode(parsed.Of(0o777, false))
	if err == nil && mode&0o700 != 0o700 {
		err = errors.New("the owner needs all rights, as in 0750")
	}
	if err != nil {
		return usagef("--mode %s: %w", g.mode, err)
	}
	a.Umask = 0o777 &^ mode
	if g.owner == "" {
		return nil
	}
	owner, err := perm.ParseOwner(g.owner)
	if err != nil {
		return usagef("--owner %s: %w", g.owner, err)
	}
	a.Owner = &owner
	return nil
}

// setRemote sets how servers are reached.
func (g *gitFlags) setRemote(e *env, o *remote.Options) (err error) {
	o.HTTP.Who = g.credentials.value()
	if g.app.ID != "" {
		o.HTTP.App = &g.app
	}
	o.SSH.KeyFiles, o.SSH.KnownHosts, o.SSH.KnownHostKeys = g.sshKeys.Value(), g.knownHosts.Value(), g.knownHostKeys.Value()
	o.Getenv, o.Stall, o.Log = os.Getenv, g.o.AttemptTimeout, e.log
	if o.Proxy, err = parseProxy(g.proxy); err != nil {
		return err
	}
	o.Resolver, err = g.names.resolver(e)
	return err
}

// parseProxy reads --proxy. Its errors do not quote it, since it may hold a password.
func parseProxy(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme):
		return nil, usagef("--proxy: want a URL such as http://HOST:PORT or socks5://HOST:PORT")
	case u.User != nil:
		return nil, usagef("--proxy: a password in it would show in the Pod's specification").hint("set HTTPS_PROXY from a Secret: valueFrom: secretKeyRef")
	}
	if problem := secret.HostProblem(u); problem != nil {
		return nil, usagef("--proxy: %w", problem)
	}
	return u, nil
}
