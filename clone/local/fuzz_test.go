package local

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// FuzzDelta checks that a delta makes as many bytes as it says, and no more than are allowed.
func FuzzDelta(f *testing.F) {
	for _, c := range deltas {
		f.Add([]byte(c.base), []byte(c.delta))
	}
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		const most = 1 << 16
		got, err := applyDelta(base, delta, most)
		if err != nil {
			return
		}
		_, n := binary.Uvarint(delta)
		if size, _ := binary.Uvarint(delta[n:]); len(got) > most || uint64(len(got)) != size {
			t.Fatalf("%d bytes, and the delta says %d", len(got), size)
		}
	})
}

// FuzzHeader writes what it has read.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("\x3f"), int64(12))
	f.Add([]byte("\xbf\x7f"), int64(12))
	f.Add([]byte("\xef\x81\x82\x03\x85\x06"), int64(1<<20))
	f.Add(append([]byte("\x7f"), make([]byte, 20)...), int64(99))
	f.Fuzz(func(t *testing.T, b []byte, offset int64) {
		if offset < 12 {
			return
		}
		h, ok := parseHeader(b, offset)
		if !ok {
			return
		}
		if h.Size < 0 || h.data <= offset || h.data > offset+int64(len(b)) || h.Kind == plumbing.OFSDeltaObject && (h.Back < 1 || h.Back > offset-12) {
			t.Fatalf("%+v", h)
		}
		o := output{buf: make([]byte, 0, 100)}
		o.header(h.Kind, h.Size)
		switch h.Kind {
		case plumbing.OFSDeltaObject:
			o.back(h.Back)
		case plumbing.REFDeltaObject:
			o.Write(h.Base[:])
		}
		again, ok := parseHeader(o.buf, offset)
		again.data = h.data // there may be zeros that tell nothing
		if !ok || again != h {
			t.Fatalf("%q is %+v, and %q is %+v", b, h, o.buf, again)
		}
	})
}

// FuzzIndex compares with go-git where that has no complaint.
func FuzzIndex(f *testing.F) {
	dir := f.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"commit", "-q", "--allow-empty", "-m", "x"}, {"repack", "-q"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=a@example.org",
			"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_COMMITTER_DATE=1700000000 +0000")
		if err := cmd.Run(); err != nil {
			f.Skip("no git here")
		}
	}
	names, _ := filepath.Glob(dir + "/.git/objects/pack/*.idx")
	index, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(index)
	f.Add(index[8:])
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &packFile{index: b}
		if len(b) < 256*4 || p.layout() != nil {
			return
		}
		for at := range min(p.count, 1000) {
			p.offset(at)
			p.find(plumbing.Hash(p.id(at)))
		}
		if sum := sha1.Sum(b[:len(b)-idSize]); !bytes.HasSuffix(b, sum[:]) {
			return // initbox leaves that to git fsck
		}
		theirs := idxfile.NewMemoryIndex()
		if err := idxfile.NewDecoder(bytes.NewReader(b)).Decode(theirs); err != nil {
			return
		}
		for at := range p.count {
			id := plumbing.Hash(p.id(at))
			want, err := theirs.FindOffset(id)
			if at, ok := p.find(id); ok && err == nil && p.offset(at) != want {
				t.Fatalf("%s at %d, but go-git has %d", id, p.offset(at), want)
			}
		}
	})
}
