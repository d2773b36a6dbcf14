package fetch

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/words"
	"initbox/volume/fetch/archive"
	"initbox/volume/fetch/oci"
)

// registry returns how the registry of a source is used.
func (o *Options) registry(src *Source) oci.Options {
	return oci.Options{
		Path: src.Path, Platform: src.Platform,
		HTTP: connections(o, src), Who: src.Who, DockerConfig: o.DockerConfig, Mirrors: o.Mirrors, PlainHTTP: o.PlainHTTP,
		RetryStatus: src.RetryStatus, MaxSize: o.MaxSize, Log: o.Log,
	}
}

// image downloads the files of an image or an artifact, unless they are in DST already.
func (r *run) image(ctx context.Context, j *job) (now *version, same bool, err error) {
	src, start := j.src, time.Now()
	report := newReport(&r.Options, src, nil)
	defer report.end()
	o := r.registry(src)
	o.Temp, o.Try = r.place.Temp, func(ctx context.Context, attempt func(context.Context) error) error {
		return r.until(ctx, report, attempt)
	}
	i, err := oci.Open(src.OCI, o)
	if err != nil {
		return nil, false, err
	}
	defer i.Close()
	digest, err := i.Resolve(ctx)
	if err != nil {
		return nil, false, explain(src, "", err)
	}
	now = &version{Digest: digest}
	switch {
	case j.prev != nil && j.prev.Digest == digest:
		return now, true, nil
	case r.DryRun:
		r.Log.Info(fmt.Sprintf("%s: would be downloaded", src), failure.Fields(src.String(), 0, nil))
		return now, false, nil
	}
	sum, err := r.unpackImage(ctx, j, i)
	if err != nil {
		return nil, false, errors.Join(explain(src, "", err), r.place.Undo(ctx, j.number))
	}
	r.Log.Info(fmt.Sprintf("%s: %s with %s, in %s", src, words.Plural(sum.Files, "file"), words.Bytes(sum.Bytes), words.Seconds(time.Since(start))), failure.Fields(src.String(), time.Since(start), nil))
	if !strings.Contains(src.OCI, "@") {
		r.Log.Warn(fmt.Sprintf("%s: the tag may move to another image: pin this one with %[1]s@%s", src, digest), failure.Fields(src.String(), 0, nil))
	}
	return now, false, nil
}

// unpackImage writes the files of an image.
func (r *run) unpackImage(ctx context.Context, j *job, i *oci.Image) (archive.Summary, error) {
	dir, err := r.place.Part(j.number)
	if err != nil {
		return archive.Summary{}, err
	}
	defer dir.Close()
	o := r.unpacking(j.src)
	if j.src.Unpack { // the files of an artifact
		var sum archive.Summary
		err = i.Fetch(ctx, func(h *tar.Header, content io.Reader) error {
			o := o
			o.Name, o.MaxSize = decompressed(h.Name), max(1, o.MaxSize-sum.Bytes)
			one, err := archive.Unpack(ctx, content, dir, o)
			sum.Files, sum.Bytes = sum.Files+one.Files, sum.Bytes+one.Bytes
			return err
		})
		return sum, err
	}
	o.Name, o.KeepLinks = "", true
	tree := archive.NewTree(dir, o)
	err = i.Fetch(ctx, tree.Put)
	if closed := tree.Close(); err == nil {
		err = closed
	}
	j.single = i.Single()
	return tree.Summary(), err
}
