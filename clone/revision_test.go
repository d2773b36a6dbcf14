package clone_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/clone"
	"initbox/clone/access"
	"initbox/internal/failure"
	"initbox/test/servers"
)

// run clones with a deadline, and logs to the test.
func run(t *testing.T, o clone.Options) (clone.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	if o.Access == (access.Access{}) {
		o.Access.Umask = 0o022
	}
	return clone.Run(ctx, o)
}

// TestRef clones with every form of a revision.
func TestRef(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	ids := map[string]string{}
	for _, version := range []string{"v1.0.0", "v1.2.0", "v1.10.0", "v2.0.0-rc1", "v2.0.0"} {
		put(t, origin, "version", version)
		ids[version] = commit(t, origin, version)
		git(t, origin, "tag", "-a", "-m", version, version)
	}
	git(t, origin, "tag", "light", ids["v1.2.0"])
	git(t, origin, "branch", "side/branch", ids["v1.0.0"])
	git(t, origin, "branch", "both", ids["v1.0.0"])
	git(t, origin, "tag", "both", ids["v2.0.0"])
	git(t, origin, "update-ref", "refs/pull/1/head", ids["v1.10.0"])
	git(t, origin, "branch", "hidden", ids["v2.0.0"])
	put(t, origin, "version", "nameless")
	nameless := commit(t, origin, "nameless")
	put(t, origin, "version", "newest")
	newest := commit(t, origin, "newest")
	git(t, origin, "tag", "of-a-tree", "HEAD^{tree}")
	at := serve(t, dir) + "/origin"
	old := servers.StartGit(t, dir, servers.GitOptions{V0: true, Config: []string{"safe.directory=*"}}).URL + "/origin"

	for _, test := range []struct{ ref, sha, name string }{
		{"", newest, "refs/heads/main"},
		{"HEAD", newest, "refs/heads/main"},
		{"main", newest, "refs/heads/main"},
		{"side/branch", ids["v1.0.0"], "refs/heads/side/branch"},
		{"heads/side/branch", ids["v1.0.0"], "refs/heads/side/branch"},
		{"refs/heads/side/branch", ids["v1.0.0"], "refs/heads/side/branch"},
		{"both", ids["v1.0.0"], "refs/heads/both"},
		{"tags/both", ids["v2.0.0"], "refs/tags/both"},
		{"v1.2.0", ids["v1.2.0"], "refs/tags/v1.2.0"},
		{"light", ids["v1.2.0"], "refs/tags/light"},
		{"refs/pull/1/head", ids["v1.10.0"], "refs/pull/1/head"},
		{nameless, nameless, nameless},
		{strings.ToUpper(nameless), nameless, nameless},
		{ids["v1.0.0"][:10], ids["v1.0.0"], ids["v1.0.0"]},
		{nameless[:10], nameless, nameless},
		{"^1.0", ids["v1.10.0"], "refs/tags/v1.10.0"},
		{"~1.2", ids["v1.2.0"], "refs/tags/v1.2.0"},
		{">=1.0.0", ids["v2.0.0"], "refs/tags/v2.0.0"},
		{">=1.0.0 <2.0.0", ids["v1.10.0"], "refs/tags/v1.10.0"},
		{"1.x", ids["v1.10.0"], "refs/tags/v1.10.0"},
	} {
		for server, at := range map[string]string{"v2": at, "v0": old} {
			t.Run(server+" "+test.ref, func(t *testing.T) {
				t.Parallel()
				got := filepath.Join(t.TempDir(), "clone")
				result, err := run(t, clone.Options{URL: at, Dir: got, Ref: test.ref, Depth: 1})
				if server == "v0" && test.ref == nameless[:10] && err != nil {
					return // history can be asked for without files only if the server filters
				}
				if err != nil {
					t.Fatal(err)
				}
				if result.SHA != test.sha || result.Ref != test.name {
					t.Errorf("%s, %s, want %s, %s", result.Ref, result.SHA, test.name, test.sha)
				}
				if is := head(t, got); is != test.sha {
					t.Errorf("HEAD is %s, want %s", is, test.sha)
				}
				sound(t, got)
			})
		}
	}

	for ref, want := range map[string]string{
		"mian":                    "no branch, tag or commit is named mian",
		"v9.9.9":                  "no branch, tag or commit is named v9.9.9",
		"^7":                      "no tag is a version in the range ^7",
		"refs/heads/none":         "no branch, tag or commit is named refs/heads/none",
		strings.Repeat("01", 20):  "the server does not serve the requested revision",
		"of-a-tree":               "refs/tags/of-a-tree is not a commit",
		"line\nbreak":             `the revision "line\nbreak" contains a control character`,
		"--upload-pack=touch /x":  "no branch, tag or commit is named --upload-pack=touch /x",
		strings.Repeat("01", 32):  "no branch, tag or commit",
		strings.Repeat("f", 2000): "no branch, tag or commit",
	} {
		t.Run("none "+ref[:min(len(ref), 20)], func(t *testing.T) {
			t.Parallel()
			got := filepath.Join(t.TempDir(), "clone")
			_, err := run(t, clone.Options{URL: at, Dir: got, Ref: ref, Depth: 1})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v, want %q", err, want)
			}
			if errors.Is(err, context.DeadlineExceeded) || failure.Of(err).Class != failure.NoRevision {
				t.Errorf("class %s of %v", failure.Of(err).Class, err)
			}
			if files, _ := filepath.Glob(filepath.Join(filepath.Dir(got), ".*")); len(files) > 0 {
				t.Errorf("left behind: %q", files)
			}
		})
	}
}
