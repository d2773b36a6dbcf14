package oci

import (
	"archive/tar"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"initbox/test/servers"
	"initbox/test/soak"
)

var noTime time.Time

// layer makes a layer of lines: "dir/", "file content", "link -> target", "hard == target", ".wh.name".
func layer(t *testing.T, lines ...string) []byte {
	t.Helper()
	var entries []tar.Header
	bodies := map[string]string{}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		h := tar.Header{Name: name}
		if target, ok := strings.CutPrefix(rest, "-> "); ok {
			h.Typeflag, h.Linkname = tar.TypeSymlink, target
		} else if target, ok := strings.CutPrefix(rest, "== "); ok {
			h.Typeflag, h.Linkname = tar.TypeLink, target
		} else {
			bodies[name] = rest
		}
		entries = append(entries, h)
	}
	return servers.Tar(t, bodies, entries...)
}

// TestPath pins what is taken out of an image.
func TestPath(t *testing.T) {
	t.Parallel()
	base := layer(t, "usr/", "usr/lib/", "usr/lib/z.so z", "lib -> usr/lib", "etc/", "etc/conf c", "bin/", "bin/sh sh")
	for name, tt := range map[string]struct {
		path   string
		layers [][]byte
		want   string
	}{
		"a directory": {"/opt/p", [][]byte{base, layer(t, "opt/", "opt/p/", "opt/p/a 1", "opt/p/b/", "opt/p/b/c 2", "opt/q 3")},
			". dir 755\na 755 1\nb dir 755\nb/c 755 2"},
		"a file":                                {"/etc/conf", [][]byte{base}, "conf 755 c"},
		"a file by a link":                      {"/lib/z.so", [][]byte{base}, "z.so 755 z"},
		"a file that is a link":                 {"/opt/now", [][]byte{base, layer(t, "opt/", "opt/v1 one", "opt/now -> v1")}, "now 755 one"},
		"a directory that is a link":            {"opt/now/", [][]byte{layer(t, "opt/v1/", "opt/v1/a 1"), layer(t, "opt/", "opt/now -> ../opt/v1")}, ". dir 755\na 755 1"},
		"the root":                              {"/", [][]byte{layer(t, "./", "./a 1"), layer(t, "b 2", ".wh.a")}, ". dir 755\nb 755 2"},
		"no entries for directories":            {"/opt/p", [][]byte{base, layer(t, "opt/p/a 1"), layer(t, "opt/p/b 2")}, "a 755 1\nb 755 2"},
		"a link by which a higher layer writes": {"/usr/lib", [][]byte{base, layer(t, "usr/", "usr/lib/", "usr/lib/y.so y")}, ". dir 755\ny.so 755 y\nz.so 755 z"},
		"a link to the root":                    {"/r", [][]byte{layer(t, "r -> /", "a 1")}, "a 755 1\nr -> ."},
		"replaced and deleted": {"/d", [][]byte{
			layer(t, "d/", "d/a old", "d/b old", "d/c/", "d/c/x old", "d/e/", "d/e/x old", "d/f old", "d/g/", "d/g/x old"),
			layer(t, "d/", "d/a new", "d/.wh.b", "d/.wh.c", "d/e/", "d/e/.wh..wh..opq", "d/e/y new", "d/f/", "d/f/x new", "d/g new"),
		}, ". dir 755\na 755 new\ne dir 755\ne/y 755 new\nf dir 755\nf/x 755 new\ng 755 new"},
		"deleted, and made again": {"/d", [][]byte{layer(t, "d/", "d/a 1"), layer(t, ".wh.d"), layer(t, "d/", "d/b 2")}, ". dir 755\nb 755 2"},
		"a whiteout beside what replaces it": {"/d", [][]byte{layer(t, "d/", "d/a/", "d/a/x 1"), layer(t, "d/", "d/a/", "d/a/y 2", "d/.wh.a")},
			". dir 755\na dir 755\na/y 755 2"},
		"links": {"/d", [][]byte{layer(t, "d/", "d/a 1", "d/in -> /d/sub/../a", "d/sub/", "d/sub/up -> /d", "d/out -> /etc/conf", "d/rel -> ../etc")},
			". dir 755\na 755 1\nin -> a\nout -> /etc/conf\nrel -> ../etc\nsub dir 755\nsub/up -> .."},
		"hard links within":            {"/d", [][]byte{layer(t, "d/", "d/a 1", "d/b == d/a", "d/c == /d/b")}, ". dir 755\na 755 1\nb 755 1\nc 755 1"},
		"hard links to outside":        {"/d", [][]byte{layer(t, "x/a 1", "d/", "d/b == x/a", "d/c == x/a")}, ". dir 755\nb 755 1\nc 755 1"},
		"hard links to a lower layer":  {"/d", [][]byte{layer(t, "x/a 1", "d/", "d/y 2"), layer(t, "d/", "d/b == x/a", "d/c == d/y")}, ". dir 755\nb 755 1\nc 755 2\ny 755 2"},
		"hard links to hard links":     {"/d", [][]byte{layer(t, "x/b == x/a", "x/c == x/b", "x/a 1", "d/", "d/b == x/c")}, ". dir 755\nb 755 1"},
		"a hard link to what is newer": {"/d", [][]byte{layer(t, "d/", "d/a old", "d/b == d/a"), layer(t, "d/", "d/a new")}, ". dir 755\na 755 new\nb 755 old"},
		"a file that is a hard link":   {"/d/b", [][]byte{layer(t, "x/a 1", "d/", "d/b == x/a")}, "b 755 1"},
		"names that lead out":          {"/d", [][]byte{layer(t, "d/", "/d/abs 1", "../d/up 2", "d/../../etc/passwd 3")}, ". dir 755\nabs 755 1\nup 755 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.push("app", "1", servers.NewImage(t, "amd64", tt.layers...))
			got, err := fetch(t, f.host+"/app:1", tt.path)
			if err != nil || got.String() != tt.want {
				t.Errorf("got:\n%v\nwant:\n%s\nerror: %v", got, tt.want, err)
			}
		})
	}
}

