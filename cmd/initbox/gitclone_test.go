package main

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"initbox/clone"
)

// translation returns what a command line of git-sync means in flags of git-clone.
func translation(t *testing.T, args []string, variables map[string]string) (string, error) {
	t.Helper()
	s := &gitSync{e: &env{log: slog.New(slog.DiscardHandler)}}
	var err error
	s.syncValues, err = readGitSync(args, func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	})
	if err != nil {
		return "", err
	}
	s.same()
	address, dir := s.address(), s.place()
	s.revision()
	s.credentials()
	s.pace()
	var words []string
	for _, w := range s.words {
		words = append(words, "--"+w.name+"="+w.value)
	}
	words = append(words, address, dir, s.deadline().String())
	return strings.Join(words, " "), s.err
}

func TestGitSync(t *testing.T) {
	const repo = "--repo=https://git.example/app.git"
	for _, test := range []struct {
		args      string
		variables map[string]string
		want      string
	}{
		{repo + " --one-time", nil,
			"--link=app.git --submodules=recursive https://git.example/app.git /git 2m"},
		{"-repo https://git.example/app -root /data --link sub/now -one-time=true -v=2", nil,
			"--link=now --submodules=recursive https://git.example/app /data/sub 2m"},
		{repo + " --link=/git/now --root=/git/ --period 1m --submodules off --depth 0", nil,
			"--depth=0 --submodules=off --link=now --watch=1m0s https://git.example/app.git /git 2m"},
		{repo + " --branch main --rev HEAD --dest d --wait 0.5 --max-sync-failures 3 --timeout 60 --ssh", nil,
			"--link=d --ref=main --submodules=recursive --watch=500ms https://git.example/app.git /git 3m"},
		{repo + " --one-time --max-failures=-1 --rev v1", nil,
			"--link=app.git --ref=v1 --submodules=recursive https://git.example/app.git /git 0s"},
		{repo + " --http-bind=:1234 --webhook-url=http://x/ --webhook-success-status=0 --webhook-timeout=3s", nil,
			"--webhook-url=http://x/ --link=app.git --submodules=recursive --webhook-success-status=100-999 --webhook-timeout=3s --watch=10s --startup-probe=1234 https://git.example/app.git /git 2m"},
		{repo + " --one-time --username=me", map[string]string{"GIT_SYNC_PASSWORD": "hunter2"},
			"--link=app.git --submodules=recursive https://me:${env:GIT_SYNC_PASSWORD}@git.example/app.git /git 2m"},
		{"--one-time --ssh-key-file=/k", map[string]string{"GITSYNC_REPO": "git@h:a/b", "GITSYNC_SSH_KEY_FILE": "/a:/b", "GITSYNC_REF": "x", "GITSYNC_SSH_KNOWN_HOSTS": "false"},
			"--ref=x --link=b --submodules=recursive --ssh-key-file=/k --ssh-accept-new=true git@h:a/b /git 2m"},
		{"", map[string]string{"GITSYNC_REPO": "/r/a", "GITSYNC_ONE_TIME": "1", "GITSYNC_SSH_KEY_FILE": "/a:/b", "GIT_SSH_KNOWN_HOSTS_FILE": "/c", "GITSYNC_COOKIE_FILE": "true"},
			"--link=a --submodules=recursive --ssh-key-file=/a --ssh-key-file=/b --known-hosts=/c --cookie-file=/etc/git-secret/cookie_file /r/a /git 2m"},
	} {
		if got, err := translation(t, strings.Fields(test.args), test.variables); got != test.want || err != nil {
			t.Errorf("%s %v:\n%s, %v, want\n%s", test.args, test.variables, got, err, test.want)
		}
	}
}

// TestGitSyncFlags pins that a flag of git-sync either means a flag of git-clone,
// is refused or does nothing, for a reason.
func TestGitSyncFlags(t *testing.T) {
	var own []string
	for _, f := range new(gitFlags).flags() {
		own = append(own, f.Names()...)
	}
	seen := map[string]bool{}
	for _, f := range syncFlags {
		if seen[f.name] {
			t.Errorf("%s is there twice", f.name)
		}
		seen[f.name] = true
		if f.to != "" && !strings.Contains(" "+strings.Join(own, " ")+" ", " "+f.to+" ") {
			t.Errorf("%s: there is no flag --%s", f.name, f.to)
		}
		if (f.refused != "") != (f.hint != "") {
			t.Errorf("%s: what is refused has a hint, and nothing else", f.name)
		}
	}
}

