package values

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"initbox/internal/mounts"
)

func TestSecrets(t *testing.T) {
	dir := write(t, map[string]string{
		"open.yaml":    "a: public\nport: 80\n",
		"private.yaml": "b: {c: [private, 12345, true, 0.5, '', null, '-']}\n",
		"key":          "file-secret\n",
	})
	for _, name := range []string{"private.yaml", "key"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	v := load(t, Source{Text: filepath.Join(dir, "open.yaml")}, Source{Text: filepath.Join(dir, "private.yaml")},
		Source{Kind: Set, Text: "x=set-secret,y={l1,l2}", Secret: true}, Source{Kind: SetFile, Text: "k=" + filepath.Join(dir, "key")}, Source{Kind: Set, Text: "z=public"})
	equal(t, "secrets", v.Secrets(), []string{"file-secret\n", "set-secret", "private", "12345", "0.5", "l1", "l2", "-"})
	equal(t, "shadow", v.Shadow(), map[string]any{
		"a": "public", "port": int64(80), "z": "public", "x": "tfu-tfdsfu", "y": []any{"m2", "m3"}, "k": "gjmf-tfdsfu\n",
		"b": map[string]any{"c": []any{"qsjwbuf", int64(23456), false, 1.6, "", nil, "."}},
	})
	equal(t, "values stay", v.Map()["x"], "set-secret")
	v = load(t, Source{Text: dir}) // a directory
	equal(t, "secrets", v.Secrets(), []string{"b: {c: [private, 12345, true, 0.5, '', null, '-']}\n", "file-secret\n"})
}

// secretMount makes a directory as the kubelet does, and returns it.
func secretMount(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	swap(t, dir, 0, files)
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		if err := os.Symlink("..data/"+first, filepath.Join(dir, first)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	return dir
}

// swap gives a mount another version, as the kubelet's AtomicWriter does.
func swap(t testing.TB, dir string, version int, files map[string]string) {
	t.Helper()
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	name := fmt.Sprintf("..2026_01_01_00_00_%02d.%d", version%60, version)
	for file, content := range files {
		file = filepath.Join(dir, name, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Chmod(file, 0o644)
	}
	if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSecretMount has what may be on a mounted Secret, and what is not.
func TestSecretMount(t *testing.T) {
	const value = "password: hunter2\n"
	dir := secretMount(t, t.TempDir(), map[string]string{"v.yaml": value, "a/b/v.yaml": value})
	plain := write(t, map[string]string{"v.yaml": value, "..data": "no link"})
	file := filepath.Join(plain, "v.yaml")
	tmpfs, disk := func(string) bool { return true }, func(string) bool { return false }
	bind := func(root string) map[string]string { return map[string]string{file: root} }
	for _, test := range []struct {
		what, file string
		mounts     secretMounts
		want       bool
	}{
		{"a Secret", filepath.Join(dir, "v.yaml"), secretMounts{isTmpfs: tmpfs}, true},
		{"a Secret with paths", filepath.Join(dir, "a/b/v.yaml"), secretMounts{isTmpfs: tmpfs}, true},
		{"a Secret as a directory", dir, secretMounts{isTmpfs: tmpfs}, true},
		{"a directory of a Secret", filepath.Join(dir, "a"), secretMounts{isTmpfs: tmpfs}, true},
		{"a version of a Secret", filepath.Join(dir, "..data"), secretMounts{isTmpfs: tmpfs}, true},
		{"a ConfigMap", filepath.Join(dir, "v.yaml"), secretMounts{isTmpfs: disk}, false},
		{"an emptyDir in memory", file, secretMounts{isTmpfs: tmpfs}, false},
		{"a Secret by subPath", file, secretMounts{isTmpfs: tmpfs, roots: bind("/..2026_01_01_00_00_00.123/v.yaml")}, true},
		{"an emptyDir in memory by subPath", file, secretMounts{isTmpfs: tmpfs, roots: bind("/v.yaml")}, false},
	} {
		test.mounts.roots = map[string]string{"/": "/", file: test.mounts.roots[file]}
		v, err := Load(context.Background(), []Source{{Text: test.file}}, Options{mounts: &test.mounts})
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		if got := len(v.Secrets()) > 0; got != test.want {
			t.Errorf("%s: secret %t", test.what, got)
		}
	}
}

// TestTmpfs asks the machine's own tmpfs.
func TestTmpfs(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "initbox")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	m := machineMounts()
	if !m.isTmpfs(dir) {
		t.Skip("/dev/shm is no tmpfs")
	}
	os.Chmod(dir, 0o755)
	secretMount(t, dir, map[string]string{"key": "hunter2"})
	v, err := Load(context.Background(), []Source{{Text: dir}, {Kind: SetFile, Text: "file=" + filepath.Join(dir, "key")}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "values", v.Map(), map[string]any{"key": "hunter2", "file": "hunter2"})
	equal(t, "secrets", v.Secrets(), []string{"hunter2"})
}

func TestTmpfsRoots(t *testing.T) {
	got := tmpfsRoots(mounts.Parse(strings.NewReader("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n" +
		"40 35 0:55 /..2026_01_01/key /etc/a\\040b rw shared:1 master:2 - tmpfs tmpfs rw,size=1k\n41 35 0:56 / /run/secrets rw - tmpfs tmpfs rw\nrubbish\n")))
	equal(t, "mounts", got, map[string]string{"/etc/a b": "/..2026_01_01/key", "/run/secrets": "/"})
}

func TestShade(t *testing.T) {
	for s, want := range map[string]string{
		"Hunter2!": "Ivoufs3!", "zZ9": "aA1", "0": "1", "": "", "!": "\"", "a\nb": "b\nc", "   ": "   ",
		"пароль": "рбспмэ", "!ñ1": "!ò2", "\xff": "\xff", "密a": "寇b",
	} {
		got := Shade(s)
		if got != want {
			t.Errorf("Shade(%q) = %q, want %q", s, got, want)
		}
	}
	for _, leaf := range []any{int64(0), int64(-1), int64(9223372036854775807), int64(-9223372036854775808), 0.5, 1e300, -2.5e-7, true, "x"} {
		if got := shade(leaf); got == leaf || fmt.Sprintf("%T", got) != fmt.Sprintf("%T", leaf) {
			t.Errorf("shade(%v) = %v", leaf, got)
		}
	}
}

func FuzzShade(f *testing.F) {
	f.Add("Hunter2!")
	f.Add("\xff\x00 ñ")
	f.Fuzz(func(t *testing.T, s string) {
		got := Shade(s)
		if len(got) != len(s) || utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("Shade(%q) = %q", s, got)
		}
		if got == s && strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz0123456789!-") {
			t.Errorf("Shade(%q) is the same", s)
		}
	})
}
