package oci

import (
	"context"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// blob is what has arrived of a layer or a configuration.
type blob struct {
	file *os.File
	have int64
	sum  hash.Hash
}

// fetch returns a file with a blob, which is verified, at its beginning.
func (i *Image) fetch(ctx context.Context, d descriptor, what string) (*os.File, error) {
	if file := i.blobs[d.Digest]; file != nil {
		_, err := file.Seek(0, io.SeekStart)
		return file, err
	}
	if i.o.MaxSize > 0 && d.Size > i.o.MaxSize {
		return nil, i.broken("%s has %d bytes, more than the limit of %d (max-size)", what, d.Size, i.o.MaxSize)
	}
	file, err := i.o.Temp()
	if err != nil {
		return nil, err
	}
	b := &blob{file: file}
	if err := i.try(ctx, what, func(ctx context.Context, e *endpoint) error { return b.download(ctx, e, d) }); err != nil {
		file.Close()
		return nil, err
	}
	i.blobs[d.Digest] = file
	_, err = file.Seek(0, io.SeekStart)
	return file, err
}

// drop closes the files of blobs which are no longer needed.
func (i *Image) drop(blobs ...descriptor) {
	for _, d := range blobs {
		if file := i.blobs[d.Digest]; file != nil {
			file.Close()
			delete(i.blobs, d.Digest)
		}
	}
}

// small returns a blob that is held in memory.
func (i *Image) small(ctx context.Context, d descriptor) ([]byte, error) {
	if d.Size > maxManifest {
		return nil, i.broken("its configuration has more than %d MiB", maxManifest>>20)
	}
	file, err := i.fetch(ctx, d, "its configuration")
	if err != nil {
		return nil, err
	}
	defer i.drop(d)
	return io.ReadAll(file)
}

// download makes one attempt to get what is missing.
func (b *blob) download(ctx context.Context, e *endpoint, d descriptor) error {
	resp, err := e.blob(ctx, d, b.have)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		if err := b.restart(d); err != nil {
			return err
		}
	}
	if n := resp.ContentLength; n >= 0 && n != d.Size-b.have {
		return poll.Permanent(failure.New(failure.Unexpected, "%s has %d bytes, and not %d as the manifest says", e.name, b.have+n, d.Size))
	}
	_, err = io.Copy(b, io.LimitReader(resp.Body, d.Size-b.have+1))
	switch {
	case b.have == d.Size && d.Digest.summed(b.sum) == d.Digest:
		return nil
	case b.have >= d.Size:
		b.have = 0
		return poll.Permanent(failure.New(failure.Unexpected, "what %s sent does not have the size and the digest of the manifest, %s", e.name, d.Digest))
	case err != nil:
		return failure.HTTP(err, e.base.Host)
	}
	return failure.New(failure.Reset, "the answer ended after %d of %d bytes", b.have, d.Size)
}

// Write appends to the file and to the checksum.
func (b *blob) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	b.sum.Write(p[:n])
	b.have += int64(n)
	if err != nil {
		return n, poll.Permanent(localError{err})
	}
	return n, nil
}

// restart empties the file.
func (b *blob) restart(d descriptor) error {
	b.have, b.sum = 0, d.Digest.hash()
	err := b.file.Truncate(0)
	if err == nil {
		_, err = b.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return poll.Permanent(localError{err})
	}
	return nil
}

// blob requests a blob, from a byte on.
func (e *endpoint) blob(ctx context.Context, d descriptor, from int64) (*http.Response, error) {
	header := http.Header{"Accept-Encoding": {"identity"}}
	if from > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := e.send(ctx, http.MethodGet, "blobs/"+string(d.Digest), header)
	if err == nil && resp.StatusCode == http.StatusPartialContent && !httpclient.IsPart(resp.Header, from, -1) {
		resp.Body.Close()
		return nil, failure.New(failure.Unexpected, "the answer is another part than the one requested")
	}
	return resp, err
}
