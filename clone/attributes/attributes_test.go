package attributes

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"

	"initbox/test/soak"
)

// value returns a state as git check-attr prints it.
func (v *values) value(attr int) string {
	switch st := v.found[attr]; st.kind {
	case set:
		return "set"
	case unset:
		return "unset"
	case valued:
		return st.value
	}
	return "unspecified"
}

// asGit compares the attributes of paths with git check-attr.
func asGit(t testing.TB, files map[string][]byte, paths []string) {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, nil, "init", "-q")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := git(t, dir, []byte(strings.Join(paths, "\x00")+"\x00"), append([]string{"check-attr", "-z", "--stdin"}, names[:]...)...)
	fields := strings.Split(string(out), "\x00")
	s := load(t, files)
	for i := 0; i+2 < len(fields); i += 3 {
		got := s.find(fields[i]).value(s.index[fields[i+1]])
		if got != fields[i+2] {
			t.Errorf("%q: %s is %q, for git %q; with %q", fields[i], fields[i+1], got, fields[i+2], files)
		}
	}
}

// TestMatching compares the rules of gitattributes(5) with git.
func TestMatching(t *testing.T) {
	files := map[string][]byte{
		".gitattributes": []byte(strings.Join([]string{
			"# comment", "", "  *.txt   text  eol=crlf \r", "*.TXT -text", "/top.c ident", "sub/*.c ident", "**/deep/*.d eol=lf", "a/** filter=lfs",
			"a/**/z.bin -filter", "!neg text", `\!neg text`, `"quo\"ted \303\244.txt" ident`, `"unclosed text`, "dir/ text", "[attr]mine eol=crlf ident !text",
			"*.mine mine", "*.mine2 -mine", "*.bin binary", "b.bin text=auto", "[a-c]?.x text", "[!a-c]?.y text", "[[:upper:]]*.z ident=5", "*.bad te$xt text", "*.eq text==x",
			"*.neg -text=auto", "*.un !eol", "x*y*z eol=lf", "[attr]nested mine filter=n", "*.nest nested", "[attr]broken te$xt", "*.w working-tree-encoding=UTF-16 crlf=input",
			"last text",
		}, "\n")),
		"sub/.gitattributes":   []byte("*.c !ident\n/top.c text\n[attr]inner text\n*.in inner\n*.mine2 mine\ndeep/*.q ident\n*.txt !eol"),
		"sub/x/.gitattributes": []byte("*.c ident=deep\nonly.txt eol=lf"),
	}
	asGit(t, files, []string{
		"a.txt", "a.TXT", "top.c", "sub/top.c", "sub/a.c", "sub/x/a.c", "x/deep/a.d", "deep/a.d", "x/y/deep/a.d", "a/q", "a/b/c/q", "a/b/z.bin", "a/z.bin", "!neg", "neg",
		"quo\"ted ä.txt", "\"unclosed", "dir/file", "x.mine", "x.mine2", "sub/x.mine2", "x.bin", "b.bin", "ab.x", "db.x", "db.y", "Up.z", "q.bad", "q.eq", "q.neg", "q.un", "x1y2z", "x/yz",
		"q.nest", "q.w", "last", "sub/q.in", "sub/deep/a.q", "sub/x/deep/a.q", "sub/x/only.txt", "sub/a.txt", "only.txt", "suba.c",
	})
}

