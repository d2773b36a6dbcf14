package clone_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone"
	"initbox/clone/access"
	"initbox/clone/pktline"
	"initbox/clone/remote"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/servers"
)

// attempts is a log that calls a function after each failed attempt.
type attempts struct {
	slog.Handler
	failed func(message string)
}

func (a attempts) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "attempt" {
			a.failed(r.Message)
		}
		return true
	})
	return a.Handler.Handle(ctx, r)
}

// WithAttrs keeps the handler of a logger with attributes.
func (a attempts) WithAttrs(attrs []slog.Attr) slog.Handler {
	return attempts{a.Handler.WithAttrs(attrs), a.failed}
}

// runOnce makes one attempt, and returns its error.
func runOnce(ctx context.Context, o clone.Options, log slog.Handler) (clone.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.Log = slog.New(attempts{log, func(string) { cancel() }})
	result, err := clone.Run(ctx, o)
	var ended *poll.Error
	if errors.As(err, &ended) && ended.Last != nil {
		err = ended.Last
	}
	return result, err
}

// try is runOnce within a test.
func try(t *testing.T, o clone.Options) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o.Access = access.Access{Umask: 0o022}
	_, err := runOnce(ctx, o, slog.NewTextHandler(t.Output(), nil))
	if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Errorf("%q is not printable", err)
	}
	return err
}

// requireFailure fails unless an error has that class and contains text, and is not permanent.
func requireFailure(t *testing.T, err error, class failure.Class, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) || failure.Of(err).Class != class || poll.IsPermanent(err) {
		t.Errorf("%v; class %s, permanent %t; want %s, %q", err, failure.Of(err).Class, poll.IsPermanent(err), class, text)
	}
	if strings.Contains(err.Error(), "/proc/self/fd") {
		t.Errorf("%v: names a file as no user knows it", err)
	}
}

// TestFullDisk runs out of disk space at every stage of a clone. The old tree stays intact, and nothing else is left
// behind.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, func(t *testing.T, dir, branch string) {
		for i := range 40 {
			if put(t, dir, fmt.Sprintf("one-%d", i), strings.Repeat("a file in both\n", 100)); branch == "two" {
				put(t, dir, fmt.Sprintf("two/%d", i), strings.Repeat(fmt.Sprint(i), 4000))
			}
		}
	})
	for name, c := range map[string]struct {
		in, gitDir string
		leaves     []string
	}{
		"directory": {in: "/app", leaves: []string{"app", "fill"}},
		"elsewhere": {in: "/app", gitDir: "/git", leaves: []string{"app", "fill", "git"}},
		"mount":     {in: "", leaves: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			servers.Tmpfs(t, top, "size=2m")
			o := clone.Options{URL: r.url, Dir: top + c.in, Ref: "one", Depth: 1}
			fill := filepath.Join(top, "fill")
			if c.in == "" {
				fill = filepath.Join(top, "lost+found", "fill") // which stays
			}
			if c.gitDir != "" {
				o.GitDir = top + c.gitDir
			}
			if _, err := run(t, o); err != nil {
				t.Fatal(err)
			}
			os.Mkdir(filepath.Dir(fill), 0o777)
			before := listing(t, o.Dir)
			o.Ref = "two"
			full := 0
			for free := 0; free < 512; free += 12 {
				leave(t, fill, free<<10)
				err := try(t, o)
				if err == nil {
					break
				}
				full++
				requireFailure(t, err, failure.DiskFull, top)
				os.Remove(fill)
				if after := listing(t, o.Dir); len(after) != len(before) {
					t.Fatalf("%d KiB free: %d files, want %d", free, len(after), len(before))
				}
				o.Ref = "one"
				if result, err := run(t, o); err != nil || result.Changed {
					t.Fatalf("%d KiB free: the old tree: changed %t, %v", free, result.Changed, err)
				}
				o.Ref = "two"
				if c.leaves != nil {
					put(t, top, "fill", "")
					requireNames(t, top, c.leaves...)
				}
			}
			os.Remove(fill)
			if result, err := run(t, o); err != nil || result.Changed {
				t.Errorf("at last: changed %t, %v", result.Changed, err)
			}
			if full < 3 {
				t.Errorf("the disk was full %d times", full)
			}
			if is, err := digest(o.Dir); c.in != "" && r.branch(is) != "two" {
				t.Errorf("the tree is that of %q, %v", r.branch(is), err)
			}
			sound(t, o.Dir)
		})
	}
}

