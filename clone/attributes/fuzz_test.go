package attributes

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/go-git/go-git/v5/plumbing"
)

// FuzzLoad pins that no .gitattributes breaks the parser.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("[attr]m eol=crlf ident\n*.txt m -text\n\"a\\001\" !eol\n**/a[!b]* binary"), "a/b.txt")
	f.Add([]byte("a/**/b[[:alpha:]-] crlf=input filter=lfs"), "a/x/bc")
	f.Fuzz(func(t *testing.T, content []byte, path string) {
		s, err := Load([]string{FileName, "a/" + FileName}, func(string) ([]byte, error) { return content, nil })
		if err != nil {
			return
		}
		a := s.For(path)
		if a.Converts() && !s.Converts() || a.LFS && !s.LFS() {
			t.Fatalf("%+v, but nothing converts", a)
		}
	})
}

// FuzzConvert pins that the result does not depend on how the content is split into reads.
func FuzzConvert(f *testing.F) {
	f.Add([]byte("$Id$ \r\n$Id: a $\n"), byte(2), true, "")
	f.Add([]byte("gr\xc3\xbc\xe2\x82\xac\n"), byte(1), false, "utf-16")
	f.Add([]byte("gr\xc3\xbc\xe2\x82\xac\n"), byte(1), false, "cp1252")
	f.Fuzz(func(t *testing.T, content []byte, eol byte, ident bool, encoding string) {
		if e := encodingOf(encoding); encoding != "" && (e == nil || e.apart) {
			return // an error
		}
		a := Attributes{EOL: EOL(eol % 3), Ident: ident, Encoding: encoding}
		whole, warning := converted(t, content, a)
		src := slow{io.NewSectionReader(bytes.NewReader(content), 0, int64(len(content)))}
		r, again, err := Convert(src, a, plumbing.ComputeHash(plumbing.BlobObject, content))
		if err != nil || again != warning {
			t.Fatal(err, again, warning)
		}
		if r == nil {
			r = bytes.NewReader(content)
		}
		parts, err := io.ReadAll(iotest.OneByteReader(r))
		if err != nil || !bytes.Equal(parts, whole) {
			t.Fatalf("%+v: %q in parts, %q whole, %v", a, parts, whole, err)
		}
	})
}

// slow returns a byte at a time.
type slow struct{ io.ReadSeeker }

func (s slow) Read(p []byte) (int, error) { return s.ReadSeeker.Read(p[:min(1, len(p))]) }
