package object

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"
)

// Content is a digest of files: their paths, and their content as Git would hash it. Files are added in any order. The
// zero value is that of no files.
type Content [4]uint64

// Add adds a file, with the ID that its content has as a blob.
func (c *Content) Add(path string, id plumbing.Hash) {
	var buf [256]byte
	sum := sha256.Sum256(append(append(append(buf[:0], path...), 0), id[:]...))
	for i := range c {
		c[i] += binary.BigEndian.Uint64(sum[8*i:])
	}
}

// AddAll adds the files of another digest.
func (c *Content) AddAll(other Content) {
	for i := range c {
		c[i] += other[i]
	}
}

// String returns 64 hexadecimal digits.
func (c Content) String() string {
	var text []byte
	for _, n := range c {
		text = binary.BigEndian.AppendUint64(text, n)
	}
	return hex.EncodeToString(text)
}

// NewBlob returns a hash that computes the ID of a blob of size bytes. Unlike a [Hasher] it does not look for
// collisions: it is for files whose ID has been computed before.
func NewBlob(size int64) hash.Hash {
	h := sha1.New()
	h.Write(append(strconv.AppendInt([]byte("blob "), size, 10), 0))
	return h
}

// BlobHeader is the room that [BlobID] needs before the content.
const BlobHeader = len("blob 9223372036854775807\x00")

// BlobID returns the ID of a blob whose content is in buf behind BlobHeader bytes, which it overwrites. Like [NewBlob]
// it does not look for collisions.
func BlobID(buf []byte) plumbing.Hash {
	var header [BlobHeader]byte
	text := append(strconv.AppendInt(append(header[:0], "blob "...), int64(len(buf)-BlobHeader), 10), 0)
	from := BlobHeader - len(text)
	copy(buf[from:], text)
	return sha1.Sum(buf[from:])
}
