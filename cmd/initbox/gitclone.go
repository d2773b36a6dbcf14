package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/clone"
	"initbox/internal/tlsconfig"
)

// Categories of git-clone's flags.
const (
	categoryRevision    = "What is cloned"
	categoryPlace       = "What becomes of DIR"
	categoryLimits      = "What is refused"
	categoryCredentials = "Credentials, for http and https"
	categorySSH         = "Credentials, for ssh"
	categoryReach       = "Server"
	categorySeveral     = "Several at once"
	categoryWatch       = "Staying up to date"
)

func gitClone(e *env) *cli.Command {
	g := &gitFlags{}
	return &cli.Command{
		Usage:     "put one revision of a Git repository into a folder",
		ArgsUsage: "URL DIR",
		Description: `Makes DIR the tree of a revision of the repository, whatever was there before and
however often it runs: DIR is the old tree or the new one, whole, at every instant,
also if the program is killed. What is there already is not fetched again.

URL is one of
  https://HOST/PATH, http://…    a secret in it is referred to, as in
                                 https://${file:/secrets/user}:${file:/secrets/token}@HOST/PATH
  ssh://[USER@]HOST[:PORT]/PATH
  [USER@]HOST:PATH               the same, as git has it
  git://HOST/PATH
  file:///PATH, /PATH            a repository on a volume

Examples:
  initbox git-clone https://github.com/kubernetes/examples /work --ref v1.2.0
  initbox git-clone git@git.example:config.git /config --ssh-key-file /git/key --known-hosts /git/hosts
  initbox git-clone https://git.example/mono /work --sparse services/web --filter blob:none
  initbox git-clone https://git.example/config /config --link current --watch 30s`,
		Flags: g.flags(),
		Action: func(c *cli.Context) error {
			err := e.gitClone(c, g)
			return withHint(g.errorFile.report(err))
		},
	}
}

// clonePercent is how much garbage there may be to what is in use. Of what a clone
// makes little stays, so to collect often costs little, and a third of its memory is
// saved.
const clonePercent = 30

// gitClone does what the flags ask for.
func (e *env) gitClone(c *cli.Context, g *gitFlags) error {
	url, dir, err := g.arguments(c, e)
	if err != nil {
		return err
	}
	ctx, cancel := g.within(c.Context, e)
	defer cancel()
	after, err := g.after(c)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(clonePercent)
	}
	if g.config != "" {
		return g.several(c, e, after)
	}
	o, err := g.options(c, e, url, dir)
	if err != nil {
		return err
	}
	if err := g.checkOutside(o); err != nil {
		return err
	}
	if g.watch > 0 {
		return g.stay(ctx, e, o, after)
	}
	result, err := clone.Run(ctx, o)
	if err != nil {
		return err
	}
	return after.done(ctx, e, result)
}

// gitFlags are the values of the flags.
type gitFlags struct {
	ref                            string
	depth                          int
	singleBranch                   bool
	submodules                     string
	sparse, sparsePatterns         cli.StringSlice
	filter                         string
	lfs                            bool
	subdir                         string
	gitDir, mode, owner, link      string
	groupWrite                     bool
	signedBy                       cli.StringSlice
	rejectEscaping                 bool
	maxSize                        byteCount
	maxFiles                       int
	user, passwordFile, tokenFile  string
	headerFiles                    cli.StringSlice
	cookieFile, netrc, askpassURL  string
	appID, appInstallation, appKey string
	appURL                         string
	sshKeys                        cli.StringSlice
	sshPassphrase                  string
	knownHosts, knownHostKeys      cli.StringSlice
	sshAcceptNew                   bool
	tls                            tlsconfig.Options
	proxy                          string
	config                         string
	parallel                       int
	touch, output                  string
	watch                          duration
	startupProbe                   string
	webhookURL, webhookMethod      string
	webhookSuccess                 string
	webhookTimeout                 duration
	compat                         string
	retryAuth                      bool
	attemptTimeout                 duration
	names                          resolverFlags

	deadline  *duration // in place of --timeout's; nil for that
	errorFile errorFile
}