// TestOnlyNeededLayers pins that a layer is not downloaded if nothing in it can be part of the result.
func TestOnlyNeededLayers(t *testing.T) {
	t.Parallel()
	base := layer(t, "etc/", "etc/a 1", "opt/", "opt/p/", "opt/p/old 1")
	for name, tt := range map[string]struct {
		path  string
		upper []byte
		blobs int
	}{
		"a file":              {"/etc/b", layer(t, "etc/", "etc/b 2"), 1},
		"a directory":         {"/etc", layer(t, "etc/", "etc/b 2"), 2},
		"an opaque one":       {"/opt/p", layer(t, "opt/", "opt/p/", "opt/p/.wh..wh..opq", "opt/p/new 2"), 1},
		"in an opaque one":    {"/opt/p", layer(t, "opt/", "opt/.wh..wh..opq", "opt/p/", "opt/p/new 2"), 1},
		"one that is deleted": {"/opt/p", layer(t, ".wh.opt", "opt/", "opt/p/", "opt/p/new 2"), 1},
		"of a new directory":  {"/opt/p/new", layer(t, "opt/", "opt/p/", "opt/p/new/", "opt/p/new/.wh..wh..opq", "opt/p/new/x 2"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.push("app", "1", servers.NewIndex(t, map[string]servers.Image{"linux/amd64": servers.NewImage(t, "amd64", base, servers.Gzip(t, tt.upper))}))
			if _, err := fetch(t, f.host+"/app:1", tt.path, onPlatform("linux/amd64")); err != nil {
				t.Error(err)
			}
			if n := f.count(http.MethodGet, "/blobs/"); n != tt.blobs {
				t.Errorf("%d blobs were requested, want %d", n, tt.blobs)
			}
		})
	}
}

func onPlatform(p string) func(*Options) { return func(o *Options) { o.Platform = p } }

