package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
)

// layerSize returns the size of a program and that of an image layer with only the program in it.
func layerSize(path string) (size, layer int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	var count countingWriter
	err = writeLayer(&count, path)
	return info.Size(), int64(count), err
}

func writeLayer(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	zip, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	if err := archive.WriteHeader(&tar.Header{Name: info.Name(), Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(archive, f); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

type countingWriter int64

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}