func TestByteCount(t *testing.T) {
	for text, want := range map[string]byteCount{"0": 0, "12": 12, "3k": 3000, "2Ki": 2048, "500Mi": 500 << 20, "1G": 1e9, "1Ti": 1 << 40} {
		var got byteCount
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5Gi", "5X", "5iM", "5KiKi", "9999999999Ti", "Mi"} {
		var got byteCount
		if err := got.Set(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func TestOverlapping(t *testing.T) {
	for _, test := range []struct {
		dirs    string
		overlap bool
	}{
		{"a b", false}, {"a a", true}, {"a a/b", true}, {"a/b a", true}, {"a ab", false}, {"a ./a/../a", true},
		{"a a-b a/c", true},
	} {
		var clones []clone.Options
		for _, dir := range strings.Fields(test.dirs) {
			clones = append(clones, clone.Options{Dir: filepath.FromSlash(dir)})
		}
		if outer, inner := overlapping(clones); (outer != "") != test.overlap {
			t.Errorf("%s: %q and %q", test.dirs, outer, inner)
		}
	}
	if outer, _ := overlapping([]clone.Options{{Dir: "a", Link: "x"}, {Dir: "a", Link: "y"}}); outer != "" {
		t.Error("two links in one folder are not one in the other")
	}
}

// FuzzConfig pins that no --config panics, and that each error is one of the
// command line.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"- url: https://h/a\n  dir: b\n", "- {url: /a, dir: b, depth: 3, sparse: [a, b]}", "[]", "- 1", "a: b", "- url: &a x\n  dir: *a\n  ref: [*a]",
		"- <<: {url: /a}\n  dir: b", `[{"url": "/a", "dir": "b", "mode": 0750, "lfs": true}]`, "- ? [a]\n  : b", "- url:\n  dir: ~", "---\n---\n",
	} {
		f.Add([]byte(text))
	}
	e := &env{log: slog.New(slog.DiscardHandler), stderr: new(bytes.Buffer)}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseConfig(data)
		if err != nil {
			if !errors.As(err, new(configError)) || strings.Contains(err.Error(), "chan int") {
				t.Errorf("%v", err)
			}
			return
		}
		for i, entry := range entries {
			o, err := new(gitFlags).entry(cli.NewContext(cli.NewApp(), nil, nil), e, entry)
			if err != nil {
				if !strings.HasPrefix(inEntry(i, err).Error(), ":") {
					t.Errorf("%v", inEntry(i, err))
				}
				continue
			}
			if o.URL == "" || o.Dir == "" {
				t.Errorf("neither URL nor folder: %+v", o)
			}
		}
	})
}

// FuzzGitSync pins that no command line of git-sync panics.
func FuzzGitSync(f *testing.F) {
	f.Add("--repo=https://h/a --root /x --link y -v 2 --one-time", "GITSYNC_PASSWORD", "x")
	f.Add("--repo a://b --username --=x - -- --ssh-key-file", "GIT_SYNC_WAIT", "1e300")
	f.Fuzz(func(t *testing.T, args, name, value string) {
		text, err := translation(t, strings.Fields(args), map[string]string{name: value})
		if err == nil && value != "" && strings.HasSuffix(name, "_PASSWORD") && len(value) > 12 && !strings.Contains(args, value) && strings.Contains(text, value) {
			t.Errorf("the password shows: %s", text)
		}
	})
}

func TestCheckOutside(t *testing.T) {
	for _, c := range []struct {
		flags gitFlags
		o     clone.Options
		want  bool
	}{
		{gitFlags{output: "-", startupProbe: "9000"}, clone.Options{Dir: "."}, true}, // neither is a file here
		{gitFlags{touch: "touched"}, clone.Options{Dir: "."}, false},
		{gitFlags{output: "/vol/work/../result"}, clone.Options{Dir: "/vol/work"}, true},
		{gitFlags{output: "/vol/work-result"}, clone.Options{Dir: "/vol/work/"}, true},
		{gitFlags{output: "/vol/work/.git/result"}, clone.Options{Dir: "/vol/work/"}, false},
		{gitFlags{startupProbe: "/vol/.ready"}, clone.Options{Dir: "/vol", Link: "current"}, true},
		{gitFlags{startupProbe: "/vol/.ready"}, clone.Options{Dir: "/vol"}, false},
	} {
		if err := c.flags.checkOutside(c.o); (err == nil) != c.want {
			t.Errorf("%+v, %q in %q: %v", c.flags.touch+c.flags.output+c.flags.startupProbe, c.o.Link, c.o.Dir, err)
		}
	}
}