// TestManyNames pins that the names of an image cannot fill the memory.
func TestManyNames(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.push("app", "1", servers.NewImage(t, "amd64", layer(t, "d/"+strings.Repeat("x/", 2050))))
	if _, err := fetch(t, f.host+"/app:1", "/d"); err == nil || !strings.Contains(err.Error(), "layer 1 of 1: a name of more than 4096 bytes") {
		t.Error(err)
	}
	n := newNames()
	for i := range 100_000 {
		n.delete(fmt.Sprint("d/", i, strings.Repeat("x", 4000)), true)
		n.delete(fmt.Sprint("d/", i, strings.Repeat("x", 4000)), true)
		if n.room < 0 {
			if size := (i + 1) * 2 * 4000; size > maxNames {
				t.Errorf("%d bytes of names", size)
			}
			return
		}
	}
	t.Error("there is no limit")
}

// TestPathMissing pins the message for a path that the image does not have.
func TestPathMissing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.push("other", "1", servers.NewImage(t, "amd64", layer(t, "usr/", "usr/lib/", "lib -> usr/lib"), layer(t, "lib/y.so y")))
	for _, path := range []string{"/lib", "/"} { // which a runtime would write to usr/lib
		if _, err := fetch(t, f.host+"/other:1", path); err == nil || !strings.Contains(err.Error(), "/lib is a symbolic link, and a higher layer has files below it") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for n, lines := range [][]string{{"d/p/a 1", "d -> e"}, {"d -> e", "d/p/a 1"}, {"d/p/a 1", "d/p 1"}, {"d/p 1", "d 1"}, {"d/p/", "d/p -> e"}} {
		f.push("conflict", fmt.Sprint(n), servers.NewImage(t, "amd64", layer(t, lines...)))
		if _, err := fetch(t, fmt.Sprintf("%s/conflict:%d", f.host, n), "/d/p"); err == nil || !strings.Contains(err.Error(), "is not a directory, and the same layer has files below it") {
			t.Errorf("%s: %v", lines, err)
		}
	}
	f.push("app", "1", servers.NewImage(t, "amd64", layer(t, "opt/", "opt/keycloak/", "opt/keycloak/themes/", "opt/readme r", "loop -> loop", "away -> /nowhere"), layer(t, "srv/")))
	for path, want := range map[string][]string{
		"/opt/keyclaok/themes": {"has no /opt/keyclaok/themes", "did you mean /opt/keycloak? /opt has keycloak, readme"},
		"/opt/readme/x":        {"has no /opt/readme/x", ""},
		"/loop/x":              {"more than 40 symbolic links", ""},
		"/away/x":              {"/away/x of the image leads to /nowhere/x", "/ has away, loop, opt, srv"},
	} {
		_, err := fetch(t, f.host+"/app:1", path)
		if err == nil || !strings.Contains(err.Error(), want[0]) || !strings.Contains(hintOf(err), want[1]) {
			t.Errorf("%s: %v\nhint: %s", path, err, hintOf(err))
		}
	}
}

// engine is the image as a container engine makes it: layer by layer, from the lowest. It is names of files and
// what they are, as in a result.
type engine map[string]string

func (f engine) apply(lines []string) {
	mine := map[string]bool{}
	remove := func(name string, itself bool) {
		for n := range f {
			if (itself && n == name || strings.HasPrefix(n, name+"/")) && !mine[n] {
				delete(f, n)
			}
		}
	}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		dir, base := path.Split(strings.TrimSuffix(name, "/"))
		dir = strings.TrimSuffix(dir, "/")
		if base == opaque {
			remove(dir, false)
			continue
		}
		if gone, ok := strings.CutPrefix(base, whiteout); ok {
			remove(path.Join(dir, gone), true)
			continue
		}
		for up := dir; up != "" && up != "."; up = path.Dir(up) {
			if f[up] == "" {
				f[up], mine[up] = "dir 755", true
			}
		}
		isDir := strings.HasSuffix(name, "/")
		if name = strings.TrimSuffix(name, "/"); f[name] != "" && !(isDir && strings.HasPrefix(f[name], "dir")) {
			remove(name, true)
		}
		mine[name] = true
		switch target, hard := strings.CutPrefix(rest, "== "); {
		case isDir:
			f[name] = "dir 755"
		case hard:
			f[name] = f[target]
		case strings.HasPrefix(rest, "-> "):
			f[name] = rest
		default:
			f[name] = "755 " + rest
		}
	}
}

