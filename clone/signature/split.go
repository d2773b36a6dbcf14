package signature

import (
	"bytes"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
)

// maxSignature limits a signature, in bytes: even post-quantum ones have only 50 kB.
const maxSignature = 256 << 10

// format is the format of a signature, given by the first line of its armor.
type format int

const (
	formatNone format = iota
	formatUnknown
	formatPGP
	formatSSH
	formatX509
)

// armors are the first lines, as in git's gpg-interface.c.
var armors = []struct {
	line   string
	format format
}{
	{"-----BEGIN PGP SIGNATURE-----", formatPGP},
	{"-----BEGIN PGP MESSAGE-----", formatPGP},
	{"-----BEGIN SSH SIGNATURE-----", formatSSH},
	{"-----BEGIN SIGNED MESSAGE-----", formatX509},
}

func formatOf(text []byte) format {
	for _, a := range armors {
		if bytes.HasPrefix(text, []byte(a.line)) {
			return a.format
		}
	}
	return formatUnknown
}

// signed is an object, split into its signature and what that covers.
type signed struct {
	format    format
	payload   []byte // covered by the signature
	signature []byte // armored
	when      time.Time
}

// split splits an object like git does for gpg or ssh-keygen.
func split(raw []byte, kind plumbing.ObjectType) (*signed, error) {
	s := new(signed)
	switch kind {
	case plumbing.CommitObject:
		payload, signatures := cutHeaders(raw, true)
		if len(signatures) > 1 {
			return nil, problemf("has %d signatures, which git would join into one", len(signatures))
		}
		s.payload = payload
		if len(signatures) == 1 {
			s.signature = signatures[0]
			s.format = formatOf(s.signature)
		}
		if c, err := object.ParseCommit(payload); err == nil {
			s.when = c.Committer.When
		}
	case plumbing.TagObject:
		at := trailing(raw)
		if at < len(raw) {
			s.signature = raw[at:]
			s.format = formatOf(s.signature)
		}
		s.payload, _ = cutHeaders(raw[:at], false)
		if t, err := object.ParseTag(s.payload); err == nil {
			s.when = t.Tagger.When
		}
	default:
		return nil, problemf("is neither a commit nor a tag")
	}
	if len(s.signature) > maxSignature {
		return nil, problemf("has a signature of more than %d bytes", maxSignature)
	}
	return s, nil
}

// cutHeaders removes the signatures from the header of an object. gpgsig signs the object in a SHA-1 repository,
// gpgsig-sha256 in a SHA-256 repository; neither covers the other. Git removes every header that begins with gpgsig
// from a commit (parse_buffer_signed_by_header), but only these two from a tag (remove_signature).
func cutHeaders(raw []byte, all bool) (payload []byte, signatures [][]byte) {
	const (
		outside = iota
		inside  // of gpgsig
		other   // of a similar header
	)
	state := outside
	payload = make([]byte, 0, len(raw))
	for rest := raw; len(rest) > 0; {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line = rest[:i+1]
		}
		rest = rest[len(line):]
		value, ours := bytes.CutPrefix(line, []byte("gpgsig "))
		switch {
		case line[0] == '\n': // end of the header
			return append(append(payload, line...), rest...), signatures
		case line[0] == ' ' && state == inside:
			last := &signatures[len(signatures)-1]
			*last = append(*last, line[1:]...)
		case line[0] == ' ' && state == other:
		case ours:
			signatures = append(signatures, bytes.Clone(value))
			state = inside
		case bytes.HasPrefix(line, []byte("gpgsig-sha256 ")), all && bytes.HasPrefix(line, []byte("gpgsig")):
			state = other
		default:
			payload = append(payload, line...)
			state = outside
		}
	}
	return payload, signatures
}

// trailing returns where the last line that can begin a signature starts, or the length of the text, like git's
// parse_signed_buffer for tags.
func trailing(raw []byte) int {
	at := len(raw)
	for i := 0; i < len(raw); {
		if formatOf(raw[i:]) != formatUnknown {
			at = i
		}
		end := bytes.IndexByte(raw[i:], '\n')
		if end < 0 {
			break
		}
		i += end + 1
	}
	return at
}
