package remote

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/test/servers"
)

// skipIfShort skips what starts a real server, or takes more than about a second.
func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real server, or takes more than a second")
	}
}

// makeRepository makes DIR/repo.git with two branches, a tag of each kind and three commits, and returns DIR.
func makeRepository(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	work := filepath.Join(dir, "work")
	git := func(args ...string) { t.Helper(); servers.RunGit(t, work, args...) }
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	for i, text := range []string{"one\n", "two\n", "three\n"} {
		if err := os.WriteFile(filepath.Join(work, "file"), []byte(strings.Repeat(text, 1000)), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", "file")
		git("commit", "-q", "-m", text)
		switch i {
		case 0:
			git("tag", "light")
		case 1:
			git("tag", "-a", "-m", "annotated", "v1.0")
			git("branch", "side")
		}
	}
	servers.RunGit(t, dir, "clone", "-q", "--mirror", work, filepath.Join(dir, "repo.git"))
	return dir
}

// revision returns the ID of a revision in DIR/repo.git.
func revision(t testing.TB, dir, name string) plumbing.Hash {
	t.Helper()
	id, err := object.ParseID(servers.RunGit(t, filepath.Join(dir, "repo.git"), "rev-parse", name))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func open(t testing.TB, text string, o Options) (Repository, error) {
	t.Helper()
	u, err := ParseURL(text, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return opened(t)(Open(t.Context(), u, o))
}

func opened(t testing.TB) func(Repository, error) (Repository, error) {
	return func(r Repository, err error) (Repository, error) {
		if err == nil {
			t.Cleanup(func() { r.Close() })
		}
		return r, err
	}
}

// objects has git check a pack, and returns the number of its objects.
func objects(t testing.TB, pack io.Reader) (n int) {
	t.Helper()
	dir := t.TempDir()
	servers.RunGit(t, dir, "init", "-q", "--bare")
	f, err := os.Create(filepath.Join(dir, "in.pack"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, pack)
	if f.Close(); err != nil {
		t.Fatal(err)
	}
	servers.RunGit(t, dir, "index-pack", "in.pack")
	for line := range strings.Lines(servers.RunGit(t, dir, "verify-pack", "-v", "in.pack")) {
		if id, _, _ := strings.Cut(line, " "); len(id) == 40 {
			n++
		}
	}
	return n
}

// A pipe runs git-upload-pack on this machine, like sshd.
type pipe struct {
	t       testing.TB
	repo    string
	version string // of the protocol: the value of GIT_PROTOCOL, or "" for none
	dials   int
}

func (p *pipe) Close() error { return nil }

func (p *pipe) dial(ctx context.Context) (stream, error) {
	p.dials++
	cmd := exec.CommandContext(ctx, servers.Need(p.t, "git"), "upload-pack", p.repo)
	cmd.Env = servers.GitEnv("uploadpack.allowFilter=true")
	if p.version != "" {
		cmd.Env = append(cmd.Env, "GIT_PROTOCOL="+p.version)
	}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	return &pipeStream{out, in, cmd}, cmd.Start()
}

type pipeStream struct {
	io.Reader
	io.WriteCloser
	cmd *exec.Cmd
}

func (p *pipeStream) Close() error {
	p.WriteCloser.Close()
	p.cmd.Process.Kill()
	p.cmd.Wait()
	return nil
}

// versions returns functions that open the repository DIR/repo.git, by transport and version of the protocol.
func versions(dir string) map[string]func(t testing.TB) (Repository, error) {
	filter := "uploadpack.allowFilter=true"
	byHTTP := func(o servers.GitOptions) func(t testing.TB) (Repository, error) {
		return func(t testing.TB) (Repository, error) {
			return open(t, servers.StartGit(t, dir, o).URL+"/repo.git", Options{})
		}
	}
	byPipe := func(version string) func(t testing.TB) (Repository, error) {
		return func(t testing.TB) (Repository, error) {
			u, err := ParseURL(filepath.Join(dir, "repo.git"), nil)
			if err != nil {
				return nil, err
			}
			return opened(t)(openCommands(t.Context(), u, Options{}, &pipe{t: t, repo: u.Path, version: version}))
		}
	}
	return map[string]func(t testing.TB) (Repository, error){
		"http, version 2":    byHTTP(servers.GitOptions{Config: []string{filter}}),
		"http, version 0":    byHTTP(servers.GitOptions{Config: []string{filter}, V0: true}),
		"http, no features":  byHTTP(servers.GitOptions{Config: []string{filter}, V0: true, Wrap: only("ofs-delta shallow filter")}),
		"http, narrow bands": byHTTP(servers.GitOptions{Config: []string{filter}, V0: true, Wrap: only("side-band shallow filter multi_ack")}),
		"git daemon": func(t testing.TB) (Repository, error) {
			return open(t, servers.StartGitDaemon(t, dir, filter)+"/repo.git", Options{})
		},
		"commands, version 2": byPipe("version=2"),
		"commands, version 1": byPipe("version=1"),
		"commands, version 0": byPipe(""),
	}
}

// TestRepository lists and fetches by every version of the protocol, twice each.
func TestRepository(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := makeRepository(t)
	main, side, tag := revision(t, dir, "main"), revision(t, dir, "side"), revision(t, dir, "v1.0")
	for name, open := range versions(dir) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				refs, err := r.Refs(t.Context(), "HEAD", "refs/heads/", "refs/tags/v")
				if err != nil {
					t.Fatal(err)
				}
				want := []Ref{
					{Name: "HEAD", ID: main, Target: "refs/heads/main"},
					{Name: "refs/heads/main", ID: main},
					{Name: "refs/heads/side", ID: side},
					{Name: "refs/tags/v1.0", ID: tag, Peeled: side},
				}
				if len(refs) != len(want) {
					t.Fatalf("%v, want %v", refs, want)
				}
				for i := range want {
					if refs[i] != want[i] {
						t.Errorf("%v, want %v", refs[i], want[i])
					}
				}
				for _, tt := range []struct {
					request Request
					objects int
					shallow []plumbing.Hash
				}{
					{Request{Wants: []plumbing.Hash{main}, Depth: 1}, 3, []plumbing.Hash{main}},
					{Request{Wants: []plumbing.Hash{main}, Depth: 2}, 6, []plumbing.Hash{side}},
					{Request{Wants: []plumbing.Hash{main, side, tag}}, 10, nil},
					{Request{Wants: []plumbing.Hash{main}, Depth: 1, Filter: "blob:none"}, 2, []plumbing.Hash{main}},
				} {
					a, err := r.Fetch(t.Context(), tt.request)
					if err != nil {
						t.Fatalf("%+v: %v", tt.request, err)
					}
					if n := objects(t, a.Pack); n != tt.objects {
						t.Errorf("%+v: %d objects, want %d", tt.request, n, tt.objects)
					}
					if err := a.Pack.Close(); err != nil {
						t.Error(err)
					}
					if len(a.Shallow) != len(tt.shallow) || len(a.Shallow) == 1 && a.Shallow[0] != tt.shallow[0] {
						t.Errorf("%+v: shallow %v, want %v", tt.request, a.Shallow, tt.shallow)
					}
				}
			}
		})
	}
}

