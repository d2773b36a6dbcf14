package copy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/perm"
	"initbox/test/servers"
	"initbox/test/soak"
)

func TestMain(m *testing.M) {
	if pair := os.Getenv("COPY_PAIR"); pair != "" {
		fmt.Println("begin")
		if _, err := runPairs(pair); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(servers.MainInMemory(m))
}

// noneLeft fails if a run has left anything of its own below a directory, except its list.
func noneLeft(t testing.TB, dir string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && reserved(d.Name()) && d.Name() != ".initbox-files" {
			t.Errorf("%s is left", path)
		}
		return err
	})
}

// A file that is a mount of its own (a subPath) is written in place; so is one in a directory that is not writable.
func TestMountedFile(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/f=new", "src/g=new", "dst/f=", "dst/g=old", "volume/f=old and longer")
	servers.Mount(t, top+"/volume/f", top+"/dst/f", "", unix.MS_BIND, "")
	inode := stat(t, top+"/dst/f").Ino
	s := copied(t, top+"/src:"+top+"/dst#mode=0600")
	if len(s.InPlace) != 1 || s.InPlace[0] != top+"/dst/f" || s.Changed != 2 {
		t.Errorf("%+v", s)
	}
	if now := stat(t, top+"/dst/f"); now.Ino != inode || now.Mode&0o777 != 0o600 {
		t.Errorf("%+v", now)
	}
	wantListing(t, top+"/volume", "f=new")
	noneLeft(t, top+"/dst")
	if s := copied(t, top+"/src:"+top+"/dst#mode=0600"); s.Changes() != 0 || s.InPlace != nil {
		t.Errorf("again: %+v", s)
	}
	files(t, top, "ro/f=old and longer", "rw/f=old and longer")
	readOnly(t, top+"/ro")
	servers.Mount(t, top+"/rw/f", top+"/ro/f", "", unix.MS_BIND, "")
	if s := copied(t, top+"/src/f:"+top+"/ro/f"); len(s.InPlace) != 1 {
		t.Errorf("%+v", s)
	}
	wantListing(t, top+"/rw", "f=new")
	err := refused(t, "read-only file system", top+"/src/g:"+top+"/ro/g")
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "read-only") {
		t.Errorf("hint of %v", err)
	}
}

// Where a file that is a mount has old bytes, holes of the source are written as zeros.
func TestMountedFileAndHoles(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/f=data", "dst/f=", "volume/f="+strings.Repeat("old ", 1<<18))
	if err := os.Truncate(top+"/src/f", 1<<19); err != nil {
		t.Fatal(err)
	}
	servers.Mount(t, top+"/volume/f", top+"/dst/f", "", unix.MS_BIND, "")
	copied(t, top+"/src:"+top+"/dst")
	want, _ := os.ReadFile(top + "/src/f")
	if got, err := os.ReadFile(top + "/volume/f"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes that begin with %q, %v", len(got), got[:min(len(got), 20)], err)
	}
	if s := copied(t, top+"/src:"+top+"/dst"); s.Changes() != 0 {
		t.Errorf("again: %+v", s)
	}
}

func readOnly(t *testing.T, dir string) {
	t.Helper()
	servers.Mount(t, dir, dir, "", unix.MS_BIND, "")
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

// A destination that another program has made a link in the volume is refused, and with Follow is written to.
func TestLinkInVolume(t *testing.T) {
	volume, outside := servers.Volume(t)
	files(t, volume, "src/a=A", "dst->"+outside)
	err := refused(t, "symbolic link in the volume", volume+"/src:"+volume+"/dst", volume+"/src:"+volume+"/dst/new")
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "--follow") {
		t.Errorf("%v has no hint", err)
	}
	wantListing(t, outside, "")
	if _, err := runWith(Options{Follow: true}, volume+"/src:"+volume+"/dst"); err != nil {
		t.Error(err)
	}
	wantListing(t, outside, "a=A")
	// Below it, a link is never followed.
	files(t, volume, "src/sub/b=B", "real/sub->"+outside)
	if _, err := runWith(Options{Follow: true}, volume+"/src:"+volume+"/real"); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Error(err)
	}
}

// What is new in a volume with fsGroup belongs to the group, as if it had been made there.
func TestGroupOfVolume(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/sub/b=B", "dst/old=O")
	if err := os.Chown(top+"/dst", -1, 2000); err != nil {
		t.Skip(err)
	}
	os.Chmod(top+"/dst", 0o775|fs.ModeSetgid)
	copied(t, top+"/src:"+top+"/dst")
	copied(t, top+"/src:"+top+"/dst/new/er")
	for _, name := range []string{"a", "sub", "sub/b", "new", "new/er", "new/er/a"} {
		if s := stat(t, top+"/dst/"+name); s.Gid != 2000 || dirfd.IsDir(s) && s.Mode&unix.S_ISGID == 0 {
			t.Errorf("%s: group %d, mode %o", name, s.Gid, s.Mode)
		}
	}
}

