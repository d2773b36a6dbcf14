package translate

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/cmd/duration"
	"initbox/internal/failure"
	"initbox/internal/secret"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// Where git-sync looks for secrets, and for its directory, unless its flags say otherwise.
const (
	gitSyncKey        = "/etc/git-secret/ssh"
	gitSyncKnownHosts = "/etc/git-secret/known_hosts"
	gitSyncCookies    = "/etc/git-secret/cookie_file"
	gitSyncRoot       = "/git"
)

// defaultPeriod is how long git-sync waits between syncs, unless its flags say otherwise.
const defaultPeriod = 10 * time.Second

// minWatch is the shortest time that --watch of git-clone accepts.
const minWatch = 100 * time.Millisecond

// GitSync translates the arguments and variables of git-sync, versions 3 and 4, into flags of git-clone, URL and DIR.
//
// https://github.com/kubernetes/git-sync
func GitSync(args []string, env Environment) (Line, error) {
	values, err := readGitSync(args, env.Lookup)
	if err != nil {
		return Line{}, err
	}
	s := &gitSync{syncValues: values, env: env}
	s.sameFlags()
	url, dir := s.url(), s.dir()
	s.revision()
	s.credentials()
	s.webhook()
	s.gitConfig()
	s.period()
	s.line.Timeout = s.timeout()
	if file := s.text("error-file"); file != "" {
		s.line.ErrorFile = s.underRoot(file)
	}
	s.line.Arguments = []string{url, dir}
	return s.line, s.err
}

// gitSync is a translation in progress.
type gitSync struct {
	syncValues
	env  Environment
	line Line
	err  error // the first one
}

func (s *gitSync) add(name, value string) { s.line.Flags = append(s.line.Flags, Flag{name, value}) }

func (s *gitSync) warn(text string) { s.line.Warnings = append(s.line.Warnings, "git-sync's "+text) }

func (s *gitSync) fail(format string, args ...any) { s.failHint("", format, args...) }

func (s *gitSync) failHint(hint, format string, args ...any) {
	if s.err != nil {
		return
	}
	if s.err = fmt.Errorf(format, args...); hint != "" {
		s.err = failure.WithHint(s.err, hint)
	}
}

// sameFlags translates the flags that git-clone has under this or another name, refuses those that cannot be
// translated, and warns of those that have no effect.
func (s *gitSync) sameFlags() {
	for _, f := range syncFlags {
		if !s.given(f.name) {
			continue
		}
		switch {
		case f.refused != "" && s.text(f.name) != "":
			s.failHint(f.hint, "--%s: %s", f.name, f.refused)
		case f.unused != "" && s.text(f.name) != "" && s.text(f.name) != "false":
			s.warn("--" + f.name + ": " + f.unused)
		case f.to != "":
			for _, value := range s.all(f.name) {
				s.add(f.to, value)
			}
		}
	}
}

// url returns the URL of the repository, which refers to the variable that holds the password, if there is one.
func (s *gitSync) url() string {
	repo := s.text("repo")
	if repo == "" {
		s.failHint("give it, or set GITSYNC_REPO", "--repo is missing")
		return ""
	}
	variable := s.variable("GITSYNC_PASSWORD", "GIT_SYNC_PASSWORD")
	user := s.text("username")
	scheme, rest, _ := strings.Cut(repo, "://")
	switch {
	case user != "" && variable == "" && !s.given("password-file"):
		s.fail("--username needs --password-file or $GITSYNC_PASSWORD")
	case user == "" && (variable != "" || s.given("password-file")):
		s.fail("a password needs --username")
	case variable != "" && s.given("password-file"):
		s.fail("--password-file and $%s are mutually exclusive", variable)
	case user != "" && s.given("password-file"):
		s.add("user", user)
	case variable != "" && (scheme == "http" || scheme == "https"):
		return scheme + "://" + url.User(user).String() + ":${env:" + variable + "}@" + rest
	}
	return repo
}

