package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path"
	"time"
)

// member is a file of an archive.
type member struct {
	path    string // in the archive
	from    string // the file that has its content
	content []byte // its content, if it is not a file's
	mode    int64
}

// writeArchive writes a compressed tar whose members lie below top. Their owner is root, and all times are at.
func writeArchive(name, top string, members []member, at time.Time) error {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression) // the header has no name and no time
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	for _, m := range members {
		if m.from != "" {
			if m.content, err = os.ReadFile(m.from); err != nil {
				return err
			}
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(top, m.path), Mode: m.mode, Size: int64(len(m.content)), ModTime: at,
			Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(m.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}
