package perm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/internal/failure"
)

// TestModesAreChmods compares modes with those that chmod(1) of GNU coreutils sets, for files and directories.
func TestModesAreChmods(t *testing.T) {
	if _, err := exec.LookPath("chmod"); err != nil {
		t.Skip("needs chmod")
	}
	modes := []string{
		"0750", "755", "2770", "1777", "00755", "0", "7777", "04755", "u+rwX,go-rwx", "u=rw,g=r,o=", "a+X", "g=u", "o=g-w", "u+s", "g+s", "+t", "a=rx", "g-s",
		"u=rwxs", "go=u-w", "ug+rw,o-rwx", "=", "u-s,g-s", "+x", "g=rX", "o+t", "a=", "u=rwX", "-w", "u=g=o", "g=s", "o=t", "=rwXst",
	}
	olds := []uint32{0o644, 0o755, 0o600, 0o2775, 0o4711, 0o1777, 0, 0o7777, 0o640, 0o111}
	for _, text := range modes {
		mode, err := ParseMode(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		dir := t.TempDir()
		var paths []string
		for _, old := range olds {
			file, sub := filepath.Join(dir, fmt.Sprintf("f%o", old)), filepath.Join(dir, fmt.Sprintf("d%o", old))
			if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Mkdir(sub, 0o755), unix.Chmod(file, old), unix.Chmod(sub, old)); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, file, sub)
		}
		args := append([]string{"-c", `umask 0; exec chmod -- "$@"`, "sh", text}, paths...)
		if out, err := exec.Command("sh", args...).CombinedOutput(); err != nil {
			t.Fatalf("chmod %s: %s", text, out)
		}
		for i, path := range paths {
			var s unix.Stat_t
			if err := unix.Lstat(path, &s); err != nil {
				t.Fatal(err)
			}
			old, isDir := olds[i/2], i%2 == 1
			if got, want := mode.Of(old, isDir), s.Mode&0o7777; got != want {
				t.Errorf("%s of %04o (directory: %t) is %04o, and chmod's is %04o", text, old, isDir, got, want)
			}
		}
	}
}

func TestParseModeRefuses(t *testing.T) {
	for _, text := range []string{"", "8", "10000", "077777", "000755", "u", "u+rwxg+rx", "g=ur", "g=Xu", "o=ug", "u+q", "rw", "u+r,", ",u+r", "z+r", "u r", "0o755"} {
		if mode, err := ParseMode(text); err == nil {
			t.Errorf("%q: %04o, want an error", text, mode.Of(0, false))
		}
	}
}

func TestParseOwner(t *testing.T) {
	for text, want := range map[string]Owner{
		"0": {0, -1}, "1000": {1000, -1}, "1000:2000": {1000, 2000}, ":2000": {-1, 2000}, "root": {0, -1}, "root:": {0, 0}, "root:root": {0, 0}, fmt.Sprint(maxID): {maxID, -1},
	} {
		if got, err := ParseOwner(text); got != want || err != nil {
			t.Errorf("%q: %v (%v), want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "want UID", ":": "want UID", fmt.Sprint(uint(maxID) + 1): "the largest is", "1000:": "no group after the colon", "4294967295": "the largest is", "no-such-user": "no user no-such-user in /etc/passwd",
		"0:none-such": "no group none-such in /etc/group", "-1": "no user -1", "1:2:3": "no group 2:3",
	} {
		got, err := ParseOwner(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v (%v), want an error with %q", text, got, err, want)
		}
	}
	auto, err := ParseOwner("auto")
	if err != nil || auto.UID != os.Geteuid() || auto.GID < 0 {
		t.Errorf("auto: %v (%v), want user %d and a group", auto, err, os.Geteuid())
	}
}

func TestRules(t *testing.T) {
	octal := func(s string) (int64, error) { return strconv.ParseInt(s, 8, 32) }
	var rules []Rule[int64]
	for _, text := range []string{"0640", "*.sh=0755", "tls/*=0600"} {
		rule, err := ParseRule(text, octal)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule)
	}
	for name, want := range map[string]int64{"a.conf": 0o640, "x/a.sh": 0o755, "tls/a.sh": 0o600, "tls/x/key": 0o640} {
		if got, found := LastMatch(rules, name); !found || got != want {
			t.Errorf("%s: %o, %t, want %o", name, got, found, want)
		}
	}
	if _, found := LastMatch(rules[1:], "a.conf"); found {
		t.Error("a rule matches what it does not name")
	}
	if _, err := ParseRule("[=0644", octal); err == nil {
		t.Error("a malformed pattern is no error")
	}
	for text, pattern := range map[string]string{"u=rw": "", "u=rw,g=r": "", "g=u": "", "*.sh=u=rwx": "*.sh", "*.key=0600": "*.key"} {
		if rule, err := ParseRule(text, ParseMode); rule.Pattern != pattern || err != nil {
			t.Errorf("%s: pattern %q (%v), want %q", text, rule.Pattern, err, pattern)
		}
	}
}

func TestHint(t *testing.T) {
	for _, test := range []struct {
		err  error
		op   Operation
		want string
	}{
		{unix.EINVAL, Chown, "hostUsers: false"},
		{unix.EROFS, Write, "mounted read-only"},
		{unix.ENOENT, Write, ""},
		{fmt.Errorf("change it: %w", &os.PathError{Op: "chown", Path: "/", Err: unix.EPERM}), Chown, "CHOWN"},
		{unix.EACCES, Write, "DAC_OVERRIDE"},
		{unix.EACCES, Remove, "DAC_OVERRIDE"},
		{unix.EPERM, Remove, "FOWNER"}, // in a directory with the sticky bit
		{unix.EPERM, Write, "FOWNER"},
		{errors.New("something else"), Read, ""},
	} {
		got := Hint(test.err, test.op, t.TempDir())
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%v of %s: %q, want %q", test.err, test.op, got, test.want)
		}
	}
}

// TestFailed pins that the message names the user's file once, and a directory on the way to it, and keeps a hint.
func TestFailed(t *testing.T) {
	open := func(path string) error {
		return fmt.Errorf("open: %w", &fs.PathError{Op: "open", Path: path, Err: unix.ENOTDIR})
	}
	once := Failed("write", Write, "/data/sub/f", open("/data/sub/f"))
	for _, c := range []struct {
		err        error
		want, hint string
	}{
		{once, "write /data/sub/f: not a directory", "prepare PATH#absent removes it"},
		{Failed("copy", Read, "/data", fmt.Errorf("more: %w", once)), "more: write /data/sub/f: not a directory", "prepare PATH#absent removes it"},
		{Failed("write", Write, "/data/sub/f", open("/data")), "write /data/sub/f: open /data: not a directory", "nothing of another kind is replaced"},
		{Failed("write", Write, "/data/sub/f", open("/data/sub/f.temporary")), "write /data/sub/f: not a directory", ""},
		{Failed("write", Write, "/data/f", unix.ENOSPC), "write /data/f: no space left on device", "sizeLimit"},
		{Failed("read", Read, "/data/f", failure.WithHint(errors.New("it is a pipe"), "exclude it")), "read /data/f: it is a pipe", "exclude it"},
	} {
		var hinted interface{ Hint() string }
		if c.err.Error() != c.want || !errors.As(c.err, &hinted) || !strings.Contains(hinted.Hint(), c.hint) {
			t.Errorf("%v, want %s, with the hint %q", c.err, c.want, c.hint)
		}
	}
	if err := Failed("read", Read, "/data/f", nil); err != nil {
		t.Error(err)
	}
}