// dir returns the directory that will hold the trees, and usually the link.
func (s *gitSync) dir() string {
	root := s.root()
	link := s.underRoot(cmp.Or(s.text("dest"), s.text("link"), lastPart(s.text("repo"))))
	switch inside, err := filepath.Rel(root, link); {
	case err != nil || inside == "." || strings.HasPrefix(root+"/", link+"/"):
		s.fail("--link %s is --root %s, or above it", link, root)
	case strings.HasPrefix(inside, "../"):
		s.add("link", link)
	default:
		s.add("link", inside)
	}
	if d := s.duration(0, "stale-worktree-timeout"); d > 0 {
		s.add("keep-old", d.String())
	}
	if file := s.text("touch-file"); file != "" {
		s.add("touch", s.underRoot(file))
	}
	return root
}

// lastPart returns the last part of the path of a repository's URL, or its host if it has no path.
func lastPart(repo string) string {
	repo = strings.Trim(repo, "/")
	last := repo[strings.LastIndexByte(repo, '/')+1:]
	if _, path, isURL := strings.Cut(repo, "://"); isURL && !strings.Contains(path, "/") {
		last = last[strings.LastIndexByte(last, '@')+1:] // the rest may be a password
	}
	return last
}

func (s *gitSync) root() string {
	absolute, err := filepath.Abs(cmp.Or(s.text("root"), gitSyncRoot))
	if err != nil {
		s.fail("--root: %w", err)
	}
	return absolute
}

func (s *gitSync) underRoot(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(s.root(), name)
}

// revision translates the flags that say which commit, and which of its files.
func (s *gitSync) revision() {
	branch, rev := s.text("branch"), s.text("rev")
	switch {
	case branch != "" && (rev == "" || rev == "HEAD"):
		s.add("ref", branch)
	case branch != "":
		s.fail("--branch and --rev are mutually exclusive: use --ref instead of both")
	case rev != "":
		s.add("ref", rev)
	}
	if !s.given("submodules") {
		s.add("submodules", "recursive")
	}
	switch filter := s.text("filter"); {
	case filter == "":
	case filter == "blob:none" || filter == "tree:0" || strings.HasPrefix(filter, "blob:limit="):
		s.add("filter", filter)
	default:
		s.warn("--filter " + filter + ": ignored; more is fetched than needed, with the same result")
	}
	if file := s.text("sparse-checkout-file"); file != "" {
		s.patterns(file)
	}
}

// patterns adds the patterns of a file in the format of .git/info/sparse-checkout.
func (s *gitSync) patterns(file string) {
	data, err := s.env.ReadFile(file)
	if err != nil {
		s.failHint("is the ConfigMap mounted, and may this user read it?", "read the --sparse-checkout-file: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			s.add("sparse-pattern", line)
		}
	}
}

// credentials translates the flags for credentials whose values differ from those of git-clone.
func (s *gitSync) credentials() {
	for _, at := range []struct{ flag, to, usual string }{
		{"ssh-key-file", "ssh-key-file", gitSyncKey},
		{"ssh-known-hosts-file", "known-hosts", gitSyncKnownHosts},
	} {
		if at.to == "known-hosts" && !s.on("ssh-known-hosts", true) {
			continue
		}
		files := s.all(at.flag)
		if files == nil && s.env.Exists(at.usual) {
			files = []string{at.usual}
		}
		for _, file := range files {
			s.add(at.to, file)
		}
	}
	if !s.on("ssh-known-hosts", true) {
		s.warn("--ssh-known-hosts=false: any host key is trusted; give --ssh-known-hosts-file a file that ssh-keyscan printed instead")
		s.add("ssh-accept-new", "true")
	}
	if s.on("cookie-file", false) {
		s.add("cookie-file", gitSyncCookies)
	}
	if id := cmp.Or(s.text("github-app-client-id"), s.text("github-app-application-id")); id != "" && id != "0" {
		s.add("github-app-id", id)
	}
	if s.variable("GITSYNC_GITHUB_APP_PRIVATE_KEY") != "" {
		s.failHint("mount the Secret, and give --github-app-private-key-file", "$GITSYNC_GITHUB_APP_PRIVATE_KEY: a key is read from a file only")
	}
}