// TestNoInodes runs out of inodes at every stage of a clone, also between the stage and its .git.
func TestNoInodes(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, func(t *testing.T, dir, branch string) { put(t, dir, "file", branch) })
	for inodes := 2; ; inodes++ {
		if inodes == 100 {
			t.Fatal("100 inodes are not enough")
		}
		top := t.TempDir()
		servers.Tmpfs(t, top, fmt.Sprintf("size=2m,nr_inodes=%d", inodes))
		err := try(t, clone.Options{URL: r.url, Dir: filepath.Join(top, "app"), Ref: "one", Depth: 1})
		if err == nil {
			break
		}
		requireFailure(t, err, failure.DiskFull, top)
		requireNames(t, top)
	}
}

// leave fills the disk with a file, except for free bytes.
func leave(t *testing.T, name string, free int) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(max(0, info.Size()-int64(free)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoRoomForLink pins that an error names the volume that is full, which may be that of the link.
func TestNoRoomForLink(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, smallHistory)
	top := t.TempDir()
	servers.Tmpfs(t, top, "size=64k")
	leave(t, filepath.Join(top, "fill"), 0)
	err := try(t, clone.Options{URL: r.url, Dir: filepath.Join(t.TempDir(), "root"), Link: filepath.Join(top, "current"), Depth: 1})
	requireFailure(t, err, failure.DiskFull, "no space left for the link "+filepath.Join(top, "current"))
	if hint := failure.Hint(err); !strings.Contains(hint, "make room in the volume of "+top) {
		t.Errorf("hint %q", hint)
	}
}

// TestRoomAgain pins that a clone continues by itself when there is disk space again.
func TestRoomAgain(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, smallHistory)
	top := t.TempDir()
	servers.Tmpfs(t, top, "size=1m")
	fill := filepath.Join(top, "fill")
	leave(t, fill, 16<<10)
	full := ""
	log := attempts{slog.NewTextHandler(t.Output(), nil), func(message string) {
		full = message
		os.Remove(fill)
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := clone.Options{URL: r.url, Dir: filepath.Join(top, "app"), Ref: "one", Depth: 1, Access: access.Access{Umask: 0o022}, Log: slog.New(log)}
	if _, err := clone.Run(ctx, o); err != nil || !strings.Contains(full, "space") {
		t.Errorf("first %q, then %v", full, err)
	}
	if is, err := digest(o.Dir); r.branch(is) != "one" {
		t.Errorf("the tree is that of %q, %v", r.branch(is), err)
	}
	requireNames(t, top, "app")
}

// faulty is a server that manipulates the first answers with a pack.
type faulty struct {
	next  http.Handler
	do    func(w http.ResponseWriter, r *http.Request, answer []byte)
	first int32
	asked atomic.Int32
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		f.next.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	f.next.ServeHTTP(answer, r)
	content := answer.Body.Bytes()
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if !bytes.Contains(content, []byte("packfile\n")) || f.asked.Add(1) > f.first {
		w.Write(content)
		return
	}
	f.do(w, r, content)
}

// withPack changes the pack in an answer.
func withPack(answer []byte, change func(pack []byte) []byte) []byte {
	const title = "packfile\n"
	at := bytes.Index(answer, []byte(title)) + len(title)
	var pack []byte
	r := pktline.NewReader(bytes.NewReader(answer[at:]))
	for {
		kind, line, err := r.Next()
		if err != nil || kind != pktline.Data {
			break
		}
		if line[0] == 1 {
			pack = append(pack, line[1:]...)
		}
	}
	return append(bytes.Clone(answer[:at]), inBands(change(pack))...)
}

// inBands returns the packets of an answer with that pack.
func inBands(pack []byte) []byte {
	var b []byte
	for part := range slices.Chunk(pack, 60000) {
		b = pktline.Append(b, "\x01"+string(part))
	}
	return pktline.AppendFlush(b)
}

// faultsOf starts a server of the repository that manipulates its first answers, and returns the options of a clone of
// branch two into a directory with branch one.
func (r *twoRevisions) faultsOf(t *testing.T, first int, do func(w http.ResponseWriter, req *http.Request, answer []byte)) clone.Options {
	t.Helper()
	target := strings.TrimSuffix(r.url, "/origin")
	forward := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		out, err := http.NewRequest(req.Method, target+req.URL.String(), bytes.NewReader(body))
		if err == nil {
			out.Header = req.Header
			var resp *http.Response
			if resp, err = http.DefaultTransport.RoundTrip(out); err == nil {
				defer resp.Body.Close()
				for name, values := range resp.Header {
					w.Header()[name] = values
				}
				w.Header().Del("Content-Length")
				w.WriteHeader(resp.StatusCode)
				io.Copy(w, resp.Body)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
	s := httptest.NewUnstartedServer(&faulty{next: forward, do: do, first: int32(first)})
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	t.Cleanup(s.Close)
	o := clone.Options{URL: r.url, Dir: filepath.Join(t.TempDir(), "app"), Ref: "one", Depth: 1}
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	o.URL, o.Ref = s.URL+"/origin", "two"
	return o
}

// TestDamaged pins that packs that a server, or something in between, has damaged are refused, and retried. The old
// tree stays.
func TestDamaged(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, smallHistory)
	objects := func(n uint32) func([]byte) []byte {
		return func(pack []byte) []byte {
			binary.BigEndian.PutUint32(pack[8:], n)
			sum := sha1.Sum(pack[:len(pack)-20])
			return append(pack[:len(pack)-20], sum[:]...)
		}
	}
	resealed := func(at int, change byte) func([]byte) []byte {
		return func(pack []byte) []byte {
			pack[at] ^= change
			sum := sha1.Sum(pack[:len(pack)-20])
			return append(pack[:len(pack)-20], sum[:]...)
		}
	}
	for name, test := range map[string]struct {
		change func(pack []byte) []byte
		text   string
	}{
		"a bit":             {func(p []byte) []byte { p[len(p)/2] ^= 4; return p }, "of the pack"},
		"the checksum":      {func(p []byte) []byte { p[len(p)-1]++; return p }, "the checksum of the pack is wrong"},
		"no checksum":       {func(p []byte) []byte { return p[:len(p)-20] }, "lacks 20 of the 20 bytes"},
		"more":              {func(p []byte) []byte { return append(p, "more"...) }, "more bytes follow"},
		"cut":               {func(p []byte) []byte { return p[:len(p)/2] }, "the pack"},
		"nothing":           {func(p []byte) []byte { return nil }, "the pack ends within its header"},
		"no pack":           {func(p []byte) []byte { return []byte("<html><body>502 Bad Gateway</body></html>") }, "other than a pack"},
		"more objects":      {objects(1 << 20), "of the pack"},
		"endless objects":   {objects(0xffffffff), "of the pack"},
		"fewer objects":     {objects(2), "more bytes follow"},
		"a longer object":   {resealed(12, 1), "of the pack"},
		"another kind":      {resealed(12, 0x70), "the pack"},
		"version":           {resealed(7, 4), "unknown version 6"},
		"a damaged deflate": {resealed(16, 0xff), "of the pack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := r.faultsOf(t, 1<<30, func(w http.ResponseWriter, _ *http.Request, answer []byte) {
				w.Write(withPack(answer, test.change))
			})
			err := try(t, o)
			requireFailure(t, err, failure.Unexpected, test.text)
			r.requireOnly(t, o.Dir, "one")
		})
	}
}

