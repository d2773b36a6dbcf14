package prepare_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/test/servers"
	"initbox/test/soak"
	"initbox/volume/prepare"
)

// run prepares the paths in args, which are as on the command line, and returns the log without times.
func run(t testing.TB, o prepare.Options, args ...string) (string, error) {
	t.Helper()
	for _, arg := range args {
		p, err := prepare.Parse(arg, nil)
		if err != nil {
			t.Fatalf("%s: %v", arg, err)
		}
		o.Paths = append(o.Paths, p)
	}
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key != slog.MessageKey {
			return slog.Attr{}
		}
		return a
	}}))
	ctx := context.Background()
	err := prepare.Run(ctx, o)
	return log.String(), err
}

// done is run where no error is expected.
func done(t testing.TB, args ...string) string {
	t.Helper()
	log, err := run(t, prepare.Options{Force: true}, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return log
}

// make makes what the paths say: a directory if it ends in /, a link if it has ->, or else a file.
func build(t testing.TB, paths ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, path := range paths {
		name, target, link := strings.Cut(path, "->")
		full := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, full)
		case strings.HasSuffix(path, "/"):
			err = os.MkdirAll(full, 0o755)
		default:
			err = os.WriteFile(full, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// state returns a line for each file: its path, with the mode and the owner.
func state(t testing.TB, dir string) (lines []string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		s := lstat(t, path)
		lines = append(lines, fmt.Sprintf("%s %04o %d:%d", strings.TrimPrefix(path, dir), s.Mode&0o7777, s.Uid, s.Gid))
		return err
	})
	return lines
}

func lstat(t testing.TB, path string) (s unix.Stat_t) {
	t.Helper()
	if err := unix.Lstat(path, &s); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return s
}

// names returns the paths of all files below dir.
func names(t testing.TB, dir string) (paths []string) {
	for _, line := range state(t, dir)[1:] {
		path, _, _ := strings.Cut(line, " ")
		paths = append(paths, path[1:])
	}
	return paths
}

func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func requireLog(t *testing.T, log string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(log, text) {
			t.Errorf("the log has no %q:\n%s", text, log)
		}
	}
}

func TestMade(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022))
	dir := t.TempDir()
	log := done(t, dir+"/a/b/c#mode=0770", dir+"/a/f#file&mode=u=rw,go=", dir+"/x/plain#file", dir+"/a/l#link=/target", dir+"/n/{8..11}", dir+"/p/{09..10}", dir+"/kept#if-exists")
	requireLog(t, log, "c: directory made, with 2 directories above", "f: file made", "with 1 directory above", "l: link made", "{8..11}: 4 directories made", "kept: does not exist")
	got := state(t, dir)
	for i, line := range got {
		got[i] = strings.TrimSuffix(line, fmt.Sprintf(" %d:%d", os.Geteuid(), os.Getegid()))
	}
	want := []string{" 0755", "/a 0755", "/a/b 0755", "/a/b/c 0770", "/a/f 0600", "/a/l 0777", "/n 0755", "/n/10 0755", "/n/11 0755", "/n/8 0755", "/n/9 0755", "/p 0755", "/p/09 0755", "/p/10 0755", "/x 0755", "/x/plain 0644"}
	if !slices.Equal(got, want) {
		t.Errorf("made %q, want %q", got, want)
	}
	if target, _ := os.Readlink(dir + "/a/l"); target != "/target" {
		t.Errorf("the link leads to %s", target)
	}
	requireLog(t, done(t, dir+"/a/l#link=other"), "link changed to other")
	if target, _ := os.Readlink(dir + "/a/l"); target != "other" {
		t.Errorf("the link leads to %s", target)
	}
}

// TestRightIsNotTouched pins that a second run changes nothing, not even a time of change.
func TestRightIsNotTouched(t *testing.T) {
	dir := build(t, "f", "sub/f", "sub/deep/g", "l->f", "link->sub")
	args := []string{
		dir + fmt.Sprintf("#recursive&mode=u+rwX,go=rX&owner=%d:%d", os.Geteuid(), os.Getegid()), dir + "/f#file&mode=0644",
		dir + "/l#link=f", dir + "/none#absent", dir + "/sub/deep#empty&name=*.pid",
	}
	done(t, args...)
	before := map[string]unix.Timespec{}
	for _, name := range names(t, dir) {
		before[name] = lstat(t, filepath.Join(dir, name)).Ctim
	}
	log := done(t, args...)
	requireLog(t, log, "nothing to change in 8 files", "f: nothing to change", "none: nothing to change")
	for name, ctime := range before {
		if now := lstat(t, filepath.Join(dir, name)).Ctim; now != ctime {
			t.Errorf("%s was touched", name)
		}
	}
}

