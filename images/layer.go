package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// newLayer returns the layer that all images of a platform share: the binary in /bin, and a link to it at / for each
// subcommand. It has the bytes that docker build makes of the Dockerfile, and so the same diffID: the order of the
// entries, their modes with the type of the file, and the names of owners, which Docker looks up in its own
// /etc/passwd.
func newLayer(binary, arch string, made time.Time) (v1.Layer, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	if err := checkBinary(binary, content, arch); err != nil {
		return nil, err
	}
	entries := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o040755},
		{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(program, "/"), Mode: 0o100755, Size: int64(len(content))},
	}
	for _, i := range table {
		if i.Subcommand != "" {
			link := strings.TrimPrefix(program, "/")
			entries = append(entries, tar.Header{Typeflag: tar.TypeSymlink, Name: i.Subcommand, Linkname: link, Mode: 0o120777})
		}
	}
	slices.SortFunc(entries, func(a, b tar.Header) int { return strings.Compare(a.Name, b.Name) })
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, e := range entries {
		e.Uname, e.Gname, e.ModTime, e.Format = "root", "root", made, tar.FormatUSTAR
		if err := w.WriteHeader(&e); err != nil {
			return nil, err
		}
		if e.Typeflag == tar.TypeReg {
			if _, err := w.Write(content); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

// binaryOf returns the path of the binary for a platform.
func binaryOf(dir, arch string) string { return filepath.Join(dir, "initbox-linux-"+arch) }