// requireOnly fails unless a directory has the tree of that branch, with nothing beside it.
func (r *twoRevisions) requireOnly(t *testing.T, dir, branch string) {
	t.Helper()
	if is, err := digest(dir); err != nil || r.branch(is) != branch {
		t.Errorf("the tree is that of %q, %v; want %s", r.branch(is), err, branch)
	}
	requireNames(t, filepath.Dir(dir), filepath.Base(dir))
}

// noise makes a repository whose packs take several packets.
func noise(t *testing.T, dir, branch string) {
	random := rand.NewChaCha8([32]byte{branch[0]})
	for i := range 20 {
		content := make([]byte, 10000)
		_, _ = random.Read(content)
		put(t, dir, fmt.Sprintf("%s/%d", branch, i), string(content))
	}
}

// TestEnded pins that a clone that is stopped in the middle of a pack leaves nothing behind.
func TestEnded(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, noise)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o := r.faultsOf(t, 1<<30, func(w http.ResponseWriter, r *http.Request, answer []byte) {
		w.Write(answer[:len(answer)-100])
		http.NewResponseController(w).Flush()
		cancel(context.DeadlineExceeded) // as if the time was over
		<-r.Context().Done()
	})
	_, err := clone.Run(ctx, o)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for range 1000 { // there was no time left for cleaning up, which continues
		if all, _ := os.ReadDir(filepath.Dir(o.Dir)); len(all) == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.requireOnly(t, o.Dir, "one")
}