func TestBelow(t *testing.T) {
	needsRoot(t)
	paths := []string{"a.key", "b.crt", "sub/c.key", "sub/run", "skip/x.key", "l->/etc/passwd"}
	for setting, want := range map[string]string{
		"recursive&owner=7:8&mode=u+rwX,go=":          " 0700 7:8|/a.key 0600 7:8|/b.crt 0600 7:8|/l 0777 7:8|/skip 0700 7:8|/skip/x.key 0600 7:8|/sub 0700 7:8|/sub/c.key 0600 7:8|/sub/run 0700 7:8",
		"children&owner=:8":                           " 0755 0:0|/a.key 0644 0:8|/b.crt 0644 0:8|/l 0777 0:8|/skip 0755 0:8|/skip/x.key 0644 0:8|/sub 0755 0:8|/sub/c.key 0644 0:8|/sub/run 0755 0:8",
		"recursive&name=*.key&mode=0600&exclude=skip": " 0755 0:0|/a.key 0600 0:0|/b.crt 0644 0:0|/l 0777 0:0|/skip 0755 0:0|/skip/x.key 0644 0:0|/sub 0755 0:0|/sub/c.key 0600 0:0|/sub/run 0755 0:0",
		"recursive&dir-mode=02750&file-mode=0640":     " 2750 0:0|/a.key 0640 0:0|/b.crt 0640 0:0|/l 0777 0:0|/skip 2750 0:0|/skip/x.key 0640 0:0|/sub 2750 0:0|/sub/c.key 0640 0:0|/sub/run 0640 0:0",
		"owner=7&mode=0711":                           " 0711 7:0|/a.key 0644 0:0|/b.crt 0644 0:0|/l 0777 0:0|/skip 0755 0:0|/skip/x.key 0644 0:0|/sub 0755 0:0|/sub/c.key 0644 0:0|/sub/run 0755 0:0",
		"recursive=on-root-mismatch&mode=0755":        " 0755 0:0|/a.key 0644 0:0|/b.crt 0644 0:0|/l 0777 0:0|/skip 0755 0:0|/skip/x.key 0644 0:0|/sub 0755 0:0|/sub/c.key 0644 0:0|/sub/run 0755 0:0",
		"recursive=on-root-mismatch&owner=:9":         " 0755 0:9|/a.key 0644 0:9|/b.crt 0644 0:9|/l 0777 0:9|/skip 0755 0:9|/skip/x.key 0644 0:9|/sub 0755 0:9|/sub/c.key 0644 0:9|/sub/run 0755 0:9",
	} {
		dir := build(t, paths...)
		os.Chmod(dir, 0o755)
		os.Chmod(dir+"/sub/run", 0o755)
		before := strings.Join(state(t, dir), "|")
		if _, err := run(t, prepare.Options{DryRun: true}, dir+"#"+setting); err != nil || strings.Join(state(t, dir), "|") != before {
			t.Errorf("%s: a dry run changed something: %v", setting, err)
		}
		done(t, dir+"#"+setting)
		if got := strings.Join(state(t, dir), "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", setting, got, want)
		}
	}
}

// TestRelativeModeOnce pins that a mode relative to the old one is applied once to a directory that its owner may not
// enter until then.
func TestRelativeModeOnce(t *testing.T) {
	dir := build(t, "sub/")
	os.Chmod(dir+"/sub", 0o050)
	log := done(t, dir+"#recursive&mode=o=g,g=u,u+rwx")
	if mode := lstat(t, dir+"/sub").Mode & 0o7777; mode != 0o705 {
		t.Errorf("mode %04o, want 0705", mode)
	}
	requireLog(t, log, "mode of 2 of 2 files changed")
}

