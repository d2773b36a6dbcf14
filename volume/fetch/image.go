package fetch

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"initbox/internal/words"
	"initbox/volume/fetch/archive"
	"initbox/volume/fetch/oci"
)

// image is the download of a source of a registry.
type image struct {
	*run
	j     *job
	temps int // files that temp has made
}

// registry returns how the registry of a source is used.
func (o *Options) registry(src *Source) oci.Options {
	return oci.Options{
		Path: src.Path, Platform: src.Platform,
		HTTP: connections(o, src), Who: src.Who, DockerConfig: o.DockerConfig, Mirrors: o.Mirrors, PlainHTTP: o.PlainHTTP,
		RetryStatus: src.RetryStatus, MaxSize: o.MaxSize, Log: o.Log,
	}
}

// download fetches the files of the image into the directory of the job, unless they are in DST already.
func (m *image) download(ctx context.Context) (now *version, same bool, err error) {
	src, start := m.j.src, time.Now()
	report := newReport(&m.Options, src, nil)
	defer report.end()
	o := m.registry(src)
	o.Temp, o.Try = m.temp, func(ctx context.Context, attempt func(context.Context) error) error {
		return m.until(ctx, report, attempt)
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
	case m.j.prev != nil && m.j.prev.Digest == digest:
		return now, true, nil
	case m.DryRun:
		m.Log.Info(fmt.Sprintf("%s: would be downloaded", src))
		return now, false, nil
	}
	sum, err := m.unpack(ctx, i)
	if err != nil {
		return nil, false, errors.Join(explain(src, "", err), m.undo(ctx, m.j))
	}
	m.Log.Info(fmt.Sprintf("%s: %s with %s, in %s", src, words.Plural(sum.Files, "file"), words.Bytes(sum.Bytes), words.Seconds(time.Since(start))))
	if !strings.Contains(src.OCI, "@") {
		m.Log.Warn(fmt.Sprintf("%s: the tag may become another image's: pin this one with %[1]s@%s", src, digest))
	}
	return now, false, nil
}

// unpack writes the files of the image.
func (m *image) unpack(ctx context.Context, i *oci.Image) (archive.Summary, error) {
	dir, err := m.open(m.j)
	if err != nil {
		return archive.Summary{}, err
	}
	defer dir.Close()
	o := m.unpacking(m.j.src)
	if m.j.src.Unpack { // the files of an artifact
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
	m.j.single = i.Single()
	return tree.Summary(), err
}

// temp returns a file without a name, on the file system of DST.
func (m *image) temp() (*os.File, error) {
	m.staging.Lock()
	defer m.staging.Unlock()
	if err := m.openStage(); err != nil {
		return nil, err
	}
	m.temps++
	name := fmt.Sprintf("%s-layer-%d", m.j.dir(), m.temps)
	f, err := m.stage.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return f, m.stage.Remove(name)
}
