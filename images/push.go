package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push pushes all images of an archive, with their SBOMs, to a registry, with the logins of ~/.docker/config.json. To
// out, it prints a line REGISTRY/NAME@DIGEST for each image, which is what one signs. Layers are sent once: the other
// repositories mount them from that of the first image, if the registry knows how.
func push(ctx context.Context, path, registry string, tags []string, plain bool, out io.Writer) error {
	dir, err := os.MkdirTemp("", "initbox-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpack(path, dir); err != nil {
		return fmt.Errorf("unpack %s: %w", path, err)
	}
	if err := join(dir); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	top, err := root.IndexManifest()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	pusher, err := remote.NewPusher(remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return err
	}
	p := pushing{root: root, pusher: pusher, homes: map[v1.Hash]name.Repository{}}
	if plain {
		p.options = append(p.options, name.Insecure)
	}
	for _, desc := range top.Manifests {
		if desc.Annotations[refName] != "" {
			err = p.image(ctx, registry+"/"+desc.Annotations[refName], desc, tags, out)
		} else {
			err = p.referrer(ctx, desc)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// join adds the manifests of SBOMs to the index of a layout.
func join(dir string) error {
	var whole v1.IndexManifest
	for _, name := range []string{"index.json", referrersFile} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		var part v1.IndexManifest
		if err := json.Unmarshal(content, &part); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		part.Manifests = append(whole.Manifests, part.Manifests...)
		whole = part
	}
	content, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "index.json"), content, 0o644)
}

// pushing is a push that is under way.
type pushing struct {
	root    v1.ImageIndex
	pusher  *remote.Pusher
	options []name.Option
	first   name.Repository             // where the layers are
	homes   map[v1.Hash]name.Repository // where the manifests that SBOMs refer to are
}

func (p *pushing) image(ctx context.Context, ref string, desc v1.Descriptor, tags []string, out io.Writer) error {
	tag, err := name.NewTag(ref, p.options...)
	if err != nil {
		return err
	}
	index, err := p.root.ImageIndex(desc.Digest)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	for _, m := range manifest.Manifests {
		p.homes[m.Digest] = tag.Repository
	}
	if p.first == (name.Repository{}) {
		p.first = tag.Repository
	} else {
		index = mountedIndex{index, p.first}
	}
	for _, t := range append([]string{tag.TagStr()}, tags...) {
		if err := p.pusher.Push(ctx, tag.Repository.Tag(t), index); err != nil {
			return fmt.Errorf("push %s:%s: %w", tag.Repository, t, err)
		}
	}
	_, err = fmt.Fprintf(out, "%s@%s\n", tag.Repository, desc.Digest)
	return err
}

func (p *pushing) referrer(ctx context.Context, desc v1.Descriptor) error {
	img, err := p.root.Image(desc.Digest)
	if err != nil {
		return err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	if manifest.Subject == nil {
		return fmt.Errorf("%s has neither a name nor a subject", desc.Digest)
	}
	home, known := p.homes[manifest.Subject.Digest]
	if !known {
		return fmt.Errorf("%s refers to %s, which no image has", desc.Digest, manifest.Subject.Digest)
	}
	if err := p.pusher.Push(ctx, home.Digest(desc.Digest.String()), img); err != nil {
		return fmt.Errorf("push what refers to %s: %w", home.Digest(manifest.Subject.Digest.String()), err)
	}
	return nil
}

// mountedIndex is an index whose layers are in another repository of the registry already.
type mountedIndex struct {
	anIndex
	from name.Repository
}

type anIndex interface{ v1.ImageIndex } // embedded under another name than that of one of its methods

func (i mountedIndex) Image(digest v1.Hash) (v1.Image, error) {
	img, err := i.anIndex.Image(digest)
	return mountedImage{img, i.from}, err
}

type mountedImage struct {
	v1.Image
	from name.Repository
}

func (i mountedImage) Layers() ([]v1.Layer, error) {
	layers, err := i.Image.Layers()
	for n, layer := range layers {
		layers[n] = &remote.MountableLayer{Layer: layer, Reference: i.from.Tag("latest")} // of which only the repository counts
	}
	return layers, err
}

// unpack writes the files of an archive below a directory.
func unpack(path, dir string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		file := filepath.FromSlash(strings.TrimPrefix(h.Name, "./"))
		if err := root.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := root.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
}