// TestHeals has a server fail once, in ways that another attempt overcomes.
func TestHeals(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, noise)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for name, test := range map[string]struct {
		do   func(w http.ResponseWriter, r *http.Request, answer []byte)
		text string
	}{
		"stops": {func(w http.ResponseWriter, _ *http.Request, answer []byte) {
			w.Write(answer[:len(answer)/2])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "connection closed by the server"},
		"stalls": {func(w http.ResponseWriter, r *http.Request, answer []byte) {
			w.Write(answer[:len(answer)/2])
			http.NewResponseController(w).Flush()
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, "stalled"},
		"ends with a page": {func(w http.ResponseWriter, _ *http.Request, answer []byte) {
			w.Write(answer[:len(answer)/2])
			io.WriteString(w, "<html><body>504 Gateway Time-out</body></html>")
		}, "connection closed by the server"},
		"ends early": {func(w http.ResponseWriter, _ *http.Request, answer []byte) {
			w.Write(answer[:len(answer)/2])
		}, "connection closed by the server"},
		"is overloaded": {func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			http.Error(w, "later", http.StatusServiceUnavailable)
		}, "503"},
		"has an error": {func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Write(pktline.Append(nil, "ERR upload-pack: \x1b[2J out of memory"))
		}, "out of memory"},
		"damages": {func(w http.ResponseWriter, _ *http.Request, answer []byte) {
			w.Write(withPack(answer, func(p []byte) []byte { p[len(p)/2] ^= 4; return p }))
		}, "pack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := r.faultsOf(t, 1, test.do)
			if name == "stalls" {
				o.Remote = remote.Options{Stall: time.Second}
			}
			var found []string
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o.Access = access.Access{Umask: 0o022}
			o.Log = slog.New(attempts{slog.NewTextHandler(t.Output(), nil), func(message string) { found = append(found, message) }})
			result, err := clone.Run(ctx, o)
			if err != nil || result.SHA != r.shas["two"] {
				t.Fatal(err)
			}
			// On a loaded machine an attempt may stall by itself; whatever else fails must fail once.
			others := slices.DeleteFunc(slices.Clone(found), func(text string) bool { return strings.Contains(text, test.text) })
			if len(others) > 0 || len(found) == 0 || len(found) > 1 && name != "stalls" {
				t.Errorf("the attempts before were %q, want one with %q", found, test.text)
			}
			r.requireOnly(t, o.Dir, "two")
		})
	}
}

// TestPageInPlaceOfPack pins the error for a login page in place of a pack.
func TestPageInPlaceOfPack(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, smallHistory)
	o := r.faultsOf(t, 1<<30, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<html>who are you?</html>")
	})
	err := try(t, o)
	if err == nil || !strings.Contains(err.Error(), "web page") || failure.Of(err).Class != failure.NoRepository {
		t.Errorf("%v, class %s", err, failure.Of(err).Class)
	}
	r.requireOnly(t, o.Dir, "one")
}

// TestMoved has a branch move, and its old commit disappear, between the list of references and the fetch.
func TestMoved(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	put(t, origin, "file", "old")
	old := commit(t, origin, "old")
	var newest string
	var moved atomic.Bool
	at := servers.StartGit(t, dir, servers.GitOptions{Wrap: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			if r.Method == http.MethodPost && !moved.Swap(true) {
				put(t, origin, "file", "new")
				newest = commit(t, origin, "new", "--amend")
				git(t, origin, "reflog", "expire", "--expire=now", "--all")
				git(t, origin, "gc", "-q", "--prune=now")
			}
		})
	}}).URL + "/origin"
	got := filepath.Join(t.TempDir(), "got")
	result, err := run(t, clone.Options{URL: at, Dir: got, Ref: "main", Depth: 1})
	if err != nil || result.SHA != newest {
		t.Fatalf("%s, %v; want %s, not %s", result.SHA, err, newest, old)
	}
	sameTree(t, got, origin)
	sound(t, got)
}