// at returns what is below a directory.
func (f engine) at(dir string) result {
	r := result{}
	for name, is := range f {
		if rel, ok := within(name, dir); ok {
			r[rel] = is
		}
	}
	return r
}

// TestLayersVariety compares images of random layers with the reference, at each of their directories.
func TestLayersVariety(t *testing.T) {
	t.Parallel()
	r := soak.Rand(t)
	for n := range 60 {
		f := newFake(t)
		want := engine{}
		var layers [][]byte
		var all [][]string
		for range 2 + r.IntN(4) {
			lines := randomLayer(r, want)
			want.apply(lines)
			all = append(all, lines)
			layers = append(layers, layer(t, lines...))
		}
		f.push("app", "1", servers.NewImage(t, "amd64", layers...))
		for _, dir := range slices.Sorted(maps.Keys(want)) {
			if !strings.HasPrefix(want[dir], "dir") {
				continue
			}
			got, err := fetch(t, f.host+"/app:1", "/"+dir)
			wanted := want.at(dir)
			if got["."] == "" { // a directory without an entry
				got["."] = "dir 755"
			}
			if err != nil || got.String() != wanted.String() {
				t.Fatalf("image %d, /%s:\n%v\nwant:\n%v\nerror: %v\nlayers:\n%s", n, dir, got, wanted, err, strings.Join(joined(all), "\n--\n"))
			}
		}
		f.Close()
	}
}

func joined(all [][]string) (s []string) {
	for _, lines := range all {
		s = append(s, strings.Join(lines, "\n"))
	}
	return s
}

// randomLayer returns a layer over what lower layers have: files, directories, deletions and links.
func randomLayer(r *rand.Rand, below engine) (lines []string) {
	names := []string{"a", "b", "c"}
	mine := map[string]string{}
	now := maps.Clone(below)
	for range 1 + r.IntN(8) {
		var dirs []string
		name := names[r.IntN(3)]
		for range r.IntN(3) {
			dirs = append(dirs, name)
			name += "/" + names[r.IntN(3)]
		}
		if mine[name] != "" || slices.ContainsFunc(dirs, func(d string) bool { return mine[d] != "" && mine[d] != "dir" }) {
			continue
		}
		for _, d := range dirs {
			if mine[d] == "" && (r.IntN(4) > 0 || now[d] != "" && !strings.HasPrefix(now[d], "dir")) {
				lines = append(lines, d+"/")
			}
			mine[d] = "dir"
		}
		line := ""
		switch r.IntN(7) {
		case 0:
			line, mine[name] = name+"/", "dir"
		case 1:
			if below[name] != "" {
				line, mine[name] = path.Dir(name)+"/.wh."+path.Base(name), "gone"
			}
		case 2:
			if strings.HasPrefix(below[name], "dir") {
				lines = append(lines, name+"/")
				line, mine[name] = name+"/"+opaque, "dir"
			}
		case 3:
			line, mine[name] = name+" -> ../nowhere", "link"
		case 4:
			files := slices.Sorted(maps.Keys(now))
			files = slices.DeleteFunc(files, func(n string) bool {
				return !strings.HasPrefix(now[n], "755") || n == name || strings.HasPrefix(n, name+"/") || strings.HasPrefix(name, n+"/")
			})
			if len(files) > 0 {
				target := files[r.IntN(len(files))]
				line, mine[name] = name+" == "+target, "file"
				for kind := "file"; target != "."; target, kind = path.Dir(target), "dir" { // which must stay in this layer
					if mine[target] == "" {
						mine[target] = kind
					}
				}
			}
		default:
			line, mine[name] = fmt.Sprint(name, " ", r.IntN(1000)), "file"
		}
		if line != "" {
			lines = append(lines, strings.TrimPrefix(line, "./"))
		}
		now = maps.Clone(below)
		now.apply(lines)
	}
	return lines
}
