package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	library "github.com/opencontainers/go-digest"
)

// FuzzManifest pins that no manifest breaks the choice of an image, and that every digest in it can be verified.
func FuzzManifest(f *testing.F) {
	for _, s := range []string{
		`{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":2},"layers":[]}`,
		`{"schemaVersion":2,"manifests":[{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","platform":{"os":"linux","architecture":"arm","variant":"v"}}]}`,
		`{"schemaVersion":1,"fsLayers":null}`, `{"config":{"digest":"md5:"},"layers":[{}]}`, `[]`, `null`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		i, err := Open("oci://r/a", Options{Platform: "linux/arm"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := i.read([]byte(text))
		if err != nil {
			return
		}
		for _, part := range append(d.Layers, d.Manifests...) {
			part.Digest.hash().Write(nil)
			supported(part.MediaType)
		}
		if best, err := i.best(d.Manifests); err == nil && best.Platform != nil && (best.Platform.OS != "linux" || best.Platform.Architecture != "arm") {
			t.Errorf("chose %+v", best.Platform)
		}
		hasTitles(&d.manifest)
	})
}

// FuzzLayers pins that no two layers lead to a name that is not below the path, or to a hard link before its file.
func FuzzLayers(f *testing.F) {
	f.Add("d/\nd/a 1\nd/b == d/a", "../../d/x 2\nd/.wh.a", "/d")
	f.Add("e/\ne/a 1\nd -> ../../e", "e/.wh..wh..opq\nd/b == e/a", "/d/../d")
	f.Add("d/x == d/x\na == b\nb == a\nl -> l", ".wh.\n.wh..\n.wh...\n/", "/")
	f.Add("a/b/c 1", "a/b -> ../x", "a/b/c")
	f.Fuzz(func(t *testing.T, lower, upper, at string) {
		o := Options{Path: at, Temp: func() (*os.File, error) { return nil, os.ErrInvalid }}
		i, err := Open("oci://r/a", o)
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close()
		for _, lines := range []string{upper, lower} {
			content := layerOf(lines)
			d := descriptor{Digest: digestOf(content), Size: int64(len(content))}
			file, err := os.Create(filepath.Join(t.TempDir(), "layer"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.Write(content); err != nil {
				t.Fatal(err)
			}
			i.blobs[d.Digest] = file
			i.layers = append(i.layers, d)
		}
		put := map[string]bool{}
		i.extract(context.Background(), func(h *tar.Header, r io.Reader) error {
			if h.Name != path.Clean(h.Name) || path.IsAbs(h.Name) || h.Name == ".." || strings.HasPrefix(h.Name, "../") {
				t.Errorf("put %q", h.Name)
			}
			if h.Typeflag == tar.TypeLink && !put[h.Linkname] {
				t.Errorf("the hard link %q comes before %q", h.Name, h.Linkname)
			}
			put[h.Name] = true
			_, err := io.Copy(io.Discard, r)
			return err
		})
	})
}

// layerOf makes a layer of lines, as layer does, without those that cannot be in a tar.
func layerOf(lines string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for line := range strings.SplitSeq(lines, "\n") {
		name, rest, _ := strings.Cut(line, " ")
		h := tar.Header{Name: name, Mode: 0o755}
		if target, ok := strings.CutPrefix(rest, "-> "); ok {
			h.Typeflag, h.Linkname = tar.TypeSymlink, target
		} else if target, ok := strings.CutPrefix(rest, "== "); ok {
			h.Typeflag, h.Linkname = tar.TypeLink, target
		}
		w.WriteHeader(&h)
	}
	w.Close()
	return b.Bytes()
}

// FuzzLogin pins that no configuration file breaks the search for a login.
func FuzzLogin(f *testing.F) {
	f.Add("https://index.docker.io/v1/", "docker.io", "library/nginx")
	f.Add("*.example.com/team", "r.example.com", "team/app")
	f.Add("[", "r", "")
	f.Fuzz(func(t *testing.T, key, registry, repository string) {
		if matches(key, registry, repository) >= 0 && key != registry && !strings.ContainsAny(key, "*?[\\/.") {
			t.Errorf("%q fits %s/%s", key, registry, repository)
		}
	})
}

// FuzzChallenge pins that a challenge never breaks its reader, and that it reads what is quoted correctly.
func FuzzChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://auth.example.com/token",service="registry",scope="repository:a/b:pull"`, "https://r")
	f.Add(`bearer , realm = a , x="\"" y`, "a\"b\\c")
	f.Add(`Basic realm="x"`, "")
	f.Add(`Bearer realm="`, "\x00")
	f.Fuzz(func(t *testing.T, value, realm string) {
		challenge(http.Header{"Www-Authenticate": {value}})
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(realm)
		scheme, parameters := challenge(http.Header{"Www-Authenticate": {"Negotiate", `BEARER a=b,Realm = "` + quoted + `" ,service=s, broken`}})
		if scheme != "bearer" || parameters["realm"] != realm || parameters["a"] != "b" || parameters["service"] != "s" || len(parameters) != 3 {
			t.Errorf("%q: got %s %q", realm, scheme, parameters)
		}
	})
}

// TestDigests compares the digests that are accepted, and those computed, with the library of the OCI.
func TestDigests(t *testing.T) {
	t.Parallel()
	sum := func(n int) string { return strings.Repeat("0123456789abcdef", n/16) }
	for _, text := range []string{"", ":", "sha256", "sha256:", ":" + sum(64), "sha256:" + sum(64), "sha256:" + sum(48), "sha256:" + sum(80), "sha512:" + sum(128), "sha512:" + sum(64),
		"sha384:" + sum(96), "SHA256:" + sum(64), "sha256:" + strings.ToUpper(sum(64)), "sha256:../" + sum(64)[3:], "sha256:" + sum(64) + "\n", "sha256::" + sum(64)[1:], "md5:" + sum(32), "sha256:" + sum(48) + "0123456789abcdeg"} {
		if got, want := digest(text).validate(), library.Digest(text).Validate(); (got == nil) != (want == nil) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	for _, algorithm := range []library.Algorithm{library.SHA256, library.SHA384, library.SHA512} {
		want := algorithm.FromString("content")
		if got := digest(want).of([]byte("content")); string(got) != want.String() {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := digestOf([]byte("x")), library.FromString("x"); string(got) != want.String() {
		t.Errorf("got %s, want %s", got, want)
	}
}
