// Package lfs parses Git LFS pointers, and downloads the objects that they point to, over the batch API
// (https://github.com/git-lfs/git-lfs/tree/main/docs):
//
//	pointer, ok := lfs.Parse(blob)
//	pointer.Path = "models/large.bin"
//	client := &lfs.Client{Remote: repository, Temp: temp}
//	err := client.Fetch(ctx, []lfs.Pointer{pointer}, func(p lfs.Pointer, content io.Reader) error { ... })
package lfs

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"

	"initbox/internal/lazy"
)

// MaxPointer is the length, in bytes, from which a blob is not a pointer.
const MaxPointer = 1024

// Pointer is a blob that stands for an object of Git LFS.
type Pointer struct {
	OID      string // the SHA-256 of the object: 64 lower-case hexadecimal digits
	Size     int64  // of the object, in bytes
	Path     string // of the file, for messages and for the caller
	Extended bool   // it has extensions: programs would have to convert the object
}

// versions are the names of the first version of the format.
var versions = map[string]bool{
	"https://git-lfs.github.com/spec/v1": true,
	"https://hawser.github.com/spec/v1":  true,
	"http://git-media.io/v/2":            true,
}

var extension = lazy.Regexp(`^ext-[0-9]-[0-9A-Za-z_]+$`)

// Parse parses the content of a blob. It returns false for a blob that is not a pointer, which Git LFS does not change.
func Parse(blob []byte) (p Pointer, ok bool) {
	if len(blob) >= MaxPointer {
		return p, false
	}
	keys := []string{"version", "oid", "size"} // in this order
	for line := range strings.SplitSeq(string(bytes.TrimSpace(blob)), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		switch {
		case len(keys) == 2 && extension().MatchString(key):
			p.Extended = true
			continue
		case len(keys) == 0 || key != keys[0]:
			return Pointer{}, false
		}
		keys = keys[1:]
		if !p.take(key, value) {
			return Pointer{}, false
		}
	}
	if len(keys) > 0 {
		return Pointer{}, false
	}
	return p, true
}

func (p *Pointer) take(key, value string) bool {
	switch key {
	case "version":
		return versions[value]
	case "oid":
		oid, ok := strings.CutPrefix(value, "sha256:")
		p.OID = oid
		return ok && validOID(oid)
	}
	size, err := strconv.ParseInt(value, 10, 64)
	p.Size = size
	return err == nil && size >= 0
}

// validOID reports whether oid is a SHA-256, and so harmless as a part of paths and requests.
func validOID(oid string) bool {
	return len(oid) == hex.EncodedLen(32) && strings.Trim(oid, "0123456789abcdef") == ""
}