// liar is a server that sends arbitrary answers.
type liar struct {
	refs string          // lines of the list
	pack func(p *packer) // writes the pack
}

func (l liar) start(t *testing.T) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			advert := pktline.Append(pktline.Append(nil, "version 2\n"), "ls-refs=unborn\n")
			w.Write(pktline.AppendFlush(pktline.Append(advert, "fetch=shallow filter\n")))
			return
		}
		asked, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		if bytes.Contains(asked, []byte("command=ls-refs")) {
			var b []byte
			for line := range strings.Lines(l.refs) {
				b = pktline.Append(b, line)
			}
			w.Write(pktline.AppendFlush(b))
			return
		}
		io.WriteString(w, "000dpackfile\n")
		p := &packer{w: w, sum: sha1.New()}
		l.pack(p)
		p.Write(p.sum.Sum(nil))
		p.flush()
		io.WriteString(w, "0000")
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL + "/repository"
}

// packer writes a pack, valid or not.
type packer struct {
	w    io.Writer
	sum  hash.Hash
	size int64
	rest []byte
}

func (p *packer) Write(b []byte) (int, error) {
	p.size += int64(len(b))
	p.sum.Write(b)
	p.rest = append(p.rest, b...)
	if len(p.rest) > 32<<10 {
		return len(b), p.flush()
	}
	return len(b), nil
}

func (p *packer) flush() (err error) {
	for part := range slices.Chunk(p.rest, 60000) {
		if err == nil {
			_, err = p.w.Write(pktline.Append(nil, "\x01"+string(part)))
		}
	}
	p.rest = p.rest[:0]
	return err
}

func (p *packer) header(objects int) {
	p.Write(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(objects)))
}

// object writes an object that claims to have size bytes, and returns its offset.
func (p *packer) object(kind plumbing.ObjectType, size int64, content io.Reader) int64 {
	at := p.size
	p.Write(head7(kind, size))
	p.deflate(content)
	return at
}

func (p *packer) whole(kind plumbing.ObjectType, content string) int64 {
	return p.object(kind, int64(len(content)), strings.NewReader(content))
}

// delta writes a delta of the object at byte base.
func (p *packer) delta(base int64, delta []byte) int64 {
	return p.longDelta(base, int64(len(delta)), bytes.NewReader(delta))
}

func (p *packer) longDelta(base, size int64, delta io.Reader) int64 {
	at := p.size
	p.Write(head7(plumbing.OFSDeltaObject, size))
	back := at - base
	b := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		b = append([]byte{byte(back&0x7f | 0x80)}, b...)
	}
	p.Write(b)
	p.deflate(delta)
	return at
}

func (p *packer) deflate(content io.Reader) {
	z, _ := zlib.NewWriterLevel(p, zlib.BestSpeed)
	io.Copy(z, content)
	z.Close()
}

