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
	oidAnyUsage        = asn1.ObjectIdentifier{2, 5, 29, 37, 0}
)

// keyStore returns a PKCS#12 store with a key. That of go-pkcs12 has neither the alias of the key nor certificates that
// Java trusts. Both are added to the part of it that holds the key, and that is encrypted no further. Its hash, which
// covers that part, is computed again. A trusted certificate that belongs to the chain appears once: Java looks for the
// chain in all of them.
func keyStore(encoder *pkcs12.Encoder, key *Key, trusted []Entry, password string) ([]byte, error) {
	chain := slices.Clone(key.Chain[1:])
	chain = slices.DeleteFunc(chain, func(c *x509.Certificate) bool {
		return slices.ContainsFunc(trusted, func(e Entry) bool { return e.Cert.Equal(c) })
	})
	der, err := encoder.Encode(key.Private, key.Chain[0], chain, password)
	if err != nil {
		return nil, err
	}
	store, contents, open, bags, err := openBags(der)
	if err != nil {
		return nil, err
	}
	bags[0].Attributes = append(bags[0].Attributes, friendlyName(key.Alias))
	for _, e := range trusted {
		bag, err := trustedBag(e)
		if err != nil {
			return nil, err
		}
		bags = append(bags, bag)
	}
	if open.Data, err = asn1.Marshal(bags); err != nil {
		return nil, err
	}
	if contents[1].FullBytes, err = asn1.Marshal(open); err != nil {
		return nil, err
	}
	if store.AuthSafe.Data, err = asn1.Marshal(contents); err != nil {
		return nil, err
	}
	store.MAC.MAC.Digest = hashStore(store.AuthSafe.Data, store.MAC.Salt, store.MAC.Iterations, password)
	return asn1.Marshal(store)
}

// openBags parses what go-pkcs12 has made: the store; its two contents, encrypted certificates and the rest; the second
// one; and the bags in it, which begin with the key.
func openBags(der []byte) (store pfx, contents []asn1.RawValue, open dataContent, bags []safeBag, err error) {
	if _, err = asn1.Unmarshal(der, &store); err == nil {
		_, err = asn1.Unmarshal(store.AuthSafe.Data, &contents)
	}
	if err == nil && len(contents) != 2 {
		err = errors.New("want certificates and a key in a PKCS#12 store")
	}
	if err == nil {
		_, err = asn1.Unmarshal(contents[1].FullBytes, &open)
	}
	if err == nil {
		_, err = asn1.Unmarshal(open.Data, &bags)
	}
	if err == nil && len(bags) != 1 {
		err = errors.New("want one key in a PKCS#12 store")
	}
	return store, contents, open, bags, err
}

// friendlyName returns the attribute that Java takes for the alias (RFC 2985, section 5.5.1).
func friendlyName(alias string) bagAttribute {
	return bagAttribute{oidFriendlyName, []asn1.RawValue{{Tag: asn1.TagBMPString, Bytes: bmp(alias)}}}
}

// trustedBag returns the bag of a certificate that Java trusts.
func trustedBag(e Entry) (safeBag, error) {
	cert, err := asn1.Marshal(certBag{oidX509Certificate, e.Cert.Raw})
	if err != nil {
		return safeBag{}, err
	}
	usage, err := asn1.Marshal(oidAnyUsage)
	return safeBag{
		ID:         oidCertBag,
		Value:      asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: cert},
		Attributes: []bagAttribute{friendlyName(e.Alias), {oidJavaTrusted, []asn1.RawValue{{FullBytes: usage}}}},
	}, err
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

// KeyPEM returns the key and its chain in PEM. The key is in PKCS #8, encrypted as in a PKCS#12 store if there is a
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
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&block), PEM(entriesOf(key.Chain))...), nil
}

func encryptedPKCS8(key *Key, password string) ([]byte, error) {
	store, err := PKCS12(key, nil, password)
	if err != nil {
		return nil, err
	}
	_, _, _, bags, err := openBags(store)
	if err != nil {
		return nil, err
	}
	return bags[0].Value.Bytes, nil
}
