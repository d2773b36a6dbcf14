package attributes

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/internal/failure"
)

// singleByte are names of encodings with tables, at least one of each.
const singleByte = "ISO-8859-2 LATIN2 l2 ISO8859-3 ISO_8859-4 iso-8859-5 ISO-8859-6 ISO-8859-7 ISO-8859-8 LATIN5 L6 ISO-8859-10 ISO-8859-13 LATIN7 " +
	"ISO-8859-14 L8 ISO-8859-15 LATIN-9 ISO-8859-16 LATIN10 CP874 windows-1250 WINDOWS-1251 cp1252 CP1253 CP1254 CP1255 CP1256 CP1257 CP1258"

// TestTables compares every character with iconv of the C library, which git uses.
func TestTables(t *testing.T) {
	iconv, err := exec.LookPath("iconv")
	if err != nil {
		t.Skip("iconv is not installed")
	}
	var all bytes.Buffer
	var characters []rune
	for r := rune(1); r < 0x20000; r++ {
		if r != '\n' && utf8.ValidRune(r) {
			characters = append(characters, r)
			all.WriteString(string(r) + "\n")
		}
	}
	for name := range strings.FieldsSeq(singleByte) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(iconv, "-c", "-f", "UTF-8", "-t", name)
			cmd.Stdin = bytes.NewReader(all.Bytes())
			out, _ := cmd.Output() // its status is that of characters that it left out
			lines := bytes.Split(out, []byte("\n"))
			if len(lines) != len(characters)+1 {
				t.Fatalf("%d lines for %d characters", len(lines), len(characters))
			}
			e := encodingOf(name)
			for i, r := range characters {
				var got []byte
				if e.fits(r) {
					got = e.put(nil, r)
				} else if e.apart {
					continue // an error
				}
				if !bytes.Equal(got, lines[i]) && r != 0x5ba { // HOLAM HASER FOR VAV, which newer versions have
					t.Errorf("%U: %x, iconv has %x", r, got, lines[i])
				}
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	for encoding, text := range map[string]string{"SHIFT-JIS": "a", "klingon": "a", "ISO-8859-11": "a", "CP": "a", "CP1258": "\u1ea0", "windows-1255": "\ufb1d"} {
		r, warning, err := Convert(strings.NewReader(text), Attributes{Encoding: encoding}, plumbing.ZeroHash)
		f := failure.Of(err)
		if err == nil || !strings.Contains(f.Text, "working-tree-encoding, "+encoding+", is not supported") || !strings.Contains(f.Hint, "windows-1250 to -1258") {
			t.Errorf("%s: %v, %q, %v", encoding, r, warning, err)
		}
	}
}
