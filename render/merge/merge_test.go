package merge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"initbox/internal/mounts"
	"initbox/internal/stage"
	"initbox/render/values"
	"initbox/test/servers"
)

// files writes files into a new directory.
func files(t *testing.T, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// merge merges the sources to a file in dir, and returns it.
func merge(t *testing.T, dir, to string, o Options, sources ...string) (string, error) {
	t.Helper()
	for _, s := range sources {
		o.Sources = append(o.Sources, Source{Path: filepath.Join(dir, s)})
	}
	o.To = filepath.Join(dir, to)
	_, err := Run(context.Background(), o)
	text, _ := os.ReadFile(o.To)
	return string(text), err
}

// TestMerge pins which value results from two.
func TestMerge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lists, a, b, want string }{
		{"", `{"a":{"b":1,"c":2}}`, `{"a":{"c":3,"d":4},"e":5}`, `{"a":{"b":1,"c":3,"d":4},"e":5}`},
		{"", `{"a":{"b":1}}`, `{"a":null}`, `{"a":null}`},
		{"", `{"a":null}`, `{"a":{"b":null}}`, `{"a":{"b":null}}`},
		{"", `{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
		{"", `{"a":[1,2]}`, `{"a":3}`, `{"a":3}`},
		{"", `{}`, `{}`, `{}`},
		{"", `{"b":1,"a":1}`, `{"c":1,"a":2,"b":2}`, `{"b":2,"a":2,"c":1}`},
		{"replace", `[1]`, `[2]`, `[2]`},
		{"append", `[1]`, `[2]`, `[1,2]`},
		{"append", `{"a":{"b":[1]}}`, `{"a":{"b":[[1]]}}`, `{"a":{"b":[1,[1]]}}`},
		{"by-key=n", `[{"n":"x","v":[1]},{"n":1}]`, `[{"n":1,"w":2},{"n":"y"},{"n":"x","v":[2]}]`, `[{"n":"x","v":[2]},{"n":1,"w":2},{"n":"y"}]`},
		{"by-key=n", `[{"n":"x"}]`, `[{"n":"y"},{"n":"y","v":1}]`, `[{"n":"x"},{"n":"y","v":1}]`},
		{"by-key=n", `[{"n":"x"},2]`, `[{"n":"y"}]`, `[{"n":"y"}]`},
		{"by-key=n", `[{"n":"x"}]`, `[{"n":["y"]}]`, `[{"n":["y"]}]`},
		{"by-key=n", `[{"n":"x","v":{"a":1}}]`, `[{"n":"x","v":{"b":1}}]`, `[{"n":"x","v":{"a":1,"b":1}}]`},
		{"", `{"a":[{"b":{"c":1}}]}`, `{"a":{"b":1}}`, `error: a is a map here, and a list in an earlier file`},
		{"", `{"a":{"b.c":{}}}`, `{"a":{"b.c":"secret"}}`, `error: a.b.c is a value here, and a map in an earlier file`},
		{"by-key=n", `[{"n":"x","v":{}}]`, `[{"n":"x","v":1}]`, `error: [0].v is a value here, and a map in an earlier file`},
		{"", `[1]`, `{"a":1}`, `error: the file is a map here, and a list in an earlier file`},
		{"", `{"a":1}`, `{"a":1,"a":2}`, `error: duplicate key`},
		{"", `{"a":1}`, strings.Repeat("[", 2000) + strings.Repeat("]", 2000), `error: nested deeper than 1000 levels`},
	} {
		dir := files(t, map[string]string{"a.json": c.a, "b.json": c.b})
		got, err := merge(t, dir, "out.json", Options{Lists: c.lists}, "a.json", "b.json")
		if want, failed := strings.CutPrefix(c.want, "error: "); failed {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || got != "" {
				t.Errorf("%s, %s: %q, %v; want %q", c.a, c.b, got, err, want)
			}
			continue
		}
		if got = strings.Join(strings.Fields(got), ""); err != nil || got != c.want {
			t.Errorf("%s, %s: %s, %v; want %s", c.a, c.b, got, err, c.want)
		}
	}
}

// TestAgain pins that a run on its own result changes nothing, whatever is deleted, set and null.
func TestAgain(t *testing.T) {
	t.Parallel()
	const own = "# head\na: # the a\n  - x # ex\n  # between\n  - y\nb: null\n# foot of b\n\nc: {d: 1} # see\n"
	for _, over := range []string{"b: 1\n", "a: null\n", "c: {e: [1]}\n", "a: [y, z]\nnew:\n- {name: 1} # one\n", "# nothing\n"} {
		for _, order := range [][]string{{"out.yaml", "over.yaml"}, {"over.yaml", "out.yaml"}} {
			dir := files(t, map[string]string{"out.yaml": own, "over.yaml": over})
			o := Options{Edit: values.Edit{Delete: []string{"c.d", "gone.x"}, Set: []values.Source{{Kind: values.Set, Text: "c.f=null,g[1]=x,h=1.5"}}}}
			once, err := merge(t, dir, "out.yaml", o, order...)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := merge(t, dir, "out.yaml", o, order...); err != nil || again != once {
				t.Errorf("%q, %v: %v\n%s\nand then\n%s", over, order, err, once, again)
			}
		}
	}
}

// TestVersion pins that of a mounted ConfigMap one version is read, and none of the kubelet's names.
func TestVersion(t *testing.T) {
	t.Parallel()
	dir := files(t, map[string]string{"cm/..1/b.yaml": "a: 2\n", "cm/..1/a.yaml": "a: 1\nb: 1\n"})
	for link, to := range map[string]string{"..data": "..1", "a.yaml": "..data/a.yaml", "b.yaml": "..data/b.yaml"} {
		if err := os.Symlink(to, filepath.Join(dir, "cm", link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, source := range []string{"cm", "cm/*.yaml"} {
		if got, err := merge(t, dir, "out.yaml", Options{}, source); err != nil || got != "a: 2\nb: 1\n" {
			t.Errorf("%s: %q, %v", source, got, err)
		}
	}
}

// TestFullDisk pins that on a full disk the old file stays, and nothing else does.
func TestFullDisk(t *testing.T) {
	dir := files(t, map[string]string{"big.json": `{"a": "` + strings.Repeat("x", 200_000) + `"}`})
	volume := filepath.Join(dir, "volume")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	servers.Tmpfs(t, volume, "size=64k")
	if err := os.WriteFile(volume+"/out.json", []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := merge(t, dir, "volume/out.json", Options{}, "volume/out.json", "big.json")
	if !errors.Is(err, syscall.ENOSPC) || got != "{}\n" {
		t.Errorf("%.100q, %v; want the old file, and no space left", got, err)
	}
	if left, err := os.ReadDir(volume); err != nil || len(left) != 1 {
		t.Errorf("the volume holds %v, %v", left, err)
	}
}

// TestLink pins that a link in a volume, which another program may have made, does not put what it leads to into DST.
func TestLink(t *testing.T) {
	dir := files(t, map[string]string{"secret.json": `{"password": "hunter2"}`, "a.json": `{"a": 1}`, "volume/x": ""})
	servers.Tmpfs(t, filepath.Join(dir, "volume"), "")
	if err := os.Symlink("../secret.json", dir+"/volume/out.json"); err != nil {
		t.Fatal(err)
	}
	var refused *mounts.LinkError
	if _, err := merge(t, dir, "volume/out.json", Options{}, "volume/out.json", "a.json"); !errors.As(err, &refused) {
		t.Errorf("%v, want that the link is refused", err)
	}
	if got, err := merge(t, dir, "volume/out.json", Options{Follow: true}, "volume/out.json", "a.json"); err != nil {
		t.Errorf("%v with --follow: %s", err, got)
	}
	os.Remove(dir + "/volume/out.json")
	if err := os.Symlink("../secret.json", dir+"/volume/out.json"); err != nil {
		t.Fatal(err)
	}
	if got, err := merge(t, dir, "volume/out.json", Options{}, "a.json"); err != nil || strings.Contains(got, "hunter2") {
		t.Errorf("%q, %v; want that the link is replaced", got, err)
	}
}

// TestInPlace pins that a file that is a mount is written in place, and that the summary says so.
func TestInPlace(t *testing.T) {
	dir := files(t, map[string]string{"a.json": `{"a": 1}`, "volume/file.json": `{}`, "out.json": ""})
	servers.Tmpfs(t, filepath.Join(dir, "volume"), "")
	if err := os.WriteFile(dir+"/volume/file.json", []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(dir+"/volume/file.json", dir+"/out.json", "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir+"/out.json", syscall.MNT_DETACH) })
	o := Options{Sources: []Source{{Path: dir + "/out.json"}, {Path: dir + "/a.json"}}, To: dir + "/out.json"}
	done, err := Run(context.Background(), o)
	if err != nil || !done.InPlace || done.Kind != stage.Changed {
		t.Errorf("%+v, %v; want that it is changed in place", done, err)
	}
}
