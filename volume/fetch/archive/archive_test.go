package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"

	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/test/servers"
)

var then = time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)

// file, folder, symlink and hard are entries of a tar.
func file(name, content string) entry {
	return entry{tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: then}, content}
}

func folder(name string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: then}, ""}
}

func symlink(name, to string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}, ""}
}

func hard(name, to string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}, ""}
}

type entry struct {
	tar.Header
	content string
}

// pack returns a tar of the entries.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpackTo unpacks an archive into a new directory in top, and returns what is there: the content of files, links as
// "-> target", directories as "/".
func unpackTo(t testing.TB, top string, content []byte, o Options) (map[string]string, Summary, error) {
	t.Helper()
	dir := filepath.Join(top, "in")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	sum, err := Unpack(t.Context(), bytes.NewReader(content), d, o)
	return read(t, dir), sum, err
}

func read(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		switch {
		case err != nil || name == "":
			return err
		case e.IsDir():
			all[name] = "/"
		case e.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			all[name] = "-> " + to
			return err
		default:
			content, err := os.ReadFile(path)
			all[name] = string(content)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func want(t testing.TB, got, want map[string]string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("there is\n%v, want\n%v", got, want)
	}
}

func compress(t testing.TB, how string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b)
	case "xz":
		w, err = xz.NewWriter(&b)
	case "bzip2":
		bzip2, err := exec.LookPath("bzip2")
		if err != nil {
			t.Skip("bzip2 is not installed")
		}
		c := exec.Command(bzip2, "-c")
		c.Stdin, c.Stdout = bytes.NewReader(content), &b
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	default:
		return content
	}
	if err == nil {
		_, err = w.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var plain = []entry{folder("app/"), file("app/bin/tool", "tool"), file("app/README", "readme"), symlink("app/tool", "bin/tool"), hard("app/again", "app/bin/tool")}

// An archive is recognised by its bytes, whatever compresses it, and a file that is only compressed too.
func TestCompressions(t *testing.T) {
	for _, how := range []string{"", "gzip", "zstd", "xz", "bzip2"} {
		t.Run("in "+how, func(t *testing.T) {
			got, sum, err := unpackTo(t, t.TempDir(), compress(t, how, pack(t, plain...)), Options{})
			if err != nil || sum != (Summary{Files: 4, Bytes: 10}) {
				t.Fatal(sum, err)
			}
			want(t, got, map[string]string{"app": "/", "app/bin": "/", "app/bin/tool": "tool", "app/README": "readme", "app/tool": "-> bin/tool", "app/again": "tool"})
			got, _, err = unpackTo(t, t.TempDir(), compress(t, how, []byte("text")), Options{Name: "file"})
			if how == "" {
				wantError(t, err, "not a tar or zip: it begins with \"text\"")
				return
			}
			want(t, got, map[string]string{"file": "text"})
			_, _, err = unpackTo(t, t.TempDir(), compress(t, how, []byte("text")), Options{})
			wantError(t, err, "one file, compressed by "+how)
			for _, broken := range []int{1, 40} {
				whole := compress(t, how, bytes.Repeat(pack(t, plain...), 4))
				_, _, err = unpackTo(t, t.TempDir(), whole[:len(whole)-broken], Options{})
				wantError(t, err, "ends too early")
			}
			_, _, err = unpackTo(t, t.TempDir(), append(compress(t, how, pack(t, plain...)), "trailing garbage"...), Options{})
			if err == nil {
				t.Error("what follows is no error")
			}
		})
	}
	two := append(compress(t, "gzip", pack(t, plain...)[:700]), compress(t, "gzip", pack(t, plain...)[700:])...)
	if got, _, err := unpackTo(t, t.TempDir(), append(two, make([]byte, 100)...), Options{}); err != nil || len(got) != 6 {
		t.Errorf("two members, and zeros: %v, %v", got, err)
	}
}

func wantError(t testing.TB, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want %q", err, part)
	}
}

