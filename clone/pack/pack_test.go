package pack

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// memorySink is a Sink that keeps all objects.
type memorySink struct {
	mu     sync.Mutex
	placed [][]byte // by Object.Placed, from 1 on
	ids    map[plumbing.Hash][]byte
	kinds  map[plumbing.Hash]plumbing.ObjectType
	base   bool // Base returns the content of objects
	asked  int
	each   func(*Object, Content) error // may be nil
}

func (m *memorySink) Add(_ int, o *Object, c Content) error {
	content := bytes.Clone(c.Bytes)
	if c.File != nil {
		var err error
		if content, err = io.ReadAll(io.NewSectionReader(c.File, 0, c.Size)); err != nil {
			return err
		}
	}
	if int64(len(content)) != c.Size || c.Size != o.Size {
		return fmt.Errorf("%s has %d bytes, %d, %d", o.ID, len(content), c.Size, o.Size)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids == nil {
		m.ids, m.kinds = make(map[plumbing.Hash][]byte), make(map[plumbing.Hash]plumbing.ObjectType)
	}
	m.ids[o.ID], m.kinds[o.ID] = content, o.Kind
	m.placed = append(m.placed, content)
	o.Placed.Store(uint32(len(m.placed)))
	if m.each != nil {
		return m.each(o, c)
	}
	return nil
}

func (m *memorySink) Base(o *Object, buf []byte) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if !m.base {
		return nil, false
	}
	return append(buf[:0], m.placed[o.Placed.Load()-1]...), true
}

// options returns the options of a Read into that sink.
func options(t testing.TB, s Sink) Options {
	t.Helper()
	dir := t.TempDir()
	spool, err := unnamed(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { spool.Close() })
	return Options{Spool: spool, Sink: s, Temp: func() (*os.File, error) { return unnamed(dir) }}
}

// git runs git in dir.
func git(t testing.TB, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// repository makes a repository in which files change a little from commit to commit, with an annotated tag, and
// returns its directory.
func repository(t testing.TB, commits int) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, nil, "init", "-q", "--bare")
	var in bytes.Buffer
	data := func(s string) { fmt.Fprintf(&in, "data %d\n%s\n", len(s), s) }
	files := make([]string, 7)
	for i := range files {
		for line := range 60 * i {
			files[i] += fmt.Sprintf("file %d, line %d: %x\n", i, line, sha1.Sum([]byte{byte(i), byte(line)}))
		}
	}
	for c := range commits {
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\n", 1700000000+c)
		data(fmt.Sprintf("commit %d", c))
		for i := range files {
			at := (c * 7919 * (i + 1)) % (len(files[i]) + 1)
			files[i] = files[i][:at] + fmt.Sprintf("<%d>", c) + files[i][at:]
			fmt.Fprintf(&in, "M 100644 inline dir%d/file%d\n", i%3, i)
			data(files[i])
		}
		in.WriteByte('\n')
	}
	fmt.Fprintf(&in, "tag v1\nfrom refs/heads/main\ntagger A <a@example.com> 1700000000 +0000\n")
	data("a tag")
	git(t, dir, in.Bytes(), "fast-import", "--quiet")
	return dir
}

// contents returns the content of all objects of a repository, read by git.
func contents(t testing.TB, dir string) map[plumbing.Hash][]byte {
	t.Helper()
	all := make(map[plumbing.Hash][]byte)
	out := git(t, dir, nil, "cat-file", "--batch-all-objects", "--batch")
	for len(out) > 0 {
		line, rest, _ := bytes.Cut(out, []byte("\n"))
		var id, kind string
		var size int
		if _, err := fmt.Sscan(string(line), &id, &kind, &size); err != nil {
			t.Fatal(err)
		}
		all[plumbing.NewHash(id)] = rest[:size]
		out = rest[size+1:]
	}
	return all
}

// builder makes packs by hand.
type builder struct {
	bytes.Buffer
	objects uint32
	z       *zlib.Writer
}

// begin writes the header of an entry, and returns its offset. The first one is preceded by the header of the pack.
func (b *builder) begin(kind plumbing.ObjectType, size int) (offset int64) {
	if b.Len() == 0 {
		b.WriteString("PACK\x00\x00\x00\x02....")
	}
	offset = int64(b.Len())
	b.objects++
	c := byte(kind)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	b.WriteByte(c)
	return offset
}

func (b *builder) deflate(content []byte) {
	if b.z == nil {
		b.z = zlib.NewWriter(b)
	}
	b.z.Reset(b)
	b.z.Write(content)
	b.z.Close()
}

// whole adds an object that is not a delta.
func (b *builder) whole(kind plumbing.ObjectType, content string) (offset int64, id plumbing.Hash) {
	offset = b.begin(kind, len(content))
	b.deflate([]byte(content))
	return offset, plumbing.ComputeHash(kind, []byte(content))
}

// on adds a delta of the object at an offset.
func (b *builder) on(base int64, delta []byte) (offset int64) {
	offset = b.begin(plumbing.OFSDeltaObject, len(delta))
	back := offset - base
	number := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		number = append([]byte{byte(back&0x7f) | 0x80}, number...)
	}
	b.Write(number)
	b.deflate(delta)
	return offset
}

// onID adds a delta of the object with an ID.
func (b *builder) onID(base plumbing.Hash, delta []byte) (offset int64) {
	offset = b.begin(plumbing.REFDeltaObject, len(delta))
	b.Write(base[:])
	b.deflate(delta)
	return offset
}

// pack returns the pack, with its checksum.
func (b *builder) pack() []byte {
	if b.Len() == 0 {
		b.begin(0, 0)
		b.Truncate(headerSize)
		b.objects = 0
	}
	p := bytes.Clone(b.Bytes())
	binary.BigEndian.PutUint32(p[8:], b.objects)
	sum := sha1.Sum(p)
	return append(p, sum[:]...)
}

// delta makes one from instructions.
func delta(base, result int, instructions ...[]byte) []byte {
	d := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(base)), uint64(result))
	return append(d, bytes.Join(instructions, nil)...)
}

// copyOf returns an instruction, as does insert.
func copyOf(off, n int) []byte {
	return []byte{0xff, byte(off), byte(off >> 8), byte(off >> 16), byte(off >> 24), byte(n), byte(n >> 8), byte(n >> 16)}
}

func insert(s string) []byte { return append([]byte{byte(len(s))}, s...) }

// read reads a pack into memory.
func read(t testing.TB, pack []byte) (*Pack, *memorySink, error) {
	t.Helper()
	m := new(memorySink)
	p, err := Read(t.Context(), bytes.NewReader(pack), options(t, m))
	return p, m, err
}
