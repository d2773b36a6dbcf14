package attributes

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// git runs git in a directory, without this machine's configuration.
func git(t testing.TB, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(servers.Need(t, "git"), args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// checkoutMany has git write files as in a clone: with the attributes of the index.
func checkoutMany(t testing.TB, files map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	git(t, dir, nil, "init", "-q")
	var stream bytes.Buffer // of git fast-import
	stream.WriteString("commit refs/heads/main\ncommitter C <c@example.org> 1700000000 +0000\ndata 0\n")
	for name, content := range files {
		fmt.Fprintf(&stream, "M 100644 inline %q\ndata %d\n%s\n", name, len(content), content)
	}
	git(t, dir, stream.Bytes(), "fast-import", "--quiet")
	git(t, dir, nil, "checkout", "-q", "-f", "main")
	return dir
}

func load(t testing.TB, files map[string][]byte) *Set {
	t.Helper()
	var paths []string
	for name := range files {
		if filepath.Base(name) == FileName {
			paths = append(paths, name)
		}
	}
	s, err := Load(paths, func(path string) ([]byte, error) { return files[path], nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}