// TestSelection has names as tar -t lists them, and as they are below the directory.
func TestSelection(t *testing.T) {
	archive := pack(t, append(plain, file("other", "o"), file("./app/docs/a/b.md", "b"))...)
	for _, test := range []struct {
		o    Options
		want map[string]string
	}{
		{Options{Include: []string{"app/bin/tool"}}, map[string]string{"app": "/", "app/bin": "/", "app/bin/tool": "tool"}},
		{Options{Include: []string{"tool"}, Strip: 2}, map[string]string{"tool": "tool"}},
		{Options{Include: []string{"app/bin/"}, Strip: 1}, map[string]string{"bin": "/", "bin/tool": "tool"}},
		{Options{Exclude: []string{"app/*"}}, map[string]string{"app": "/", "other": "o"}},
		{Options{Strip: 1, Exclude: []string{"tool", "again"}}, map[string]string{"README": "readme", "docs": "/", "docs/a": "/", "docs/a/b.md": "b"}},
		{Options{Include: []string{"app/**/b.md"}, Strip: 2}, map[string]string{"a": "/", "a/b.md": "b"}},
		{Options{Include: []string{"**/bin/**", "other/**"}, Strip: 1}, map[string]string{"bin": "/", "bin/tool": "tool"}},
		{Options{Include: []string{"*.md"}, Strip: 3}, map[string]string{"b.md": "b"}},
		{Options{Include: []string{"README"}, To: "doc/x"}, map[string]string{"doc": "/", "doc/x": "readme"}},
	} {
		got, _, err := unpackTo(t, t.TempDir(), archive, test.o)
		if err != nil {
			t.Errorf("%+v: %v", test.o, err)
		}
		want(t, got, test.want)
	}
	for part, o := range map[string]Options{
		"more than one file": {Include: []string{"app/bin", "README"}, To: "x"}, "nothing in it": {Include: []string{"none"}}, "that include": {Strip: 7},
		"not a file": {Include: []string{"app/tool"}, To: "x"}, "not a file in the archive": {Include: []string{"again"}},
	} {
		_, _, err := unpackTo(t, t.TempDir(), archive, o)
		wantError(t, err, part)
	}
}

// TestHostile has archives that are refused, and nothing outside the directory is touched.
func TestHostile(t *testing.T) {
	long := strings.Repeat("d/", 3000)
	for name, test := range map[string]struct {
		entries []entry
		want    string
	}{
		"parent":             {[]entry{file("../out", "x")}, "leads out"},
		"parent inside":      {[]entry{file("a/../../out", "x")}, "leads out"},
		"absolute":           {[]entry{file("/out", "x")}, "absolute"},
		"link out":           {[]entry{symlink("l", "../out")}, "leads out"},
		"link absolute":      {[]entry{symlink("l", "/etc/passwd")}, "leads out"},
		"chain":              {[]entry{folder("p/q/r"), symlink("p/q/r/up", "../../.."), symlink("x", "p/q/r/up/../out")}, "leads out"},
		"chain, reversed":    {[]entry{symlink("x", "p/q/r/up/../out"), symlink("p/q/r/up", "../../..")}, "leads out"},
		"through a link":     {[]entry{folder("d"), symlink("l", "d"), file("l/x", "x")}, "symbolic link"},
		"link over a folder": {[]entry{file("d/x", "x"), symlink("d", "../out")}, "both as a directory"},
		"hard link out":      {[]entry{hard("h", "../secret")}, "leads out"},
		"hard link absolute": {[]entry{hard("h", "/etc/passwd")}, "absolute"},
		"hard link nowhere":  {[]entry{hard("h", "missing")}, "not a file in the archive"},
		"hard link later":    {[]entry{hard("h", "f"), file("f", "x")}, "not a file in the archive"},
		"hard link to link":  {[]entry{symlink("l", "../secret"), hard("h", "l")}, "leads out"},
		"file as folder":     {[]entry{file("a", "x"), file("a/b", "y")}, "something else has that name"},
		"folder as file":     {[]entry{file("a/b", "y"), file("a", "x")}, "both as a directory"},
		"long name":          {[]entry{file(long+"x", "x")}, "a name of 6001 bytes"},
		"long part":          {[]entry{file(strings.Repeat("n", 300), "x")}, "file name too long"},
		"too large":          {[]entry{file("a", strings.Repeat("x", 700)), file("b", strings.Repeat("x", 400))}, "more than 1000 bytes"},
		"too many":           {[]entry{file("a/b/c/d", ""), file("e", ""), file("f", "")}, "more than 5 files"},
		"unknown":            {[]entry{{tar.Header{Name: "a", Typeflag: 'Z', Format: tar.FormatGNU}, ""}}, "not supported"},
		"contiguous dirs":    {[]entry{symlink("empty", "")}, "whose target has 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			if err := os.WriteFile(top+"/secret", []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := unpackTo(t, top, pack(t, test.entries...), Options{MaxSize: 1000, MaxFiles: 5})
			wantError(t, err, test.want)
			if all, err := os.ReadDir(top); err != nil || len(all) != 2 {
				t.Errorf("outside: %v, %v", all, err)
			}
		})
	}
	_, _, err := unpackTo(t, t.TempDir(), pack(t, symlink("l", "/etc/passwd")), Options{KeepLinks: true})
	if err != nil {
		t.Error(err)
	}
}