// webhook translates the flags of the webhook, which have other defaults than git-clone's.
func (s *gitSync) webhook() {
	if s.text("webhook-url") == "" {
		return
	}
	status := s.text("webhook-success-status")
	switch n, _ := strconv.Atoi(status); {
	case status == "":
		status = "200"
	case n <= 0:
		status = "100-999"
	}
	s.add("webhook-success-status", status)
	for _, flag := range []string{"webhook-method", "webhook-timeout"} {
		if value := s.text(flag); value != "" {
			s.add(flag, value)
		}
	}
}

// period translates the flags of the sidecar.
func (s *gitSync) period() {
	if s.on("one-time", false) {
		s.line.CallOnce = true
		return
	}
	s.add("watch", max(s.duration(defaultPeriod, "wait", "period"), minWatch).String())
	if name := s.text("sync-on-signal"); name != "" {
		s.add("sync-on-signal", name)
	}
	if bind := s.text("http-bind"); bind != "" {
		_, port, err := net.SplitHostPort(bind)
		if err != nil || strings.Trim(port, "0123456789") != "" {
			s.fail("--http-bind %s: want :PORT or HOST:PORT", bind)
		}
		s.add("http", bind)
	}
}

// duration returns the value of the first of the flags that is given and not 0, or else usual. A number without a unit
// is in seconds.
func (s *gitSync) duration(usual time.Duration, flags ...string) time.Duration {
	for _, flag := range flags {
		if !s.given(flag) {
			continue
		}
		d, err := duration.Parse(s.text(flag))
		if err != nil {
			s.fail("--%s %s: %w", flag, s.text(flag), err)
		}
		if d > 0 {
			return d
		}
	}
	return usual
}

// timeout returns the time that the first sync may take, 0 for any: --sync-timeout for each of the attempts that may
// fail.
func (s *gitSync) timeout() *time.Duration {
	limit := s.duration(2*time.Minute, "timeout", "sync-timeout")
	failures := 0
	for _, flag := range []string{"max-failures", "max-sync-failures", "init-max-failures"} {
		if s.given(flag) {
			failures, _ = strconv.Atoi(s.text(flag))
		}
	}
	d := min(limit, duration.Max/1000) * time.Duration(max(1, min(failures, 1000)))
	if failures < 0 {
		d = 0
	}
	if failures < 0 || failures > 1 {
		s.add("retry-auth", "true") // for git-sync, all failures are alike
		s.line.Refusals = max(failures, 0)
		s.line.RefusalPause = s.duration(defaultPeriod, "init-period", "wait", "period")
	}
	return &d
}

// syncFlag is a flag of git-sync: those in main.go of version 4, and the names of version 3 that it still accepts.
type syncFlag struct {
	name string
	kind syncKind
	env  string // its variables, separated by spaces; the last one that is set wins
	to   string // the flag of git-clone with the same meaning and values, if any

	unused  string // why it has no effect
	refused string // why it cannot be translated
	hint    string
}

// syncKind is the type of a flag.
type syncKind int

const (
	syncText syncKind = iota
	syncBool
	syncInt
	syncTexts // may be repeated; in a variable, separated by colons
)

const (
	noProfiles = "initbox has no profiles; the metrics tell of its memory and processor time"
)