// TestMatchingAtRandom compares random patterns and paths of a few letters with git.
func TestMatchingAtRandom(t *testing.T) {
	r := soak.Rand(t)
	pick := func(from []string, most int) string {
		var b strings.Builder
		for range 1 + r.IntN(most) {
			b.WriteString(from[r.IntN(len(from))])
		}
		return b.String()
	}
	parts := []string{"a", "b", "/", "*", "**", "**/", "/**", "?", "[ab]", "[!a]", "[a-b/]", "\\a", "a", "[[:alpha:]]", "[]-a]", "[b"}
	attrs := []string{" text", " -text", " !text", " eol=crlf", " ident", " binary", " m", " -m", " filter=lfs", " crlf", " n"}
	for range 12 {
		files := map[string][]byte{}
		for _, dir := range []string{"", "a/", "a/b/"} {
			var b strings.Builder
			if dir == "" {
				fmt.Fprintf(&b, "[attr]m%s\n[attr]n%s\n", pick(attrs, 3), pick(attrs, 3))
			}
			for range 25 {
				b.WriteString(strings.TrimLeft(pick(parts, 6), "!") + pick(attrs, 3) + "\n")
			}
			files[dir+FileName] = []byte(b.String())
		}
		var paths []string
		for range 150 {
			if p := filepath.Clean(strings.Trim(pick([]string{"a", "b", "/", "ab", "a/"}, 6), "/")); p != "." {
				paths = append(paths, p)
			}
		}
		asGit(t, files, paths)
	}
}

var contents = map[string][]byte{
	"lf":       []byte("one\ntwo\n"),
	"crlf":     []byte("one\r\ntwo\r\n"),
	"mixed":    []byte("one\r\ntwo\nthree\n\n"),
	"cr":       []byte("one\rtwo\n"),
	"crend":    []byte("one\n\r"),
	"nul":      []byte("one\n\x00\ntwo\n"),
	"binary":   []byte("\x01\x02\x03\n\x04\x05abc\n"),
	"ctrlz":    []byte("text\n\x1a"),
	"esc":      []byte("\x1b[1m bold\n\b\f\n"),
	"printing": []byte(strings.Repeat("x", 300) + "\n\x01\x02\n"),
	"printed":  []byte(strings.Repeat("x", 300) + "\n\x01\x02\x7f\n"),
	"empty":    {},
	"nonl":     []byte("no line"),
	"id": []byte("$Id$ $Id: 0123 $ $Id: a b $ $Id:$ $Id: $ $Id:x$\n$Id: never\nends$ $I$Id$ $Idx$ $$Id$\n" +
		"$Id: $Id$ $Id:  $ $Id:a b$ $Id:\n$ $Id: not ended"),
	"idodd":  []byte("$Idx$Id: a b $ kept $Id\x00$Id$ $Id: a\x00 b $ $Id: a\tb$ $Id:\t$ $Id: a$$Id: b$\n"),
	"idend":  []byte("x $Id"),
	"utf8":   []byte("grüß € 𝄞\n"),
	"latin":  []byte("grüß\n"),
	"bad":    []byte("gr\xfc\xdf\n"),
	"bom":    []byte("\xef\xbb\xbfmarked\n"),
	"cut":    []byte("cut \xe2\x82"),
	"ascii":  []byte("$Id$ plain\n"),
	"surrog": []byte("\xed\xa0\x80\n"),
	"large":  bytes.Repeat([]byte("line with $Id$ and ü\n"), 20000),
}

// TestConversions compares with the files that git writes, for every content and all kinds of attributes.
func TestConversions(t *testing.T) {
	attrs := []string{
		"text", "eol=crlf", "text eol=crlf", "text=auto eol=crlf", "text=auto", "-text eol=crlf", "text eol=lf", "crlf", "crlf eol=crlf", "-crlf eol=crlf", "text=input eol=crlf",
		"binary", "text=odd eol=crlf", "ident", "ident eol=crlf", "ident text=auto eol=crlf", "working-tree-encoding=", "working-tree-encoding=utf-8",
	}
	for _, name := range append(slices.Collect(maps.Keys(encodings)), "ISO-8859-15", "CP1252", "windows-1251") {
		attrs = append(attrs, "working-tree-encoding="+name, "eol=crlf ident working-tree-encoding="+strings.ToLower(name))
	}
	files := map[string][]byte{}
	var rules bytes.Buffer
	for i, a := range attrs {
		fmt.Fprintf(&rules, "*.%d %s\n", i, a)
		for name, content := range contents {
			if name == "large" && i%5 != 0 {
				continue
			}
			files[fmt.Sprintf("%s.%d", name, i)] = content
		}
	}
	files[FileName] = rules.Bytes()
	dir := checkoutMany(t, files)
	s := load(t, files)
	for name, content := range files {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := converted(t, content, s.For(name))
		if !bytes.Equal(got, want) {
			t.Errorf("%s (%+v):\n%.300q, git has\n%.300q", name, s.For(name), got, want)
		}
	}
}