// TestUnusual has what is unusual, and not refused.
func TestUnusual(t *testing.T) {
	device := entry{tar.Header{Name: "dev", Typeflag: tar.TypeChar}, ""}
	fifo := entry{tar.Header{Name: "fifo", Typeflag: tar.TypeFifo}, ""}
	global := entry{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "../out"}}, ""}
	for _, test := range []struct {
		entries []entry
		want    map[string]string
	}{
		{[]entry{device, fifo, file("f", "x")}, map[string]string{"f": "x"}},
		{[]entry{global, file("f", "x")}, map[string]string{"f": "x"}},
		{[]entry{file("f", "old"), file("f", "new")}, map[string]string{"f": "new"}},
		{[]entry{file("f", "old"), symlink("f", "g"), file("g", "g")}, map[string]string{"f": "-> g", "g": "g"}},
		{[]entry{symlink("f", "../out"), file("f", "new")}, map[string]string{"f": "new"}},
		{[]entry{file("a", "old"), hard("b", "a"), file("a", "new")}, map[string]string{"a": "new", "b": "old"}},
		{[]entry{file("a", "A"), hard("a", "a")}, map[string]string{"a": "A"}},
		{[]entry{symlink("l", "f"), hard("m", "l")}, map[string]string{"l": "-> f", "m": "-> f"}},
		{[]entry{symlink("a", "b"), symlink("b", "a")}, map[string]string{"a": "-> b", "b": "-> a"}},
		{[]entry{file("line\nbreak", "x"), file("\xff\xfe", "y")}, map[string]string{"line\nbreak": "x", "\xff\xfe": "y"}},
		{[]entry{folder("./")}, map[string]string{}},
		{[]entry{folder("./"), file(".//a/./b", "x")}, map[string]string{"a": "/", "a/b": "x"}},
		{[]entry{file("README", "1"), file("readme", "2")}, map[string]string{"README": "1", "readme": "2"}},
		{nil, map[string]string{}},
	} {
		got, sum, err := unpackTo(t, t.TempDir(), pack(t, test.entries...), Options{})
		if err != nil {
			t.Errorf("%v: %v", test.entries, err)
		}
		if len(test.entries) == 3 && test.entries[0].Name == "dev" && sum.Skipped != 2 {
			t.Errorf("%d skipped", sum.Skipped)
		}
		want(t, got, test.want)
	}
}