func head7(kind plumbing.ObjectType, size int64) []byte {
	b := []byte{byte(int64(kind)<<4 | size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		b[len(b)-1] |= 0x80
		b = append(b, byte(size&0x7f))
	}
	return b
}

func uvarint(n int64) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// zeros returns a reader of n zero bytes.
func zeros(n int64) io.Reader { return io.LimitReader(endless{}, n) }

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func id(kind plumbing.ObjectType, content string) plumbing.Hash {
	return plumbing.ComputeHash(kind, []byte(content))
}

// commitOf returns a commit of a tree, and a list of references to it.
func commitOf(tree plumbing.Hash) (commit, refs string) {
	commit = fmt.Sprintf("tree %s\nauthor A <a@example.com> 1700000000 +0000\ncommitter C <c@example.com> 1700000000 +0000\n\nsubject\n", tree)
	sha := id(plumbing.CommitObject, commit)
	return commit, fmt.Sprintf("%s HEAD symref-target:refs/heads/main\n%s refs/heads/main\n", sha, sha)
}

// line returns an entry of a tree.
func line(mode, name string, id plumbing.Hash) string {
	return mode + " " + name + "\x00" + string(id[:])
}

// most is how much memory a clone of any repository may take, in bytes.
const most = 350 << 20

// TestBombs has a server send packs that are small on the wire and large when unpacked. They must not take much memory,
// nor damage the old tree, whether they are refused or fill the disk.
func TestBombs(t *testing.T) {
	skipIfShort(t)
	if raced {
		t.Skip("the race detector takes several times the memory that is to be measured")
	}
	t.Parallel()
	const blob, tree, gitCommit = plumbing.BlobObject, plumbing.TreeObject, plumbing.CommitObject
	x := "x"
	top := line("100644", "x", id(blob, x))
	commit, refs := commitOf(id(tree, top))
	large := func(p *packer, more int) {
		p.header(3 + more)
		p.whole(gitCommit, commit)
		p.whole(tree, top)
		p.whole(blob, x)
	}
	// Trees in which the one below is twice.
	nested := []string{top}
	for range 30 {
		below := id(tree, nested[len(nested)-1])
		nested = append(nested, line("40000", "a", below)+line("40000", "b", below))
	}
	nestedCommit, nestedRefs := commitOf(id(tree, nested[len(nested)-1]))
	copies := func(of, times int64) []byte { // a delta that copies 64 KiB again and again
		d := append(uvarint(of), uvarint(times<<16)...)
		return append(d, bytes.Repeat([]byte{0x80}, int(times))...)
	}
	for name, test := range map[string]struct {
		liar
		class failure.Class
		text  string
	}{
		"blob": {liar{refs, func(p *packer) {
			large(p, 1)
			p.object(blob, 4<<30, zeros(4<<30))
		}}, failure.DiskFull, "space"},
		"wanted blob": {liar{refs, func(p *packer) {
			p.header(4)
			p.whole(gitCommit, commit)
			p.whole(tree, top)
			p.object(blob, 4<<30, zeros(4<<30))
		}}, failure.DiskFull, "space"},
		"blob that lies": {liar{refs, func(p *packer) {
			large(p, 1)
			p.object(blob, 10, zeros(4<<30))
		}}, failure.Unexpected, "of the pack"},
		"tree":   {liar{refs, func(p *packer) { large(p, 1); p.object(tree, 4<<30, zeros(4<<30)) }}, failure.Unexpected, "are allowed"},
		"commit": {liar{refs, func(p *packer) { large(p, 1); p.object(gitCommit, 1<<40, zeros(1<<20)) }}, failure.Unexpected, "are allowed"},
		"trees": {liar{refs, func(p *packer) {
			large(p, 10)
			for range 10 {
				p.object(tree, 31<<20, zeros(31<<20))
			}
		}}, "", ""},
		"deltas of trees": {liar{refs, func(p *packer) {
			large(p, 25)
			base := p.object(tree, 64<<10, zeros(64<<10))
			for i := range 24 {
				p.delta(base, copies(64<<10, 480+int64(i%16)))
			}
		}}, "", ""},
		"delta": {liar{refs, func(p *packer) {
			large(p, 2)
			base := p.object(blob, 64<<10, zeros(64<<10))
			p.delta(base, copies(64<<10, 4<<10))
		}}, failure.DiskFull, "space"},
		"delta of a tree": {liar{refs, func(p *packer) {
			large(p, 2)
			base := p.object(tree, 64<<10, zeros(64<<10))
			p.delta(base, copies(64<<10, 4<<10))
		}}, failure.Unexpected, "are allowed"},
		"long delta": {liar{refs, func(p *packer) {
			large(p, 2)
			base := p.object(blob, 64<<10, zeros(64<<10))
			p.longDelta(base, 4<<30, zeros(most+64<<20))
		}}, failure.Unexpected, "of the pack"},
		"nested trees": {liar{nestedRefs, func(p *packer) {
			p.header(len(nested) + 2)
			p.whole(gitCommit, nestedCommit)
			for _, content := range slices.Backward(nested) {
				p.whole(tree, content)
			}
			p.whole(blob, x)
		}}, failure.Unexpected, "the revision has"},
		"nested trees backwards": {liar{nestedRefs, func(p *packer) {
			p.header(len(nested) + 2)
			p.whole(blob, x)
			for _, content := range nested {
				p.whole(tree, content)
			}
			p.whole(gitCommit, nestedCommit)
		}}, failure.Unexpected, "the revision has"},
		"no files":           {liar{refs, func(p *packer) { p.header(1); p.whole(gitCommit, commit) }}, failure.Unexpected, "the server left out 1 object"},
		"no tree":            {liar{refs, func(p *packer) { p.header(2); p.whole(gitCommit, commit); p.whole(blob, x) }}, failure.Unexpected, "the server left out 1 object"},
		"another commit":     {liar{nestedRefs, func(p *packer) { large(p, 0) }}, failure.Unexpected, "the server omitted"},
		"endless references": {liar{strings.Repeat(refs[:40]+" refs/heads/"+strings.Repeat("x", 40)+"\n", 600000), nil}, failure.Unexpected, "references"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			servers.Tmpfs(t, dir, "size=100m")
			put(t, dir, "app/old", "old")
			out := child{URL: test.start(t), Dir: filepath.Join(dir, "app"), Depth: 1, MaxFiles: 20000, Once: true, Replace: true, Ref: "main"}.run(t)
			if out.Class != string(test.class) || !strings.Contains(out.Error, test.text) {
				t.Errorf("%s; class %s, permanent %t; want %s, %q", out.Error, out.Class, out.Permanent, test.class, test.text)
			}
			t.Logf("%s; %s (%s); %d MiB", out.Error, out.Hint, out.Class, out.Peak>>20)
			if out.Peak > most {
				t.Errorf("it took %d MiB", out.Peak>>20)
			}
			requireNames(t, dir, "app")
			if test.class != "" {
				requireNames(t, filepath.Join(dir, "app"), "old")
			}
		})
	}
}

