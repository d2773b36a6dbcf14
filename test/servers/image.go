package servers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"testing"
)

// Media types of the OCI image specification.
const (
	MediaManifest = "application/vnd.oci.image.manifest.v1+json"
	MediaIndex    = "application/vnd.oci.image.index.v1+json"
	MediaConfig   = "application/vnd.oci.image.config.v1+json"
	MediaLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Image is an image, an artifact or an index, as a registry stores it.
type Image struct {
	MediaType string
	Manifest  []byte
	Blobs     [][]byte
	Parts     []Image // of an index
}

// Descriptor describes a blob or a manifest (https://github.com/opencontainers/image-spec, descriptor.md).
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	URLs        []string          `json:"urls,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    map[string]string `json:"platform,omitempty"`
}

// Describe returns the descriptor of some content.
func Describe(mediaType string, content []byte) Descriptor {
	return Descriptor{MediaType: mediaType, Digest: DigestOf(content), Size: len(content)}
}

// DigestOf returns the digest of some content.
func DigestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// Manifest is the manifest of an image or an artifact.
type Manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        Descriptor        `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Image returns an image with this manifest and these blobs.
func (m Manifest) Image(t testing.TB, blobs ...[]byte) Image {
	t.Helper()
	m.SchemaVersion = 2
	if m.MediaType == "" {
		m.MediaType = MediaManifest
	}
	return Image{MediaType: m.MediaType, Manifest: encode(t, m), Blobs: blobs}
}

// NewImage returns an image for linux and an architecture with these layers, the lowest first, which are tar files,
// compressed or not.
func NewImage(t testing.TB, arch string, layers ...[]byte) Image {
	t.Helper()
	config := encode(t, map[string]any{"os": "linux", "architecture": arch, "rootfs": map[string]any{"type": "layers", "diff_ids": []string{}}})
	m := Manifest{Config: Describe(MediaConfig, config)}
	for _, layer := range layers {
		mediaType := MediaLayer
		if bytes.HasPrefix(layer, []byte{0x1f, 0x8b}) {
			mediaType += "+gzip"
		}
		m.Layers = append(m.Layers, Describe(mediaType, layer))
	}
	return m.Image(t, append([][]byte{config}, layers...)...)
}

// NewIndex returns an index of images by platform, such as linux/arm/v7.
func NewIndex(t testing.TB, images map[string]Image) Image {
	t.Helper()
	index := struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []Descriptor `json:"manifests"`
	}{2, MediaIndex, nil}
	i := Image{MediaType: MediaIndex}
	for platform, image := range images {
		d := Describe(image.MediaType, image.Manifest)
		d.Platform = map[string]string{}
		for n, part := range bytes.Split([]byte(platform), []byte("/")) {
			d.Platform[[]string{"os", "architecture", "variant"}[n]] = string(part)
		}
		index.Manifests = append(index.Manifests, d)
		i.Parts = append(i.Parts, image)
	}
	i.Manifest = encode(t, index)
	return i
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Tar returns a tar file with these entries. An entry without a type is a file, or a directory if its name ends in a
// slash; its size is that of its content, in bodies under its name.
func Tar(t testing.TB, bodies map[string]string, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if h.Typeflag == 0 && h.Name[len(h.Name)-1] != '/' {
			h.Size = int64(len(bodies[h.Name]))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, bodies[h.Name][:h.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Gzip returns data compressed.
func Gzip(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
