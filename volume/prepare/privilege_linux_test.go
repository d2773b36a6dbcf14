package prepare_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/test/soak"
	"initbox/volume/prepare"
)

// TestOnlyChown pins that what root owns, as a new volume, needs the capability CHOWN only, whatever else it is given.
func TestOnlyChown(t *testing.T) {
	dir := build(t, "volume/", "file", "theirs")
	os.Chown(dir+"/theirs", 1000, 1000)
	asUser(t, 0, func() {
		header, only := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{{Effective: 1 << unix.CAP_CHOWN, Permitted: 1 << unix.CAP_CHOWN}}
		if err := unix.Capset(&header, &only[0]); err != nil {
			t.Errorf("drop capabilities: %v", err)
			return
		}
		log, err := run(t, prepare.Options{}, dir+"/volume#owner=999:999&mode=2770", dir+"/volume/new#owner=999:999&mode=0700", dir+"/file#file&owner=999:999&mode=0600")
		if err == nil || !strings.Contains(err.Error(), "new") { // which is in a directory of another user by then
			t.Errorf("%v: %s", err, log)
		}
		_, err = run(t, prepare.Options{}, dir+"/file#file&owner=999:999&mode=0600")
		if err != nil {
			t.Error(err)
		}
		_, err = run(t, prepare.Options{}, dir+"/theirs#file&mode=0600")
		requireError(t, err, "operation not permitted", "capability FOWNER")
	})
	for path, want := range map[string]string{"/volume": " 2770 999:999", "/file": " 0600 999:999"} {
		if got := state(t, dir+path)[0]; got != want {
			t.Errorf("%s is%s, want%s", path, got, want)
		}
	}
}

// asUser calls do with the thread's user set to uid, without capabilities. Only what do itself calls runs as the user,
// and not what it starts in other goroutines.
func asUser(t *testing.T, uid int, do func()) {
	t.Helper()
	needsRoot(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, 0, 0}, {unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)}, {unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				t.Errorf("change the user: %v", errno)
				return
			}
		}
		do()
	}()
	<-done
}

// reachable lets every user enter a directory of a test.
func reachable(dir string) {
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
}

func TestWithoutPrivileges(t *testing.T) {
	dir := build(t, "mine/", "theirs/", "shared/file", "shared/link->file", "group/", "closed/")
	reachable(dir)
	os.Chown(dir+"/mine", 1000, 2000)
	os.Chmod(dir+"/theirs", 0o711)
	attempt := func(arg, text, hint string) {
		var err error
		asUser(t, 1000, func() { _, err = run(t, prepare.Options{}, arg) })
		if text != "" {
			requireError(t, err, text, hint)
		} else if err != nil {
			t.Errorf("%s: %v", arg, err)
		}
	}
	attempt(dir+"/mine#mode=0750", "", "")
	attempt(dir+"/mine#owner=1000:2000", "", "")
	attempt(dir+"/mine#owner=7", "change the owner to 7 of "+dir+"/mine: operation not permitted", "lacks the capability CHOWN")
	attempt(dir+"/theirs#mode=0700", "change the mode of "+dir+"/theirs: operation not permitted", "lacks the capability FOWNER")
	attempt(dir+"/theirs/new", "make "+dir+"/theirs/new: permission denied", "lacks the capability DAC_OVERRIDE")
	attempt(dir+"/theirs#recursive&mode=0711", "open "+dir+"/theirs: permission denied", "lacks the capability DAC_OVERRIDE")
	attempt(dir+"/mine#mode=2770", "the kernel did not keep the setgid bit", "add the capability FSETID")

	os.Chmod(dir+"/group", 0o777|fs.ModeSetgid)
	os.Chown(dir+"/group", -1, 3000)
	attempt(dir+"/group/new#mode=0770", "", "") // which gets the bit from group, and loses it
	os.Chmod(dir+"/closed", 0)
	os.Chown(dir+"/closed", 1000, 1000)
	attempt(dir+"/closed#mode=0755&recursive", "", "")

	os.Chmod(dir+"/shared", 0o777|fs.ModeSticky)
	var log string
	asUser(t, 1000, func() { log, _ = run(t, prepare.Options{}, dir+"/shared/file#absent") })
	if strings.Contains(log, "removed") {
		t.Errorf("what could not be removed is reported as removed: %s", log)
	}
	attempt(dir+"/shared/file#absent", "remove "+dir+"/shared/file: operation not permitted", "lacks the capability FOWNER")
	attempt(dir+"/shared/link#link=other", "change the link "+dir+"/shared/link: operation not permitted", "lacks the capability FOWNER")
	if got := names(t, dir+"/shared"); !slices.Equal(got, []string{"file", "link"}) {
		t.Errorf("a failed change of a link leaves %q", got)
	}
}

