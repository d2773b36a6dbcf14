// Package oci reads what lies at a path of a container image, and the files of an OCI artifact, from a registry.
// Nothing of an image is run, and only the layers are read that can have something at the path.
//
//	image, err := oci.Open("oci://registry.example.com/team/theme:1.4", oci.Options{Path: "/opt/theme", Temp: temp, ...})
//	defer image.Close()
//	now, err := image.Resolve(ctx) // "sha256:…": if it is the one of the last time, there is nothing to do
//	err = image.Fetch(ctx, tree.Put)
//
// What a registry sends is verified by digest and size before it is used. A tag is what the registry, or its mirror,
// says that it is; only a reference with a digest is safe against both.
package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// Options say what is fetched, and how. Temp must be set.
type Options struct {
	// Path is what is fetched of an image: a directory, or a file. Links on the way are followed within the image. Of
	// an artifact, it selects files, and may be empty.
	Path string

	// Platform is OS/ARCHITECTURE[/VARIANT], such as linux/arm64/v8. "" is the one that this runs on.
	Platform string

	HTTP httpclient.Options     // of the connections; a client certificate is for the registry only
	Who  httpclient.Credentials // for the registry, and not for its mirrors

	// DockerConfig is a file with logins for registries and their mirrors, as in a Secret of type
	// kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg, or the directory where that is mounted.
	DockerConfig string

	Mirrors   map[string][]string // URLs by registry, which are asked before it
	PlainHTTP []string            // registries without TLS, as they are written in references

	RetryStatus httpclient.Statuses // answers that are not permanent, besides those of [httpclient.ByStatus]
	MaxSize     int64               // the size of a layer, in bytes; 0 is no limit

	// Temp makes a file without a name for a layer, as it is in the registry.
	Temp func() (*os.File, error)

	// Try, if set, calls attempt until it succeeds or its error is permanent. The error of an answer has a
	// [httpclient.StatusError] in its chain. The attempt after one that broke off asks for the rest only.
	Try func(ctx context.Context, attempt func(context.Context) error) error

	Log *slog.Logger // nil discards
}

// Put is called for each entry, with names relative to Path, which itself is ".". A file at Path has its base name. A
// directory may come after what is in it. The file that a hard link leads to comes before it. A symbolic link into Path
// is relative, others are as in the image.
type Put = func(h *tar.Header, r io.Reader) error

// Image is an image or an artifact in a registry. It is for one goroutine.
type Image struct {
	ref       reference
	o         Options
	platform  platform
	explicit  bool // the platform
	endpoints []*endpoint

	root   []byte // what the reference names, or nil
	digest digest // of root, or ""
	layers []descriptor
	blobs  map[digest]*os.File // without names
	single bool                // see Single
}

// Open returns the image that a reference names, oci://REGISTRY/NAME[:TAG][@DIGEST]. It sends no request, and
// fails if the reference or an option is invalid.
func Open(ref string, o Options) (*Image, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	i := &Image{o: o, blobs: map[digest]*os.File{}, explicit: o.Platform != ""}
	var err error
	if i.ref, err = parse(ref); err != nil {
		return nil, err
	}
	if i.platform, err = parsePlatform(o.Platform); err != nil {
		return nil, err
	}
	i.digest = i.ref.digest
	i.endpoints, err = endpoints(i.ref, &i.o)
	return i, err
}

// String returns the reference without the scheme, as it may be shown.
func (i *Image) String() string { return i.ref.String() }

// Close closes connections and files.
func (i *Image) Close() {
	for _, e := range i.endpoints {
		e.close()
	}
	for _, file := range i.blobs {
		file.Close()
	}
}

// Resolve returns the digest of what the reference names now: of the index, if the image has several platforms. A
// reference with a digest needs no request.
func (i *Image) Resolve(ctx context.Context) (string, error) {
	if i.digest != "" {
		return string(i.digest), nil
	}
	err := i.try(ctx, "", func(ctx context.Context, e *endpoint) (err error) {
		i.digest, err = e.head(ctx, i.ref.tag)
		if err == nil && i.digest == "" || errors.As(err, new(*httpclient.StatusError)) {
			i.root, i.digest, err = e.manifest(ctx, i.ref.tag, "") // which says why not, or is good for the digest
		}
		return err
	})
	return string(i.digest), err
}

// Fetch calls put for each entry at the path of the image, or for each file of the artifact. Its errors are permanent,
// or those of Try, of put and of ctx.
func (i *Image) Fetch(ctx context.Context, put Put) error {
	if _, err := i.Resolve(ctx); err != nil {
		return err
	}
	m, err := i.choose(ctx)
	if err != nil {
		return err
	}
	titled := hasTitles(m)
	switch {
	case titled && (i.o.Path == "" || !isImage(m)), m.Config.MediaType == helmConfig:
		return i.artifact(ctx, m, put)
	case i.o.Path == "":
		f := failure.New(failure.Unexpected, "%s: it is an image, and no #path= says what to take out of it", i)
		return poll.Permanent(f.WithHint("add the path, as in oci://" + i.String() + "#path=/opt/plugin"))
	}
	for n := range m.Layers { // the topmost first
		d := m.Layers[len(m.Layers)-1-n]
		if err := supported(d.MediaType); err != nil {
			return i.broken("layer %d of %d: %v", len(m.Layers)-n, len(m.Layers), err)
		}
		i.layers = append(i.layers, d)
	}
	return i.extract(ctx, put)
}

// Single returns whether what Fetch has found at the path is a file, and not a directory.
func (i *Image) Single() bool { return i.single }

// try calls ask for the mirrors, and then for the registry itself, until one has the answer, and again as Try says.
func (i *Image) try(ctx context.Context, what string, ask func(context.Context, *endpoint) error) error {
	attempt := func(ctx context.Context) (err error) {
		for n, e := range i.endpoints {
			err = ask(ctx, e)
			if err == nil || n == len(i.endpoints)-1 || ctx.Err() != nil || errors.As(err, new(localError)) {
				break
			}
			if !e.reported {
				e.reported = true
				i.o.Log.Warn(fmt.Sprintf("%s: asking the next registry: mirror %s: %v", i, e.name, failure.Of(err)), failure.Fields(i.String(), 0, err))
			}
		}
		return i.about(what, err)
	}
	if i.o.Try == nil {
		return attempt(ctx)
	}
	return i.o.Try(ctx, attempt)
}

// about says in err which image and which part of it could not be fetched.
func (i *Image) about(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, new(localError)) {
		return err
	}
	f := *failure.Of(err)
	if what != "" {
		what = ", " + what
	}
	f.Text, f.Err = i.String()+what+": "+f.Text, err
	return &f
}

// broken returns the permanent error of an image that is not as it must be.
func (i *Image) broken(format string, args ...any) error {
	return poll.Permanent(i.about("", failure.New(failure.Unexpected, "%s", failure.Printable(fmt.Sprintf(format, args...)))))
}

// localError is an error of this side, which no other server heals.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }
