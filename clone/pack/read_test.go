package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// TestAsGit reads packs that git has made in several ways, and finds the objects that git finds.
func TestAsGit(t *testing.T) {
	dir := repository(t, 20)
	want := contents(t, dir)
	ids := git(t, dir, nil, "rev-list", "--objects", "--no-object-names", "--all")
	for name, args := range map[string][]string{
		"offsets":  {"--delta-base-offset", "--window=10"},
		"ids":      {"--window=10"},
		"deep":     {"--delta-base-offset", "--depth=4095", "--window=300"},
		"deep ids": {"--depth=4095", "--window=300"},
		"none":     {"--window=0"},
	} {
		t.Run(name, func(t *testing.T) {
			pack := git(t, dir, ids, append([]string{"pack-objects", "--stdout", "-q", "--no-reuse-delta"}, args...)...)
			file := filepath.Join(t.TempDir(), "a.pack")
			if err := os.WriteFile(file, pack, 0o600); err != nil {
				t.Fatal(err)
			}
			git(t, dir, nil, "index-pack", file)
			index, err := os.ReadFile(strings.TrimSuffix(file, "pack") + "idx")
			if err != nil {
				t.Fatal(err)
			}
			for i, way := range ways {
				if i > 0 && name != "offsets" && name != "ids" {
					break
				}
				t.Run(way.name, func(t *testing.T) {
					m := new(memorySink)
					o := options(t, m)
					var src io.Reader = bytes.NewReader(pack)
					if way.src != nil {
						src = way.src(src)
					}
					if way.set != nil {
						way.set(&o, m)
					}
					p, err := Read(t.Context(), src, o)
					if err != nil {
						t.Fatal(err)
					}
					if !maps.EqualFunc(m.ids, want, bytes.Equal) {
						t.Errorf("%d objects, git has %d, or others", len(m.ids), len(want))
					}
					var got bytes.Buffer
					if err := p.WriteIndex(&got); err != nil || !bytes.Equal(got.Bytes(), index) {
						t.Errorf("the index differs from git's (%v)", err)
					}
					same(t, p, want)
					spooled, err := io.ReadAll(io.NewSectionReader(o.Spool, 0, 1<<30))
					if err != nil || !bytes.Equal(spooled, pack) || p.Size != int64(len(pack)) {
						t.Errorf("the spool has %d bytes, the pack %d (%v)", len(spooled), len(pack), err)
					}
				})
			}
		})
	}
}

// ways to read a pack.
var ways = []struct {
	name string
	src  func(io.Reader) io.Reader
	set  func(*Options, *memorySink)
}{
	{name: "plainly"},
	{name: "byte by byte", src: iotest.OneByteReader},
	{name: "with the end", src: iotest.DataErrReader},
	{name: "one worker", set: func(o *Options, _ *memorySink) { o.Workers = 1 }},
	{name: "files", set: func(o *Options, _ *memorySink) { o.Large = 1000 }},
	{name: "files for all", set: func(o *Options, _ *memorySink) { o.Large = 1 }},
	{name: "bases of the sink", set: func(_ *Options, m *memorySink) { m.base = true }},
	{name: "asked while reading", set: func(_ *Options, m *memorySink) {
		m.each = func(o *Object, c Content) error {
			got, err := o.Content(nil)
			if err == nil && !bytes.Equal(got, c.Bytes) {
				err = fmt.Errorf("other content")
			}
			return err
		}
	}},
	{name: "loaded while reading", set: func(_ *Options, m *memorySink) {
		m.each = func(o *Object, c Content) error {
			kept := c.Keep()
			defer kept.Release()
			for range 2 {
				got, err := o.Load(nil) // the sink is locked
				if err == nil && (!bytes.Equal(got.Bytes, c.Bytes) || !bytes.Equal(kept.Bytes, c.Bytes) || got.Size != c.Size) {
					err = fmt.Errorf("other content")
				}
				if got.Release(); err != nil {
					return err
				}
			}
			return nil
		}
	}},
}

// same checks the objects of a pack after Read.
func same(t *testing.T, p *Pack, want map[plumbing.Hash][]byte) {
	t.Helper()
	n := 0
	var buf []byte
	for o := range p.Objects() {
		n++
		if p.Find(o.ID) != o {
			t.Fatalf("%s is not found", o.ID)
		}
		var copied bytes.Buffer
		if err := o.CopyTo(&copied); err != nil || !bytes.Equal(copied.Bytes(), want[o.ID]) {
			t.Fatalf("%s has other content when copied (%v)", o.ID, err)
		}
		got, err := o.Content(buf)
		if large := o.Kind == plumbing.BlobObject && o.Size > p.o.Large; large != (err != nil) {
			t.Fatalf("%s: %v", o.ID, err)
		} else if buf = got; !large && !bytes.Equal(got, want[o.ID]) {
			t.Fatalf("%s has other content", o.ID)
		}
		loaded, err := o.Load(nil)
		if large := o.Kind == plumbing.BlobObject && o.Size > p.o.Large; large != (err != nil) || !large && !bytes.Equal(loaded.Bytes, want[o.ID]) {
			t.Fatalf("%s has other content when loaded (%v)", o.ID, err)
		}
		loaded.Release()
	}
	if n != p.Len() || n != len(want) {
		t.Errorf("%d objects, %d, want %d", n, p.Len(), len(want))
	}
	if p.Find(plumbing.Hash{1, 2, 3}) != nil {
		t.Error("an object that is not there is found")
	}
}

// chain returns a pack of n deltas, each of the object before it, and the IDs of all objects. order says in which order
// the deltas are in the pack; -1 is the object at the beginning of the chain.
func chain(n int, order []int, byID bool) (pack []byte, ids map[plumbing.Hash]bool) {
	b, ids := new(builder), make(map[plumbing.Hash]bool)
	text := "chain"
	names := make([]plumbing.Hash, n)
	deltas := make([][]byte, n)
	for i := range n {
		names[i] = plumbing.ComputeHash(plumbing.BlobObject, []byte(text))
		ids[names[i]] = true
		more := fmt.Sprintf("%05d", i)
		if i%100 == 99 { // so that the text does not grow too long
			deltas[i] = delta(len(text), 5+len(more), copyOf(0, 5), insert(more))
			text = text[:5] + more
			continue
		}
		deltas[i] = delta(len(text), len(text)+len(more), copyOf(0, len(text)), insert(more))
		text += more
	}
	last := plumbing.ComputeHash(plumbing.BlobObject, []byte(text))
	ids[last] = true
	offset := int64(headerSize)
	for _, i := range order {
		switch {
		case i < 0:
			offset, _ = b.whole(plumbing.BlobObject, "chain")
		case byID:
			b.onID(names[i], deltas[i])
		default:
			offset = b.on(offset, deltas[i])
		}
	}
	return b.pack(), ids
}

// TestChain reads long chains of deltas in several orders.
func TestChain(t *testing.T) {
	const n = 10_000
	forth := make([]int, n+1)
	for i := range forth {
		forth[i] = i - 1
	}
	back := slices.Clone(forth)
	slices.Reverse(back)
	mixed := slices.Clone(forth)
	for i := range mixed { // a fixed shuffle
		j := (i * 7919) % len(mixed)
		mixed[i], mixed[j] = mixed[j], mixed[i]
	}
	for _, tt := range []struct {
		name  string
		order []int
		byID  bool
	}{{"by offset", forth, false}, {"by id", forth, true}, {"by id, backwards", back, true}, {"by id, mixed", mixed, true}} {
		t.Run(tt.name, func(t *testing.T) {
			pack, ids := chain(n, tt.order, tt.byID)
			p, m, err := read(t, pack)
			if err != nil {
				t.Fatal(err)
			}
			if p.Len() != n+1 || len(m.ids) != len(ids) {
				t.Errorf("%d objects, %d different ones, want %d", p.Len(), len(m.ids), len(ids))
			}
			for id := range ids {
				if p.Find(id) == nil {
					t.Errorf("%s is missing", id)
				}
			}
		})
	}
}

// TestBush reads a long chain of deltas in which each object has other deltas, too: so large that not all objects can
// stay in memory until their turn comes.
func TestBush(t *testing.T) {
	const n, size = 100, 200_000
	b := new(builder)
	text := []byte(strings.Repeat("0123456789", size/10))
	_, id := b.whole(plumbing.BlobObject, string(text))
	want := map[plumbing.Hash]bool{id: true}
	for i := range n {
		for side := range 2 { // each with a delta of its own
			twig := append([]byte(fmt.Sprintf("%d.%d", i, side)), text[5:]...)
			name := plumbing.ComputeHash(plumbing.BlobObject, twig)
			b.onID(id, delta(size, len(twig), insert(string(twig[:len(twig)-size+5])), copyOf(5, size-5)))
			b.onID(name, delta(len(twig), 3, copyOf(0, 3)))
			want[name], want[plumbing.ComputeHash(plumbing.BlobObject, twig[:3])] = true, true
		}
		next := append([]byte(fmt.Sprintf("%05d", i)), text[5:]...)
		b.onID(id, delta(size, size, insert(string(next[:5])), copyOf(5, size-5)))
		text, id = next, plumbing.ComputeHash(plumbing.BlobObject, next)
		want[id] = true
	}
	for _, large := range []int64{0, size / 2} {
		m := new(memorySink)
		o := options(t, m)
		o.Large = large
		temp := o.Temp
		o.Temp = func() (*os.File, error) {
			if n := openUnnamed(t); n > 40 {
				t.Errorf("%d temporary files are open at once", n)
			}
			return temp()
		}
		if _, err := Read(t.Context(), bytes.NewReader(b.pack()), o); err != nil {
			t.Fatal(err)
		}
		if len(m.ids) != len(want) {
			t.Errorf("%d objects, want %d", len(m.ids), len(want))
		}
		for id := range want {
			if m.ids[id] == nil {
				t.Fatalf("%s is missing", id)
			}
		}
	}
}

// openUnnamed returns how many files of this process are open that have no name.
func openUnnamed(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if name, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasSuffix(name, " (deleted)") {
			n++
		}
	}
	return n
}

// TestCache keeps content in memory, up to a size, but no open files.
func TestCache(t *testing.T) {
	var k cache
	file, err := unnamed(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for offset, tt := range map[int64]struct {
		content *content
		kept    bool
	}{
		1: {new(buffers).content(10), true},
		2: {new(buffers).content(cacheSize / 4), true},
		3: {new(buffers).content(cacheSize/4 + 1), false},
		4: {newFileContent(file, 10), false},
	} {
		if k.put(offset, tt.content); (k.get(offset) != nil) != tt.kept {
			t.Errorf("content of %d bytes: kept is not %t", tt.content.size, tt.kept)
		}
	}
	for offset := range int64(10) {
		k.put(100+offset, new(buffers).content(cacheSize/8))
	}
	if k.size > cacheSize {
		t.Errorf("%d bytes are kept, more than %d", k.size, cacheSize)
	}
	if k.get(1) == nil || k.get(101) != nil {
		t.Error("what was used again was dropped before what was not")
	}
	if k.close(); k.get(101) != nil || k.get(109) != nil || k.size != 0 {
		t.Error("something was kept after close")
	}
	if k.put(1, new(buffers).content(10)); k.get(1) != nil {
		t.Error("something is kept after close")
	}
}

// Content that is kept stays as it is until it is released, also that of no pack.
func TestKeep(t *testing.T) {
	b := []byte("content")
	kept := Content{Bytes: b, Size: 7}.Keep()
	b[0] = 'x'
	if kept.Release(); string(kept.Bytes) != "content" {
		t.Errorf("kept %q", kept.Bytes)
	}
}

// TestBuffers reuses released buffers of about the same size, and keeps few.
func TestBuffers(t *testing.T) {
	b := new(buffers)
	first := b.content(1000)
	first.release()
	if again := b.content(900); again != first || len(again.bytes) != 900 || again.size != 900 {
		t.Error("a buffer of about that size was not reused")
	}
	first.release()
	if b.content(100) == first || b.content(2000) == first {
		t.Error("a buffer of another size was used")
	}
	for _, size := range []int{64, 1000, 100 << 10, 1 << 20, 8 << 20} {
		var all []*content
		for range 2 * classSize / 64 {
			if all = append(all, b.content(size)); len(all)*size > 2*buffersSize {
				break
			}
		}
		for _, c := range all {
			c.release()
		}
		number, room := class(size)
		if kept := len(b.free[number]); kept > max(2, classSize/room) || kept == 0 && room <= buffersSize || b.size > buffersSize {
			t.Errorf("of %d buffers of %d bytes, %d are kept, in all %d bytes", len(all), size, kept, b.size)
		}
		b.drop()
		if b.content(size).release(); len(b.free[number]) > 0 || b.size != 0 {
			t.Errorf("after drop, %d bytes are kept", b.size)
		}
		b = new(buffers)
	}
}

// TestNone reads an empty pack.
func TestNone(t *testing.T) {
	p, _, err := read(t, new(builder).pack())
	if err != nil || p.Len() != 0 || p.Find(plumbing.ZeroHash) != nil {
		t.Fatal(p, err)
	}
	if err := p.WriteIndex(io.Discard); err != nil {
		t.Error(err)
	}
}

// TestTwice reads packs that contain the same object twice or more often, which git allows.
func TestTwice(t *testing.T) {
	b := new(builder)
	b.whole(plumbing.BlobObject, "twice")
	_, id := b.whole(plumbing.BlobObject, "twice")
	b.onID(id, delta(5, 3, copyOf(0, 3)))
	p, m, err := read(t, b.pack())
	if err != nil || p.Len() != 3 || len(m.ids) != 2 || len(m.placed) != 3 {
		t.Fatal(p, len(m.ids), len(m.placed), err)
	}
	b = new(builder)
	for range 50 { // deltas of each object that yield itself, and back and forth
		_, id = b.whole(plumbing.BlobObject, "twice")
		b.onID(id, delta(5, 5, copyOf(0, 5)))
		b.onID(id, delta(5, 3, copyOf(0, 3)))
		b.onID(plumbing.ComputeHash(plumbing.BlobObject, []byte("twi")), delta(3, 5, copyOf(0, 3), insert("ce")))
	}
	if p, m, err = read(t, b.pack()); err != nil || p.Len() != 200 || len(m.ids) != 2 || len(m.placed) != 200 {
		t.Fatal(p, len(m.ids), len(m.placed), err)
	}
}

// endless is a source that never sends anything, and ends when it is closed.
type endless struct{ closed chan struct{} }

func (e endless) Read([]byte) (int, error) { <-e.closed; return 0, errors.New("closed") }
func (e endless) Close() error             { close(e.closed); return nil }

// TestStops pins that a failure outside of the pack ends Read, which returns it.
func TestStops(t *testing.T) {
	b := new(builder)
	for i := range 1000 {
		b.whole(plumbing.BlobObject, fmt.Sprint(i))
	}
	pack := b.pack()
	broken := errors.New("broken")

	t.Run("source", func(t *testing.T) {
		for _, n := range []int{0, 5, headerSize, 100, len(pack) - 20, len(pack) - 1, len(pack)} {
			src := io.MultiReader(bytes.NewReader(pack[:n]), iotest.ErrReader(broken))
			if _, err := Read(t.Context(), src, options(t, new(memorySink))); !errors.Is(err, broken) {
				t.Errorf("after %d bytes: %v", n, err)
			}
		}
	})
	t.Run("sink", func(t *testing.T) {
		m := &memorySink{each: func(*Object, Content) error { return broken }}
		src := struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(pack[:500]), nil}
		if _, err := Read(t.Context(), src.Reader, options(t, m)); err == nil {
			t.Error("no error")
		}
		if _, err := Read(t.Context(), bytes.NewReader(pack), options(t, m)); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(broken)
		if _, err := Read(ctx, endless{make(chan struct{})}, options(t, new(memorySink))); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
	t.Run("sink, while the server is silent", func(t *testing.T) {
		e := endless{make(chan struct{})}
		src := struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(pack[:len(pack)-20]), e), e}
		m := &memorySink{each: func(*Object, Content) error { return broken }}
		if _, err := Read(t.Context(), src, options(t, m)); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
	t.Run("disk", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
		if err != nil {
			t.Skip(err)
		}
		defer full.Close()
		o := options(t, new(memorySink))
		o.Spool = full
		_, err = Read(t.Context(), bytes.NewReader(pack), o)
		if !errors.Is(err, syscall.ENOSPC) || failure.Of(err).Class != failure.DiskFull || failure.Of(err).Hint == "" {
			t.Error(err)
		}
		o = options(t, new(memorySink))
		o.Large = 1
		o.Temp = func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
		if _, err = Read(t.Context(), bytes.NewReader(pack), o); failure.Of(err).Class != failure.DiskFull {
			t.Error(err)
		}
	})
	t.Run("size", func(t *testing.T) {
		o := options(t, new(memorySink))
		o.MaxSize = int64(len(pack)) - 1
		if _, err := Read(t.Context(), bytes.NewReader(pack), o); !poll.IsPermanent(err) {
			t.Error(err)
		}
		o = options(t, new(memorySink))
		o.MaxSize = int64(len(pack))
		if _, err := Read(t.Context(), bytes.NewReader(pack), o); err != nil {
			t.Error(err)
		}
	})
}

// TestKeeper keeps content in memory as long as there is room, and the content of the top of the stack always.
func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	files := 0
	k := keeper{temp: func() (*os.File, error) { files++; return unnamed(dir) }}
	defer k.close()
	var stack []frame
	push := func(size int) {
		t.Helper()
		stack = append(stack, frame{content: new(buffers).content(size), at: -1})
		if err := k.fit(stack); err != nil {
			t.Fatal(err)
		}
	}
	push(keepSize / 2)
	push(keepSize / 2)
	if files > 0 || stack[0].content == nil {
		t.Error("content was written to a file though there was room in memory")
	}
	push(2 * keepSize)
	if files != 1 || stack[0].content != nil || stack[1].content != nil || stack[2].content == nil {
		t.Errorf("%d files; in memory: %t, %t, %t; want only the last", files, stack[0].content != nil, stack[1].content != nil, stack[2].content != nil)
	}
}
