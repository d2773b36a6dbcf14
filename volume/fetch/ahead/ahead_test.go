package ahead

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestPipe pins that all that was read is used, also before an error, in as many parts as it comes.
func TestPipe(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	long := strings.Repeat("0123456789", 300_000)
	for _, parts := range [][]string{{""}, {"a"}, {"a", "", "b"}, {long}, {long, "x", long}} {
		for _, cause := range []error{nil, broken} {
			var got bytes.Buffer
			p := Start(func(content io.Reader) error {
				_, err := got.ReadFrom(content)
				return err
			})
			for _, part := range parts {
				if err := p.Fill(io.MultiReader(iotest.OneByteReader(strings.NewReader(part[:min(3, len(part))])), strings.NewReader(part[min(3, len(part)):]), iotest.ErrReader(broken))); err != broken {
					t.Fatal(err)
				}
			}
			if err := p.End(cause); err != cause || got.String() != strings.Join(parts, "") {
				t.Errorf("%d bytes, %v, want %v", got.Len(), err, cause)
			}
			if err := p.End(nil); err != cause {
				t.Errorf("the second End: %v", err)
			}
		}
	}
}

// TestUserReturns pins that the rest is read for a user without an error, and that an error ends Fill.
func TestUserReturns(t *testing.T) {
	t.Parallel()
	bad, broken := errors.New("bad"), errors.New("broken")
	p := Start(func(io.Reader) error { return nil })
	if err := p.Fill(io.LimitReader(zeros{}, 10<<20)); err != nil {
		t.Error(err)
	}
	if err := p.End(broken); err != broken { // which the user has not read
		t.Error(err)
	}
	p = Start(func(io.Reader) error { return bad })
	if err := p.Fill(zeros{}); err != ErrUnused {
		t.Error(err)
	}
	if err := p.End(nil); err != bad {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