// TestNUL pins that a .gitattributes ends at a NUL, as in git.
func TestNUL(t *testing.T) {
	files := map[string][]byte{FileName: []byte("*.a eol=crlf\n\x00\n*.b eol=crlf\n"), "x.a": contents["lf"], "x.b": contents["lf"], "sub/" + FileName: []byte("\xef\xbb\xbf*.b eol=crlf\n*.a eol=lf"), "sub/x.b": contents["lf"], "sub/x.a": contents["lf"]}
	dir := checkoutMany(t, files)
	s := load(t, files)
	for name, content := range files {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := converted(t, content, s.For(name)); !bytes.Equal(got, want) {
			t.Errorf("%s: %q, git has %q", name, got, want)
		}
	}
}

func converted(t testing.TB, content []byte, a Attributes) ([]byte, string) {
	t.Helper()
	id, err := object.NewHasher().Of(plumbing.BlobObject, content)
	if err != nil {
		t.Fatal(err)
	}
	r, warning, err := Convert(bytes.NewReader(content), a, id)
	if err != nil {
		t.Fatal(err)
	}
	if r == nil {
		return content, warning
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), warning
}

func TestWarnings(t *testing.T) {
	for encoding, want := range map[string]string{"latin1": "cannot represent the content", "UTF-16": ""} {
		got, warning := converted(t, contents["utf8"], Attributes{Encoding: encoding})
		if want == "" && warning != "" || !strings.Contains(warning, want) || want != "" && !bytes.Equal(got, contents["utf8"]) {
			t.Errorf("%s: %q, %q", encoding, got, warning)
		}
	}
}

// TestNothingToDo pins that a tree in which nothing is converted costs nothing.
func TestNothingToDo(t *testing.T) {
	s := load(t, map[string][]byte{FileName: []byte("* text=auto\n*.sh text eol=lf\n*.png binary\n*.go diff=golang\n*.b -ident working-tree-encoding=UTF-8")})
	if s.Converts() || s.LFS() || s.For("a.sh") != (Attributes{}) {
		t.Error("converts")
	}
	none := new(Set)
	if none.For("a").Converts() {
		t.Error("an empty set converts")
	}
	if s = load(t, map[string][]byte{"sub/" + FileName: []byte("*.bin filter=lfs diff=lfs merge=lfs -text")}); !s.LFS() || s.Converts() || !s.For("sub/a.bin").LFS || s.For("a.bin").LFS {
		t.Error("LFS")
	}
	if allocs := testing.AllocsPerRun(100, func() { none.For("a/b/c") }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestBounds pins that neither patterns nor files take longer than they should.
func TestBounds(t *testing.T) {
	files := map[string][]byte{FileName: []byte(strings.Repeat("**/a*", 300) + "b eol=crlf\n" + "[attr]" + strings.Repeat("m", 3000) + " ident\n")}
	if load(t, files).For(strings.Repeat("a/a", 1000)).Converts() {
		t.Error("matches")
	}
	_, err := Load([]string{FileName, "a/" + FileName}, func(string) ([]byte, error) { return make([]byte, maxTotal/2+1), nil })
	if err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Error(err)
	}
	_, err = Load([]string{FileName}, func(string) ([]byte, error) { return nil, os.ErrNotExist })
	if err == nil {
		t.Error("no error")
	}
}
