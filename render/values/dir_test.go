package values

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestSwapFile reads one file of such a mount.
func TestSwapFile(t *testing.T) {
	dir := secretMount(t, t.TempDir(), map[string]string{"v.yaml": "version: 0\n"})
	var done sync.WaitGroup
	stop := make(chan struct{})
	done.Go(func() {
		for {
			_, err := Load(context.Background(), []Source{{Text: filepath.Join(dir, "v.yaml")}}, Options{mounts: onDisk})
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // ten times in a row
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for n := range 100 {
		swap(t, dir, n+1, map[string]string{"v.yaml": fmt.Sprintf("version: %d\n", n+1)})
	}
	close(stop)
	done.Wait()
	equal(t, "the last version", load(t, Source{Text: filepath.Join(dir, "v.yaml")}).Map(), map[string]any{"version": int64(100)})
}

// TestSwap reads a mount while the kubelet gives it one version after another: what is read is one of them, whole.
func TestSwap(t *testing.T) {
	const keys, versions, readers = 20, 40, 2
	version := func(n int) map[string]string {
		files := map[string]string{}
		for i := range keys {
			files[fmt.Sprintf("key%d", i)] = fmt.Sprint(n)
		}
		return files
	}
	dir := secretMount(t, t.TempDir(), version(0))
	var done sync.WaitGroup
	stop := make(chan struct{})
	reads, replaced := make([]int, readers), make([]int, readers)
	for r := range readers {
		done.Go(func() {
			for {
				v, err := Load(context.Background(), []Source{{Text: dir}}, Options{mounts: onDisk})
				if errors.As(err, new(*swappedError)) { // ten times in a row: no kubelet is that quick
					replaced[r]++
				} else if err != nil {
					t.Error(err)
				} else if m := v.Map(); len(m) != keys {
					t.Errorf("%d keys: %v", len(m), m)
				} else {
					reads[r]++
					for k, e := range m {
						if e != m["key0"] {
							t.Errorf("two versions: key0=%v, %s=%v", m["key0"], k, e)
						}
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for n := range versions {
		swap(t, dir, n+1, version(n+1))
	}
	close(stop)
	done.Wait()
	if v := load(t, Source{Text: dir}); v.Map()["key0"] != fmt.Sprint(versions) {
		t.Errorf("the last version: %v", v.Map())
	}
	t.Logf("%v reads, %v times replaced again and again", reads, replaced)
}

func TestDirectory(t *testing.T) {
	dir := write(t, map[string]string{"a": "1", "in/b": "2", "outside/secret": "hunter2", "f/x": "y"})
	in := filepath.Join(dir, "in")
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("b", "in/link")
	equal(t, "a link in the directory", load(t, Source{Text: in}).Map(), map[string]any{"b": "2", "link": "2"})
	link("in", "linked")
	equal(t, "a link to the directory", load(t, Source{Text: filepath.Join(dir, "linked")}).Map(), map[string]any{"b": "2", "link": "2"})

	for name, test := range map[string]struct {
		make func(name string) error
		want string
	}{
		"out":  {func(name string) error { return os.Symlink("../outside/secret", name) }, "escapes"},
		"abs":  {func(name string) error { return os.Symlink("/etc/passwd", name) }, "escapes"},
		"gone": {func(name string) error { return os.Symlink("nowhere", name) }, "no such file"},
		"self": {func(name string) error { return os.Symlink("self", name) }, ""},
		"loop": {func(name string) error { return os.Symlink(".", name) }, "too many levels of symbolic links"},
		"pipe": {func(name string) error { return syscall.Mkfifo(name, 0o644) }, "not a file"},
		"large": {func(name string) error {
			return errors.Join(os.WriteFile(name, nil, 0o644), os.Truncate(name, 1<<20+1))
		}, "longer than 1048576"},
		"many/x": {many, "more than 16777216 bytes"},
	} {
		name = filepath.Join(in, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := test.make(name); err != nil {
			t.Fatal(err)
		}
		_, err := Load(context.Background(), []Source{{Text: in}}, Options{mounts: onDisk})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), in) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if filepath.Dir(name) != in {
			name = filepath.Dir(name)
		}
		os.RemoveAll(name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(ctx, []Source{{Text: in}}, Options{mounts: onDisk}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// many fills a directory with more than there may be, in files that are holes.
func many(name string) error {
	for i := range 17 {
		file := fmt.Sprint(name, i)
		if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Truncate(file, 1<<20)); err != nil {
			return err
		}
	}
	return nil
}

// FuzzDirectory reads directories made of fragments of mounts: each line of the text
// makes a file (name=content), a directory (name/) or a link (name>target).
func FuzzDirectory(f *testing.F) {
	f.Add("..v1/\n..v1/key=value\n..data>..v1\nkey>..data/key")
	f.Add("..data>..data\nkey>..data/key")
	f.Add("..data>.\nkey=x\na/\na/b>..")
	f.Add("..data>..gone\nkey=x")
	f.Add("..data=file\nkey=x\n.x=y\n..z=w")
	f.Add("a>b\nb>a\nc>/etc/passwd\nd>../../../etc")
	f.Fuzz(func(t *testing.T, text string) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(parent, "outside"), []byte("hunter2"), 0o644); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		lines := strings.Split(text, "\n")
		for _, line := range lines[:min(len(lines), 30)] {
			if name, ok := strings.CutSuffix(line, "/"); ok {
				root.Mkdir(name, 0o755)
			} else if name, target, ok := strings.Cut(line, ">"); ok {
				root.Symlink(target, name)
			} else if name, content, ok := strings.Cut(line, "="); ok {
				if file, err := root.Create(name); err == nil {
					file.WriteString(content)
					file.Close()
				}
			}
		}
		v, err := Load(context.Background(), []Source{{Text: dir}}, Options{mounts: onDisk})
		if err != nil {
			return
		}
		v.root.walk("", func(path string, n *node) {
			if strings.Contains(fmt.Sprint(n.leaf), "hunter2") && !strings.Contains(text, "hunter2") {
				t.Errorf("%q: %s is from outside", text, path)
			}
		})
		checkNames(t, v.Map())
	})
}

func checkNames(t *testing.T, m map[string]any) {
	for k, e := range m {
		if strings.HasPrefix(k, "..") {
			t.Errorf("the key %q", k)
		}
		if m, ok := e.(map[string]any); ok {
			checkNames(t, m)
		}
	}
}

// emptyKey reports whether a key in path is empty: JSON can have one, and no path can name it.
func emptyKey(path string) bool {
	return strings.HasPrefix(path, ".") || strings.HasPrefix(path, "[") || strings.HasSuffix(path, ".") || strings.Contains(path, "..") || strings.Contains(path, ".[")
}

// FuzzSet sets anything, and asks for what was set.
func FuzzSet(f *testing.F) {
	for _, s := range []string{"a=1,b.c[2]={x,y}", "a[0].b[1][2]=null,a[0]=x", `a\.b=c\,d,e=`, "a.b=1,a=null,a.c=2", "a[65536]=x", "{\"a\": 1}", "a={\"b\": [1]},c=2", `{"": [0]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []Kind{Set, SetString, SetJSON} {
			v, err := Load(context.Background(), []Source{{Kind: kind, Text: text, Secret: true}}, Options{mounts: onDisk})
			if err != nil {
				continue
			}
			m, shadow := v.Map(), v.Shadow()
			if len(m) != len(shadow) {
				t.Errorf("%s %q: %v and its shadow %v", kind, text, m, shadow)
			}
			leaves := 0
			v.root.walk("", func(path string, n *node) {
				if leaves++; leaves > 20 || strings.Contains(path, `\`) && !n.secret || emptyKey(path) {
					return
				}
				if origins, err := v.Explain(path); err != nil && path != "Values" && !strings.HasPrefix(path, "Values.") || err == nil && len(origins) == 0 {
					t.Errorf("%s %q: explain %q: %v, %v", kind, text, path, origins, err)
				}
			})
			v.Secrets()
		}
	})
}
