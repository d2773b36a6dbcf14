package nats

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
	"initbox/waitfor/wire"
)

// hello is the content of CONNECT.
type hello struct {
	Name         string `json:"name"`
	Lang         string `json:"lang"`
	Version      string `json:"version"`
	Protocol     int    `json:"protocol"`
	Verbose      bool   `json:"verbose"`
	Pedantic     bool   `json:"pedantic"`
	TLSRequired  bool   `json:"tls_required"`
	Headers      bool   `json:"headers"`
	NoResponders bool   `json:"no_responders"`
	User         string `json:"user,omitempty"`
	Pass         string `json:"pass,omitempty"`
	Token        string `json:"auth_token,omitempty"`
	JWT          string `json:"jwt,omitempty"`
	NKey         string `json:"nkey,omitempty"`
	Signature    string `json:"sig,omitempty"`

	login   bool     // it has credentials
	secrets []string // parts that are never shown
}

// login returns the content of CONNECT. A client with a key signs the server's nonce.
func (c check) login(nonce string) (hello, error) {
	h := hello{Name: "initbox", Lang: "go", Version: "1", Protocol: 1, Headers: true, NoResponders: true}
	user, password, err := wire.Login(c.Server, "NATS_USER", "NATS_PASSWORD")
	if err != nil {
		return h, err
	}
	token, keys, err := c.secrets(user)
	switch {
	case err != nil:
		return h, err
	case keys != "":
		err = h.sign(keys, nonce)
	case user != "" && password != "":
		h.User, h.Pass = user, password
	case token != "":
		h.Token = token
	default:
		h.Token = user // nats://TOKEN@HOST
	}
	h.secrets = []string{h.User, h.Pass, h.Token, h.JWT, h.NKey, h.Signature}
	for _, s := range h.secrets {
		h.login = h.login || s != ""
	}
	return h, err
}

// secrets returns the token, or the content of a file with a seed and perhaps a JWT: from settings, or, without a
// user, from the variables of the nats command.
func (c check) secrets(user string) (token, keys string, err error) {
	for _, from := range []struct {
		setting, variable string
		into              *string
		file              bool // the variable names a file
	}{
		{"token-file", "NATS_TOKEN", &token, false},
		{"creds-file", "NATS_CREDS", &keys, true},
		{"nkey-file", "NATS_NKEY", &keys, true},
	} {
		value := ""
		switch {
		case c.Settings.On(from.setting):
			value, err = secret.Read(c.Settings.Get(from.setting))
		case user != "" || c.Settings.On("token-file") || c.Settings.On("creds-file") || c.Settings.On("nkey-file"):
			continue
		default:
			if value, err = c.Getenv.Variable(from.variable); err == nil && from.file && value != "" {
				value, err = secret.Read(value)
			}
		}
		if err != nil {
			return "", "", err
		}
		if value != "" {
			*from.into = value
		}
	}
	return token, keys, nil
}

// sign sets the credentials from a file's content, a seed and perhaps a user's JWT, and signs the nonce.
//
// https://docs.nats.io/using-nats/developer/connecting/creds
func (h *hello) sign(keys, nonce string) error {
	h.JWT = between(keys, "BEGIN NATS USER JWT")
	seed := cmp.Or(between(keys, "BEGIN USER NKEY SEED"), strings.TrimSpace(keys))
	key, public, err := keyOf(seed)
	if err != nil {
		return failure.New(failure.Authentication, "the file with the seed: %v", err).
			WithHint("nsc generate creds prints a creds file; an nkey file has one line, which starts with SU")
	}
	if h.JWT == "" {
		h.NKey = public
	}
	h.Signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(nonce)))
	return nil
}

// between returns the line after the one with the text.
func between(file, text string) string {
	_, after, _ := strings.Cut(file, text)
	_, after, _ = strings.Cut(after, "\n")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

// keyOf reads a user's seed: base32 of two bytes with the kinds seed and user, 32 bytes of seed, and a checksum. The
// public key has the same form, with one byte for its kind.
//
// https://github.com/nats-io/nkeys
func keyOf(seed string) (key ed25519.PrivateKey, public string, err error) {
	const kindSeed, kindUser = 18 << 3, 20 << 3
	encoding := base32.StdEncoding.WithPadding(base32.NoPadding)
	raw, err := encoding.DecodeString(seed)
	switch {
	case err != nil || len(raw) != 2+ed25519.SeedSize+2 || binary.LittleEndian.Uint16(raw[34:]) != crc16(raw[:34]):
		return nil, "", errors.New("it does not contain a seed")
	case raw[0]&0xf8 != kindSeed || raw[0]<<5|raw[1]>>3 != kindUser:
		return nil, "", errors.New("its seed is not a user's")
	}
	key = ed25519.NewKeyFromSeed(raw[2:34])
	p := append([]byte{kindUser}, key.Public().(ed25519.PublicKey)...)
	return key, encoding.EncodeToString(binary.LittleEndian.AppendUint16(p, crc16(p))), nil
}

// crc16 is CRC-16/XMODEM.
func crc16(p []byte) (crc uint16) {
	for _, b := range p {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}
