package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const licence = "Apache-2.0"

// build is what an archive is made of: the settings of the verb.
type build struct {
	binaries, version, revision, source, documentation, registry, tag, docker string
	platforms                                                                 []v1.Platform
	made                                                                      time.Time
}

// A variant is a platform's part of all images: its binary's layer, and the SBOM of the binary.
type variant struct {
	platform v1.Platform
	layer    v1.Layer
	sbom     []byte
}

// parsePlatforms reads a list such as linux/amd64,linux/arm/v7, in which spaces are allowed. An empty one means all.
func parsePlatforms(list string) (chosen []v1.Platform, err error) {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	for _, word := range words {
		if !slices.Contains(platforms, word) {
			return nil, fmt.Errorf("platform %q: not one of %s", word, strings.Join(platforms, ", "))
		}
	}
	for _, text := range platforms {
		if len(words) > 0 && !slices.Contains(words, text) {
			continue
		}
		p, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, *p)
	}
	return chosen, nil
}

// write writes the archive, or leaves no file.
func (b *build) write(output string) error {
	if b.tag == "" {
		b.tag = strings.ReplaceAll(b.version, "+", "_") // a tag cannot have a +, and Helm writes it so, too
	}
	var variants []variant
	for _, p := range b.platforms {
		binary := binaryOf(b.binaries, p.Architecture)
		layer, err := newLayer(binary, p.Architecture, b.made)
		if err != nil {
			return err
		}
		bom, err := sbom(binary, b.version, b.made)
		if err != nil {
			return err
		}
		variants = append(variants, variant{p, layer, bom})
	}
	a := archive{blobs: map[string][]byte{}}
	for _, i := range table {
		if err := b.add(&a, i, variants); err != nil {
			return fmt.Errorf("%s: %w", i.name(), err)
		}
	}
	unfinished := output + ".partial"
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	if err := a.write(unfinished, b.made); err != nil {
		os.Remove(unfinished)
		return err
	}
	return os.Rename(unfinished, output)
}

// add adds an image: its index, a manifest for each platform, and the SBOM that refers to it. The SBOM refers to the
// manifest and not to the index, because that is what a node pulls and a scanner looks at, and because the binaries of
// two platforms differ in their modules.
func (b *build) add(a *archive, i image, variants []variant) error {
	fullName, err := name.NewTag(strings.TrimPrefix(b.registry+"/"+i.name(), "/") + ":" + b.tag)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, v := range variants {
		img, err := b.image(i, v)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v.platform}})
		if err := a.image(img); err != nil {
			return err
		}
		if v.platform.Architecture == b.docker {
			if err := a.forDocker(img, fullName.String()); err != nil {
				return err
			}
		}
		if err := b.refer(a, img, v.sbom); err != nil {
			return err
		}
	}
	index = mutate.Annotations(index, b.labels(i)).(v1.ImageIndex)
	raw, err := index.RawManifest()
	if err != nil {
		return err
	}
	a.add(raw)
	desc, err := partial.Descriptor(index)
	if err != nil {
		return err
	}
	desc.Annotations = map[string]string{
		"io.containerd.image.name": nodeName(fullName), // for ctr image import and kind
		refName:                    i.name() + ":" + b.tag,
	}
	a.named = append(a.named, *desc)
	return nil
}

// refName is the annotation by which skopeo finds an image in the layout, as does the verb push.
const refName = "org.opencontainers.image.ref.name"

// nodeName returns the name by which the kubelet finds an image that containerd was given.
func nodeName(tag name.Tag) string {
	return strings.Replace(tag.Name(), "index.docker.io/", "docker.io/", 1)
}

// image returns an image for a platform.
func (b *build) image(i image, v variant) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made := v1.Time{Time: b.made}
	img, err := mutate.Append(img, mutate.Addendum{
		Layer: v.layer, History: v1.History{Created: made, CreatedBy: "images build", Comment: "the binary, and links to it"},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant, config.Created = v.platform.OS, v.platform.Architecture, v.platform.Variant, made
	config.Config = v1.Config{User: user, Entrypoint: i.entrypoint(), WorkingDir: "/", Labels: b.labels(i)}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, b.labels(i)).(v1.Image), nil
}

// labels returns the labels of an image, which are annotations as well, for registries that show those:
// https://specs.opencontainers.org/image-spec/annotations/.
func (b *build) labels(i image) map[string]string {
	labels := map[string]string{}
	for key, value := range map[string]string{
		"title": i.name(), "description": i.What, "licenses": licence, "version": b.version, "revision": b.revision,
		"source": b.source, "documentation": b.documentation, "created": b.made.Format(time.RFC3339),
	} {
		if value != "" {
			labels["org.opencontainers.image."+key] = value
		}
	}
	return labels
}

// refer adds the SBOM as a manifest whose subject is that of an image: https://github.com/opencontainers/image-spec
// (manifest.md, "Guidelines for Artifact Usage").
func (b *build) refer(a *archive, img v1.Image, bom []byte) error {
	subject, err := partial.Descriptor(img)
	if err != nil {
		return err
	}
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: sbomType,
		Config:      a.descriptor([]byte("{}"), "application/vnd.oci.empty.v1+json"),
		Layers:      []v1.Descriptor{a.descriptor(bom, sbomType)},
		Subject:     &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
		Annotations: map[string]string{"org.opencontainers.image.created": b.made.Format(time.RFC3339)},
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	desc := a.descriptor(raw, types.OCIManifestSchema1)
	desc.ArtifactType = sbomType
	a.referrers = append(a.referrers, desc)
	return nil
}