// TestLongChain has a pack in which each of ten thousand blobs is a delta of the one before, and the tree that names
// them comes last.
func TestLongChain(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	const length = 10000
	var names strings.Builder
	contents := make([]string, length)
	for i := range contents {
		contents[i] = fmt.Sprintf("%08d%s", i, strings.Repeat("stays the same ", 100))
		names.WriteString(line("100644", fmt.Sprintf("%06d", i), id(plumbing.BlobObject, contents[i])))
	}
	commit, refs := commitOf(id(plumbing.TreeObject, names.String()))
	size := int64(len(contents[0]))
	at := liar{refs, func(p *packer) {
		p.header(length + 2)
		base := p.whole(plumbing.BlobObject, contents[0])
		for _, content := range contents[1:] {
			d := append(uvarint(size), uvarint(size)...)
			d = append(append(d, 8), content[:8]...)
			rest := size - 8
			base = p.delta(base, append(d, 0x91|0x20, 8, byte(rest), byte(rest>>8)))
		}
		p.whole(plumbing.TreeObject, names.String())
		p.whole(plumbing.CommitObject, commit)
	}}.start(t)
	dir := t.TempDir()
	out := child{URL: at, Dir: filepath.Join(dir, "app"), Depth: 1}.run(t)
	if out.Error != "" {
		t.Fatal(out.Error)
	}
	if out.Peak > most {
		t.Errorf("it took %d MiB", out.Peak>>20)
	}
	for i, want := range contents {
		if got, err := os.ReadFile(filepath.Join(dir, "app", fmt.Sprintf("%06d", i))); string(got) != want {
			t.Fatalf("%d: %.20q, %v", i, got, err)
		}
	}
	sound(t, filepath.Join(dir, "app"))
}

// TestTwice has a server send each object twice, as git allows.
func TestTwice(t *testing.T) {
	t.Parallel()
	const x = "x"
	below := line("100644", "x", id(plumbing.BlobObject, x))
	top := line("40000", "d", id(plumbing.TreeObject, below)) + line("100644", "y", id(plumbing.BlobObject, x))
	commit, refs := commitOf(id(plumbing.TreeObject, top))
	url := liar{refs, func(p *packer) {
		p.header(8)
		for range 2 {
			p.whole(plumbing.CommitObject, commit)
			p.whole(plumbing.TreeObject, top)
			p.whole(plumbing.TreeObject, below)
			p.whole(plumbing.BlobObject, x)
		}
	}}.start(t)
	for subdir, want := range map[string]string{"": "d", "d": "x"} {
		o := clone.Options{URL: url, Dir: filepath.Join(t.TempDir(), "app"), Depth: 1, Subdir: subdir, GitDir: clone.GitRemove, Access: access.Access{Umask: 0o022}}
		if _, err := run(t, o); err != nil {
			t.Errorf("%q: %v", subdir, err)
			continue
		}
		if _, err := os.Stat(filepath.Join(o.Dir, want)); err != nil {
			t.Error(err)
		}
	}
}