// TestIgnoreErrors pins that a failure of a path with ignore-errors is a warning, after which everything else is still
// changed.
func TestIgnoreErrors(t *testing.T) {
	dir := build(t, "tree/a", "tree/b", "tree/closed/x", "tree/sub/c", "theirs/x", "gone/shut/x", "gone/y")
	reachable(dir)
	for _, mine := range []string{"tree", "tree/a", "tree/sub", "tree/sub/c", "gone", "gone/y"} {
		os.Chown(dir+"/"+mine, 1000, 1000)
	}
	os.Chmod(dir+"/tree/closed", 0o700)
	os.Chmod(dir+"/gone/shut", 0o755)
	needsRoot(t)
	for arg, want := range map[string]string{
		"/tree#recursive&mode=0755&ignore-errors": "/tree: 3 failures ignored, the first: ", "/theirs/new#ignore-errors": "first: make " + dir + "/theirs/new: permission denied",
		"/none#link=x&ignore-errors": "1 failure ignored", "/theirs/x#absent&ignore-errors": "1 failure ignored", "/gone#absent&ignore-errors": "2 failures ignored",
		"/tree#mode=0755&recursive": "exit status 1", // without it
	} {
		child := soak.Child("PREPARE=" + dir + arg)
		child.Path = "/proc/self/exe" // whose own directory is closed to others
		child.SysProcAttr.Credential = &syscall.Credential{Uid: 1000, Gid: 1000}
		log, err := child.CombinedOutput()
		if text := fmt.Sprint(string(log), err); !strings.Contains(text, want) || err != nil && strings.Contains(arg, "ignore-errors") {
			t.Errorf("%s: %s, want %q", arg, text, want)
		}
	}
	for name, want := range map[string]fs.FileMode{"a": 0o755, "b": 0o644, "closed": 0o700, "closed/x": 0o644, "sub/c": 0o755} {
		if got := fs.FileMode(lstat(t, dir+"/tree/"+name).Mode & 0o777); got != want {
			t.Errorf("%s: mode %v, want %v", name, got, want)
		}
	}
	if got := names(t, dir+"/gone"); !slices.Equal(got, []string{"shut", "shut/x"}) {
		t.Errorf("what could be removed: %q is left", got)
	}
}

// TestUserNamespace pins the hint for owners that do not exist in a Pod with hostUsers: false.
func TestUserNamespace(t *testing.T) {
	needsRoot(t)
	dir := build(t, "volume/")
	child := soak.Child("PREPARE=" + dir + "/volume#owner=100000")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	child.SysProcAttr.Cloneflags, child.SysProcAttr.UidMappings, child.SysProcAttr.GidMappings = unix.CLONE_NEWUSER, ids, ids
	out, err := child.Output()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skipf("no user namespaces here: %v", err)
	}
	for _, want := range []string{"change the owner to 100000 of " + dir + "/volume: invalid argument", "hostUsers: false"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%v: the output has no %q:\n%s", err, want, out)
		}
	}
}

// TestLabels pins that labels are set on links themselves, once.
func TestLabels(t *testing.T) {
	needsRoot(t)
	dir := build(t, "file", "sub/", "link->/etc/passwd")
	const label = "system_u:object_r:container_file_t:s0"
	log, err := run(t, prepare.Options{}, dir+"#recursive&selinux="+label)
	if err != nil {
		t.Skipf("this file system or kernel keeps no labels: %v", err)
	}
	requireLog(t, log, "SELinux label of 4 of 4 files changed")
	requireLog(t, done(t, dir+"#recursive&selinux="+label), "nothing to change in 4 files")
	got := make([]byte, 100)
	if n, err := unix.Lgetxattr(dir+"/link", "security.selinux", got); err != nil || string(got[:n]) != label {
		t.Errorf("the link has the label %q: %v", got[:max(n, 0)], err)
	}
	reachable(dir)
	asUser(t, 1000, func() { _, err = run(t, prepare.Options{}, dir+"#selinux=other") })
	requireError(t, err, "change the SELinux label of", "seLinuxOptions")
}