// On a full disk, what is there stays as it is, and nothing else does.
func TestFullDisk(t *testing.T) {
	for name, options := range map[string]string{"blocks": "size=256k", "inodes": "nr_inodes=16"} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			files(t, top, "src/a=new", "dst/")
			for i := range 20 {
				files(t, top, fmt.Sprintf("src/sub/%d=%s", i, strings.Repeat("x", 20<<10)))
			}
			servers.Tmpfs(t, top+"/dst", options)
			files(t, top, "dst/a=old", "dst/sub/0=old")
			err := refused(t, "no space left", top+"/src:"+top+"/dst")
			if !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
			wantListing(t, top+"/dst", "a=old sub/ sub/0=old")
			noneLeft(t, top+"/dst")
		})
	}
}

// A volume without room for one more name keeps the file as it is: written in place, a reader could see half of it.
func TestNoMoreFiles(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/f=new")
	servers.Tmpfs(t, top+"/dst", "size=1m,nr_inodes=2")
	files(t, top, "dst/f=old and longer")
	refused(t, "no space left", top+"/src/f:"+top+"/dst/f")
	wantListing(t, top+"/dst", "f=old and longer")
}

// Where another program has put a link to a file of another user in place of a directory, the file stays as it is.
func TestDirectoryBecomesFile(t *testing.T) {
	top := t.TempDir()
	files(t, top, "sub=secret")
	if err := os.Chmod(top+"/sub", 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	pair, err := ParsePair("a:b#dir-mode=0777", nil)
	if err != nil {
		t.Fatal(err)
	}
	to := &target{run: &run{ctx: t.Context()}, root: root, path: top, late: map[string]late{
		"sub": {want: attributes{Owner: perm.Owner{UID: -1, GID: -1}, mode: 0o777}, pair: &pair},
	}}
	err = to.setLate()
	if mode := stat(t, top+"/sub").Mode & 0o777; !errors.Is(err, unix.ENOTDIR) || mode != 0o600 {
		t.Errorf("%v, mode %o", err, mode)
	}
}

// What was counted before an error is not said to be done.
func TestFailedIsNotCounted(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/f=new", "dst/f=old and longer")
	servers.Tmpfs(t, top+"/full", "size=8k")
	files(t, top, "full/f=old")
	if err := os.WriteFile(top+"/src/f", make([]byte, 4<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	servers.Mount(t, top+"/full/f", top+"/dst/f", "", unix.MS_BIND, "") // is written in place, after staging
	done, err := runPairs(top + "/src:" + top + "/dst")
	if !errors.Is(err, unix.ENOSPC) || len(done) != 0 {
		t.Errorf("%v, %v", done, err)
	}
	wantListing(t, top+"/full", "f=old")
}

// A read-only destination is no error if it is right already.
func TestReadOnly(t *testing.T) {
	top := t.TempDir()
	files(t, top, "src/a=A", "src/sub/b=B")
	pair := top + "/src:" + top + "/dst"
	copied(t, pair)
	readOnly(t, top+"/dst")
	if s := copied(t, pair); s.Changes() != 0 {
		t.Errorf("%+v", s)
	}
	files(t, top, "src/new=N")
	refused(t, "write "+top+"/dst/new: read-only file system", pair)
}

// churn changes something again and again, until the test ends, and returns how often it did so far.
func churn(t *testing.T, change func() error) *atomic.Int64 {
	t.Helper()
	var n atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := change(); err != nil {
				t.Error(err)
				return
			}
			n.Add(1)
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return &n
}

// A writer who swaps directories of the destination for links, as fast as it can, leads nothing out of it.
func TestSwappedDirectories(t *testing.T) {
	servers.Slow(t)
	top := servers.MemoryDir(t)
	for i := range 30 {
		files(t, top, fmt.Sprintf("src/a/b/%d=new", i), fmt.Sprintf("dst/a/b/%d=old", i), fmt.Sprintf("outside/b/%d=outside", i), fmt.Sprintf("outside/%d=outside", i))
	}
	files(t, top, "dst/link->"+top+"/outside", "dst/a/link->"+top+"/outside")
	want := listing(t, top+"/outside")
	at := dirfd.FD(unix.AT_FDCWD)
	swaps := churn(t, func() error {
		return errors.Join(
			dirfd.Exchange(at, top+"/dst/a", at, top+"/dst/link"), dirfd.Exchange(at, top+"/dst/a", at, top+"/dst/link"),
			dirfd.Exchange(at, top+"/dst/a/b", at, top+"/dst/a/link"), dirfd.Exchange(at, top+"/dst/a/b", at, top+"/dst/a/link"))
	})
	copies := 0
	for range 300 {
		for i := range 30 {
			os.WriteFile(fmt.Sprintf("%s/src/a/b/%d", top, i), []byte(fmt.Sprint("new", copies)), 0o644)
		}
		if _, err := runPairs(top + "/src:" + top + "/dst#owner=0&mode=0640&prune"); err == nil {
			copies++
		}
	}
	if listing(t, top+"/outside") != want {
		t.Error("a file outside was changed")
	}
	for path := range times(t, top+"/outside") {
		if s := stat(t, path); s.Mode&0o777 == 0o640 {
			t.Errorf("%s: the mode was changed", path)
		}
	}
	t.Logf("%d copies, %d swaps", copies, swaps.Load())
}

// The kubelet replaces a mounted ConfigMap while it is copied: all files are of one version.
func TestVolumeIsReplaced(t *testing.T) {
	servers.Slow(t)
	top := servers.MemoryDir(t)
	names := []string{"a", "b", "c", "d/e", "f", "g"}
	version := 0
	put := func() error {
		version++
		var list []string
		for _, name := range names {
			list = append(list, fmt.Sprintf("%s=%d", name, version))
		}
		volume(t, top+"/cm", fmt.Sprint(version), list...)
		os.RemoveAll(fmt.Sprintf("%s/cm/..v%d", top, version-1))
		time.Sleep(time.Duration(version%7) * time.Millisecond)
		return nil
	}
	put()
	churn(t, put)
	copies := 0
	for i := range 200 {
		dst := fmt.Sprintf("%s/dst%d", top, i)
		if _, err := runPairs(top+"/cm:"+dst, top+"/cm/a:"+dst+"/again", top+"/cm/d:"+dst+"/f2"); err != nil {
			if !errors.Is(err, errSwapped) {
				t.Fatal(err)
			}
			continue
		}
		copies++
		want, _ := os.ReadFile(dst + "/again")
		if got, err := os.ReadFile(dst + "/f2/e"); err != nil || string(got) != string(want) {
			t.Fatalf("d/e is of version %s, and a of version %s, %v", got, want, err)
		}
		for _, name := range names {
			if got, err := os.ReadFile(dst + "/" + name); err != nil || string(got) != string(want) {
				t.Fatalf("%s is of version %s, and a of version %s, %v", name, got, want, err)
			}
		}
	}
	if copies == 0 {
		t.Error("no copy has succeeded")
	}
}

// A run is killed at many moments. Each file is old or new as a whole, and the same run again does the rest, also into
// a directory that had to be empty.
func TestCopyKilledAtAnyMoment(t *testing.T) {
	servers.Slow(t)
	top := servers.MemoryDir(t)
	for i := range 400 {
		files(t, top, fmt.Sprintf("src/s%d/f%d=%s", i%7, i, strings.Repeat("new", 50+i)), fmt.Sprintf("old/s%d/f%d=old", i%7, i))
	}
	files(t, top, "old/stale=old", "src/z=new")
	for _, how := range []string{"#prune", "#if-empty"} {
		prepare := func() string {
			dst := filepath.Join(servers.MemoryDir(t), "dst")
			if how == "#prune" {
				if _, err := runPairs(top + "/old:" + dst + how); err != nil {
					t.Fatal(err)
				}
			}
			return top + "/src:" + dst + how
		}
		begin := time.Now()
		child := soak.Child("COPY_PAIR=" + prepare())
		soak.Start(t, child, "begin")
		child.Wait()
		whole := time.Since(begin)
		for moment := range soak.Moments(t, 20) {
			pair := prepare()
			dst := strings.TrimSuffix(strings.TrimPrefix(pair, top+"/src:"), how)
			child := soak.Child("COPY_PAIR=" + pair)
			soak.Start(t, child, "begin")
			time.Sleep(time.Duration(moment * float64(whole)))
			child.Process.Kill()
			child.Wait()
			for i := range 400 {
				name := fmt.Sprintf("s%d/f%d", i%7, i)
				got, err := os.ReadFile(dst + "/" + name)
				if whole := strings.Repeat("new", 50+i); err == nil && string(got) != "old" && string(got) != whole || err != nil && how == "#prune" {
					t.Fatalf("%s: %d bytes, %v", name, len(got), err)
				}
			}
			if _, err := runPairs(pair); err != nil {
				t.Fatal(err)
			}
			noneLeft(t, dst)
			os.Remove(dst + "/.initbox-files")
			if listing(t, dst) != listing(t, top+"/src") {
				t.Fatalf("killed after %.2f, then run again: %s is not a copy", moment, dst)
			}
		}
	}
}

// Without a capability, the hint names it.
func TestHints(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	top := t.TempDir()
	files(t, top, "src/a=A")
	err := refused(t, "change the owner to 1 in ", top+"/src:"+top+"/dst#owner=1")
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "CHOWN") {
		t.Errorf("%v has no hint", err)
	}
}

// An owner that this process may not set is no change in the next run, either.
func TestOwnerIsNotKept(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	pair := "/etc/passwd:" + t.TempDir() + "/a#keep" // root's
	if s := copied(t, pair); s.Created != 1 || s.NotKept == 0 {
		t.Errorf("copied: %+v", s)
	}
	if s := copied(t, pair); s.Same != 1 || s.Attributes != 0 || s.NotKept == 0 {
		t.Errorf("copied again: %+v", s)
	}
}
