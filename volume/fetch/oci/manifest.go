package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// Media types of manifests: those of the OCI image specification, and those of Docker's registry, version 2, schema 2.
const (
	imageIndex     = "application/vnd.oci.image.index.v1+json"
	imageManifest  = "application/vnd.oci.image.manifest.v1+json"
	imageConfig    = "application/vnd.oci.image.config.v1+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"
)

const accept = imageIndex + ", " + imageManifest + ", " + dockerList + ", " + dockerManifest

// What is read of https://github.com/opencontainers/image-spec/blob/main/manifest.md, image-index.md and descriptor.md.
type (
	// document is a manifest or an index.
	document struct {
		manifest
		Manifests []descriptor    `json:"manifests,omitempty"`
		FSLayers  json.RawMessage `json:"fsLayers,omitempty"` // of schema 1
	}
	manifest struct {
		SchemaVersion int          `json:"schemaVersion"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}
	descriptor struct {
		MediaType   string            `json:"mediaType,omitempty"`
		Digest      digest            `json:"digest"`
		Size        int64             `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
		Platform    *platform         `json:"platform,omitempty"`
	}
	platform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		Variant      string `json:"variant,omitempty"`
	}
)

// read returns what a manifest says. It does not trust the type that the registry or the manifest gives, since two
// programs could read the same bytes in two ways.
func (i *Image) read(content []byte) (*document, error) {
	d := new(document)
	switch err := json.Unmarshal(content, d); {
	case err != nil:
		return nil, i.broken("the manifest is not JSON")
	case d.SchemaVersion == 1 || d.FSLayers != nil:
		return nil, i.broken("the image has a manifest of schema 1, which Docker replaced in 2016 and which cannot be verified: push the image again with a current tool")
	case d.Manifests != nil && (d.Layers != nil || d.Config.Digest != ""):
		return nil, i.broken("the manifest is both that of an image and an index")
	}
	all := slices.Concat(d.Manifests, d.Layers)
	if d.Manifests == nil {
		all = append(all, d.Config)
	}
	for _, part := range all {
		if err := part.Digest.validate(); err != nil || part.Size < 0 {
			return nil, i.broken("the manifest has an invalid digest or size: %s", part.Digest)
		}
	}
	return d, nil
}

// maxNested is how many indexes may be in one another.
const maxNested = 4

// choose returns the manifest for the platform.
func (i *Image) choose(ctx context.Context) (*manifest, error) {
	content, wanted := i.root, descriptor{Digest: i.digest}
	for range maxNested {
		if content == nil {
			err := i.try(ctx, "", func(ctx context.Context, e *endpoint) (err error) {
				content, _, err = e.manifest(ctx, string(wanted.Digest), wanted.Digest)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		d, err := i.read(content)
		if err != nil {
			return nil, err
		}
		if d.Manifests == nil {
			if wanted.Platform == nil && isImage(&d.manifest) {
				err = i.checkPlatform(ctx, d.Config)
			}
			return &d.manifest, err
		}
		if wanted, err = i.best(d.Manifests); err != nil {
			return nil, err
		}
		content = nil
	}
	return nil, i.broken("it has more than %d indexes in one another", maxNested)
}

// best returns the manifest of an index that fits the platform best.
func (i *Image) best(manifests []descriptor) (best descriptor, err error) {
	least := -1
	var names []string
	for _, d := range manifests {
		if d.Platform == nil || d.Platform.OS == "unknown" { // of signatures and attestations
			if d.Platform == nil && len(manifests) == 1 {
				return d, nil
			}
			continue
		}
		names = append(names, platformName(*d.Platform))
		if n := distance(i.platform, *d.Platform); n >= 0 && (least < 0 || n < least) {
			best, least = d, n
		}
	}
	if least >= 0 {
		return best, nil
	}
	slices.Sort(names)
	f := failure.New(failure.Missing, "%s: there is no image for %s", i, platformName(i.platform))
	f.Hint = "there is one for " + failure.Printable(words.List(slices.Compact(names))) + ": choose with platform="
	if len(names) == 0 {
		f.Hint = "the index names no platforms: give the digest of one of its images"
	}
	return best, poll.Permanent(f)
}

// checkPlatform compares the configuration of an image without an index. Files may be the same on all platforms, and so
// another one is only an error if a platform was asked for.
func (i *Image) checkPlatform(ctx context.Context, d descriptor) error {
	content, err := i.small(ctx, d)
	if err != nil {
		return err
	}
	var is platform
	if json.Unmarshal(content, &is) != nil || is.OS == "" || distance(i.platform, is) >= 0 {
		return nil
	}
	if i.explicit {
		return i.broken("it is an image for %s only, and not for %s", platformName(is), platformName(i.platform))
	}
	i.o.Log.Warn(fmt.Sprintf("%s: the image is for %s only, and not for %s; using it nevertheless", i, failure.Printable(platformName(is)), platformName(i.platform)), failure.Fields(i.String(), 0, nil))
	return nil
}

func parsePlatform(text string) (platform, error) {
	if text == "" {
		return platform{OS: "linux", Architecture: runtime.GOARCH}, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return platform{}, fmt.Errorf("platform %s: want OS/ARCHITECTURE[/VARIANT], as in linux/arm64", failure.Printable(text))
	}
	return platform{OS: parts[0], Architecture: parts[1], Variant: strings.Join(parts[2:], "")}, nil
}

func platformName(p platform) string {
	name := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	return name
}

// distance returns how far an image's platform is from the wanted one: 0 for the same, and -1 if it does not run there.
// Without a variant, the least is wanted that all processors of the architecture have, except for 32-bit ARM, where
// that would be one that no node has today.
func distance(want, is platform) int {
	if want.OS != is.OS || want.Architecture != is.Architecture {
		return -1
	}
	variants := map[string]string{"arm64": "v8", "amd64": "v1", "arm": "v7"}
	usual := variants[is.Architecture]
	w, v := cmp.Or(want.Variant, usual), cmp.Or(is.Variant, usual)
	switch {
	case w == v:
		return 0
	case len(w) != 2 || len(v) != 2 || v[0] != 'v' || v > w:
		return -1
	}
	return int(w[1] - v[1])
}

func isImage(m *manifest) bool {
	return m.Config.MediaType == imageConfig || m.Config.MediaType == dockerConfig
}

// supported returns what is wrong with the type of a layer. How it is compressed is found out from its bytes.
func supported(mediaType string) error {
	switch {
	case strings.HasSuffix(mediaType, "+encrypted"):
		return fmt.Errorf("it is encrypted")
	case !strings.Contains(mediaType, ".tar"):
		return fmt.Errorf("its type is %s, and not a tar", cmp.Or(mediaType, "unknown"))
	}
	return nil
}