var syncFlags = []syncFlag{
	{name: "repo", env: "GITSYNC_REPO GIT_SYNC_REPO"},
	{name: "ref", env: "GITSYNC_REF", to: "ref"},
	{name: "depth", kind: syncInt, env: "GITSYNC_DEPTH GIT_SYNC_DEPTH", to: "depth"},
	{name: "filter", env: "GITSYNC_FILTER"},
	{name: "submodules", env: "GITSYNC_SUBMODULES GIT_SYNC_SUBMODULES", to: "submodules"},
	{name: "sparse-checkout-file", env: "GITSYNC_SPARSE_CHECKOUT_FILE GIT_SYNC_SPARSE_CHECKOUT_FILE"},
	{name: "root", env: "GITSYNC_ROOT GIT_SYNC_ROOT"},
	{name: "link", env: "GITSYNC_LINK GIT_SYNC_LINK"},
	{name: "error-file", env: "GITSYNC_ERROR_FILE GIT_SYNC_ERROR_FILE"},
	{name: "touch-file", env: "GITSYNC_TOUCH_FILE GIT_SYNC_TOUCH_FILE"},
	{name: "group-write", kind: syncBool, env: "GITSYNC_GROUP_WRITE GIT_SYNC_GROUP_WRITE", to: "group-write"},
	{name: "stale-worktree-timeout", env: "GITSYNC_STALE_WORKTREE_TIMEOUT"},

	{name: "one-time", kind: syncBool, env: "GITSYNC_ONE_TIME GIT_SYNC_ONE_TIME"},
	{name: "period", env: "GITSYNC_PERIOD GIT_SYNC_PERIOD"},
	{name: "init-period", env: "GITSYNC_INIT_PERIOD"},
	{name: "sync-timeout", env: "GITSYNC_SYNC_TIMEOUT GIT_SYNC_SYNC_TIMEOUT"},
	{name: "max-failures", kind: syncInt, env: "GITSYNC_MAX_FAILURES GIT_SYNC_MAX_FAILURES"},
	{name: "init-max-failures", kind: syncInt, env: "GITSYNC_INIT_MAX_FAILURES"},
	{name: "sync-on-signal", env: "GITSYNC_SYNC_ON_SIGNAL GIT_SYNC_SYNC_ON_SIGNAL"},

	{name: "exechook-command", env: "GITSYNC_EXECHOOK_COMMAND GIT_SYNC_EXECHOOK_COMMAND", to: "exechook-command"},
	{name: "exechook-timeout", env: "GITSYNC_EXECHOOK_TIMEOUT GIT_SYNC_EXECHOOK_TIMEOUT", to: "exechook-timeout"},
	{name: "exechook-backoff", env: "GITSYNC_EXECHOOK_BACKOFF GIT_SYNC_EXECHOOK_BACKOFF", to: "exechook-backoff"},
	{name: "pre-publish-exechook-command", env: "GITSYNC_PRE_PUBLISH_EXECHOOK_COMMAND", to: "pre-publish-exechook-command"},
	{name: "pre-publish-exechook-timeout", env: "GITSYNC_PRE_PUBLISH_EXECHOOK_TIMEOUT", to: "pre-publish-exechook-timeout"},
	{name: "pre-publish-exechook-backoff", env: "GITSYNC_PRE_PUBLISH_EXECHOOK_BACKOFF", to: "pre-publish-exechook-backoff"},
	{name: "webhook-url", env: "GITSYNC_WEBHOOK_URL GIT_SYNC_WEBHOOK_URL", to: "webhook-url"},
	{name: "webhook-method", env: "GITSYNC_WEBHOOK_METHOD GIT_SYNC_WEBHOOK_METHOD"},
	{name: "webhook-success-status", kind: syncInt, env: "GITSYNC_WEBHOOK_SUCCESS_STATUS GIT_SYNC_WEBHOOK_SUCCESS_STATUS"},
	{name: "webhook-timeout", env: "GITSYNC_WEBHOOK_TIMEOUT GIT_SYNC_WEBHOOK_TIMEOUT"},
	{name: "webhook-backoff", env: "GITSYNC_WEBHOOK_BACKOFF GIT_SYNC_WEBHOOK_BACKOFF", unused: "not needed: a failed webhook is called again after --period"},

	{name: "username", env: "GITSYNC_USERNAME GIT_SYNC_USERNAME"},
	{name: "password-file", env: "GITSYNC_PASSWORD_FILE GIT_SYNC_PASSWORD_FILE", to: "password-file"},
	{name: "credential", env: "GITSYNC_CREDENTIAL", refused: "a secret in it would show in the Pod's specification", hint: "put the logins of all hosts into a file, and give it with --netrc before --compat"},
	{name: "ssh-key-file", kind: syncTexts, env: "GITSYNC_SSH_KEY_FILE GIT_SYNC_SSH_KEY_FILE GIT_SSH_KEY_FILE"},
	{name: "ssh-known-hosts", kind: syncBool, env: "GITSYNC_SSH_KNOWN_HOSTS GIT_SYNC_KNOWN_HOSTS GIT_KNOWN_HOSTS"},
	{name: "ssh-known-hosts-file", env: "GITSYNC_SSH_KNOWN_HOSTS_FILE GIT_SYNC_SSH_KNOWN_HOSTS_FILE GIT_SSH_KNOWN_HOSTS_FILE"},
	{name: "cookie-file", kind: syncBool, env: "GITSYNC_COOKIE_FILE GIT_SYNC_COOKIE_FILE GIT_COOKIE_FILE"},
	{name: "askpass-url", env: "GITSYNC_ASKPASS_URL GIT_SYNC_ASKPASS_URL GIT_ASKPASS_URL", to: "askpass-url"},
	{name: "github-base-url", env: "GITSYNC_GITHUB_BASE_URL", to: "github-app-url"},
	{name: "github-app-private-key-file", env: "GITSYNC_GITHUB_APP_PRIVATE_KEY_FILE", to: "github-app-key-file"},
	{name: "github-app-client-id", env: "GITSYNC_GITHUB_APP_CLIENT_ID"},
	{name: "github-app-application-id", kind: syncInt, env: "GITSYNC_GITHUB_APP_APPLICATION_ID"},
	{name: "github-app-installation-id", kind: syncInt, env: "GITSYNC_GITHUB_APP_INSTALLATION_ID", to: "github-app-installation"},

	{name: "git", env: "GITSYNC_GIT GIT_SYNC_GIT"},
	{name: "git-config", env: "GITSYNC_GIT_CONFIG GIT_SYNC_GIT_CONFIG"},
	{name: "git-config-add", kind: syncTexts},
	{name: "git-gc", env: "GITSYNC_GIT_GC GIT_SYNC_GIT_GC"},
	{name: "add-user", kind: syncBool, env: "GITSYNC_ADD_USER GIT_SYNC_ADD_USER"}, // ssh needs no /etc/passwd here
	{name: "http-bind", env: "GITSYNC_HTTP_BIND GIT_SYNC_HTTP_BIND"},
	{name: "http-metrics", kind: syncBool, env: "GITSYNC_HTTP_METRICS GIT_SYNC_HTTP_METRICS"}, // the port always has them
	{name: "http-pprof", kind: syncBool, env: "GITSYNC_HTTP_PPROF GIT_SYNC_HTTP_PPROF", unused: noProfiles},
	{name: "verbose", kind: syncInt, env: "GITSYNC_VERBOSE"},

	{name: "branch", env: "GIT_SYNC_BRANCH"},
	{name: "rev", env: "GIT_SYNC_REV"},
	{name: "dest", env: "GIT_SYNC_DEST"},
	{name: "wait", env: "GIT_SYNC_WAIT"},
	{name: "timeout", kind: syncInt, env: "GIT_SYNC_TIMEOUT"},
	{name: "max-sync-failures", kind: syncInt, env: "GIT_SYNC_MAX_SYNC_FAILURES"},
	{name: "ssh", kind: syncBool},
	{name: "v", kind: syncInt},
	{name: "password", refused: "a password on the command line would show in the Pod's specification", hint: "give --password-file, or set GITSYNC_PASSWORD from a Secret"},
	{name: "change-permissions", env: "GIT_SYNC_PERMISSIONS", refused: "git-sync no longer has it", hint: "give --group-write, or --mode before --compat"},
	{name: "sync-hook-command", env: "GIT_SYNC_HOOK_COMMAND", to: "exechook-command"},
}

