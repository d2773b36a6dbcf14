package local

import (
	"encoding/binary"
	"errors"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

var errDelta = errors.New("a malformed delta")

// applyDelta returns what the instructions of a delta make of the base, at most max bytes: see "Deltified
// representation" in gitformat-pack(5). It checks the length in the delta first, since few bytes can make gigabytes.
func applyDelta(base, delta []byte, max int64) ([]byte, error) {
	_, n := binary.Uvarint(delta) // the length of the base
	if n <= 0 {
		return nil, errDelta
	}
	if size, m := binary.Uvarint(delta[n:]); m <= 0 || size > uint64(max) {
		return nil, errDelta
	}
	result, err := packfile.PatchDelta(base, delta)
	if err != nil {
		return nil, errDelta
	}
	return result, nil
}
