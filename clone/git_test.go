package clone_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitEnv isolates git from the settings of the user who runs the tests.
var gitEnv = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "HOME=/nonexistent",
	"GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=author@example.com", "GIT_AUTHOR_DATE=1700000000 +0100",
	"GIT_COMMITTER_NAME=C O Mitter", "GIT_COMMITTER_EMAIL=committer@example.com", "GIT_COMMITTER_DATE=1700000000 +0100",
}

// skipIfShort skips what starts a real server, or takes more than about a second.
func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real server, or takes more than a second")
	}
}

// git runs git in a directory, and returns what it prints.
func git(t testing.TB, dir string, arguments ...string) string {
	t.Helper()
	out, err := tryGit(dir, nil, arguments...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return out
}

func tryGit(dir string, stdin []byte, arguments ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "safe.directory=*"}, arguments...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), gitEnv...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// newRepository makes an empty repository with the branch main.
func newRepository(t testing.TB, dir string, options ...string) string {
	t.Helper()
	git(t, "", append(append([]string{"init", "-q", "-b", "main"}, options...), dir)...)
	return dir
}

// commit commits all files in the directory, and returns the ID of the commit.
func commit(t testing.TB, dir, message string, options ...string) string {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, append([]string{"commit", "-q", "--allow-empty", "-m", message}, options...)...)
	return head(t, dir)
}

func head(t testing.TB, dir string) string {
	t.Helper()
	return strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))
}

// put writes a file, and creates its directories.
func put(t testing.TB, dir, name, content string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// fastImport makes commits that git add would refuse, or be slow for.
func fastImport(t testing.TB, dir, stream string) {
	t.Helper()
	if out, err := tryGit(dir, []byte(stream), "fast-import", "--quiet"); err != nil {
		t.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

// sameTree compares two directories without their .git, down to modes and bytes.
func sameTree(t testing.TB, got, want string) {
	t.Helper()
	g, w := listing(t, got), listing(t, want)
	differences := 0
	for name, is := range w {
		if g[name] != is {
			differences++
			if differences <= 5 {
				t.Errorf("%q: %s, want %s", name, abridged(g[name]), abridged(is))
			}
		}
	}
	for name := range g {
		if _, ok := w[name]; !ok {
			differences++
			if differences <= 5 {
				t.Errorf("%q is there, and should not be", name)
			}
		}
	}
	if differences > 5 {
		t.Errorf("%d differences in all", differences)
	}
}

func abridged(s string) string {
	if s == "" {
		return "missing"
	}
	return fmt.Sprintf("%.80q (%d bytes)", s, len(s))
}

// listing describes everything in a directory: type, mode and content by path.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		if d.Name() == ".git" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		relative, content := strings.TrimPrefix(name, dir+"/"), ""
		switch info.Mode().Type() {
		case 0:
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			content = string(b)
		case fs.ModeSymlink:
			if content, err = os.Readlink(name); err != nil {
				return err
			}
		}
		files[relative] = info.Mode().String() + " " + content
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sound has git check a clone: the directory, the objects and the index.
func sound(t testing.TB, dir string) {
	t.Helper()
	if out := git(t, dir, "status", "--porcelain=v2", "--ignored"); out != "" {
		t.Errorf("git status:\n%s", abridged(out))
	}
	if out := git(t, dir, "fsck", "--full", "--strict", "--no-dangling", "--no-progress"); out != "" && !strings.Contains(out, "unborn branch") {
		t.Errorf("git fsck:\n%s", out)
	}
}
