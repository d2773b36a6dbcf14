package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"initbox/test/servers"
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
			part.Digest.Verifier().Write(nil)
			supported(part.MediaType)
		}
		if best, err := i.best(d.Manifests); err == nil && best.Platform != nil && (best.Platform.OS != "linux" || best.Platform.Architecture != "arm") {
			t.Errorf("chose %+v", best.Platform)
		}
		hasTitles(&d.Manifest)
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
			d := v1.Descriptor{Digest: digestOf(content), Size: int64(len(content))}
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

func digestOf(content []byte) digest.Digest { return digest.Digest(servers.DigestOf(content)) }
