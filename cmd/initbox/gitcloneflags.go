package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/suggest"
)

// syncFlag is a flag of git-sync (main.go of version 4, with the names of version
// 3 that it still knows).
type syncFlag struct {
	name string
	kind syncKind
	env  string // its variables; the last one that is set counts
	to   string // git-clone's flag of the same meaning and values, if there is one

	unused  string // why it does nothing
	refused string // why it is not taken
	hint    string
}

// syncKind is what a flag takes.
type syncKind int

const (
	syncText syncKind = iota
	syncBool
	syncInt
	syncTexts // in a variable with colons in between
)

const (
	noPrograms = "git-clone runs no programs"
	hookHint   = "let the application watch the link or the --touch-file, or listen to the --webhook-url; to change files once, use another init container"
	noGit      = "there is no git program that would read it"
	configHint = "what it is mostly for has flags: --ca-file, --proxy, --header-file, --insecure of initbox git-clone, before --" + flagCompat
	notKept    = "not needed, only the current tree is kept"
	noMetrics  = "there are no metrics: the log says when something changes, and when it fails"
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
	{name: "stale-worktree-timeout", env: "GITSYNC_STALE_WORKTREE_TIMEOUT", unused: notKept},

	{name: "one-time", kind: syncBool, env: "GITSYNC_ONE_TIME GIT_SYNC_ONE_TIME"},
	{name: "period", env: "GITSYNC_PERIOD GIT_SYNC_PERIOD"},
	{name: "init-period", env: "GITSYNC_INIT_PERIOD", unused: "not needed, the first clone is tried again at once"},
	{name: "sync-timeout", env: "GITSYNC_SYNC_TIMEOUT GIT_SYNC_SYNC_TIMEOUT"},
	{name: "max-failures", kind: syncInt, env: "GITSYNC_MAX_FAILURES GIT_SYNC_MAX_FAILURES"},
	{name: "init-max-failures", kind: syncInt, env: "GITSYNC_INIT_MAX_FAILURES"},
	{name: "sync-on-signal", env: "GITSYNC_SYNC_ON_SIGNAL GIT_SYNC_SYNC_ON_SIGNAL", refused: "every signal ends the program", hint: "look more often: --period"},

	{name: "exechook-command", env: "GITSYNC_EXECHOOK_COMMAND GIT_SYNC_EXECHOOK_COMMAND", refused: noPrograms, hint: hookHint},
	{name: "exechook-timeout", env: "GITSYNC_EXECHOOK_TIMEOUT GIT_SYNC_EXECHOOK_TIMEOUT"},
	{name: "exechook-backoff", env: "GITSYNC_EXECHOOK_BACKOFF GIT_SYNC_EXECHOOK_BACKOFF"},
	{name: "pre-publish-exechook-command", env: "GITSYNC_PRE_PUBLISH_EXECHOOK_COMMAND", refused: noPrograms, hint: hookHint},
	{name: "pre-publish-exechook-timeout", env: "GITSYNC_PRE_PUBLISH_EXECHOOK_TIMEOUT"},
	{name: "pre-publish-exechook-backoff", env: "GITSYNC_PRE_PUBLISH_EXECHOOK_BACKOFF"},
	{name: "webhook-url", env: "GITSYNC_WEBHOOK_URL GIT_SYNC_WEBHOOK_URL", to: "webhook-url"},
	{name: "webhook-method", env: "GITSYNC_WEBHOOK_METHOD GIT_SYNC_WEBHOOK_METHOD"},
	{name: "webhook-success-status", kind: syncInt, env: "GITSYNC_WEBHOOK_SUCCESS_STATUS GIT_SYNC_WEBHOOK_SUCCESS_STATUS"},
	{name: "webhook-timeout", env: "GITSYNC_WEBHOOK_TIMEOUT GIT_SYNC_WEBHOOK_TIMEOUT"},
	{name: "webhook-backoff", env: "GITSYNC_WEBHOOK_BACKOFF GIT_SYNC_WEBHOOK_BACKOFF", unused: "not needed, what failed is told again after --period"},

	{name: "username", env: "GITSYNC_USERNAME GIT_SYNC_USERNAME"},
	{name: "password-file", env: "GITSYNC_PASSWORD_FILE GIT_SYNC_PASSWORD_FILE", to: "password-file"},
	{name: "credential", env: "GITSYNC_CREDENTIAL", refused: "a secret in it shows in the Pod's specification", hint: "put the logins of all hosts into a file for --netrc of initbox git-clone, before --" + flagCompat},
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
	{name: "git-config", env: "GITSYNC_GIT_CONFIG GIT_SYNC_GIT_CONFIG", refused: noGit, hint: configHint},
	{name: "git-config-add", kind: syncTexts, refused: noGit, hint: configHint},
	{name: "git-gc", env: "GITSYNC_GIT_GC GIT_SYNC_GIT_GC"},
	{name: "add-user", kind: syncBool, env: "GITSYNC_ADD_USER GIT_SYNC_ADD_USER"}, // ssh needs no /etc/passwd here
	{name: "http-bind", env: "GITSYNC_HTTP_BIND GIT_SYNC_HTTP_BIND"},
	{name: "http-metrics", kind: syncBool, env: "GITSYNC_HTTP_METRICS GIT_SYNC_HTTP_METRICS", unused: noMetrics},
	{name: "http-pprof", kind: syncBool, env: "GITSYNC_HTTP_PPROF GIT_SYNC_HTTP_PPROF", unused: noMetrics},
	{name: "verbose", kind: syncInt, env: "GITSYNC_VERBOSE"},

	{name: "branch", env: "GIT_SYNC_BRANCH"},
	{name: "rev", env: "GIT_SYNC_REV"},
	{name: "dest", env: "GIT_SYNC_DEST"},
	{name: "wait", env: "GIT_SYNC_WAIT"},
	{name: "timeout", kind: syncInt, env: "GIT_SYNC_TIMEOUT"},
	{name: "max-sync-failures", kind: syncInt, env: "GIT_SYNC_MAX_SYNC_FAILURES"},
	{name: "ssh", kind: syncBool},
	{name: "v", kind: syncInt},
	{name: "password", refused: "a password on the command line shows in the Pod's specification", hint: "give --password-file, or set GITSYNC_PASSWORD from a Secret"},
	{name: "change-permissions", env: "GIT_SYNC_PERMISSIONS", refused: "git-sync knows it no more", hint: "--group-write, or --mode of initbox git-clone, before --" + flagCompat},
	{name: "sync-hook-command", env: "GIT_SYNC_HOOK_COMMAND", refused: noPrograms, hint: hookHint},
}

// syncValues are the values of git-sync's flags and variables.
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

// readGitSync reads a command line as git-sync does: --name=value, --name value,
// --switch, and -v N. A flag wins over its variables.
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
			return v, fmt.Errorf("no argument is wanted, got %s", word)
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
	var known []string
	for _, f := range syncFlags {
		known = append(known, f.name)
	}
	err := fmt.Errorf("git-sync has no flag --%s", name)
	hint := "what follows --" + flagCompat + " " + compatGitSync + " is all of git-sync's; flags of initbox stand before it"
	if meant := suggest.Closest(name, known); meant != "" {
		hint = "did you mean --" + meant + "? " + hint
	}
	return failure.WithHint(err, hint)
}