// TestFiltered fetches an object that a filter omitted before.
func TestFiltered(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := makeRepository(t)
	main, blob := revision(t, dir, "main"), revision(t, dir, "main:file")
	allowed := []string{"uploadpack.allowFilter=true", "uploadpack.allowAnySHA1InWant=true"}
	for name, o := range map[string]servers.GitOptions{"version 2": {Config: allowed[:1]}, "version 0": {Config: allowed, V0: true}} {
		r, err := open(t, servers.StartGit(t, dir, o).URL+"/repo.git", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Capable(Filter) || !r.Capable(AnyID) {
			t.Errorf("%s: filter: %t, any id: %t", name, r.Capable(Filter), r.Capable(AnyID))
		}
		for request, want := range map[*Request]int{
			{Wants: []plumbing.Hash{main}, Depth: 1, Filter: "blob:none"}: 2,
			{Wants: []plumbing.Hash{blob}}:                                1,
		} {
			a, err := r.Fetch(t.Context(), *request)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if n := objects(t, a.Pack); n != want {
				t.Errorf("%s: %d objects, want %d", name, n, want)
			}
		}
	}
}

// TestGivenUp closes an answer halfway, and asks again.
func TestGivenUp(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := makeRepository(t)
	main := revision(t, dir, "main")
	for name, open := range versions(dir) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				a, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{main}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(a.Pack, make([]byte, 4)); err != nil {
					t.Fatal(err)
				}
				a.Pack.Close()
				if refs, err := r.Refs(t.Context(), "refs/heads/side"); err != nil || len(refs) != 1 {
					t.Fatal(refs, err)
				}
			}
		})
	}
}

// TestEndsWithContext pins that a fetch ends with its context.
func TestEndsWithContext(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := makeRepository(t)
	main := revision(t, dir, "main")
	for name, open := range versions(dir) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := r.Fetch(ctx, Request{Wants: []plumbing.Hash{main}}); err != context.Canceled {
				t.Errorf("%v, want %v", err, context.Canceled)
			}
			if refs, err := r.Refs(t.Context(), "refs/heads/side"); err != nil || len(refs) != 1 {
				t.Error(refs, err)
			}
		})
	}
}

func TestEmptyRepository(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := t.TempDir()
	servers.RunGit(t, dir, "init", "-q", "--bare", "repo.git")
	for name, open := range versions(dir) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			refs, err := r.Refs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range refs {
				if ref != (Ref{Name: "HEAD", Target: "refs/heads/main"}) {
					t.Errorf("%+v", ref)
				}
			}
			if refs, err = r.Refs(t.Context(), "refs/"); err != nil || len(refs) != 0 {
				t.Error(refs, err)
			}
		})
	}
}

// TestOneCommand pins that one command answers all requests, which saves round trips.
func TestOneCommand(t *testing.T) {
	t.Parallel()
	dir := makeRepository(t)
	main := revision(t, dir, "main")
	u, _ := ParseURL(dir, nil)
	for version, want := range map[string]int{"version=2": 1, "": 1} {
		p := &pipe{t: t, repo: filepath.Join(dir, "repo.git"), version: version}
		r, err := opened(t)(openCommands(t.Context(), u, Options{}, p))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Refs(t.Context(), "HEAD"); err != nil {
			t.Fatal(err)
		}
		a, err := r.Fetch(t.Context(), Request{Wants: []plumbing.Hash{main}, Depth: 1})
		if err != nil {
			t.Fatal(err)
		}
		objects(t, a.Pack)
		if p.dials != want {
			t.Errorf("%q: %d commands, want %d", version, p.dials, want)
		}
	}
}