// TestModes has the modes and times of the archive, whatever the umask, but no setuid bits.
func TestModes(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	set := file("set", "x")
	set.Mode = 0o6755
	closed := folder("closed")
	closed.Mode = 0o500
	rule := func(text string) perm.Rule[perm.Mode] {
		r, err := perm.ParseRule(text, perm.ParseMode)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	archive := pack(t, closed, file("closed/f", "x"), set, file("implied/f", "x"))
	for _, test := range []struct {
		rules []perm.Rule[perm.Mode]
		want  map[string]fs.FileMode
	}{
		{nil, map[string]fs.FileMode{"set": 0o755, "closed": 0o500, "closed/f": 0o644, "implied": 0o755}},
		{[]perm.Rule[perm.Mode]{rule("u=rwX,go="), rule("set=0711")}, map[string]fs.FileMode{"set": 0o711, "closed": 0o500, "closed/f": 0o600, "implied": 0o755}},
	} {
		top := t.TempDir()
		if _, _, err := unpackTo(t, top, archive, Options{Mode: test.rules}); err != nil {
			t.Fatal(err)
		}
		for name, mode := range test.want {
			s, err := os.Lstat(filepath.Join(top, "in", name))
			if err != nil || s.Mode()&^fs.ModeDir != mode {
				t.Errorf("%s: %v, %v, want %v", name, s.Mode(), err, mode)
			}
			if name != "implied" && !s.ModTime().Equal(then) {
				t.Errorf("%s: %v", name, s.ModTime())
			}
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	top := t.TempDir()
	if _, _, err := unpackTo(t, top, pack(t, plain...), Options{Owner: &perm.Owner{UID: 1000, GID: 2000}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app", "app/bin", "app/bin/tool", "app/tool"} {
		var s unix.Stat_t
		if err := unix.Lstat(filepath.Join(top, "in", name), &s); err != nil || s.Uid != 1000 || s.Gid != 2000 {
			t.Errorf("%s: %d:%d, %v", name, s.Uid, s.Gid, err)
		}
	}
}

// A sparse file needs no room for its holes.
func TestSparse(t *testing.T) {
	program, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("tar is not installed")
	}
	for _, format := range []string{"gnu", "pax"} {
		top := t.TempDir()
		f, err := os.Create(top + "/big")
		if err != nil {
			t.Fatal(err)
		}
		f.WriteAt([]byte("data"), 32<<20)
		f.Truncate(64 << 20)
		f.Close()
		archive, err := exec.Command(program, "-cS", "--format="+format, "-C", top, "big").Output()
		if err != nil || len(archive) > 1<<20 {
			t.Skip(len(archive), err)
		}
		if _, _, err = unpackTo(t, top, archive, Options{}); err != nil {
			t.Fatal(err)
		}
		var s unix.Stat_t
		if err := unix.Stat(top+"/in/big", &s); err != nil || s.Size != 64<<20 || s.Blocks > 4096 {
			t.Errorf("%s: %d bytes in %d blocks, %v", format, s.Size, s.Blocks, err)
		}
		if err := exec.Command("cmp", top+"/big", top+"/in/big").Run(); err != nil {
			t.Error(format, err)
		}
		_, _, err = unpackTo(t, t.TempDir(), archive, Options{MaxSize: 1 << 20})
		wantError(t, err, "more than 1048576 bytes")
	}
}

// On a volume that does not distinguish upper and lower case, what would be lost is an error.
func TestCaseTwins(t *testing.T) {
	top := t.TempDir()
	if err := os.WriteFile(top+"/README", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if d, err := os.Open(top); err != nil || !twin(d, "readme") || twin(d, "README") {
		t.Errorf("a name that is found although it is written in another case is not noticed: %v", err)
	}
	// Since Linux 6.13, and if it has tables of Unicode. Nothing that a machine could install helps.
	if err := unix.Mount("tmpfs", top, "tmpfs", 0, "casefold"); err != nil {
		t.Skip("no file system without case: ", err)
	}
	t.Cleanup(func() { unix.Unmount(top, unix.MNT_DETACH) })
	if err := exec.Command("chattr", "+F", top).Run(); err != nil {
		t.Skip("no file system without case: ", err)
	}
	for _, entries := range [][]entry{
		{file("README", "1"), file("readme", "2")}, {file("Dir/a", "1"), file("dir/b", "2")}, {symlink("L", "a"), symlink("l", "b")},
		{file("a", ""), file("B", ""), hard("b", "a")}, {symlink("L", "."), file("l/x", "x")},
	} {
		_, _, err := unpackTo(t, top, pack(t, entries...), Options{})
		wantError(t, err, "upper and lower case")
		os.RemoveAll(top + "/in")
	}
}

// Two sources do not overwrite each other.
func TestTwoTrees(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for i, test := range []struct {
		entries []entry
		want    string
	}{
		{[]entry{file("d/a", "1"), symlink("l", "d")}, ""}, {[]entry{file("d/b", "2")}, ""},
		{[]entry{file("d/a", "3")}, "something else has that name"}, {[]entry{file("l/c", "4")}, "something else has that name"},
		{[]entry{symlink("d/b", "x")}, "something else has that name"},
	} {
		_, err := Unpack(t.Context(), bytes.NewReader(pack(t, test.entries...)), dir, Options{})
		if test.want == "" && err != nil || test.want != "" && err == nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	want(t, read(t, dir.Name()), map[string]string{"d": "/", "d/a": "1", "d/b": "2", "l": "-> d"})
}

// Another program that swaps directories for links meanwhile leads nothing out.
func TestSwapped(t *testing.T) {
	top := t.TempDir()
	dir, outside := top+"/in", top+"/outside"
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(outside, 0o755), os.Mkdir(outside+"/d", 0o755)); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var entries []entry
	for i := range 300 {
		entries = append(entries, file(fmt.Sprintf("d%d/d/x", i%3), "x"), file(fmt.Sprintf("f%d", i), "x"))
	}
	archive := pack(t, entries...)
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprintf("%s/d%d", dir, i%3)
			os.Rename(name, top+"/away")
			os.Symlink(outside, name)
			os.Remove(name)
			os.Rename(top+"/away", name)
			os.RemoveAll(top + "/away")
			time.Sleep(2 * time.Millisecond) // some runs get through
		}
	}()
	failed := 0
	for range 50 {
		if _, err := Unpack(t.Context(), bytes.NewReader(archive), d, Options{}); err != nil {
			failed++
		}
		all, _ := os.ReadDir(dir)
		for _, e := range all {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	close(stop)
	<-swapped
	want(t, read(t, outside), map[string]string{"d": "/"})
	t.Logf("%d of 50 failed", failed)
}

// zipOf returns a zip, whose files change may change before they are written.
func zipOf(t testing.TB, change func(*zip.FileHeader), names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: then}
		h.SetMode(0o755)
		change(h)
		f, err := w.CreateHeader(h)
		if err == nil && !strings.HasSuffix(name, "/") {
			_, err = io.WriteString(f, "content of "+name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unchanged(*zip.FileHeader) {}

func TestZip(t *testing.T) {
	top := t.TempDir()
	got, sum, err := unpackTo(t, top, zipOf(t, unchanged, "a/", "a/b", "c"), Options{})
	if err != nil || sum.Files != 2 {
		t.Fatal(sum, err)
	}
	want(t, got, map[string]string{"a": "/", "a/b": "content of a/b", "c": "content of c"})
	if s, err := os.Stat(top + "/in/c"); err != nil || s.Mode() != 0o755 || !s.ModTime().Equal(then) {
		t.Errorf("%v, %v, %v", s.Mode(), s.ModTime(), err)
	}
	got, _, err = unpackTo(t, t.TempDir(), zipOf(t, func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, "l"), Options{})
	if err != nil || got["l"] != "-> content of l" {
		t.Errorf("%v, %v", got, err)
	}
	windows := func(h *zip.FileHeader) { h.CreatorVersion, h.ExternalAttrs = 20, 0 }
	if got, _, err = unpackTo(t, t.TempDir(), zipOf(t, windows, `a\b`), Options{}); err != nil || got["a/b"] == "" {
		t.Errorf("%v, %v", got, err)
	}
	if got, _, err = unpackTo(t, t.TempDir(), compress(t, "gzip", zipOf(t, unchanged, "c")), Options{}); err != nil || got["c"] == "" {
		t.Errorf("inside gzip: %v, %v", got, err)
	}
}

func TestHostileZip(t *testing.T) {
	locate := func(z []byte, signature string) int {
		at := bytes.Index(z, []byte(signature))
		if at < 0 {
			t.Fatal("no ", signature)
		}
		return at
	}
	directory := func(offset int, value uint32) func([]byte) []byte {
		return func(z []byte) []byte {
			binary.LittleEndian.PutUint32(z[locate(z, "PK\x01\x02")+offset:], value)
			return z
		}
	}
	for name, test := range map[string]struct {
		names  []string
		change func(*zip.FileHeader)
		after  func([]byte) []byte
		want   string
	}{
		"parent":           {[]string{"../out"}, unchanged, nil, "leads out"},
		"absolute":         {[]string{"/out"}, unchanged, nil, "absolute"},
		"backslashes":      {[]string{`..\out`}, func(h *zip.FileHeader) { h.CreatorVersion, h.ExternalAttrs = 20, 0 }, nil, "leads out"},
		"encrypted":        {[]string{"a"}, func(h *zip.FileHeader) { h.Flags |= 1 }, nil, "encrypted"},
		"smaller":          {[]string{"a"}, unchanged, directory(24, 3), "not have the content"},
		"larger":           {[]string{"a"}, unchanged, directory(24, 300), "not have the content"},
		"another checksum": {[]string{"a"}, unchanged, directory(16, 1), "not have the content"},
		"another method":   {[]string{"a"}, unchanged, func(z []byte) []byte { z[locate(z, "PK\x01\x02")+10] = 99; return z }, "method"},
		"overlap":          {[]string{"a", "b"}, unchanged, directory(42, 0x21), "a whole one"},
		"same bytes twice": {[]string{"a", "a"}, unchanged, func(z []byte) []byte {
			last := bytes.LastIndex(z, []byte("PK\x01\x02"))
			copy(z[last+42:], []byte{0, 0, 0, 0})
			return z
		}, "overlap"},
		"no directory":   {[]string{"a"}, unchanged, func(z []byte) []byte { return z[:locate(z, "PK\x01\x02")] }, "a whole one"},
		"truncated":      {[]string{"a"}, unchanged, func(z []byte) []byte { return z[:len(z)-3] }, "a whole one"},
		"too large":      {[]string{strings.Repeat("n", 300), "b"}, unchanged, nil, "more than 300 bytes"},
		"link out":       {[]string{"../x"}, func(h *zip.FileHeader) { h.Name = "l"; h.SetMode(fs.ModeSymlink) }, nil, ""},
		"large end":      {[]string{"a"}, unchanged, func(z []byte) []byte { return append(z, make([]byte, 100<<10)...) }, "300 bytes"},
		"not what it is": {[]string{"a"}, unchanged, func(z []byte) []byte { return append([]byte("PK\x03\x04"), bytes.Repeat([]byte("x"), 100)...) }, "a whole one"},
	} {
		t.Run(name, func(t *testing.T) {
			z := zipOf(t, test.change, test.names...)
			if test.after != nil {
				z = test.after(z)
			}
			top := t.TempDir()
			_, _, err := unpackTo(t, top, z, Options{MaxSize: 300, MaxFiles: 5})
			if test.want != "" {
				wantError(t, err, test.want)
			}
			if all, err := os.ReadDir(top); err != nil || len(all) != 1 {
				t.Errorf("outside: %v, %v", all, err)
			}
		})
	}
}

// What is no archive says what it seems to be.
func TestNotAnArchive(t *testing.T) {
	for content, part := range map[string]string{
		"\n<!DOCTYPE html><title>login": "HTML", `{"error": 1}`: "JSON", "": "empty", "\x7fELF\x02": "a program", "7z\xbc\xaf\x27\x1c": "7z",
		"abc\x00\x1b[31m": `begins with "abc\x00\x1b[31m"`, strings.Repeat("x", 1000): "begins with",
	} {
		_, _, err := unpackTo(t, t.TempDir(), []byte(content), Options{})
		wantError(t, err, part)
	}
}

// Errors of the source are returned as they are, and the end of the context ends the rest.
func TestEnds(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	broken := errors.New("broken")
	for _, how := range []string{"", "gzip", "zstd", "xz"} {
		content := compress(t, how, pack(t, file("a", strings.Repeat("x", 100))))
		r := io.MultiReader(bytes.NewReader(content[:len(content)/2]), iotest.ErrReader(broken))
		if _, err := Unpack(t.Context(), r, dir, Options{}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", how, err)
		}
		os.Remove(dir.Name() + "/a")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(broken)
		if _, err := Unpack(ctx, bytes.NewReader(content), dir, Options{}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// Links that lead through many directories are not followed for minutes, and no entry of a zip outlasts the context.
func TestBounded(t *testing.T) {
	var links bytes.Buffer
	w := tar.NewWriter(&links)
	for i := range 1000 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Linkname: strings.Repeat("a/", 2000) + "b", Typeflag: tar.TypeSymlink}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := unpackTo(t, t.TempDir(), links.Bytes(), Options{})
	wantError(t, err, "too many directories")

	var large bytes.Buffer
	z := zip.NewWriter(&large)
	f, err := z.Create("large")
	if err == nil {
		_, err = f.Write(make([]byte, 20<<20))
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, err = Unpack(&ending{context.Background(), 10}, &large, dir, Options{})
	if s, failed := os.Stat(dir.Name() + "/large"); !errors.Is(err, context.Canceled) || failed != nil || s.Size() > 2<<20 {
		t.Errorf("%v; %v, %v", err, s, failed)
	}
}

// ending is a context that ends when it was asked so often.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// A name that comes with a compressed file, as in an artifact, does not lead out.
func TestHostileName(t *testing.T) {
	for _, name := range []string{"../x", "/x", "a/../../x"} {
		top := t.TempDir()
		_, _, err := unpackTo(t, top, compress(t, "gzip", []byte("x")), Options{Name: name})
		if err == nil || !strings.Contains(err.Error(), name+" is an absolute path") && !strings.Contains(err.Error(), name+" leads out") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A full disk names the file.
func TestFullDisk(t *testing.T) {
	top := t.TempDir()
	servers.Tmpfs(t, top, "size=64k")
	_, _, err := unpackTo(t, top, compress(t, "gzip", pack(t, file("a", strings.Repeat("x", 200<<10)))), Options{})
	wantError(t, err, "write a: no space left")
	if !failure.NoSpace(err) { // which fetch has a hint for
		t.Errorf("%v is not recognised", err)
	}
}

// Memory is bounded, whatever an archive says.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("an archive of 75 MB")
	}
	var names bytes.Buffer
	w := tar.NewWriter(&names)
	long := strings.Repeat(strings.Repeat("n", 200)+"/", 15)
	for i := range 25000 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Linkname: long, Typeflag: tar.TypeSymlink}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := unpackTo(t, t.TempDir(), names.Bytes(), Options{})
	wantError(t, err, "of memory")
	header := compress(t, "xz", []byte("x"))
	header[16] = 40 // a dictionary of 4 GiB
	binary.LittleEndian.PutUint32(header[20:], crc32.ChecksumIEEE(header[12:20]))
	for _, before := range [][]byte{nil, compress(t, "xz", []byte("x"))} {
		var old, now runtime.MemStats
		runtime.ReadMemStats(&old)
		_, _, err = unpackTo(t, t.TempDir(), append(before, header...), Options{Name: "x"})
		wantError(t, err, "xz needs a window of more than 128 MiB")
		if runtime.ReadMemStats(&now); now.TotalAlloc-old.TotalAlloc > 64<<20 {
			t.Errorf("it took %d bytes", now.TotalAlloc-old.TotalAlloc)
		}
	}
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithWindowSize(256<<20), zstd.WithEncoderConcurrency(1))
	if err == nil {
		_, err = z.Write([]byte("x"))
		z.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = unpackTo(t, t.TempDir(), b.Bytes(), Options{Name: "x"})
	wantError(t, err, "zstd needs a window of more than 128 MiB")
}

// FuzzTar and FuzzZip unpack anything: nothing is written outside, and no link leads out.
func FuzzTar(f *testing.F) {
	for _, entries := range [][]entry{plain, {symlink("a", "b"), symlink("b/c", ".."), file("a/c/x", "x")}, {hard("a", "../b")}, {file("a", "A"), hard("b", "a"), symlink("a", "/")}} {
		f.Add(pack(f, entries...))
		f.Add(compress(f, "gzip", pack(f, entries...)))
	}
	f.Add(compress(f, "xz", pack(f, plain...)))
	f.Add(compress(f, "zstd", pack(f, plain...)))
	f.Fuzz(fuzzed)
}

func FuzzZip(f *testing.F) {
	f.Add(zipOf(f, unchanged, "a/", "a/b", "c"))
	f.Add(zipOf(f, func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, "l", "../x"))
	f.Fuzz(fuzzed)
}

func fuzzed(t *testing.T, content []byte) {
	top := t.TempDir()
	if err := os.WriteFile(top+"/outside", []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := unpackTo(t, top, content, Options{MaxSize: 1 << 20, MaxFiles: 100, Name: "file"})
	all, failed := os.ReadDir(top)
	if secret, _ := os.ReadFile(top + "/outside"); failed != nil || len(all) != 2 || string(secret) != "outside" {
		t.Fatalf("outside: %v %q", all, secret)
	}
	root, failed := filepath.EvalSymlinks(top + "/in")
	if failed != nil {
		t.Fatal(failed)
	}
	filepath.WalkDir(root, func(path string, e fs.DirEntry, failed error) error {
		if failed == nil && e.Type()&fs.ModeType&^fs.ModeDir&^fs.ModeSymlink != 0 {
			t.Errorf("%s is %v", path, e.Type())
		}
		if failed == nil && e.Type() == fs.ModeSymlink {
			if to, failed := filepath.EvalSymlinks(path); failed == nil && to != root && !strings.HasPrefix(to, root+"/") {
				t.Errorf("%s leads to %s (%v)", path, to, err)
			}
		}
		if s, failed := os.Lstat(path); failed == nil && path != root && s.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s is %v", path, s.Mode())
		}
		return nil
	})
}