// TestSetuid pins that a change of the owner clears the setuid bit, which a relative mode does not set for the new one.
func TestSetuid(t *testing.T) {
	needsRoot(t)
	dir := build(t, "program")
	for setting, want := range map[string]uint32{"owner=7&mode=u+rwX": 0o755, "owner=8&mode=04755": 0o4755, "owner=9": 0o755} {
		os.Chmod(dir+"/program", 0o755|fs.ModeSetuid)
		done(t, dir+"/program#file&"+setting)
		if mode := lstat(t, dir+"/program").Mode & 0o7777; mode != want {
			t.Errorf("%s: mode %04o, want %04o", setting, mode, want)
		}
	}
}

func TestOtherKinds(t *testing.T) {
	dir := build(t, "file", "dir/x", "l->none")
	unix.Mkfifo(dir+"/pipe", 0o600)
	for arg, want := range map[string]string{
		"file":             "not a directory",
		"dir#file":         "dir is a directory, not a file",
		"dir#link=x":       "dir is a directory, not a symbolic link",
		"file#link=x":      "file is a file, not a symbolic link",
		"pipe#file":        "pipe is a device, a pipe or a socket, not a file",
		"file/below":       "not a directory",
		"file/below#file":  "not a directory",
		"file#recursive":   "not a directory",
		"l/below":          "l: not a directory",
		"file#empty":       "not a directory",
		"pipe#empty":       "not a directory",
		"file/x/y#link=to": "not a directory",
	} {
		before := names(t, dir)
		_, err := run(t, prepare.Options{Force: true, Follow: true}, dir+"/"+arg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", arg, err, want)
		}
		if hint, ok := errors.AsType[interface {
			error
			Hint() string
		}](err); !ok || !strings.Contains(hint.Hint(), "#absent") {
			t.Errorf("%s: no hint to remove it: %v", arg, err)
		}
		if !slices.Equal(names(t, dir), before) {
			t.Errorf("%s changed something", arg)
		}
	}
}

func TestEmpty(t *testing.T) {
	paths := []string{"a.pid", ".hidden/x", "lost+found/y", ".snapshot/z", "sub/b.pid", "sub/keep/c", "sub/deep/d.pid", "x.pid/inner", "link->sub"}
	hour := time.Now().Add(-time.Hour)
	for setting, want := range map[string]string{
		"":                               ".snapshot .snapshot/z lost+found lost+found/y",
		"&exclude=keep":                  ".snapshot .snapshot/z lost+found lost+found/y sub sub/keep sub/keep/c",
		"&name=*.pid":                    ".hidden .hidden/x .snapshot .snapshot/z link lost+found lost+found/y sub sub/b.pid sub/deep sub/deep/d.pid sub/keep sub/keep/c",
		"&recursive&name=*.pid":          ".hidden .hidden/x .snapshot .snapshot/z link lost+found lost+found/y sub sub/deep sub/keep sub/keep/c",
		"&recursive&older-than=30m":      ".hidden .hidden/x .snapshot .snapshot/z link lost+found lost+found/y sub sub/deep sub/deep/d.pid sub/keep sub/keep/c x.pid x.pid/inner",
		"&older-than=30m":                ".hidden .hidden/x .snapshot .snapshot/z link lost+found lost+found/y sub sub/b.pid sub/deep sub/deep/d.pid sub/keep sub/keep/c x.pid x.pid/inner",
		"&older-than=2h&name=*&mode=755": "",
		"&older-than=0":                  ".hidden .hidden/x .snapshot .snapshot/z lost+found lost+found/y sub sub/b.pid sub/deep sub/deep/d.pid sub/keep sub/keep/c x.pid x.pid/inner",
	} {
		dir := build(t, paths...)
		os.Chtimes(dir+"/a.pid", hour, hour)
		if setting == "&older-than=0" { // also of the future
			os.Chtimes(dir+"/a.pid", hour, hour.Add(24*time.Hour))
		}
		os.Chtimes(dir+"/sub/b.pid", hour, hour)
		before := names(t, dir)
		if want == "" {
			want = strings.Join(before, " ")
		}
		if _, err := run(t, prepare.Options{DryRun: true}, dir+"#empty"+setting); err != nil || !slices.Equal(names(t, dir), before) {
			t.Errorf("%s: a dry run removed something: %v", setting, err)
		}
		done(t, dir+"#empty"+setting)
		if got := strings.Join(names(t, dir), " "); got != want {
			t.Errorf("empty%s leaves\n %s, want\n %s", setting, got, want)
		}
		requireLog(t, done(t, dir+"#empty"+setting), "nothing to change")
	}
	dir := t.TempDir()
	requireLog(t, done(t, dir+"/new#empty&mode=0700"), "new: directory made")
}

