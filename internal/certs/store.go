package certs

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"unicode"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"

	"initbox/internal/failure"
)

// Key is a private key with its certificates, as a store holds them.
type Key struct {
	Alias   string
	Private crypto.Signer       // as [ParseKey] returns it
	Chain   []*x509.Certificate // its own, and those that issued one another
}

// JKS returns a Java key store with the key, unless it is nil, and the trusted certificates. Both the store and the key
// have the password, as programs expect. An entry is as old as its certificate.
func JKS(key *Key, trusted []Entry, password string) ([]byte, error) {
	if strings.ContainsFunc(password, func(r rune) bool { return r > unicode.MaxASCII }) {
		return nil, errors.New("a JKS store with a password that is not ASCII is not supported: PKCS#12 takes any")
	}
	salts, err := saltsFor(key, trusted)
	if err != nil {
		return nil, err
	}
	store := keystore.New(keystore.WithOrderedAliases(), keystore.WithCustomRandomNumberGenerator(salts))
	for _, e := range trusted {
		entry := keystore.TrustedCertificateEntry{CreationTime: e.Cert.NotBefore, Certificate: javaCertificate(e.Cert)}
		if err := store.SetTrustedCertificateEntry(e.Alias, entry); err != nil {
			return nil, err
		}
	}
	if key != nil {
		private, err := x509.MarshalPKCS8PrivateKey(key.Private)
		if err != nil {
			return nil, err
		}
		entry := keystore.PrivateKeyEntry{CreationTime: key.Chain[0].NotBefore, PrivateKey: private}
		for _, cert := range key.Chain {
			entry.CertificateChain = append(entry.CertificateChain, javaCertificate(cert))
		}
		if err := store.SetPrivateKeyEntry(key.Alias, entry, []byte(password)); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	err = store.Store(&b, []byte(password))
	return b.Bytes(), err
}

func javaCertificate(cert *x509.Certificate) keystore.Certificate {
	return keystore.Certificate{Type: "X.509", Content: cert.Raw}
}

// PKCS12 returns a PKCS#12 store (RFC 7292) with AES-256 and SHA-256, which OpenSSL 1.1.1 and Java 8u301 read, and what
// is later. Java finds the key and the trusted certificates in it by their aliases.
func PKCS12(key *Key, trusted []Entry, password string) ([]byte, error) {
	salts, err := saltsFor(key, trusted)
	if err != nil {
		return nil, err
	}
	encoder := pkcs12.Modern2023.WithRand(salts)
	if key != nil {
		return keyStore(encoder, key, trusted, password)
	}
	var entries []pkcs12.TrustStoreEntry
	for _, e := range trusted {
		entries = append(entries, pkcs12.TrustStoreEntry{Cert: e.Cert, FriendlyName: e.Alias})
	}
	return encoder.EncodeTrustStoreEntries(entries, password)
}

// saltsFor returns what a store of that content takes as random. Salts and initialisation vectors are not secret. They
// must differ where contents differ, and so these are derived from the content: two stores share them only if they hold
// the same. The password is not part of it: otherwise a guess of it could be checked without the iterations.
func saltsFor(key *Key, trusted []Entry) (io.Reader, error) {
	h := sha256.New()
	add := func(b []byte) {
		binary.Write(h, binary.BigEndian, uint32(len(b)))
		h.Write(b)
	}
	if key != nil {
		private, err := x509.MarshalPKCS8PrivateKey(key.Private)
		if err != nil {
			return nil, err
		}
		add([]byte(key.Alias))
		add(private)
		for _, cert := range key.Chain {
			add(cert.Raw)
		}
	}
	for _, e := range trusted {
		add([]byte(e.Alias))
		add(e.Cert.Raw)
	}
	return rand.NewChaCha8([32]byte(h.Sum(nil))), nil
}

// readJKS returns the trusted certificates of a Java key store, and the chains of its keys.
func readJKS(data []byte, password string) (entries []Entry, err error) {
	if err := checkJKS(data); err != nil {
		return nil, err
	}
	store := keystore.New(keystore.WithOrderedAliases(), keystore.WithCaseExactAliases())
	if err := store.Load(bytes.NewReader(data), []byte(password)); err != nil {
		return nil, ErrPassword
	}
	for _, alias := range store.Aliases() {
		chain, err := store.GetPrivateKeyEntryCertificateChain(alias)
		if trusted, errTrusted := store.GetTrustedCertificateEntry(alias); errTrusted == nil {
			chain, err = []keystore.Certificate{trusted.Certificate}, nil
		}
		if err != nil {
			return nil, err
		}
		for _, c := range chain {
			cert, err := x509.ParseCertificate(c.Content)
			if err != nil {
				return nil, fmt.Errorf("certificate %s: %w", cleanAlias(alias), err)
			}
			entries = append(entries, Entry{Alias: cmp.Or(alias, "certificate"), Cert: cert})
		}
	}
	if len(entries) == 0 {
		return nil, &NoneError{}
	}
	return entries, nil
}

// checkJKS checks the lengths and counts of a Java key store, for which the library allocates memory before it reads
// what they promise.
func checkJKS(data []byte) error {
	r := jks{rest: data}
	r.bytes(4) // magic
	version, entries := r.number(4), r.number(4)
	if version != 1 && version != 2 {
		return fmt.Errorf("version %d of Java key stores is not supported", version)
	}
	for ; entries > 0 && !r.short; entries-- {
		tag := r.number(4)
		r.bytes(r.number(2)) // alias
		r.bytes(8)           // date
		chain := uint64(1)
		if tag == 1 {
			r.bytes(r.number(4)) // private key
			chain = r.number(4)
		}
		if chain > uint64(len(r.rest)) {
			r.short = true
		}
		for ; chain > 0 && !r.short; chain-- {
			if version == 2 {
				r.bytes(r.number(2)) // type of the certificate
			}
			r.bytes(r.number(4))
		}
	}
	if r.short {
		return errors.New("the Java key store is truncated or damaged")
	}
	return nil
}

// jks reads the fields of a Java key store.
type jks struct {
	rest  []byte
	short bool // fields have reached beyond the end
}

func (r *jks) bytes(n uint64) []byte {
	if r.short = r.short || n > uint64(len(r.rest)); r.short {
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *jks) number(size uint64) (n uint64) {
	for _, b := range r.bytes(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

// readPKCS12 returns the certificates of a PKCS#12 store: those that are marked as trusted for Java, or the chain of
// its key. Their aliases are not read: the library does not return them.
func readPKCS12(data []byte, password string) ([]Entry, error) {
	if n := iterations(data, 0); n > maxIterations {
		return nil, fmt.Errorf("the password is hashed %d times, more than the limit of %d", n, maxIterations)
	}
	entries, err := decodePKCS12(data, password)
	if err != nil && !errors.Is(err, ErrPassword) && password != "" { // without a password, it must be ""
		if open, errOpen := decodePKCS12(data, ""); errOpen == nil {
			entries, err = open, nil
		}
	}
	if err == nil && len(entries) == 0 {
		err = &NoneError{}
	}
	return entries, err
}

func decodePKCS12(data []byte, password string) ([]Entry, error) {
	trusted, err := pkcs12.DecodeTrustStore(data, password)
	if err == nil {
		return entriesOf(trusted), nil
	}
	if errors.Is(err, pkcs12.ErrIncorrectPassword) || errors.Is(err, pkcs12.ErrDecryption) {
		return nil, ErrPassword
	}
	_, leaf, chain, errChain := pkcs12.DecodeChain(data, password)
	if errChain == nil {
		return entriesOf(append([]*x509.Certificate{leaf}, chain...)), nil
	}
	if strings.Contains(err.Error(), "not marked as trusted") {
		return nil, failure.WithHint(errors.New("PKCS#12: its certificates are not marked as trusted, so Java does not trust them either"),
			"make it with keytool -importcert, or with openssl pkcs12 -export -jdktrust anyExtendedKeyUsage (3.2 or later), or give the certificates as PEM")
	}
	return nil, fmt.Errorf("PKCS#12: %w", err)
}

// maxIterations is how many times a password may be hashed, which takes a second or two. Java does it 10 000 times,
// OpenSSL 2048 times.
const maxIterations = 5_000_000

// iterations returns the greatest number of iterations that the clear part of a PKCS#12 store asks for: those are the
// integers that follow a salt, in its MAC (RFC 7292, section 4), and in the parameters of PBES1, PBKDF2 and PBMAC1
// (RFC 8018, appendix A).
func iterations(der []byte, depth int) (most int64) {
	var before asn1.RawValue
	for len(der) > 0 && depth < 16 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			break
		}
		var n int64
		switch {
		case v.IsCompound || v.Tag == asn1.TagOctetString && len(v.Bytes) > 0 && v.Bytes[0] == 0x30:
			most = max(most, iterations(v.Bytes, depth+1))
		case v.Tag == asn1.TagInteger && before.Tag == asn1.TagOctetString && before.Class == asn1.ClassUniversal:
			if _, err := asn1.Unmarshal(v.FullBytes, &n); err != nil {
				n = maxIterations + 1 // more than 63 bits
			}
			most = max(most, n)
		}
		before, der = v, rest
	}
	return most
}