// syncValues are the values of git-sync's flags, by name.
type syncValues struct {
	values map[string][]string
	lookup func(string) (string, bool)
}

func (v syncValues) given(name string) bool   { return v.values[name] != nil }
func (v syncValues) all(name string) []string { return v.values[name] }

// text returns the last value of a flag, or "".
func (v syncValues) text(name string) string {
	if all := v.values[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func (v syncValues) on(name string, usual bool) bool {
	if on, err := strconv.ParseBool(v.text(name)); err == nil {
		return on
	}
	return usual
}

// variable returns the name of the last of the variables that is set, or "".
func (v syncValues) variable(names ...string) (set string) {
	for _, name := range names {
		if value, ok := v.lookup(name); ok && value != "" {
			set = name
		}
	}
	return set
}

// readGitSync reads a command line as git-sync does: --name=value, --name value, --switch and -v N. A flag wins over
// its variables.
func readGitSync(args []string, lookup func(string) (string, bool)) (syncValues, error) {
	v := syncValues{map[string][]string{}, lookup}
	for _, f := range syncFlags {
		if err := v.fromVariables(f); err != nil {
			return v, err
		}
	}
	seen := map[string]bool{}
	for len(args) > 0 {
		word := args[0]
		name, value, valued := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "-") || name == "" {
			return v, fmt.Errorf("unexpected argument: %s", secret.Word(word))
		}
		args = args[1:]
		f := syncFlagOf(name)
		switch {
		case f == nil:
			return v, noSyncFlag(name)
		case valued:
		case f.kind == syncBool:
			value = "true"
		case len(args) == 0:
			return v, fmt.Errorf("--%s needs a value", name)
		default:
			value, args = args[0], args[1:]
		}
		if err := f.check(value); err != nil {
			return v, fmt.Errorf("--%s: %w, got %q", name, err, value)
		}
		if f.kind != syncTexts || !seen[name] {
			v.values[name] = nil
		}
		seen[name] = true
		v.values[name] = append(v.values[name], value)
	}
	return v, nil
}

func (v syncValues) fromVariables(f syncFlag) error {
	variable := v.variable(strings.Fields(f.env)...)
	if variable == "" {
		return nil
	}
	value, _ := v.lookup(variable)
	if err := f.check(value); err != nil {
		return fmt.Errorf("$%s: %w, got %q", variable, err, value)
	}
	v.values[f.name] = []string{value}
	if f.kind == syncTexts {
		v.values[f.name] = strings.Split(value, ":")
	}
	return nil
}

func (f syncFlag) check(value string) (err error) {
	switch f.kind {
	case syncBool:
		if _, err = strconv.ParseBool(value); err != nil {
			return errors.New("want true or false")
		}
	case syncInt:
		if _, err = strconv.ParseInt(value, 0, 0); err != nil {
			return errors.New("want a whole number")
		}
	}
	return nil
}

func syncFlagOf(name string) *syncFlag {
	i := slices.IndexFunc(syncFlags, func(f syncFlag) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &syncFlags[i]
}

func noSyncFlag(name string) error {
	known := words.Each(syncFlags, func(f syncFlag) string { return f.name })
	return failure.WithHint(fmt.Errorf("git-sync has no flag --%s", name),
		suggest.Question(name, known, "--")+"everything after --compat git-sync belongs to git-sync; put flags of initbox before it")
}
