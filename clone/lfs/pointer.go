// Package lfs replaces the pointers that Git LFS leaves in a repository by what
// they point to: it asks the server for the objects over the batch API and
// downloads them (https://github.com/git-lfs/git-lfs/tree/main/docs).
package lfs

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"

	"initbox/internal/lazy"
)

// MaxPointer is the length, in bytes, from which a blob is no pointer.
const MaxPointer = 1024

// Pointer is what a blob says of the object that it stands for.
type Pointer struct {
	OID      string // its SHA-256, in 64 lower-case hexadecimal digits
	Size     int64  // in bytes
	Path     string // of the file, for messages and for who places it
	Extended bool   // programs named in it would have to convert the object
}

// versions are the names that the first version of the format has had.
var versions = map[string]bool{
	"https://git-lfs.github.com/spec/v1": true,
	"https://hawser.github.com/spec/v1":  true,
	"http://git-media.io/v/2":            true,
}

var extension = lazy.Regexp(`^ext-[0-9]-[0-9A-Za-z_]+$`)

// Parse reads the content of a blob. False is one that is no pointer, which Git LFS
// leaves as it is.
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

// validOID keeps what becomes part of a path and of a request to digits.
func validOID(oid string) bool {
	if len(oid) != hex.EncodedLen(32) {
		return false
	}
	return strings.Trim(oid, "0123456789abcdef") == ""
}
