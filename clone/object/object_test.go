package object

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

const (
	emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	emptyBlob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
)

// TestHasher compares IDs with git's, for one object after another, written in pieces.
func TestHasher(t *testing.T) {
	h := NewHasher()
	for _, tt := range []struct {
		kind    plumbing.ObjectType
		content string
		want    string
	}{
		{plumbing.BlobObject, "", emptyBlob},
		{plumbing.TreeObject, "", emptyTree},
		{plumbing.BlobObject, "what is up, doc?", "bd9dbf5aae1a3862dd1526723246b20206e5fc37"}, // of the Git book
		{plumbing.BlobObject, strings.Repeat("x", 1000), plumbing.ComputeHash(plumbing.BlobObject, []byte(strings.Repeat("x", 1000))).String()},
		{plumbing.CommitObject, "tree", plumbing.ComputeHash(plumbing.CommitObject, []byte("tree")).String()},
		{plumbing.TagObject, "tag", plumbing.ComputeHash(plumbing.TagObject, []byte("tag")).String()},
	} {
		if id, err := h.Of(tt.kind, []byte(tt.content)); id.String() != tt.want || err != nil {
			t.Errorf("%s %.20q: %s, %v, want %s", tt.kind, tt.content, id, err, tt.want)
		}
		h.Begin(tt.kind, int64(len(tt.content)))
		for _, c := range []byte(tt.content) {
			h.Write([]byte{c})
		}
		if id, err := h.ID(); id.String() != tt.want || err != nil {
			t.Errorf("%s %.20q in pieces: %s, %v, want %s", tt.kind, tt.content, id, err, tt.want)
		}
	}
}

// TestCollision refuses what two files of https://shattered.io begin with. Neither
// is a collision as an object, which begins with its kind: so they are hashed bare.
func TestCollision(t *testing.T) {
	shattered, err := os.ReadFile("testdata/shattered")
	if err != nil {
		t.Fatal(err)
	}
	content, err := hex.DecodeString(strings.Join(strings.Fields(string(shattered)), ""))
	if err != nil {
		t.Fatal(err)
	}
	h := NewHasher()
	h.sum.Reset()
	h.Write(content)
	if id, err := h.ID(); !errors.Is(err, ErrCollision) || !id.IsZero() {
		t.Errorf("%s, %v", id, err)
	}
	if _, err := h.Of(plumbing.BlobObject, content); err != nil {
		t.Error("afterwards:", err)
	}
}

func TestParseID(t *testing.T) {
	if id, err := ParseID(emptyTree); err != nil || id.String() != emptyTree {
		t.Error(id, err)
	}
	for _, bad := range []string{"", emptyTree[1:], emptyTree + "0", "x" + emptyTree[1:], " " + emptyTree[1:], strings.Repeat("0", 64)} {
		if id, err := ParseID(bad); err == nil || !id.IsZero() {
			t.Errorf("%q: %s", bad, id)
		}
	}
}