func TestAbsent(t *testing.T) {
	dir := build(t, "tree/lost+found/x", "tree/.snapshot/y", "tree/link->../kept", "kept/file", "link->kept")
	log := done(t, dir+"/tree#absent", dir+"/link#absent", dir+"/none/below#absent", dir+"/kept/file/below#absent")
	requireLog(t, log, "tree: 6 files removed", "link: 1 file removed", "none/below: nothing to change", "file/below: nothing to change")
	if got := strings.Join(names(t, dir), " "); got != "kept kept/file" {
		t.Errorf("left: %s", got)
	}
	log = done(t, dir+"/kept/file#absent=file", dir+"/none#absent=file", dir+"/kept#absent=file", "/#absent=file")
	requireLog(t, log, "kept/file: 1 file removed", "none: nothing to change", "kept: is a directory, which stays")
	if got := strings.Join(names(t, dir), " "); got != "kept" {
		t.Errorf("left with absent=file: %s", got)
	}
	if _, err := prepare.Parse(dir+"#absent=directory", nil); err == nil {
		t.Error("absent=directory is accepted")
	}
	if _, err := run(t, prepare.Options{Force: true}, "/#absent"); err == nil || !strings.Contains(err.Error(), "cannot be removed") {
		t.Errorf("/ absent: %v", err)
	}
	if _, err := run(t, prepare.Options{DryRun: true}, "/#empty"); err == nil || !strings.Contains(err.Error(), "root directory") {
		t.Errorf("/ empty: %v", err)
	}
	os.Symlink("/", dir+"/root")
	for _, setting := range []string{"recursive", "children", "recursive=on-root-mismatch", "recursive&name=none-such"} {
		for _, path := range []string{"/", dir + "/root"} {
			_, err := run(t, prepare.Options{DryRun: true, Follow: true}, path+"#owner=2147483646&exclude=*&"+setting)
			if err == nil || !strings.Contains(err.Error(), "change what is in "+path+": it is the root directory") {
				t.Errorf("%s %s: %v", path, setting, err)
			}
		}
	}
}

