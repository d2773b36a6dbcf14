package local

import "errors"

var errDelta = errors.New("a malformed delta")

// applyDelta returns what the instructions make of the base: see "Deltified
// representation" in gitformat-pack(5).
func applyDelta(base, delta []byte, max int64) ([]byte, error) {
	from, delta, ok := deltaSize(delta)
	size, delta, ok2 := deltaSize(delta)
	if !ok || !ok2 || from != int64(len(base)) {
		return nil, errDelta
	}
	// A copy of 7 bytes makes 16 MiB at most.
	if size > max || size > int64(len(delta))<<24 {
		return nil, errDelta
	}
	result := make([]byte, 0, size)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op == 0 {
			return nil, errDelta
		}
		part := delta
		if op&0x80 != 0 {
			var at, n int
			if at, n, delta, ok = copyRange(op, delta); !ok || at > len(base) || n > len(base)-at {
				return nil, errDelta
			}
			part = base[at : at+n]
		} else {
			if int(op) > len(delta) {
				return nil, errDelta
			}
			part, delta = delta[:op], delta[op:]
		}
		if len(part) > cap(result)-len(result) {
			return nil, errDelta
		}
		result = append(result, part...)
	}
	if int64(len(result)) != size {
		return nil, errDelta
	}
	return result, nil
}

func deltaSize(delta []byte) (size int64, rest []byte, ok bool) {
	for shift := 0; len(delta) > 0 && shift < 63; shift += 7 {
		c := delta[0]
		delta = delta[1:]
		size |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			return size, delta, size >= 0
		}
	}
	return 0, nil, false
}

// copyRange reads what follows an instruction to copy.
func copyRange(op byte, delta []byte) (at, n int, rest []byte, ok bool) {
	for bit := range 7 {
		if op>>bit&1 == 0 {
			continue
		}
		if len(delta) == 0 {
			return 0, 0, nil, false
		}
		if bit < 4 {
			at |= int(delta[0]) << (8 * bit)
		} else {
			n |= int(delta[0]) << (8 * (bit - 4))
		}
		delta = delta[1:]
	}
	if n == 0 {
		n = 0x10000
	}
	return at, n, delta, true
}
