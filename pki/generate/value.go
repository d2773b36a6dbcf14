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

// Password makes a password of random characters of an alphabet, each equally likely.
type Password struct {
	length, classes int
	alphabet        string
}

// DefaultAlphabet has no character that a shell, a URL or YAML treats specially.
const DefaultAlphabet = "A-Za-z0-9"

// NewPassword returns a maker of passwords of a length in characters. The alphabet is a list of printable ASCII
// characters, in which a-z stands for a range, and a hyphen at its end for itself. Each password has characters of at
// least that many classes of four: capital letters, small letters, digits, and all others.
func NewPassword(length int, alphabet string, classes int) (Password, error) {
	characters, err := expand(alphabet)
	available := classesOf(characters)
	switch {
	case err != nil:
		return Password{}, fmt.Errorf("alphabet: %w", err)
	case length < 1 || length > 4096:
		return Password{}, errors.New("length: want 1 to 4096 characters")
	case classes > available || classes < 0:
		return Password{}, fmt.Errorf("min-classes: the alphabet has %d of the four classes (capital letters, small letters, digits, others)", available)
	case classes > length:
		return Password{}, fmt.Errorf("min-classes: %d characters cannot be of %d classes", length, classes)
	}
	return Password{length, classes, characters}, nil
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
	var has [4]bool
	for _, c := range text {
		switch {
		case c >= 'A' && c <= 'Z':
			has[0] = true
		case c >= 'a' && c <= 'z':
			has[1] = true
		case c >= '0' && c <= '9':
			has[2] = true
		default:
			has[3] = true
		}
	}
	n := 0
	for _, h := range has {
		if h {
			n++
		}
	}
	return n
}

func (p Password) String() string                   { return "password" }
func (p Password) layout() layout                   { return oneFile }
func (p Password) check(old Files) (verdict, error) { return absent(old) }

// make draws whole passwords until one has the classes, so that all of those are equally likely.
func (p Password) make(Files) (Files, error) {
	for {
		password := make([]byte, p.length)
		for i := range password {
			n, err := rand.Int(rand.Reader, big.NewInt(int64(len(p.alphabet))))
			if err != nil {
				return nil, err
			}
			password[i] = p.alphabet[n.Int64()]
		}
		if classesOf(string(password)) >= p.classes {
			return Files{"": password}, nil
		}
	}
}

// Token makes random bytes, written in hexadecimal digits or base64.
type Token struct {
	bytes  int
	encode func([]byte) string
}

// Encodings are the ways to write a token: base64url is without padding (RFC 4648), raw is the bytes themselves.
var Encodings = []string{"hex", "base64", "base64url", "raw"}

// NewToken returns a maker of tokens.
func NewToken(bytes int, encoding string) (Token, error) {
	encode := map[string]func([]byte) string{
		"hex":       hex.EncodeToString,
		"base64":    base64.StdEncoding.EncodeToString,
		"base64url": base64.RawURLEncoding.EncodeToString,
		"raw":       func(b []byte) string { return string(b) },
	}[encoding]
	if encode == nil {
		return Token{}, fmt.Errorf("encoding: want %s", strings.Join(Encodings, ", "))
	}
	if bytes < 1 || bytes > 64<<10 {
		return Token{}, errors.New("bytes: want 1 to 65536")
	}
	return Token{bytes, encode}, nil
}

func (t Token) String() string                   { return "token" }
func (t Token) layout() layout                   { return oneFile }
func (t Token) check(old Files) (verdict, error) { return absent(old) }

func (t Token) make(Files) (Files, error) {
	random := make([]byte, t.bytes)
	_, err := rand.Read(random)
	return Files{"": []byte(t.encode(random))}, err
}

// UUID makes a random UUID (version 4, RFC 9562).
type UUID struct{}

func (UUID) String() string                   { return "UUID" }
func (UUID) layout() layout                   { return oneFile }
func (UUID) check(old Files) (verdict, error) { return absent(old) }

func (UUID) make(Files) (Files, error) {
	var id [16]byte
	_, err := rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40 // the version
	id[8] = id[8]&0x3f | 0x80 // the variant
	text := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	return Files{"": []byte(text)}, err
}
