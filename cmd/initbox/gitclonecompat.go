package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/clone"
	"initbox/internal/failure"
	"initbox/internal/readfile"
)

// flagCompat, with this value, has git-clone read git-sync's command line. What
// follows it is all git-sync's; see [permute].
const (
	flagCompat    = "compat"
	compatGitSync = "git-sync"
)

// Where git-sync looks for secrets if it is not told otherwise, and for its folder.
const (
	gitSyncKey        = "/etc/git-secret/ssh"
	gitSyncKnownHosts = "/etc/git-secret/known_hosts"
	gitSyncCookies    = "/etc/git-secret/cookie_file"
	gitSyncRoot       = "/git"
)

// gitSync translates a command line of git-sync, and its variables, into flags of
// git-clone.
type gitSync struct {
	syncValues
	e     *env
	words []syncWord
	err   error // the first one
}

// syncWord is a flag of git-clone and its value.
type syncWord struct{ name, value string }

// fromGitSync sets the flags that say the same as git-sync's, and returns URL and
// folder.
func (g *gitFlags) fromGitSync(c *cli.Context, e *env, args []string) (address, dir string, err error) {
	values, err := readGitSync(args, os.LookupEnv)
	if err != nil {
		return "", "", usagef("--%s %s: %w", flagCompat, compatGitSync, err)
	}
	s := &gitSync{syncValues: values, e: e}
	s.same()
	address, dir = s.address(), s.place()
	s.revision()
	s.credentials()
	s.pace()
	if !c.IsSet("timeout") {
		g.deadline = s.deadline()
	}
	if file := s.text("error-file"); file != "" {
		g.errorFile = errorFile(s.underRoot(file))
	}
	if s.err != nil {
		return "", "", usagef("--%s %s: %w", flagCompat, compatGitSync, s.err)
	}
	line := e.command
	for _, w := range s.words {
		line += " --" + w.name + "='" + w.value + "'"
		if err := c.Set(w.name, w.value); err != nil {
			return "", "", usagef("--%s %s: %w", flagCompat, compatGitSync, wrongValue(err, c.Command.Flags))
		}
	}
	e.log.Debug("the same as: " + line + " '" + address + "' '" + dir + "'")
	return address, dir, nil
}

func (s *gitSync) add(name, value string) { s.words = append(s.words, syncWord{name, value}) }

func (s *gitSync) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// same translates the flags that have one of the same meaning, refuses those that
// have none, and says what those do that do nothing.
func (s *gitSync) same() {
	for _, f := range syncFlags {
		if !s.given(f.name) {
			continue
		}
		switch {
		case f.refused != "" && s.text(f.name) != "":
			s.fail(failure.WithHint(fmt.Errorf("--%s: %s", f.name, f.refused), f.hint))
		case f.unused != "" && s.text(f.name) != "" && s.text(f.name) != "false":
			s.e.log.Warn("git-sync's --" + f.name + ": " + f.unused)
		case f.to != "":
			for _, value := range s.all(f.name) {
				s.add(f.to, value)
			}
		}
	}
}

// address returns the URL. A password in a variable is referred to.
func (s *gitSync) address() string {
	repo := s.text("repo")
	if repo == "" {
		s.fail(failure.WithHint(fmt.Errorf("--repo is missing"), "give it, or set GITSYNC_REPO"))
		return ""
	}
	variable := s.variable("GITSYNC_PASSWORD", "GIT_SYNC_PASSWORD")
	user := s.text("username")
	scheme, rest, _ := strings.Cut(repo, "://")
	switch {
	case user != "" && variable == "" && !s.given("password-file"):
		s.fail(fmt.Errorf("--username wants a --password-file, or GITSYNC_PASSWORD"))
	case user == "" && (variable != "" || s.given("password-file")):
		s.fail(fmt.Errorf("a password wants a --username"))
	case variable != "" && s.given("password-file"):
		s.fail(fmt.Errorf("--password-file and $%s exclude each other", variable))
	case user != "" && s.given("password-file"):
		s.add("user", user)
	case variable != "" && (scheme == "http" || scheme == "https"):
		return scheme + "://" + url.User(user).String() + ":${env:" + variable + "}@" + rest
	}
	return repo
}

// place returns the folder that the link is in.
func (s *gitSync) place() string {
	link := s.text("dest")
	if link == "" {
		link = s.text("link")
	}
	if link == "" {
		parts := strings.Split(strings.Trim(s.text("repo"), "/"), "/")
		link = parts[len(parts)-1]
	}
	root := s.root()
	link = s.underRoot(link)
	if inside, err := filepath.Rel(root, link); err != nil || inside == "." || inside == ".." || strings.HasPrefix(inside, "../") {
		s.fail(fmt.Errorf("--link %s is not in --root %s: the tree is kept beside the link", link, root))
	}
	s.add("link", path.Base(link))
	if file := s.text("touch-file"); file != "" {
		s.add("touch", s.underRoot(file))
	}
	return path.Dir(link)
}

func (s *gitSync) root() string {
	root := s.text("root")
	if root == "" {
		root = gitSyncRoot
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		s.fail(fmt.Errorf("--root: %w", err))
	}
	return absolute
}

