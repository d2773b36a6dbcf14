package worktree

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/access"
	"initbox/clone/object"
	"initbox/clone/pack"
	"initbox/test/servers"
)

// TestMain puts temporary files in memory: git waits for the disk at every commit.
func TestMain(m *testing.M) { os.Exit(servers.MainInMemory(m)) }

// git runs git in a directory and returns what it says.
func git(t testing.TB, dir string, stdin io.Reader, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_COMMITTER_DATE=1700000000 +0000")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// file is what fast-import is to put into a repository.
type file struct{ mode, path, content string }

// repository makes a bare repository with a commit, on main, of those files.
func repository(t testing.TB, files []file) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, nil, "init", "-q", "--bare", "-b", "main")
	var b bytes.Buffer
	b.WriteString("commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 0\n")
	for _, f := range files {
		if f.mode == "160000" {
			fmt.Fprintf(&b, "M 160000 %s %s\n", f.content, quote(f.path))
			continue
		}
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", f.mode, quote(f.path), len(f.content), f.content)
	}
	git(t, dir, &b, "fast-import", "--quiet")
	return dir
}

// quote is C's way to write a path.
func quote(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			fmt.Fprintf(&b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// revision is a pack with all that a revision needs, and the id of its tree.
func revision(t testing.TB, repo, rev string) (packed []byte, tree plumbing.Hash) {
	t.Helper()
	objects := git(t, repo, nil, "rev-list", "--objects", "--no-object-names", "--no-walk", rev)
	packed = []byte(git(t, repo, strings.NewReader(objects), "pack-objects", "--stdout", "--delta-base-offset", "-q"))
	return packed, plumbing.NewHash(strings.TrimSpace(git(t, repo, nil, "rev-parse", rev+"^{tree}")))
}

// openDir makes a directory of that name in the test's own, and opens it.
func openDir(t testing.TB, name string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// read feeds a pack to a sink.
func read(t testing.TB, packed []byte, sink pack.Sink) (*pack.Pack, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // whatever the umask that the test sets
		t.Fatal(err)
	}
	temp := func() (*os.File, error) {
		f, err := os.CreateTemp(dir, "")
		if err == nil {
			t.Cleanup(func() { f.Close() })
		}
		return f, err
	}
	spool, err := temp()
	if err != nil {
		t.Fatal(err)
	}
	return pack.Read(context.Background(), bytes.NewReader(packed), pack.Options{Spool: spool, Sink: sink, Temp: temp, Workers: 3, Large: 1 << 20})
}

// place makes a working tree of a pack.
func place(t testing.TB, o Options, packed []byte, tree plumbing.Hash) (*Tree, error) {
	t.Helper()
	if o.Dir == nil {
		o.Dir = openDir(t, "tree")
	}
	if o.Access == (access.Access{}) {
		o.Access.Umask = 0o022
	}
	w := New(o)
	if err := w.Root(tree); err != nil {
		return w, err
	}
	if _, err := read(t, packed, w); err != nil {
		return w, err
	}
	return w, w.Finish()
}

// plain is an object for a hand-made pack.
type plain struct {
	kind    plumbing.ObjectType
	content []byte
}

func (p plain) id(t testing.TB) plumbing.Hash {
	t.Helper()
	id, err := object.NewHasher().Of(p.kind, p.content)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func blob(content string) plain { return plain{plumbing.BlobObject, []byte(content)} }

// line is one entry of a hand-made tree.
type line struct {
	mode, name string
	id         plumbing.Hash
}

func tree(lines ...line) plain {
	var b []byte
	for _, l := range lines {
		b = fmt.Appendf(b, "%s %s\x00%s", l.mode, l.name, l.id[:])
	}
	return plain{plumbing.TreeObject, b}
}

// packOf makes a pack without deltas.
func packOf(t testing.TB, objects ...plain) []byte {
	t.Helper()
	b := []byte("PACK\x00\x00\x00\x02")
	b = binary.BigEndian.AppendUint32(b, uint32(len(objects)))
	for _, o := range objects {
		size := len(o.content)
		c := byte(o.kind)<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			b = append(b, c|0x80)
			c = byte(size & 0x7f)
		}
		b = append(b, c)
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		w.Write(o.content)
		w.Close()
		b = append(b, z.Bytes()...)
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}