func (g *gitFlags) flags() []cli.Flag {
	g.webhookTimeout, g.attemptTimeout = duration(defaultWebhookTimeout), duration(defaultGitTimeout)
	return slices.Concat(g.entryFlags(), []cli.Flag{
		textFlag("config", "`FILE`, YAML or JSON, with a list of clones: each has url and dir, and any of the flags above as a key; flags hold for all that have no such key", categorySeveral, &g.config),
		&cli.IntFlag{Name: "parallel", Usage: "`N` of them at once (default as many as there are processors)", Category: categorySeveral, Destination: &g.parallel},

		textFlag("output", "`FILE` for what was cloned, as JSON: url, ref, sha, date, author, subject, bytes, seconds, changed; - is stdout", categoryResult, &g.output),
		textFlag("touch", "`FILE` to write the commit's id to, and to touch, when DIR has changed", categoryResult, &g.touch),
		textFlag("webhook-url", "`URL` to tell when DIR has changed, in a header Gitsync-Hash; may refer to secrets", categoryResult, &g.webhookURL),
		textFlag("webhook-method", "`METHOD` for --webhook-url (default POST)", categoryResult, &g.webhookMethod),
		textFlag("webhook-success-status", "`LIST` of statuses that mean that it was received, as in 200,202 (default 2xx)", categoryResult, &g.webhookSuccess),
		durationFlag("webhook-timeout", "limit of one attempt", categoryResult, &g.webhookTimeout),

		durationFlag("watch", "keep running as a sidecar: look for something new each time that so long has passed", categoryWatch, &g.watch),
		textFlag("startup-probe", "with --watch, `FILE` to make, or PORT to answer at, once DIR is there: for the sidecar's startupProbe", categoryWatch, &g.startupProbe),

		textFlag(flagCompat, "`git-sync`: what follows are the flags of git-sync, whose variables GITSYNC_… and GIT_SYNC_… count too", categoryFrom, &g.compat),

		onFlag("retry-auth", "try again also what the server refuses: wrong credentials, no such repository or revision, another host key", categoryWait, &g.retryAuth),
		durationFlag("attempt-timeout", "give up an attempt that makes no progress for so long, 0 for never", categoryWait, &g.attemptTimeout, "INITBOX_ATTEMPT_TIMEOUT"),
	}, g.names.flags())
}

// entryFlags are those of one clone, which --config can say of each.
func (g *gitFlags) entryFlags() []cli.Flag {
	g.depth, g.submodules, g.gitDir, g.mode = 1, string(clone.SubmodulesOff), clone.GitKeep, "0755"
	return slices.Concat([]cli.Flag{
		textFlag("ref", "`REF`: branch, tag, commit, refs/… or a range of versions such as '^1.2' (default the remote's HEAD)", categoryRevision, &g.ref),
		&cli.IntFlag{Name: "depth", Usage: "`N` commits of history, 0 for all", Category: categoryRevision, Value: g.depth, Destination: &g.depth},
		onFlag("single-branch", "with --depth 0, only the history of --ref", categoryRevision, &g.singleBranch),
		textFlag("submodules", "`off|shallow|recursive`: clone submodules too; shallow leaves out theirs", categoryRevision, &g.submodules),
		textsFlag("sparse", "`FOLDER` to have in DIR, with what is at the top, in place of everything", categoryRevision, &g.sparse),
		textsFlag("sparse-pattern", "`PATTERN` of files to have in DIR, as in .gitignore", categoryRevision, &g.sparsePatterns),
		textFlag("filter", "`blob:none`: of files, fetch only those that DIR has", categoryRevision, &g.filter),
		onFlag("lfs", "fetch the files that Git LFS keeps elsewhere", categoryRevision, &g.lfs),
		textFlag("subdir", "`FOLDER` of the repository whose content becomes DIR; without .git", categoryRevision, &g.subdir),

		textFlag("git-dir", "`keep|remove|FOLDER`: .git stays in DIR, is left out, or is that folder", categoryPlace, &g.gitDir),
		textFlag("mode", "`MODE` that folders and programs have at most; other files without the x", categoryPlace, &g.mode),
		onFlag("group-write", "the group may do what the owner may, as of a volume with fsGroup", categoryPlace, &g.groupWrite),
		textFlag("owner", "`UID[:GID]` of the files; needs the right to give them away", categoryPlace, &g.owner),
		textFlag("link", "`NAME` of a link in DIR to the tree, whose folder is new for each commit, as git-sync has it", categoryPlace, &g.link),

		textsFlag("verify-signature", "`FILE` with OpenPGP or SSH keys: the commit or the tag has to be signed by one", categoryLimits, &g.signedBy),
		onFlag("reject-escaping-symlinks", "refuse a tree with symbolic links that lead out of it", categoryLimits, &g.rejectEscaping),
		&cli.GenericFlag{Name: "max-size", Usage: "`SIZE` of all files at most, as in 500Mi", Category: categoryLimits, Value: &g.maxSize},
		&cli.IntFlag{Name: "max-files", Usage: "`N` files at most", Category: categoryLimits, Destination: &g.maxFiles},

		textFlag("user", "`NAME` for basic authentication, with --password-file; servers that take tokens want any name, or one of their own", categoryCredentials, &g.user),
		textFlag("password-file", "`FILE` with the password, or with a personal access token", categoryCredentials, &g.passwordFile),
		textFlag("token-file", "`FILE` with a bearer token", categoryCredentials, &g.tokenFile),
		textsFlag("header-file", "`FILE` with headers of requests, one per line", categoryCredentials, &g.headerFiles),
		textFlag("cookie-file", "`FILE` with cookies, as curl writes it", categoryCredentials, &g.cookieFile),
		textFlag("netrc", "`FILE` with logins by host, also for submodules and LFS on other hosts", categoryCredentials, &g.netrc),
		textFlag("askpass-url", "`URL` that answers username=… and password=… in two lines", categoryCredentials, &g.askpassURL),
		textFlag("github-app-id", "`ID` of a GitHub App, or its client ID, whose installation's token is used", categoryCredentials, &g.appID),
		textFlag("github-app-installation", "`ID` of the App's installation", categoryCredentials, &g.appInstallation),
		textFlag("github-app-key-file", "`FILE` with the App's private key", categoryCredentials, &g.appKey),
		textFlag("github-app-url", "`URL` of the API (default https://api.github.com)", categoryCredentials, &g.appURL),

		textsFlag("ssh-key-file", "`FILE` with a private key", categorySSH, &g.sshKeys),
		textFlag("ssh-passphrase-file", "`FILE` with the passphrase of the keys", categorySSH, &g.sshPassphrase),
		textsFlag("known-hosts", "`FILE` with the keys of hosts, as ssh-keyscan prints it", categorySSH, &g.knownHosts),
		textsFlag("known-hosts-key", "`LINE` of such a file, as in 'git.example ssh-ed25519 AAAA…'", categorySSH, &g.knownHostKeys),
		onFlag("ssh-accept-new", "trust a host of which no key is known, and log its fingerprint", categorySSH, &g.sshAcceptNew),
	}, tlsFlags(categoryReach, &g.tls), []cli.Flag{
		textFlag("proxy", "`URL` of a proxy, http, https or socks5, in place of what HTTPS_PROXY and its kin say", categoryReach, &g.proxy),
	})
}