func (s *gitSync) underRoot(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(s.root(), name)
}

// revision translates what says which commit, and what of it.
func (s *gitSync) revision() {
	branch, rev := s.text("branch"), s.text("rev")
	switch {
	case branch != "" && (rev == "" || rev == "HEAD"):
		s.add("ref", branch)
	case branch != "":
		s.fail(fmt.Errorf("--branch and --rev exclude each other: --ref is for both"))
	case rev != "":
		s.add("ref", rev)
	}
	if !s.given("submodules") {
		s.add("submodules", string(clone.SubmodulesRecursive))
	}
	if filter := s.text("filter"); filter == "blob:none" {
		s.add("filter", filter)
	} else if filter != "" {
		s.e.log.Warn("git-sync's --filter " + filter + ": not used; what is fetched is more, what is there the same")
	}
	if file := s.text("sparse-checkout-file"); file != "" {
		s.patterns(file)
	}
}

// patterns adds those in a file as git has it in .git/info/sparse-checkout.
func (s *gitSync) patterns(file string) {
	data, err := readfile.All(file)
	if err != nil {
		s.fail(failure.WithHint(fmt.Errorf("read the --sparse-checkout-file: %w", err), "is the ConfigMap mounted, and may this user read it?"))
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			s.add("sparse-pattern", line)
		}
	}
}

// credentials translates those whose flags have other values.
func (s *gitSync) credentials() {
	for _, at := range []struct{ flag, to, usual string }{
		{"ssh-key-file", "ssh-key-file", gitSyncKey},
		{"ssh-known-hosts-file", "known-hosts", gitSyncKnownHosts},
	} {
		if at.to == "known-hosts" && !s.on("ssh-known-hosts", true) {
			continue
		}
		files := s.all(at.flag)
		if files == nil && checkFile(at.usual) == nil {
			files = []string{at.usual}
		}
		for _, file := range files {
			s.add(at.to, file)
		}
	}
	if !s.on("ssh-known-hosts", true) {
		s.e.log.Warn("git-sync's --ssh-known-hosts=false: any key of the host is trusted; better is a file for --ssh-known-hosts-file, as ssh-keyscan prints it")
		s.add("ssh-accept-new", "true")
	}
	if s.on("cookie-file", false) {
		s.add("cookie-file", gitSyncCookies)
	}
	id := s.text("github-app-client-id")
	if id == "" {
		id = s.text("github-app-application-id")
	}
	if id != "" && id != "0" {
		s.add("github-app-id", id)
	}
	if s.variable("GITSYNC_GITHUB_APP_PRIVATE_KEY") != "" {
		s.fail(failure.WithHint(fmt.Errorf("$GITSYNC_GITHUB_APP_PRIVATE_KEY: a key is read from a file"), "mount the Secret, and give --github-app-private-key-file"))
	}
}

// pace translates what says how often, and what is told.
func (s *gitSync) pace() {
	if status := s.text("webhook-success-status"); status != "" && s.text("webhook-url") != "" {
		if n, _ := strconv.Atoi(status); n <= 0 {
			status = "100-999"
		}
		s.add("webhook-success-status", status)
	} else if s.text("webhook-url") != "" {
		s.add("webhook-success-status", "200")
	}
	for _, flag := range []string{"webhook-method", "webhook-timeout"} {
		if value := s.text(flag); value != "" && s.text("webhook-url") != "" {
			s.add(flag, value)
		}
	}
	if s.on("one-time", false) {
		return
	}
	period := s.duration(10*time.Second, "wait", "period")
	s.add("watch", max(period, minWatch.Duration()).String())
	if bind := s.text("http-bind"); bind != "" {
		_, port, err := net.SplitHostPort(bind)
		if err != nil || strings.Trim(port, "0123456789") != "" {
			s.fail(fmt.Errorf("--http-bind %s: want :PORT or HOST:PORT", bind))
		}
		s.add("startup-probe", port)
	}
}

// duration returns what the first of the flags says that is given and not 0; a bare
// number is of seconds.
func (s *gitSync) duration(usual time.Duration, flags ...string) time.Duration {
	for _, flag := range flags {
		if !s.given(flag) {
			continue
		}
		d, err := parseDuration(s.text(flag))
		if err != nil {
			s.fail(fmt.Errorf("--%s %s: %w", flag, s.text(flag), err))
		}
		if d > 0 {
			return d
		}
	}
	return usual
}

// deadline returns that of the first clone: as many attempts as may fail, each of
// which takes --sync-timeout at most; 0 for none.
func (s *gitSync) deadline() *duration {
	limit := s.duration(2*time.Minute, "timeout", "sync-timeout")
	failures := 0
	for _, flag := range []string{"max-failures", "max-sync-failures", "init-max-failures"} {
		if s.given(flag) {
			failures, _ = strconv.Atoi(s.text(flag))
		}
	}
	d := duration(min(limit, maxDuration/1000) * time.Duration(max(1, min(failures, 1000))))
	if failures < 0 {
		d = 0
	}
	return &d
}
