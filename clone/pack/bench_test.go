package pack

import (
	"bytes"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkRead reads the pack that $PACK names.
func BenchmarkRead(b *testing.B) {
	file := os.Getenv("PACK")
	if file == "" {
		b.Skip("$PACK names no pack")
	}
	pack, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	b.SetBytes(int64(len(pack)))
	for b.Loop() {
		spool, err := unnamed(dir)
		if err != nil {
			b.Fatal(err)
		}
		p, err := Read(b.Context(), bytes.NewReader(pack), Options{
			Spool: spool, Sink: ignore{}, Temp: func() (*os.File, error) { return unnamed(dir) },
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := p.WriteIndex(io.Discard); err != nil {
			b.Fatal(err)
		}
		spool.Close()
	}
}

// ignore is a Sink that keeps nothing.
type ignore struct{}

func (ignore) Add(int, *Object, Content) error     { return nil }
func (ignore) Base(*Object, []byte) ([]byte, bool) { return nil, false }

// unnamed makes a temporary file.
func unnamed(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
}