// TestParseCommit parses commits by git and by other programs.
func TestParseCommit(t *testing.T) {
	const a, b = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	at := time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)
	person := Person{"A U Thor", "a@example.com", at}
	for _, tt := range []struct {
		name, content string
		want          Commit
		subject       string
	}{
		{"the first", "tree " + emptyTree + "\nauthor A U Thor <a@example.com> 1700000000 +0000\ncommitter C <> 0 -0330\n\nsubject\n",
			Commit{Author: person, Committer: Person{"C", "", time.Unix(0, 0)}, Message: "subject\n"}, "subject"},
		{"a merge", "tree " + emptyTree + "\nparent " + a + "\nparent " + b + "\n\na subject\nof two lines\n\nbody\n\nmore",
			Commit{Parents: ids(a, b), Message: "a subject\nof two lines\n\nbody\n\nmore"}, "a subject of two lines"},
		{"signed", "tree " + emptyTree + "\nauthor A U Thor <a@example.com> 1700000000 +0000\n" +
			"gpgsig -----BEGIN PGP SIGNATURE-----\n \n tree " + a + "\n author X <x> 1 +0000\n -----END PGP SIGNATURE-----\n \nencoding ISO-8859-1\n\n\xe4\n",
			Commit{Author: person, Message: "\xe4\n"}, "\xe4"},
		{"of a signed tag", "tree " + emptyTree + "\nparent " + a + "\nmergetag object " + b + "\n type commit\n tag v1\n tagger T <t> 1 +0000\n \n parent " + b + "\n\nm",
			Commit{Parents: ids(a), Message: "m"}, "m"},
		{"no message", "tree " + emptyTree + "\n", Commit{}, ""},
		{"no end of line", "tree " + emptyTree, Commit{}, ""},
		{"blank lines first", "tree " + emptyTree + "\n\n\n\n  subject \n\nbody", Commit{Message: "\n\n  subject \n\nbody"}, "subject"},
		{"malformed persons", "tree " + emptyTree + "\nauthor someone@\ncommitter A U Thor <a@example.com> when\n\nm",
			Commit{Author: Person{Name: "someone@"}, Committer: Person{Name: "A U Thor", Email: "a@example.com"}, Message: "m"}, "m"},
		{"a date beyond all", "tree " + emptyTree + "\nauthor A <a> 99999999999999999999 +0000\ncommitter A <a> 1 +9999\n\nm",
			Commit{Author: Person{Name: "A", Email: "a"}, Committer: Person{"A", "a", time.Unix(1, 0)}, Message: "m"}, "m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Tree = plumbing.NewHash(emptyTree)
			got, err := ParseCommit([]byte(tt.content))
			if err != nil {
				t.Fatal(err)
			}
			if got.Subject() != tt.subject {
				t.Errorf("subject %q, want %q", got.Subject(), tt.subject)
			}
			for _, p := range []*Person{&got.Author, &got.Committer, &tt.want.Author, &tt.want.Committer} {
				p.When = p.When.UTC() // the zone is below
			}
			if !reflect.DeepEqual(*got, tt.want) {
				t.Errorf("got %+v\nwant %+v", *got, tt.want)
			}
		})
	}
	c, err := ParseCommit([]byte("tree " + emptyTree + "\nauthor A <a> 1700000000 -0330\n"))
	if err != nil || c.Author.When.Format(time.RFC3339) != "2023-11-14T18:43:20-03:30" {
		t.Error(c, err)
	}
	for _, bad := range []string{
		"", "\n", "\n\ntree " + emptyTree, "parent " + a + "\n\nm", "tree \n", "tree " + a[1:] + "\n",
		"tree " + emptyTree + "\nparent x\n\n", " tree " + emptyTree + "\n", "tree " + emptyTree + "\ntree " + a + "\n\nm", "tree  " + emptyTree + "\n",
	} {
		if c, err := ParseCommit([]byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "commit: ") {
			t.Errorf("%q: %+v, %v", bad, c, err)
		}
	}
}

func ids(texts ...string) (ids []plumbing.Hash) {
	for _, text := range texts {
		ids = append(ids, plumbing.NewHash(text))
	}
	return ids
}

func TestParseTag(t *testing.T) {
	got, err := ParseTag([]byte("object " + emptyTree + "\ntype tree\ntag v1 \xff\ntagger T <t@example.com> 1700000000 +0100\n\nobject of nothing\n-----BEGIN PGP SIGNATURE-----\n"))
	want := &Tag{plumbing.NewHash(emptyTree), plumbing.TreeObject, "v1 \xff", Person{"T", "t@example.com", time.Unix(1700000000, 0)}}
	if err != nil || !got.Tagger.When.Equal(want.Tagger.When) {
		t.Fatal(got, err)
	}
	want.Tagger.When = got.Tagger.When
	if *got != *want {
		t.Errorf("got %+v\nwant %+v", *got, *want)
	}
	if got, err = ParseTag([]byte("object " + emptyTree + "\ntype commit\ntag v0.99\n\nwithout a tagger, as git's own")); err != nil || got.Name != "v0.99" {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "object " + emptyTree + "\nobject " + strings.Repeat("1", 40) + "\ntype tree\n\n", "type tree\ntag v1\n\n", "object x\ntype tree\n\n", "object " + emptyTree + "\ntype nothing\n\n"} {
		if tag, err := ParseTag([]byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "tag: ") {
			t.Errorf("%q: %+v, %v", bad, tag, err)
		}
	}
}

// entry returns an entry of a tree.
func entry(mode, name string) []byte {
	return append([]byte(mode+" "+name+"\x00"), bytes.Repeat([]byte{7}, 20)...)
}