func TestMounts(t *testing.T) {
	volume, _ := servers.Volume(t)
	build := func(at string) {
		for _, path := range []string{"a/x", "nested/y", "a/readonly/z", "a/mounted"} {
			os.MkdirAll(filepath.Dir(at+"/"+path), 0o755)
			os.WriteFile(at+"/"+path, nil, 0o644)
		}
	}
	build(volume)
	servers.Mount(t, volume+"/a", volume+"/nested", "", unix.MS_BIND, "")
	servers.Tmpfs(t, volume+"/b", "size=1m")
	build(volume + "/b")
	servers.Mount(t, volume+"/b/a", volume+"/a/readonly", "", unix.MS_BIND, "")
	servers.Mount(t, "", volume+"/a/readonly", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	servers.Mount(t, volume+"/b/nested/y", volume+"/a/mounted", "", unix.MS_BIND, "")
	servers.Mount(t, "", volume+"/a/mounted", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")

	log, err := run(t, prepare.Options{}, volume+"#recursive&owner=5&exclude=b")
	if err != nil {
		t.Fatal(err)
	}
	requireLog(t, log, "left as mounted: "+volume+"/a/mounted, "+volume+"/a/readonly")
	for path, uid := range map[string]uint32{"": 5, "/a/x": 5, "/nested": 5, "/nested/x": 5, "/b/a/x": 0, "/b/nested/y": 0} {
		if s := lstat(t, volume+path); s.Uid != uid {
			t.Errorf("%s has owner %d, want %d", path, s.Uid, uid)
		}
	}

	before := names(t, volume)
	for arg, want := range map[string]string{
		"#empty": "it is a mount point", "/b#empty": "it is a mount point", "/b#absent": "it is a mount point", "/a#absent": "there are mount points in it", "/a/mounted#absent": "it is a mount point",
	} {
		if _, err := run(t, prepare.Options{}, volume+arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", arg, err, want)
		}
	}
	if !slices.Equal(names(t, volume), before) {
		t.Error("something was removed")
	}
	log = done(t, volume+"#empty")
	requireLog(t, log, "left as mounted")
	for _, path := range []string{"/a/readonly/x", "/a/mounted", "/nested", "/b/a/x", "/b/nested/y"} {
		lstat(t, volume+path)
	}
	if _, err := os.Lstat(volume + "/a/x"); err == nil {
		t.Error("/a/x was not removed")
	}
}

func TestFullAndReadOnly(t *testing.T) {
	volume, outside := servers.Volume(t)
	servers.Tmpfs(t, volume+"/full", "size=1m,nr_inodes=4")
	_, err := run(t, prepare.Options{}, volume+"/full/{1..9}")
	requireError(t, err, "no space left on device", "the volume is full")
	done(t, volume+"/full#mode=0700", volume+"/full/1#absent")
	_, err = run(t, prepare.Options{}, volume+"/full/new/deep")
	requireError(t, err, "no space left on device", "the volume is full")
	servers.Mount(t, "", volume+"/full", "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	for _, arg := range []string{"/full#owner=5", "/full#mode=0711", "/full/none", "/full/f#file", "/full/l#link=x", "/full/2#absent"} {
		_, err = run(t, prepare.Options{}, volume+arg)
		requireError(t, err, "read-only file system", "mounted read-only")
	}
	done(t, volume+"/full#mode=0700")

	os.Symlink(outside, volume+"/link")
	for _, arg := range []string{"/link", "/link/below", "/link#owner=5", "/link/x#file", "/link#empty"} {
		_, err = run(t, prepare.Options{}, volume+arg)
		requireError(t, err, "is a symbolic link in the volume", "--follow follows it")
	}
	if _, err = run(t, prepare.Options{Follow: true}, volume+"/link/below"); err != nil {
		t.Error(err)
	}
	lstat(t, outside+"/below")
}

func requireError(t *testing.T, err error, text, hint string) {
	t.Helper()
	hinted, ok := errors.AsType[interface {
		error
		Hint() string
	}](err)
	if !ok || !strings.Contains(err.Error(), text) || !strings.Contains(hinted.Hint(), hint) {
		t.Errorf("%v (%+v), want an error with %q and a hint with %q", err, hinted, text, hint)
	}
}

// TestSwappedForLinks pins that nothing outside changes while a program exchanges directories and files with links that
// lead there.
func TestSwappedForLinks(t *testing.T) {
	dir, outside := servers.Volume(t)
	for _, path := range []string{"f0", "f1", "d0/f0", "d0/d1/f1", "d1/f0", "d1/d0/f0"} {
		for _, top := range []string{dir, outside} {
			os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o755)
			os.WriteFile(filepath.Join(top, path), nil, 0o644)
		}
	}
	want := state(t, outside)
	os.Symlink(outside, dir+"/to-dir")
	os.Symlink(outside+"/f0", dir+"/to-file")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	for _, pair := range [][2]string{{"to-dir", "d0"}, {"to-file", "f0"}} {
		swapping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					dirfd.Exchange(at, pair[0], at, pair[1])
				}
			}
		})
	}
	for i := range 300 {
		run(t, prepare.Options{}, dir+fmt.Sprintf("#recursive&dir-mode=07%d0&file-mode=06%d0&owner=%d", i%2*5, i%2*4, 5+i%2))
		run(t, prepare.Options{}, dir+"/f0#file&mode=0600")
		run(t, prepare.Options{}, dir+"/d0#mode=0700")
		run(t, prepare.Options{}, dir+"/d0/new", dir+"/d0/new#absent")
		run(t, prepare.Options{}, dir+"/d0#empty&recursive&name=f*")
	}
	close(stop)
	swapping.Wait()
	if got := state(t, outside); !slices.Equal(got, want) {
		t.Errorf("outside:\n got %q\nwant %q", got, want)
	}
}

