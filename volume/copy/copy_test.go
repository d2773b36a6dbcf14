package copy

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
)

// Example copies defaults into a volume, where the application may already have files of its own.
func Example() {
	top, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(top)
	os.Mkdir(top+"/defaults", 0o755)
	os.WriteFile(top+"/defaults/app.conf", []byte("port=80\n"), 0o644)

	pair, err := ParsePair(top+"/defaults:"+top+"/config#no-overwrite", nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		done, err := Run(context.Background(), Options{Pairs: []Pair{pair}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(done[0].Created, done[0].Kept)
	}
	// Output:
	// 1 0
	// 0 1
}

// run copies pairs and returns what was done to each destination.
func runPairs(texts ...string) ([]Summary, error) { return runWith(Options{}, texts...) }

func runWith(o Options, texts ...string) ([]Summary, error) {
	for _, text := range texts {
		p, err := ParsePair(text, nil)
		if err != nil {
			return nil, err
		}
		o.Pairs = append(o.Pairs, p)
	}
	return Run(context.Background(), o)
}

// copied copies pairs to one destination.
func copied(t *testing.T, texts ...string) Summary {
	t.Helper()
	done, err := runPairs(texts...)
	if err != nil || len(done) != 1 {
		t.Fatalf("%d destinations, %v", len(done), err)
	}
	return done[0]
}

// refused expects an error with that text.
func refused(t *testing.T, want string, texts ...string) error {
	t.Helper()
	_, err := runPairs(texts...)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want %q", err, want)
	}
	return err
}

// files makes files from "path=content", links from "path->target" and directories from "path/".
func files(t testing.TB, dir string, list ...string) {
	t.Helper()
	for _, text := range list {
		var err error
		if name, target, isLink := strings.Cut(text, "->"); isLink {
			os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
			err = os.Symlink(target, filepath.Join(dir, name))
		} else if name, content, isFile := strings.Cut(text, "="); isFile {
			os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
			err = os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)
		} else {
			err = os.MkdirAll(filepath.Join(dir, text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// listing returns what is below a directory, as files makes it, one a line.
func listing(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch d.Type() {
		case fs.ModeDir:
			if name != "." {
				lines = append(lines, name+"/")
			}
		case fs.ModeSymlink:
			to, _ := os.Readlink(path)
			lines = append(lines, name+"->"+to)
		default:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines = append(lines, name+"="+string(content))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, " ")
}

func wantListing(t testing.TB, dir, want string) {
	t.Helper()
	if got := listing(t, dir); got != want {
		t.Errorf("%s holds\n%s\nwant\n%s", dir, got, want)
	}
}

// times returns the inode and the time of the last change of everything below dir.
func times(t testing.TB, dir string) map[string][2]int64 {
	t.Helper()
	all := map[string][2]int64{}
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var s unix.Stat_t
		if err := errors.Join(err, unix.Lstat(path, &s)); err != nil {
			t.Fatal(err)
		}
		all[path] = [2]int64{int64(s.Ino), s.Ctim.Nano()}
		return nil
	})
	return all
}

func stat(t testing.TB, path string) (s unix.Stat_t) {
	t.Helper()
	if err := unix.Lstat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The content of a directory is copied into a directory, with links as links; what is right is not touched again.
func TestDirectory(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/sub/b=B", "src/empty/", "src/sub/up->../a", "src/away->/nowhere", "src/.dot=D", "dst/own=O")
	os.Chmod(top+"/src/a", 0o4755)
	const want = ".dot=D a=A away->/nowhere empty/ own=O sub/ sub/b=B sub/up->../a"
	s := copied(t, top+"/src/.:"+top+"/dst")
	if s.Created != 5 || s.Changed != 0 || s.Same != 0 || s.Bytes != 3 {
		t.Errorf("%+v", s)
	}
	wantListing(t, top+"/dst", want)
	if mode := stat(t, top+"/dst/a").Mode; mode != unix.S_IFREG|0o755 {
		t.Errorf("mode %o: without keep, the setuid bit is not copied", mode)
	}
	before := times(t, top+"/dst")
	if s := copied(t, top+"/src:"+top+"/dst"); s.Changes() != 0 || s.Same != 5 {
		t.Errorf("again: %+v", s)
	}
	for path, was := range before {
		if now := times(t, top+"/dst")[path]; now != was {
			t.Errorf("%s was touched: %v, %v", path, was, now)
		}
	}
	files(t, top, "src/a=changed")
	dry, err := runWith(Options{DryRun: true}, top+"/src:"+top+"/dst")
	if err != nil || dry[0].Changed != 1 || !strings.Contains(dry[0].String(), "1 file would be copied") {
		t.Errorf("%v, %v", dry, err)
	}
	wantListing(t, top+"/dst", want)
	if s := copied(t, top+"/src:"+top+"/dst"); s.Changed != 1 || s.Same != 4 {
		t.Errorf("changed: %+v", s)
	}
	if dry, err := runWith(Options{DryRun: true}, top+"/src:"+top+"/new/er"); err != nil || dry[0].Created != 5 || exists(top+"/new") {
		t.Errorf("%v, %v", dry, err)
	}
}

// A file is copied to a file, or into a directory that exists or whose name ends in a slash.
func TestDestinations(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/link->a", "there/")
	for pair, want := range map[string]string{
		"src/a:1/x": "x=A", "src/a:2/": "a=A", "src/link:3/": "link=A", "src/link:4/#links=keep": "link->a", "src/[ab]:5": "a=A",
		"src/*:6": "a=A link->a", "src:7": "a=A link->a", "src/*:8#links=follow": "a=A link=A", "sr?/a:9": "a=A",
	} {
		from, to, _ := strings.Cut(pair, ":")
		copied(t, top+"/"+from+":"+top+"/"+to)
		wantListing(t, top+"/"+to[:1], want)
	}
	copied(t, top+"/src/a:"+top+"/there")
	wantListing(t, top+"/there", "a=A")
	files(t, top, "src/with#hash=H")
	copied(t, top+"/src/with%23hash:"+top+"/hash/")
	wantListing(t, top+"/hash", "with#hash=H")
}

// What cannot be copied is refused, and changes nothing.
func TestRefused(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/sub/b=B", "dst/a/", "dst/sub=S", "nothing/", "link/sub->/tmp")
	unix.Mkfifo(top+"/pipe", 0o644)
	in := func(pair string) string { return strings.ReplaceAll(pair, "@", top) }
	for pair, want := range map[string]string{
		"@/src:@/src": "the destination is the source, or lies in it", "@/src:@/src/sub/x/y": "lies in it",
		"@/none:@/dst": "no such file", "@/none*:@/dst": "nothing matches", "@/nothing:@/dst": "the source is empty",
		"@/src/a:@/src/a": "same file", "@/src/a:@/dst/a/": "", "@/src/sub:@/src/a": "not a directory",
		"@/src:@/dst": "", "@/pipe:@/x": "a pipe", "@/src:@/link": "it exists and is not a directory",
		"@/src:@/dst#newest=x*": "nothing matches x*",
	} {
		if want != "" {
			refused(t, want, in(pair))
		}
	}
	err := refused(t, "it is a directory", in("@/src/a:@/dst/"))
	wantListing(t, top+"/dst", "a/ sub=S")
	if !strings.Contains(err.Error(), "write "+top+"/dst/a:") {
		t.Error(err)
	}
	refused(t, "it exists and is not a directory", in("@/src/sub:@/t"), in("@/src:@/link"))
	for _, pair := range []string{"@/none:@/dst#optional", "@/nothing:@/dst#optional", "@/none/*:@/dst#optional"} {
		if s := copied(t, in(pair)); s.Changes() != 0 {
			t.Errorf("%s: %+v", pair, s)
		}
	}
	for _, text := range []string{"a", ":b", "a:", "a:b:c", "a:b#mode=9", "a:b#keep=x", "a:b#by=size&newest=x", "a:b#by=mtime", "a:b#exclude=[", "a:b#links=no", "a:b#nosuch"} {
		if _, err := ParsePair(text, nil); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// keep is what cp -a keeps.
func TestKeep(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/sub/b=B", "src/link->a")
	os.Link(top+"/src/a", top+"/src/sub/same")
	long := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	for path, mode := range map[string]fs.FileMode{"a": 0o640 | fs.ModeSetgid, "sub/b": 0o400, "sub": 0o750 | fs.ModeSticky} {
		os.Chmod(top+"/src/"+path, mode)
	}
	if os.Geteuid() == 0 {
		os.Chown(top+"/src/sub/b", 1234, 2345)
		os.Lchown(top+"/src/link", 1234, 2345)
	}
	hasXattrs := unix.Setxattr(top+"/src/a", "user.note", []byte("n"), 0) == nil
	for _, path := range []string{"a", "sub/b", "sub"} {
		os.Chtimes(top+"/src/"+path, long, long)
	}
	dirfd.SetTimes(dirfd.FD(unix.AT_FDCWD), top+"/src/link", unix.NsecToTimespec(long.UnixNano()), unix.NsecToTimespec(long.UnixNano()))
	copied(t, top+"/src:"+top+"/dst#keep")
	for _, path := range []string{"a", "sub/b", "sub", "link", "sub/same"} {
		want, got := stat(t, top+"/src/"+path), stat(t, top+"/dst/"+path)
		if got.Mode != want.Mode || got.Uid != want.Uid || got.Gid != want.Gid || got.Mtim != want.Mtim || got.Nlink != want.Nlink {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	if a, same := stat(t, top+"/dst/a"), stat(t, top+"/dst/sub/same"); a.Ino != same.Ino {
		t.Error("a hard link is two files")
	}
	note := make([]byte, 10)
	if n, err := unix.Getxattr(top+"/dst/a", "user.note", note); hasXattrs && (err != nil || string(note[:n]) != "n") {
		t.Errorf("attribute %q, %v", note[:max(n, 0)], err)
	}
	before := times(t, top+"/dst")
	if s := copied(t, top+"/src:"+top+"/dst#keep"); s.Changes() != 0 || s.Same != 4 {
		t.Errorf("again: %+v", s)
	}
	for path, now := range times(t, top+"/dst") {
		if before[path] != now {
			t.Errorf("%s was touched", path)
		}
	}
	// Only attributes differ: the files stay.
	os.Chmod(top+"/dst/sub/b", 0o600)
	os.Chmod(top+"/dst/sub", 0o700)
	if s := copied(t, top+"/src:"+top+"/dst#keep"); s.Attributes != 2 || s.Created+s.Changed != 0 {
		t.Errorf("attributes: %+v", s)
	}
	if b := stat(t, top+"/dst/sub/b"); b.Mode&0o777 != 0o400 || int64(b.Ino) != before[top+"/dst/sub/b"][0] {
		t.Errorf("%+v", b)
	}
}

// Holes stay holes, and a large file is the same.
func TestSparse(t *testing.T) {
	top := t.TempDir()
	f, err := os.Create(top + "/src")
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt(bytes.Repeat([]byte("x"), 5000), 10<<20)
	f.WriteAt([]byte("end"), 40<<20)
	f.Truncate(50 << 20)
	f.Close()
	copied(t, top+"/src:"+top+"/dst")
	want, _ := os.ReadFile(top + "/src")
	got, err := os.ReadFile(top + "/dst")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if a, b := stat(t, top+"/src").Blocks, stat(t, top+"/dst").Blocks; b > a+64 {
		t.Errorf("%d blocks, want about %d", b, a)
	}
	whole := bytes.Repeat([]byte("0123456789abcdef"), 5<<20)
	os.WriteFile(top+"/whole", whole, 0o600)
	copied(t, top+"/whole:"+top+"/copy")
	if got, err := os.ReadFile(top + "/copy"); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Modes and owners by pattern.
func TestModeAndOwner(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/tls.key=K", "src/tls.crt=C", "src/sub/x.sh=X")
	pair := top + "/src:" + top + "/dst#mode=0444&mode=*.key=0600&mode=sub/*=u+x&dir-mode=0700"
	if os.Geteuid() == 0 {
		pair += "&owner=70:71&owner=*.crt=72"
	}
	copied(t, pair)
	for name, want := range map[string]uint32{"tls.key": 0o600, "tls.crt": 0o444, "sub/x.sh": 0o744, "sub": 0o700} {
		if got := stat(t, top+"/dst/"+name).Mode & 0o7777; got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	if os.Geteuid() == 0 {
		for name, want := range map[string]string{"tls.key": "70 71", "tls.crt": "72 0", "sub/x.sh": "70 71", "sub": "70 71", "": "70 71"} {
			s := stat(t, top+"/dst/"+name)
			if got := fmt.Sprint(s.Uid, s.Gid); got != want {
				t.Errorf("%s belongs to %s, want %s", name, got, want)
			}
		}
	}
	if s := copied(t, pair); s.Changes() != 0 {
		t.Errorf("again: %+v", s)
	}
	os.Chmod(top+"/dst/tls.key", 0o644)
	if s := copied(t, pair); s.Attributes != 1 || stat(t, top+"/dst/tls.key").Mode&0o777 != 0o600 {
		t.Errorf("mode: %+v", s)
	}
}

// Runs that make directories beside each other at the same time do not disturb each other.
func TestAtTheSameTime(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/f=new")
	const runs = 100
	failed := make(chan error, runs)
	for i := range runs {
		go func() {
			_, err := runPairs(fmt.Sprintf("%s/src:%s/dst/%d#dir-mode=0%o", top, top, i, 0o700+i%8))
			failed <- err
		}()
	}
	for range runs {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for i := range runs {
		if mode := stat(t, fmt.Sprintf("%s/dst/%d", top, i)).Mode & 0o777; mode != 0o700+uint32(i)%8 {
			t.Errorf("%d has mode %o", i, mode)
		}
	}
}

// Of several pairs, the later wins, and so it does the next time, without a change.
func TestSeveralPairs(t *testing.T) {
	top := t.TempDir()
	files(t, top, "1/a=1", "1/sub/b=1", "1/only=1", "2/a=2", "2/sub/b=2", "2/sub/c=2", "3/a=3", "3/d=3", "dst/sub/old=O")
	pairs := []string{top + "/1:" + top + "/dst", top + "/2:" + top + "/dst", top + "/3:" + top + "/dst#no-overwrite"}
	if s := copied(t, pairs...); s.Created != 5 || s.Kept != 1 {
		t.Errorf("%+v", s)
	}
	const want = "a=2 d=3 only=1 sub/ sub/b=2 sub/c=2 sub/old=O"
	wantListing(t, top+"/dst", want)
	before := times(t, top+"/dst")
	if s := copied(t, pairs...); s.Changes() != 0 {
		t.Errorf("again: %+v", s)
	}
	wantListing(t, top+"/dst", want)
	for path, now := range times(t, top+"/dst") {
		if base := filepath.Base(path); base != "dst" && base != "sub" && before[path] != now { // areas came and went in those
			t.Errorf("%s was touched", path)
		}
	}
}

// update replaces older files only.
func TestUpdate(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/older=S", "src/newer=S", "src/missing=S", "dst/older=D", "dst/newer=D")
	os.Chtimes(top+"/src/newer", time.Unix(1e9, 0), time.Unix(1e9, 0))
	os.Chtimes(top+"/dst/older", time.Unix(1e9, 0), time.Unix(1e9, 0))
	if s := copied(t, top+"/src:"+top+"/dst#update"); s.Kept != 1 || s.Changed != 1 || s.Created != 1 {
		t.Errorf("%+v", s)
	}
	wantListing(t, top+"/dst", "missing=S newer=D older=S")
	if s := copied(t, top+"/src:"+top+"/dst#update"); s.Changes() != 0 {
		t.Errorf("again: %+v", s)
	}
}

func TestIfEmpty(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/b=B", "dst/lost+found/", "marked/.done=", "full/x=X")
	copied(t, top+"/src:"+top+"/dst#if-empty")
	os.Remove(top + "/dst/b")
	if s := copied(t, top+"/src:"+top+"/dst#if-empty"); s.Changes() != 0 || !strings.Contains(s.String(), "it is not empty") {
		t.Errorf("%s", s)
	}
	copied(t, top+"/src:"+top+"/marked#unless="+top+"/marked/.done")
	wantListing(t, top+"/marked", ".done=")
	// A run that was killed while it put files in place was not finished, although the directory is not empty.
	files(t, top, "dst/"+areaPrefix+"killed/b=half")
	copied(t, top+"/src:"+top+"/dst#if-empty")
	wantListing(t, top+"/dst", "a=A b=B lost+found/")
}

// prune removes what an earlier run copied, and nothing else.
func TestPrune(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/sub/deep/b=B", "src/link->a", "dst/own=O", "dst/kept=K", "src/kept=new")
	pair := top + "/src:" + top + "/dst#prune&no-overwrite"
	copied(t, pair)
	os.RemoveAll(top + "/src")
	files(t, top, "src/c=C")
	dry, err := runWith(Options{DryRun: true}, pair)
	if err != nil || dry[0].Removed != 3 || dry[0].Created != 1 {
		t.Errorf("%v, %v", dry, err)
	}
	if s := copied(t, pair); s.Removed != 3 || s.Created != 1 {
		t.Errorf("%+v", s)
	}
	list, _ := os.ReadFile(top + "/dst/.initbox-files")
	if !bytes.HasSuffix(list, []byte("\n\"c\"\n")) {
		t.Errorf("list %q", list)
	}
	os.Remove(top + "/dst/.initbox-files")
	wantListing(t, top+"/dst", "c=C kept=K own=O")
	// A source that is missing, and may be, is no reason to remove what was copied from it.
	copied(t, pair)
	copied(t, top+"/none:"+top+"/dst#prune&optional", pair)
	wantListing(t, top+"/src", "c=C")
	if !exists(top + "/dst/c") {
		t.Error("c was removed")
	}
}

func TestNewest(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{"d-1.9.jar", "d-1.10.jar", "d-1.10-rc2.jar", "d-1.2.jar", "e-9.jar"} {
		files(t, top, "src/"+name+"="+name)
		os.Chtimes(top+"/src/"+name, time.Unix(1e9, 0), time.Unix(1e9, 0))
	}
	os.Chtimes(top+"/src/d-1.2.jar", time.Unix(2e9, 0), time.Unix(2e9, 0))
	copied(t, top+"/src:"+top+"/a/driver.jar#newest=d-*.jar")
	copied(t, top+"/src:"+top+"/b/#newest=d-*.jar&by=mtime")
	wantListing(t, top+"/a", "driver.jar=d-1.10.jar")
	wantListing(t, top+"/b", "d-1.2.jar=d-1.2.jar")
	order := []string{"a", "a-1.0~rc1", "a-1.0-alpha2", "a-1.0-alpha10", "a-1.0-rc1", "a-1.0", "a-1.0.1", "a-1.1", "a-01.2", "a-2", "a-10"}
	for i := range order[:len(order)-1] {
		if a, b := order[i], order[i+1]; compareVersions(a, b) >= 0 || compareVersions(b, a) <= 0 {
			t.Errorf("%s is not before %s", a, b)
		}
	}
	if compareVersions("a-1.0-rc1.jar", "a-1.0.jar") >= 0 || compareVersions("a-1.0.jar", "a-1.0.1.jar") >= 0 {
		t.Error("with an extension")
	}
}

// unpack decodes what ConfigMaps hold, and its limit holds for all files together.
func TestUnpack(t *testing.T) {
	top := t.TempDir()
	var zipped, zstded bytes.Buffer
	g := gzip.NewWriter(&zipped)
	g.Write([]byte("dashboard"))
	g.Close()
	z, _ := zstd.NewWriter(&zstded)
	z.Write([]byte("zstd"))
	z.Close()
	b64 := base64.StdEncoding.EncodeToString
	files(t, top, "src/a.json.gz="+zipped.String(), "src/b.json.gz="+b64(zipped.Bytes())[:10]+"\n"+b64(zipped.Bytes())[10:]+"\n", "src/c.json.zst="+zstded.String(),
		"src/d.json.gz.base64="+b64(zipped.Bytes()), "src/e.b64="+b64([]byte("plain")), "src/f.json=F", "src/.gz=G")
	pair := top + "/src:" + top + "/dst/#unpack"
	copied(t, pair)
	wantListing(t, top+"/dst", ".gz=G a.json=dashboard b.json=dashboard c.json=zstd d.json=dashboard e=plain f.json=F")
	if s := copied(t, pair); s.Changes() != 0 || s.Same != 7 {
		t.Errorf("again: %+v", s)
	}
	if _, err := runWith(Options{MaxSize: 20}, top+"/src:"+top+"/small#unpack"); !errors.Is(err, errTooLarge) {
		t.Errorf("error %v, want that it is too large", err)
	}
	wantListing(t, top+"/small", "")
	files(t, top, "bad/x.gz=no gzip")
	refused(t, "unpack", top+"/bad:"+top+"/dst/#unpack")
	if done, err := runWith(Options{Atomic: true}, top+"/src:"+top+"/version#unpack"); err != nil || done[0].Created != 7 {
		t.Errorf("%v, %v", done, err)
	}
	files(t, top, "links/a.json.gz->../src/a.json.gz")
	copied(t, top+"/links:"+top+"/followed#unpack&links=follow")
	wantListing(t, top+"/followed", "a.json=dashboard")
	// A file that is compared before it is written counts once: the limit is what all unpack to, 36 bytes.
	for _, o := range []Options{{MaxSize: 36}, {MaxSize: 36, Atomic: true}} {
		to := top + "/counted" + fmt.Sprint(o.Atomic)
		if _, err := runWith(o, top+"/src:"+to+"#unpack"); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(to+"/a.json", []byte("dashboarD"), 0o644); err != nil {
			t.Error(err)
		}
		if done, err := runWith(o, top+"/src:"+to+"#unpack"); err != nil || done[0].Changed != 1 {
			t.Errorf("%v, %v", done, err)
		}
	}
}

// Two files of one name are an error, also where one of them is there already: the next run would write the other.
func TestUnpackedTwin(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/x=one", "src/x.b64=dHdv", "dst/x=one")
	refused(t, "unpack "+top+"/src/x.b64: x is also in the source", top+"/src:"+top+"/dst#unpack")
	wantListing(t, top+"/dst", "x=one")
	copied(t, top+"/src:"+top+"/dst#unpack&exclude=x")
	wantListing(t, top+"/dst", "x=two")
}

// --atomic-dir makes the destination a link to a directory with exactly what was copied.
func TestAtomic(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/sub/b=B", "src/sub/up->../a")
	run := func() Summary {
		t.Helper()
		done, err := runWith(Options{Atomic: true}, top+"/src:"+top+"/vol/current#mode=0640")
		if err != nil {
			t.Fatal(err)
		}
		return done[0]
	}
	if s := run(); s.Created != 3 {
		t.Errorf("%+v", s)
	}
	wantListing(t, top+"/vol/current/", "a=A sub/ sub/b=B sub/up->../a")
	was, _ := os.Readlink(top + "/vol/current")
	if s := run(); s.Changes() != 0 || s.Same != 3 {
		t.Errorf("again: %+v", s)
	}
	if now, _ := os.Readlink(top + "/vol/current"); now != was {
		t.Error("it was replaced")
	}
	os.RemoveAll(top + "/src/sub")
	if s := run(); s.Removed != 2 {
		t.Errorf("%+v", s)
	}
	wantListing(t, top+"/vol/current/", "a=A")
	if _, err := runWith(Options{Atomic: true}, top+"/src/a:"+top+"/vol/x"); err == nil || !strings.Contains(err.Error(), "is a file") {
		t.Error(err)
	}
}

// volume makes a directory as the kubelet mounts a ConfigMap.
func volume(t testing.TB, dir, version string, list ...string) {
	t.Helper()
	files(t, dir+"/..", filepath.Base(dir)+"/")
	files(t, dir+"/..v"+version, list...)
	os.Symlink("..v"+version, dir+"/..tmp")
	if err := os.Rename(dir+"/..tmp", dir+"/..data"); err != nil {
		t.Fatal(err)
	}
	for _, text := range list {
		name, _, _ := strings.Cut(text, "=")
		name, _, _ = strings.Cut(name, "/")
		os.Symlink("..data/"+name, dir+"/"+name)
	}
}

// Of a mounted ConfigMap, the current files are copied, also of one within a directory.
func TestVolume(t *testing.T) {
	top := t.TempDir()
	volume(t, top+"/cm", "1", "a=A", "sub/b=B")
	volume(t, top+"/tree/nested", "1", "n=N")
	files(t, top, "tree/x=X", "tree/..own=O")
	copied(t, top+"/cm:"+top+"/1", top+"/cm/a:"+top+"/1/file")
	wantListing(t, top+"/1", "a=A file=A sub/ sub/b=B")
	copied(t, top+"/cm/sub:"+top+"/sub", top+"/cm/sub/b:"+top+"/sub/c")
	wantListing(t, top+"/sub", "b=B c=B")
	copied(t, top+"/tree:"+top+"/2")
	wantListing(t, top+"/2", "..own=O nested/ nested/n=N x=X")
	copied(t, top+"/cm/*:"+top+"/3")
	wantListing(t, top+"/3", "a=A sub/ sub/b=B")
	copied(t, top+"/tree:"+top+"/4#exclude=nested&exclude=..*")
	wantListing(t, top+"/4", "x=X")
}

// links=follow copies what links lead to, be it elsewhere; links that lead back are an error.
func TestFollowLinks(t *testing.T) {
	top := t.TempDir()
	files(t, top, "share/ca.pem=CA", "certs/ca.pem->../share/ca.pem", "certs/all->../share", "loop/back->.", "broken/x->none")
	copied(t, top+"/certs:"+top+"/dst#links=follow")
	wantListing(t, top+"/dst", "all/ all/ca.pem=CA ca.pem=CA")
	refused(t, "leads back", top+"/loop:"+top+"/dst2#links=follow")
	refused(t, "follow the link "+top+"/broken/x: no such file", top+"/broken:"+top+"/dst3#links=follow")
}

// A program that runs is replaced, and goes on.
func TestRunningProgram(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	top := t.TempDir()
	copied(t, sleep+":"+top+"/program")
	cmd := exec.Command(top+"/program", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	files(t, top, "new=other")
	if s := copied(t, top+"/new:"+top+"/program"); s.Changed != 1 {
		t.Errorf("%+v", s)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error(err)
	}
}

// A source that is written to meanwhile is an error, and leaves nothing.
func TestSourceChanges(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A")
	p, _ := ParsePair(top+"/src:"+top+"/dst", nil)
	r := &run{Options: Options{Pairs: []Pair{p}}, ctx: context.Background(), mounts: map[string]dirfd.FD{}}
	defer r.close()
	sources, _, err := r.sources(&r.Pairs[0])
	if err != nil {
		t.Fatal(err)
	}
	target, _, err := r.target(&r.Pairs[0], sources)
	if err != nil {
		t.Fatal(err)
	}
	w := walker{target: target, pair: &r.Pairs[0], shown: top + "/src", at: "."}
	before := stat(t, top+"/src/a")
	files(t, top, "src/a=longer")
	err = w.one(target.top, sources[0].dir, "a", "a", before)
	if !errors.Is(err, errChanged) {
		t.Errorf("error %v, want that it has changed", err)
	}
	os.Remove(top + "/src/a")
	os.Symlink("/etc/passwd", top+"/src/a")
	if err := w.one(target.top, sources[0].dir, "a", "b", before); !errors.Is(err, errChanged) {
		t.Errorf("error %v for a link that was put there", err)
	}
}

// A run that ends early removes what it has made.
func TestEnded(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "dst/old=O")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("stopped"))
	p, _ := ParsePair(top+"/src:"+top+"/dst", nil)
	if _, err := Run(ctx, Options{Pairs: []Pair{p}}); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("error %v", err)
	}
	wantListing(t, top+"/dst", "old=O")
	if names, _ := os.ReadDir(top + "/dst"); slices.ContainsFunc(names, func(e fs.DirEntry) bool { return reserved(e.Name()) }) {
		t.Error(names)
	}
}