func TestEntries(t *testing.T) {
	content := bytes.Join([][]byte{
		entry("100644", "a file"), entry("100755", "run\n"), entry("120000", "\xff"), entry("40000", "dir"), entry("160000", "module"),
		entry("0", ""), entry("777777", strings.Repeat("n", 5000)), entry("040000", "old"),
	}, nil)
	want := []Entry{
		{filemode.Regular, "a file", plumbing.Hash{}}, {filemode.Executable, "run\n", plumbing.Hash{}}, {filemode.Symlink, "\xff", plumbing.Hash{}},
		{filemode.Dir, "dir", plumbing.Hash{}}, {filemode.Submodule, "module", plumbing.Hash{}},
		{0, "", plumbing.Hash{}}, {0o777777, strings.Repeat("n", 5000), plumbing.Hash{}}, {filemode.Dir, "old", plumbing.Hash{}},
	}
	i := 0
	for e, err := range Entries(content) {
		if err != nil {
			t.Fatal(err)
		}
		copy(want[i].ID[:], bytes.Repeat([]byte{7}, 20))
		if e != want[i] {
			t.Errorf("got %+v\nwant %+v", e, want[i])
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d entries, want %d", i, len(want))
	}
	for range Entries(content) {
		break // is heeded
	}
	for range Entries(nil) {
		t.Error("an entry of the empty tree")
	}
	good := entry("100644", "a")
	for _, bad := range []string{
		"x", " ", "\x00", "100644", "100644 a", "100644 a\x00", string(good[:len(good)-1]), " a\x00" + string(good), "1006440 a\x00" + string(good),
		"10064x a\x00" + string(good), "-00644 a\x00" + string(good), "100648 a\x00" + string(good), "100644\x00 a" + string(good), "+10064 a\x00" + string(good),
	} {
		for _, before := range []string{"", string(good)} {
			n, last := 0, error(nil)
			for _, err := range Entries([]byte(before + bad)) {
				n, last = n+1, err
			}
			if last == nil || n != len(before)/len(good)+1 {
				t.Errorf("%q: %d entries, %v", before+bad, n, last)
			}
		}
	}
}

// TestGit reads a commit, a tag and a tree that git has made.
func TestGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	git := func(stdin string, args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=Ä Thor", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=1700000000 +0530",
			"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com", "GIT_COMMITTER_DATE=1700000001 -0100")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	git("", "init", "-q")
	id := strings.TrimSpace(string(git("content", "hash-object", "-w", "--stdin")))
	tree := strings.TrimSpace(string(git(fmt.Sprintf("100755 blob %s\trun me\n120000 blob %[1]s\tlink\n160000 commit %s\tmodule\n", id, emptyBlob[1:]+"0"), "mktree", "--missing")))
	commit := strings.TrimSpace(string(git("", "commit-tree", tree, "-m", "subject", "-m", "body")))
	git("", "tag", "-a", "-m", "message", "v1", commit)

	c, err := ParseCommit(git("", "cat-file", "commit", commit))
	if err != nil || c.Tree.String() != tree || c.Author.Name != "Ä Thor" || c.Committer.Email != "c@example.com" || c.Subject() != "subject" ||
		c.Author.When.Format(time.RFC3339) != "2023-11-15T03:43:20+05:30" {
		t.Errorf("%+v, %v", c, err)
	}
	tag, err := ParseTag(git("", "cat-file", "tag", "v1"))
	if err != nil || tag.Object.String() != commit || tag.Kind != plumbing.CommitObject || tag.Name != "v1" || tag.Tagger.Name != "C" {
		t.Errorf("%+v, %v", tag, err)
	}
	var got strings.Builder
	for e, err := range Entries(git("", "cat-file", "tree", tree)) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%06o %s %s\n", uint32(e.Mode), e.ID, e.Name)
	}
	if want := fmt.Sprintf("120000 %s link\n160000 %s module\n100755 %[1]s run me\n", id, emptyBlob[1:]+"0"); got.String() != want {
		t.Errorf("got\n%swant\n%s", &got, want)
	}
}

// FuzzEntries parses trees, writes the entries again, and compares.
func FuzzEntries(f *testing.F) {
	f.Add([]byte{})
	f.Add(append(entry("100644", "a"), entry("40000", "b")...))
	f.Add(entry("100644", "a")[:15])
	f.Fuzz(func(t *testing.T, content []byte) {
		var again []byte
		failed := false
		for e, err := range Entries(content) {
			if failed {
				t.Fatal("something after an error")
			}
			if failed = err != nil; failed {
				continue
			}
			mode, _, _ := bytes.Cut(content[len(again):], []byte(" ")) // zeros before it are lost
			if want := fmt.Sprintf("%o", uint32(e.Mode)); want != strings.TrimLeft(string(mode), "0") && e.Mode != 0 {
				t.Fatalf("mode %q is read as %s", mode, want)
			}
			again = append(append(append(again, mode...), ' '), e.Name...)
			again = append(append(again, 0), e.ID[:]...)
		}
		if !bytes.HasPrefix(content, again) || !failed && len(again) != len(content) {
			t.Fatalf("%q is read as %q", content, again)
		}
	})
}
