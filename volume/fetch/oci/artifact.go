package oci

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/suggest"
	"initbox/internal/words"
	"initbox/volume/fetch/archive"
)

// Of ORAS and of Helm (https://helm.sh/docs/topics/registries/).
const (
	unpackAnnotation = "io.deis.oras.content.unpack"
	helmConfig       = "application/vnd.cncf.helm.config.v1+json"
	titleAnnotation  = "org.opencontainers.image.title"
	helmChart        = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	helmProvenance   = "application/vnd.cncf.helm.chart.provenance.v1.prov"
)

func hasTitles(m *manifest) bool {
	return slices.ContainsFunc(m.Layers, func(d descriptor) bool { return d.Annotations[titleAnnotation] != "" })
}

// artifact calls put for the files of an artifact.
func (i *Image) artifact(ctx context.Context, m *manifest, put Put) error {
	chart := ""
	if m.Config.MediaType == helmConfig {
		var err error
		if chart, err = i.chart(ctx, m.Config); err != nil {
			return err
		}
	}
	wanted := clean(i.o.Path)
	var names []string
	found := false
	for _, d := range m.Layers {
		name := d.Annotations[titleAnnotation]
		switch {
		case name != "":
		case d.MediaType == helmChart && chart != "":
			name = chart + ".tgz"
		case d.MediaType == helmProvenance && chart != "":
			name = chart + ".tgz.prov"
		default:
			continue
		}
		names = append(names, name)
		rel, ok := within(strings.TrimPrefix(path.Clean(name), "/"), wanted)
		if !ok {
			continue
		}
		if rel == "." {
			rel, i.single = path.Base(name), d.Annotations[unpackAnnotation] != "true"
		}
		found = true
		if err := i.artifactFile(ctx, d, name, rel, put); err != nil {
			return err
		}
	}
	if found {
		return nil
	}
	f := failure.New(failure.Missing, "%s: the artifact has no file %s", i, failure.Printable(i.o.Path))
	f.Hint = suggest.Question(wanted, names, "") + "it has " + failure.Printable(words.List(names))
	return poll.Permanent(f)
}

// chart returns the name of a Helm chart's file.
func (i *Image) chart(ctx context.Context, config descriptor) (string, error) {
	text, err := i.small(ctx, config)
	if err != nil {
		return "", err
	}
	var c struct{ Name, Version string }
	if json.Unmarshal(text, &c) != nil || c.Name == "" || c.Version == "" {
		return "", i.broken("it says that it is a Helm chart, and has no name and version")
	}
	return path.Base(c.Name) + "-" + path.Base(c.Version), nil
}

// artifactFile calls put for a file, or for the directory that is packed in it, whose entries have its title as the
// first part of their names.
func (i *Image) artifactFile(ctx context.Context, d descriptor, title, rel string, put Put) error {
	file, err := i.fetch(ctx, d, failure.Printable(title))
	if err != nil {
		return err
	}
	defer i.drop(d)
	if d.Annotations[unpackAnnotation] != "true" {
		return put(&tar.Header{Name: rel, Typeflag: tar.TypeReg, Mode: 0o644, Size: d.Size}, file)
	}
	title = path.Clean(title)
	err = entries(ctx, file, func(h *tar.Header, name string, r io.Reader) error {
		inside, ok := within(name, title)
		if !ok {
			return fmt.Errorf("%s has an entry outside of it: %s", failure.Printable(title), failure.Printable(h.Name))
		}
		h.Name = path.Join(rel, inside)
		if h.Typeflag == tar.TypeLink {
			target, ok := within(clean(h.Linkname), title)
			if !ok {
				return fmt.Errorf("%s has a hard link to outside of it: %s", failure.Printable(title), failure.Printable(h.Linkname))
			}
			h.Linkname = path.Join(rel, target)
		}
		return put(h, r)
	})
	if err != nil {
		return fmt.Errorf("%s, %s: %w", i, failure.Printable(title), err)
	}
	return nil
}

// visit is called for an entry of a tar, with its name below the root.
type visit = func(h *tar.Header, name string, r io.Reader) error

// entries calls visit for each entry of a tar, which may be compressed.
func entries(ctx context.Context, file *os.File, visit visit) error {
	return archive.Decompress(ctx, file, func(_ string, content io.Reader) error {
		t := tar.NewReader(content)
		for {
			h, err := t.Next()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			if h.Typeflag == tar.TypeXGlobalHeader {
				continue
			}
			if len(h.Name) > maxName || len(h.Linkname) > maxName {
				return fmt.Errorf("a name of more than %d bytes: %s", maxName, failure.Printable(h.Name))
			}
			if err := visit(h, clean(h.Name), t); err != nil {
				return err
			}
		}
	})
}
