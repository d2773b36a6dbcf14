package generate

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// value is a maker of one file that only needs to be there.
type value struct {
	name   string
	random func() ([]byte, error)
}

func (v value) String() string                   { return v.name }
func (v value) layout() layout                   { return oneFile }
func (v value) check(old Files) (verdict, error) { return absent(old) }

func (v value) make(Files) (Files, error) {
	content, err := v.random()
	return Files{"": content}, err
}

// DefaultAlphabet has no character that a shell, a URL or YAML treats specially.
const DefaultAlphabet = "A-Za-z0-9"

// NewPassword returns a maker of passwords of random characters, each equally likely. The length is in characters. The
// alphabet is a list of printable ASCII characters, in which a-z stands for a range, and a hyphen at its end for
// itself. Each password has characters of at least that many classes of four: capital letters, small letters, digits,
// and others.
func NewPassword(length int, alphabet string, classes int) (Maker, error) {
	characters, err := expand(alphabet)
	available := classesOf(characters)
	switch {
	case err != nil:
		return nil, fmt.Errorf("alphabet: %w", err)
	case length < 1 || length > 4096:
		return nil, errors.New("length: want 1 to 4096 characters")
	case classes > available || classes < 0:
		return nil, fmt.Errorf("min-classes: the alphabet has %d of the four classes (capital letters, small letters, digits, others)", available)
	case classes > length:
		return nil, fmt.Errorf("min-classes: %d characters cannot be of %d classes", length, classes)
	}
	return value{"password", func() ([]byte, error) {
		password := make([]byte, length)
		for { // whole passwords, so that all of those with the classes are equally likely
			for i := range password {
				n, err := rand.Int(rand.Reader, big.NewInt(int64(len(characters))))
				if err != nil {
					return nil, err
				}
				password[i] = characters[n.Int64()]
			}
			if classesOf(string(password)) >= classes {
				return password, nil
			}
		}
	}}, nil
}

// expand returns the characters that an alphabet with ranges stands for, each once.
func expand(text string) (string, error) {
	var all strings.Builder
	for i := 0; i < len(text); i++ {
		first, last := text[i], text[i]
		if i+2 < len(text) && text[i+1] == '-' {
			last = text[i+2]
			i += 2
		}
		if first > last {
			return "", fmt.Errorf("the range %q is the wrong way round", text[i-2:i+1])
		}
		for c := int(first); c <= int(last); c++ {
			if c <= ' ' || c > '~' {
				return "", errors.New("want printable ASCII characters without spaces")
			}
			if !strings.Contains(all.String(), string(rune(c))) {
				all.WriteByte(byte(c))
			}
		}
	}
	if all.Len() < 2 {
		return "", errors.New("want at least two characters")
	}
	return all.String(), nil
}

// classesOf returns how many of the four classes of characters a text has.
func classesOf(text string) int {
	const upper, lower, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
	n := 0
	for _, class := range []string{upper, lower, digits} {
		if strings.ContainsAny(text, class) {
			n++
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(upper+lower+digits, r) }) {
		n++
	}
	return n
}

// Encodings are the ways to write a token: base64url is without padding (RFC 4648), raw is the bytes themselves.
var Encodings = []string{"hex", "base64", "base64url", "raw"}

// NewToken returns a maker of random bytes, written in an encoding.
func NewToken(bytes int, encoding string) (Maker, error) {
	encode := map[string]func([]byte) string{
		"hex":       hex.EncodeToString,
		"base64":    base64.StdEncoding.EncodeToString,
		"base64url": base64.RawURLEncoding.EncodeToString,
		"raw":       func(b []byte) string { return string(b) },
	}[encoding]
	switch {
	case encode == nil:
		return nil, fmt.Errorf("encoding: want %s", strings.Join(Encodings, ", "))
	case bytes < 1 || bytes > 64<<10:
		return nil, errors.New("bytes: want 1 to 65536")
	}
	return value{"token", func() ([]byte, error) {
		random := make([]byte, bytes)
		_, err := rand.Read(random)
		return []byte(encode(random)), err
	}}, nil
}

// NewUUID returns a maker of random UUIDs (version 4, RFC 9562).
func NewUUID() Maker {
	return value{"UUID", func() ([]byte, error) {
		var id [16]byte
		_, err := rand.Read(id[:])
		id[6] = id[6]&0x0f | 0x40 // the version
		id[8] = id[8]&0x3f | 0x80 // the variant
		return fmt.Appendf(nil, "%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), err
	}}
}
