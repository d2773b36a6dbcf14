package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// archive is an OCI layout (image-spec, image-layout.md) with a manifest.json for docker load: content by its digest,
// and what the top of the layout says about it. The manifests of SBOMs are in referrers.json, an index of our own for
// the verb push, and not in index.json: ctr image import --digests, which kind load uses, tries to unpack all that is
// there.
type archive struct {
	blobs     map[string][]byte // by path
	named     []v1.Descriptor   // the images' indexes
	referrers []v1.Descriptor   // the manifests of SBOMs
	docker    []dockerImage
}

const referrersFile = "referrers.json"

// dockerImage is an entry of manifest.json, of which docker load before Docker 25 knows nothing else.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// add adds content, and returns its digest.
func (a *archive) add(content []byte) v1.Hash {
	digest, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		panic(err) // a bytes.Reader has none
	}
	a.blobs[blobPath(digest)] = content
	return digest
}

// descriptor adds content, and returns what describes it.
func (a *archive) descriptor(content []byte, mediaType types.MediaType) v1.Descriptor {
	return v1.Descriptor{MediaType: mediaType, Size: int64(len(content)), Digest: a.add(content)}
}

// image adds the manifest, the configuration and the layers of an image.
func (a *archive) image(img v1.Image) error {
	manifest, err := img.RawManifest()
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	a.add(manifest)
	a.add(config)
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		if a.blobs[blobPath(digest)] != nil {
			continue // of another image
		}
		content, err := layer.Compressed()
		if err != nil {
			return err
		}
		if a.blobs[blobPath(digest)], err = io.ReadAll(content); err != nil {
			return err
		}
	}
	return nil
}

// forDocker adds an image, which the archive has, to those that docker load takes.
func (a *archive) forDocker(img v1.Image, tag string) error {
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	entry := dockerImage{Config: blobPath(manifest.Config.Digest), RepoTags: []string{tag}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blobPath(layer.Digest))
	}
	a.docker = append(a.docker, entry)
	return nil
}

// write writes the archive as a tar.
func (a *archive) write(path string, made time.Time) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	files := maps.Clone(a.blobs)
	files["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	for name, list := range map[string][]v1.Descriptor{"index.json": a.named, referrersFile: a.referrers} {
		index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: list}
		if files[name], err = json.Marshal(index); err != nil {
			return err
		}
	}
	if len(a.docker) > 0 {
		if files["manifest.json"], err = json.Marshal(a.docker); err != nil {
			return err
		}
	}
	w := tar.NewWriter(f)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: made, Format: tar.FormatUSTAR,
		}); err != nil {
			return err
		}
		if _, err := w.Write(files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
