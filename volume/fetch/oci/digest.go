package oci

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
)

// digest is ALGORITHM:HEX, https://github.com/opencontainers/image-spec/blob/main/descriptor.md#digests.
type digest string

// algorithms are those that a digest may have: the registered ones, and SHA-384, which some tools use.
var algorithms = map[string]func() hash.Hash{"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}

// digestOf returns the digest of content as registries compute it.
func digestOf(content []byte) digest { return digest("sha256:").of(content) }

// validate must have returned nil before the other methods are called: a digest becomes a part of paths, and is
// compared with a checksum.
func (d digest) validate() error {
	algorithm, sum, _ := strings.Cut(string(d), ":")
	create := algorithms[algorithm]
	switch {
	case create == nil:
		return errors.New("want sha256:HEX")
	case len(sum) != 2*create().Size() || strings.Trim(sum, "0123456789abcdef") != "":
		return errors.New("want " + algorithm + " in lower-case hexadecimal digits")
	}
	return nil
}

// hash returns a new hash of the digest's algorithm.
func (d digest) hash() hash.Hash {
	algorithm, _, _ := strings.Cut(string(d), ":")
	return algorithms[algorithm]()
}

// summed returns the digest that h has computed, with d's algorithm.
func (d digest) summed(h hash.Hash) digest {
	algorithm, _, _ := strings.Cut(string(d), ":")
	return digest(algorithm + ":" + hex.EncodeToString(h.Sum(nil)))
}

// of returns the digest of content, with d's algorithm.
func (d digest) of(content []byte) digest {
	h := d.hash()
	h.Write(content)
	return d.summed(h)
}