func TestMain(m *testing.M) {
	if arg := os.Getenv("PREPARE"); arg != "" {
		os.Stdout.WriteString("begin\n")
		p, err := prepare.Parse(arg, nil)
		if err == nil {
			err = prepare.Run(context.Background(), prepare.Options{Paths: []prepare.Path{p}, Force: true, Log: slog.New(slog.NewTextHandler(os.Stdout, nil))})
		}
		if err != nil {
			fmt.Println(err)
			if hint, ok := errors.AsType[interface {
				error
				Hint() string
			}](err); ok {
				fmt.Println(hint.Hint())
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKilled kills runs. While on-root-mismatch has not changed all below, it has not changed the directory itself, and
// the next run completes it; the same holds for what is removed, and a link is old or new at each moment.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	dir := t.TempDir()
	for i := range 3000 {
		sub := fmt.Sprintf("%s/%d/%d", dir, i%10, i%300)
		os.MkdirAll(sub, 0o755)
		os.WriteFile(fmt.Sprintf("%s/%d", sub, i), nil, 0o644)
	}
	modes, i, interrupted := []string{"0750", "0770"}, 0, 0
	right := func(mode string) (root bool, wrong int) {
		lines := state(t, dir)
		for _, line := range lines[1:] {
			if !strings.Contains(line, " "+mode+" ") {
				wrong++
			}
		}
		return strings.HasPrefix(lines[0], " "+mode+" "), wrong
	}
	arg := func() string { return "PREPARE=" + dir + "#recursive=on-root-mismatch&mode=" + modes[i%2] }
	whole := killedAfter(t, arg(), time.Minute)
	for moment := range soak.Moments(t, 25) {
		i++
		killedAfter(t, arg(), time.Duration(moment*float64(whole)))
		root, wrong := right(modes[i%2])
		if root && wrong > 0 {
			t.Fatalf("the directory itself is right, and %d below are not", wrong)
		}
		if !root && wrong > 0 && wrong < 3310 {
			interrupted++
		}
		killedAfter(t, arg(), time.Minute)
		if root, wrong := right(modes[i%2]); !root || wrong > 0 {
			t.Fatalf("the next run leaves %d wrong, the directory itself is right: %t", wrong, root)
		}
		link := []string{"PREPARE=" + dir + "/link#link=old", "PREPARE=" + dir + "/link#link=new"}
		killedAfter(t, link[0], time.Minute)
		killedAfter(t, link[1], time.Duration(moment*float64(3*time.Millisecond)))
		if target, err := os.Readlink(dir + "/link"); target != "old" && target != "new" {
			t.Fatalf("the link leads to %q: %v", target, err)
		}
		killedAfter(t, link[1], time.Minute)
		killedAfter(t, "PREPARE="+dir+"/link#absent", time.Minute)
		if names, _ := filepath.Glob(dir + "/.*"); len(names) > 0 {
			t.Fatalf("the next run leaves %v", names)
		}
	}
	if interrupted == 0 {
		t.Error("no run was killed in the middle")
	}
	killedAfter(t, "PREPARE="+dir+"#absent", whole/2)
	killedAfter(t, "PREPARE="+dir+"#absent", time.Minute)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the next run does not remove the rest: %v", err)
	}
}

// killedAfter runs a child and kills it after a while. It returns how long that took.
func killedAfter(t *testing.T, env string, after time.Duration) time.Duration {
	t.Helper()
	child := soak.Child(env)
	soak.Start(t, child, "begin")
	start := time.Now()
	timer := time.AfterFunc(after, func() { child.Process.Kill() })
	defer timer.Stop()
	if err := child.Wait(); err != nil && after == time.Minute {
		t.Fatal(err)
	}
	return time.Since(start)
}

// TestAnyKind pins that a path with any-kind may be a file or a directory, and is not made.
func TestAnyKind(t *testing.T) {
	dir := build(t, "d/f", "d/p/")
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	done(t, dir+"/{1..1}#any-kind&if-exists&mode=0700", dir+"/d#any-kind&mode=0751", dir+"/d/f#any-kind&recursive&mode=0640", dir+"/d/p#any-kind&recursive&dir-mode=0711", dir+"/pipe#any-kind&mode=0622")
	for name, want := range map[string]fs.FileMode{"d": 0o751, "d/f": 0o640, "d/p": 0o711, "pipe": 0o622} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", name, info, err, want)
		}
	}
	log, err := run(t, prepare.Options{}, dir+"/none#any-kind&mode=0700")
	if _, made := os.Lstat(dir + "/none"); !errors.Is(err, fs.ErrNotExist) || made == nil {
		t.Errorf("%v: %s", err, log)
	}
}