// gitNames are flags of git clone, and what they are called here.
var gitNames = map[string]string{
	"b": "ref", "branch": "ref", "revision": "ref", "tag": "ref",
	"recurse-submodules": "submodules", "recursive": "submodules", "shallow-submodules": "submodules",
	"separate-git-dir": "git-dir", "no-checkout": "sparse",
}

// arguments returns what the arguments name. Those of another program are
// translated into flags before.
func (g *gitFlags) arguments(c *cli.Context, e *env) (url, dir string, err error) {
	before, after, ended := arguments(c)
	if g.compat != "" {
		if g.compat != compatGitSync {
			return "", "", usagef("--%s: want %s, got %q", flagCompat, compatGitSync, g.compat)
		}
		if len(before) > 0 {
			return "", "", usagef("no argument is wanted before --%s, got %s", flagCompat, before[0])
		}
		return g.fromGitSync(c, e, after)
	}
	if ended {
		before = append(before, after...)
	}
	const example = "as in: initbox git-clone https://github.com/kubernetes/examples /work"
	switch {
	case g.config != "" && len(before) > 0:
		return "", "", usagef("no argument is wanted with --config, got %s", before[0]).hint("the file says url and dir of each clone")
	case g.config != "":
		return "", "", nil
	case len(before) == 0:
		return "", "", usagef("no repository given").hint(example)
	case len(before) == 1:
		return "", "", usagef("no folder given for the repository").hint(example)
	case len(before) > 2:
		return "", "", usagef("want a URL and a folder, got %d arguments", len(before)).hint(example)
	}
	return before[0], before[1], nil
}

// byteCount is the value of a flag: a number of bytes as Kubernetes writes it,
// such as 500Mi.
type byteCount int64

func (b byteCount) String() string { return strconv.FormatInt(int64(b), 10) }

func (b *byteCount) Set(s string) error {
	digits := strings.TrimRight(s, "kKMGTi")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := byteUnits[s[len(digits):]]
	if err != nil || !ok || n < 0 || n > maxBytes/unit {
		return errors.New("want a number of bytes such as 500Mi, 2Gi or 1000000")
	}
	*b = byteCount(n * unit)
	return nil
}

const maxBytes = 1 << 60

var byteUnits = map[string]int64{
	"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

// within returns a context that ends at the deadline of git-sync's flags, if they
// say one, in place of --timeout's.
func (g *gitFlags) within(ctx context.Context, e *env) (context.Context, context.CancelFunc) {
	switch {
	case g.deadline == nil:
		return ctx, func() {}
	case *g.deadline == 0:
		return e.untilStopped, func() {}
	}
	return context.WithTimeoutCause(e.untilStopped, g.deadline.Duration(), deadlinePassed(*g.deadline))
}
