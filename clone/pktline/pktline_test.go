package pktline

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	gogit "github.com/go-git/go-git/v5/plumbing/format/pktline"
)

func TestReader(t *testing.T) {
	const input = "0006a\n0004000100020000000bhello \n0008PACKrest of it"
	for name, src := range map[string]io.Reader{
		"at once":      strings.NewReader(input),
		"byte by byte": iotest.OneByteReader(strings.NewReader(input)),
	} {
		r := NewReader(src)
		for i, want := range []struct {
			kind    Kind
			payload string
		}{{Data, "a\n"}, {Data, ""}, {Delimiter, ""}, {End, ""}, {Flush, ""}, {Data, "hello \n"[:7]}, {Data, "PACK"}} {
			kind, payload, err := r.Next()
			if err != nil || kind != want.kind || string(payload) != want.payload {
				t.Fatalf("%s: packet %d: %d %q %v, want %d %q", name, i, kind, payload, err, want.kind, want.payload)
			}
		}
		if rest, err := io.ReadAll(r.Rest()); err != nil || string(rest) != "rest of it" {
			t.Errorf("%s: rest %q, %v", name, rest, err)
		}
	}
}

func TestReaderErrors(t *testing.T) {
	for input, want := range map[string]error{
		"":           io.EOF,
		"00":         io.ErrUnexpectedEOF,
		"0008abc":    io.ErrUnexpectedEOF,
		"0008":       io.ErrUnexpectedEOF,
		"0003":       ErrMalformed,
		"fff5":       ErrMalformed, // longer than git's buffer
		"HTTP/1.1":   ErrMalformed,
		"<!DOCTYPE>": ErrMalformed,
	} {
		if _, _, err := NewReader(strings.NewReader(input)).Next(); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", input, err, want)
		}
	}
	broken := errors.New("broken")
	src := io.MultiReader(strings.NewReader("0008ab"), iotest.ErrReader(broken))
	if _, _, err := NewReader(src).Next(); err != broken {
		t.Errorf("%v, want %v", err, broken)
	}
}

// TestLongest reads packets of the greatest lengths, one after another.
func TestLongest(t *testing.T) {
	long := strings.Repeat("x", MaxPayload)
	var b []byte
	for range 5 {
		b = Append(b, long)
	}
	b = append(append(b, "fff4"...), strings.Repeat("y", maxRead)...)
	r := NewReader(bytes.NewReader(AppendFlush(b)))
	for i := range 6 {
		want := long
		if i == 5 {
			want = strings.Repeat("y", maxRead)
		}
		if _, payload, err := r.Next(); err != nil || string(payload) != want {
			t.Fatalf("packet %d: %d bytes, %v", i, len(payload), err)
		}
	}
	if kind, _, err := r.Next(); kind != Flush || err != nil {
		t.Errorf("kind %d, %v", kind, err)
	}
}

func TestAppend(t *testing.T) {
	b := AppendFlush(AppendDelimiter(Append(Append(nil, "want\n"), "")))
	if string(b) != "0009want\n000400010000" {
		t.Errorf("%q", b)
	}
}

// FuzzReader compares with go-git, which refuses delimiters, ends and empty packets, and stops at ERR.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{"0006a\n0000", "0004", "00010002", "fff0", "FFF4x", "0009ERR a0000", "0005\x01", "0032want 0a53e9ddeaddad63ad106860237bbf53411d11a7\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		theirs := gogit.NewScanner(bytes.NewReader(data))
		ours := NewReader(iotest.HalfReader(bytes.NewReader(data)))
		for {
			kind, payload, err := ours.Next()
			switch {
			case err == nil && kind != Flush && len(payload) == 0, bytes.HasPrefix(payload, []byte("ERR ")):
				return
			case theirs.Scan() != (err == nil):
				t.Fatalf("%q: %v, theirs %v", data, err, theirs.Err())
			case err != nil && (err == io.EOF) != (theirs.Err() == nil):
				t.Fatalf("%q: %v, theirs %v", data, err, theirs.Err())
			case err != nil:
				return
			case !bytes.Equal(payload, theirs.Bytes()):
				t.Fatalf("%q: %q, theirs %q", data, payload, theirs.Bytes())
			}
		}
	})
}
