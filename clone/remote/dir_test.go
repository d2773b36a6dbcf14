package remote_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/remote"
	"initbox/internal/failure"
)

// runGit runs the real git in a directory.
func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org", "GIT_COMMITTER_DATE=1700000000 +0000")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func openDir(t *testing.T, text string) (remote.Repository, error) {
	t.Helper()
	u, err := remote.ParseURL(text, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	return remote.Open(t.Context(), u, remote.Options{})
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir() + "/with space"
	os.Mkdir(dir, 0o777)
	runGit(t, dir, "init", "-q", "-b", "main")
	runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
	runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "two")
	head := plumbing.NewHash(runGit(t, dir, "rev-parse", "HEAD"))
	for _, text := range []string{dir, "file://" + strings.ReplaceAll(dir, " ", "%20"), dir + "/.git"} {
		r, err := openDir(t, text)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if !r.Capable(remote.Filter) || !r.Capable(remote.AnyID) {
			t.Error("not capable")
		}
		refs, err := r.Refs(t.Context(), "HEAD", "refs/heads/")
		want := []remote.Ref{{Name: "HEAD", ID: head, Target: "refs/heads/main"}, {Name: "refs/heads/main", ID: head}}
		if err != nil || len(refs) != 2 || refs[0] != want[0] || refs[1] != want[1] {
			t.Errorf("%+v, %v", refs, err)
		}
		answer, err := r.Fetch(t.Context(), remote.Request{Wants: []plumbing.Hash{head}, Depth: 1})
		if err != nil {
			t.Fatal(err)
		}
		pack, err := io.ReadAll(answer.Pack)
		if err != nil || !strings.HasPrefix(string(pack), "PACK\x00\x00\x00\x02\x00\x00\x00\x02") || len(answer.Shallow) != 1 || answer.Shallow[0] != head {
			t.Errorf("%q, %v, %v", pack, answer.Shallow, err)
		}
		answer.Pack.Close()
		none := plumbing.NewHash("0123456789012345678901234567890123456789")
		if _, err = r.Fetch(t.Context(), remote.Request{Wants: []plumbing.Hash{none}}); !errors.Is(err, remote.ErrMoved) {
			t.Errorf("no such object: %v", err)
		}
		isDirFailure(t, err, failure.NoRevision, "there is no object "+none.String())
	}
}

func TestNoDirectory(t *testing.T) {
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "--object-format=sha256", "new")
	_, err := openDir(t, dir)
	isDirFailure(t, err, failure.NoRepository, "no such repository: there is no repository at that path")
	_, err = openDir(t, dir+"/none")
	isDirFailure(t, err, failure.NoRepository, "no such repository: there is nothing at that path")
	_, err = openDir(t, dir+"/new")
	isDirFailure(t, err, failure.Unexpected, "the repository uses SHA-256 object names, which initbox does not read")
}

func isDirFailure(t *testing.T, err error, class failure.Class, text string) {
	t.Helper()
	var f *failure.Failure
	if !errors.As(err, &f) || f.Class != class || f.Text != text || f.Hint == "" {
		t.Errorf("%+v, want %q of class %q, with a hint", err, text, class)
	}
}
