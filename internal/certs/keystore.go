package certs

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"slices"
	"unicode/utf16"

	"software.sslmate.com/src/go-pkcs12"
)

// The structures of a PKCS#12 store (RFC 7292, section 4) that go-pkcs12 does not let its callers change.
type (
	pfx struct {
		Version  int
		AuthSafe dataContent
		MAC      macData
	}
	dataContent struct {
		Type asn1.ObjectIdentifier
		Data []byte `asn1:"explicit,tag:0"`
	}
	macData struct {
		MAC        digestInfo
		Salt       []byte
		Iterations int
	}
	digestInfo struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}
	safeBag struct {
		ID         asn1.ObjectIdentifier
		Value      asn1.RawValue
		Attributes []bagAttribute `asn1:"set,optional"`
	}
	bagAttribute struct {
		ID     asn1.ObjectIdentifier
		Values []asn1.RawValue `asn1:"set"`
	}
	certBag struct {
		ID   asn1.ObjectIdentifier
		Cert []byte `asn1:"explicit,tag:0"`
	}
)

var (
	oidCertBag         = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}
	oidX509Certificate = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}
	oidFriendlyName    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 20}
	oidJavaTrusted     = asn1.ObjectIdentifier{2, 16, 840, 1, 113894, 746875, 1, 1} // with which key usages Java trusts it
	anyUsage           = []byte{asn1.TagOID, 4, 0x55, 0x1d, 0x25, 0}                // anyExtendedKeyUsage, 2.5.29.37.0
)

// keyStore returns a PKCS#12 store with a key. That of go-pkcs12 has neither the alias of the key nor certificates that
// Java trusts. Both are added to the part of it that holds the key, and that is encrypted no further. Its hash, which
// covers that part, is computed again. A trusted certificate that belongs to the chain appears once: Java looks for the
// chain in all of them.
func keyStore(encoder *pkcs12.Encoder, key *Key, trusted []Entry, password string) ([]byte, error) {
	chain := slices.DeleteFunc(slices.Clone(key.Chain[1:]), func(c *x509.Certificate) bool {
		return slices.ContainsFunc(trusted, func(e Entry) bool { return e.Cert.Equal(c) })
	})
	der, err := encoder.Encode(key.Private, key.Chain[0], chain, password)
	if err != nil {
		return nil, err
	}
	s, err := openStore(der)
	if err != nil {
		return nil, err
	}
	s.bags[0].Attributes = append(s.bags[0].Attributes, friendlyName(key.Alias))
	for _, e := range trusted {
		cert, err := asn1.Marshal(certBag{oidX509Certificate, e.Cert.Raw})
		if err != nil {
			return nil, err
		}
		s.bags = append(s.bags, safeBag{
			ID:         oidCertBag,
			Value:      asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: cert},
			Attributes: []bagAttribute{friendlyName(e.Alias), {oidJavaTrusted, []asn1.RawValue{{FullBytes: anyUsage}}}},
		})
	}
	var errs [3]error
	s.open.Data, errs[0] = asn1.Marshal(s.bags)
	s.contents[1].FullBytes, errs[1] = asn1.Marshal(s.open)
	s.AuthSafe.Data, errs[2] = asn1.Marshal(s.contents)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	s.MAC.MAC.Digest = hashStore(s.AuthSafe.Data, s.MAC.Salt, s.MAC.Iterations, password)
	return asn1.Marshal(s.pfx)
}

// store is what go-pkcs12 makes of a key.
type store struct {
	pfx
	contents []asn1.RawValue // encrypted certificates, and open
	open     dataContent
	bags     []safeBag // in open: the key, encrypted by itself
}

func openStore(der []byte) (s store, err error) {
	if unmarshal(der, &s.pfx) != nil || unmarshal(s.AuthSafe.Data, &s.contents) != nil || len(s.contents) != 2 ||
		unmarshal(s.contents[1].FullBytes, &s.open) != nil || unmarshal(s.open.Data, &s.bags) != nil || len(s.bags) != 1 {
		return s, errMalformed
	}
	return s, nil
}

// friendlyName returns the attribute that Java takes for the alias (RFC 2985, section 5.5.1).
func friendlyName(alias string) bagAttribute {
	return bagAttribute{oidFriendlyName, []asn1.RawValue{{Tag: asn1.TagBMPString, Bytes: bmp(alias)}}}
}

// bmp encodes a text in UTF-16, big-endian. (Strictly, a BMPString has no surrogates, but Java writes and reads them.)
func bmp(text string) (b []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		b = append(b, byte(unit>>8), byte(unit))
	}
	return b
}

// hashStore returns the HMAC of a store's contents with SHA-256, whose key is derived as in RFC 7292, appendix B.2. As
// the key is as long as the hash, the first round of the derivation suffices.
func hashStore(contents, salt []byte, iterations int, password string) []byte {
	const block = 64
	key := bytes.Repeat([]byte{3}, block) // the id of keys for MACs
	for _, part := range [][]byte{salt, append(bmp(password), 0, 0)} {
		size := (len(part) + block - 1) / block * block
		key = append(key, bytes.Repeat(part, size/len(part)+1)[:size]...)
	}
	for range iterations {
		sum := sha256.Sum256(key)
		key = sum[:]
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(contents)
	return mac.Sum(nil)
}

// KeyPEM returns the key and its chain in PEM. The key is in PKCS#8, encrypted as in a PKCS#12 store if there is a
// password.
func KeyPEM(key *Key, password string) ([]byte, error) {
	block := pem.Block{Type: "PRIVATE KEY"}
	var err error
	if password == "" {
		block.Bytes, err = x509.MarshalPKCS8PrivateKey(key.Private)
	} else {
		block.Type = "ENCRYPTED PRIVATE KEY"
		block.Bytes, err = encryptedPKCS8(key, password)
	}
	return append(pem.EncodeToMemory(&block), PEM(entriesOf(key.Chain))...), err
}

func encryptedPKCS8(key *Key, password string) ([]byte, error) {
	der, err := PKCS12(key, nil, password)
	if err != nil {
		return nil, err
	}
	s, err := openStore(der)
	if err != nil {
		return nil, err
	}
	return s.bags[0].Value.Bytes, nil
}
