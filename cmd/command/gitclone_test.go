package command

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"initbox/clone"
	"initbox/cmd/translate"
)

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
		t.Error("two links in one directory are not one in the other")
	}
}

// FuzzConfig pins that no --config panics, and that each error is one of the command line.
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
				t.Errorf("neither URL nor directory: %+v", o)
			}
		}
	})
}

func TestCheckOutside(t *testing.T) {
	for _, c := range []struct {
		flags gitFlags
		o     clone.Options
		want  bool
	}{
		{gitFlags{output: "-", sidecar: sidecarFlags{probe: probeFlags{http: ":9000"}}}, clone.Options{Dir: "."}, true},
		{gitFlags{sidecar: sidecarFlags{touch: "touched"}}, clone.Options{Dir: "."}, false},
		{gitFlags{output: "/vol/work/../result"}, clone.Options{Dir: "/vol/work"}, true},
		{gitFlags{output: "/vol/work-result"}, clone.Options{Dir: "/vol/work/"}, true},
		{gitFlags{output: "/vol/work/.git/result"}, clone.Options{Dir: "/vol/work/"}, false},
		{gitFlags{sidecar: sidecarFlags{probe: probeFlags{file: "/vol/.ready"}}}, clone.Options{Dir: "/vol", Link: "current"}, true},
		{gitFlags{sidecar: sidecarFlags{probe: probeFlags{file: "/vol/.ready"}}}, clone.Options{Dir: "/vol"}, false},
	} {
		if err := c.flags.checkOutside(c.o); (err == nil) != c.want {
			t.Errorf("%+v, %q in %q: %v", c.flags.sidecar.touch+c.flags.output+c.flags.sidecar.probe.file, c.o.Link, c.o.Dir, err)
		}
	}
}

// TestGitSyncFlagsExist pins that what git-sync's flags translate into are flags of git-clone, with values that it
// takes.
func TestGitSyncFlagsExist(t *testing.T) {
	variables := map[string]string{"GITSYNC_REPO": "https://git.example/app", "GITSYNC_PERIOD": "1ns", "GITSYNC_WEBHOOK_URL": "http://hook/"}
	for _, name := range []string{
		"REF", "SUBMODULES", "FILTER", "LINK", "TOUCH_FILE", "WEBHOOK_METHOD", "USERNAME", "PASSWORD_FILE", "SSH_KEY_FILE", "SSH_KNOWN_HOSTS_FILE", "ASKPASS_URL",
		"GITHUB_BASE_URL", "GITHUB_APP_PRIVATE_KEY_FILE", "GITHUB_APP_CLIENT_ID",
	} {
		variables["GITSYNC_"+name] = "x"
	}
	for _, name := range []string{"DEPTH", "GROUP_WRITE", "COOKIE_FILE", "WEBHOOK_SUCCESS_STATUS", "WEBHOOK_TIMEOUT", "GITHUB_APP_INSTALLATION_ID"} {
		variables["GITSYNC_"+name] = "1"
	}
	variables["GITSYNC_SSH_KNOWN_HOSTS"], variables["GITSYNC_HTTP_BIND"] = "true", ":80"
	env := translate.Environment{
		Lookup: func(name string) (string, bool) {
			value, ok := variables[name]
			return value, ok
		},
		ReadFile: func(string) ([]byte, error) { return []byte("/docs/"), nil },
		Exists:   func(string) bool { return true },
	}
	line, err := translate.GitSync([]string{"--sparse-checkout-file=x"}, env)
	if err != nil {
		t.Fatal(err)
	}
	g := new(gitFlags)
	set := flag.NewFlagSet("", flag.ContinueOnError)
	for _, f := range g.flags() {
		if err := f.Apply(set); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range line.Flags {
		if err := set.Set(f.Name, f.Value); err != nil {
			t.Errorf("--%s=%s: %v", f.Name, f.Value, err)
		}
	}
	if len(line.Flags) < 20 || g.sidecar.watch != minWatch {
		t.Errorf("%d flags, --watch %v; want all of the above, and --watch %v", len(line.Flags), g.sidecar.watch, minWatch)
	}
}
