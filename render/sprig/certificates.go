package sprig

import (
	"crypto"
	"crypto/dsa" //lint:ignore SA1019 charts may still ask for such a key
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificate is what templates use: both fields are PEM.
type certificate struct {
	Cert string
	Key  string
}

// keySource returns the private key of a certificate.
type keySource func() (crypto.PrivateKey, error)

func newKey() (crypto.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }

func given(text string) keySource {
	return func() (crypto.PrivateKey, error) { return parseKey(text) }
}

// privateKey returns a new private key of a kind.
func privateKey(kind string) string {
	key, err := generated(kind)
	if err != nil {
		return err.Error()
	}
	return encodedKey(key)
}

func generated(kind string) (key crypto.PrivateKey, err error) {
	switch kind {
	case "", "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 4096)
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "dsa":
		k := new(dsa.PrivateKey)
		if err = dsa.GenerateParameters(&k.Parameters, rand.Reader, dsa.L2048N256); err == nil {
			err = dsa.GenerateKey(k, rand.Reader)
		}
		key = k
	default:
		return nil, errors.New("Unknown type " + kind)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to generate private key: %w", err)
	}
	return key, nil
}

// dsaKey is the form in which OpenSSL writes such a key.
type dsaKey struct {
	Version       int
	P, Q, G, Y, X *big.Int
}

func encodedKey(key crypto.PrivateKey) string {
	var der []byte
	prefix := ""
	switch k := key.(type) {
	case *rsa.PrivateKey:
		der, prefix = x509.MarshalPKCS1PrivateKey(k), "RSA "
	case *ecdsa.PrivateKey:
		der, _ = x509.MarshalECPrivateKey(k)
		prefix = "EC "
	case *dsa.PrivateKey:
		der, _ = asn1.Marshal(dsaKey{P: k.P, Q: k.Q, G: k.G, Y: k.Y, X: k.X})
		prefix = "DSA "
	default:
		der, _ = x509.MarshalPKCS8PrivateKey(k)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: prefix + "PRIVATE KEY", Bytes: der}))
}

// parseKey reads a key in any of the forms that encodedKey writes.
func parseKey(text string) (key crypto.PrivateKey, err error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("parsing the private key: it is not PEM")
	}
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "DSA PRIVATE KEY":
		var k dsaKey
		_, err = asn1.Unmarshal(block.Bytes, &k)
		key = &dsa.PrivateKey{X: k.X, PublicKey: dsa.PublicKey{Y: k.Y, Parameters: dsa.Parameters{P: k.P, Q: k.Q, G: k.G}}}
	default:
		return nil, errors.New("parsing the private key: the PEM block is of another type")
	}
	if err != nil {
		return nil, fmt.Errorf("parsing the private key: %w", err)
	}
	return key, nil
}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("parsing the certificate: it is not PEM")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate: %w", err)
	}
	return parsed, nil
}

// customCertificate returns a certificate and its key, which are given as base64 of PEM.
func customCertificate(text, key string) (certificate, error) {
	cert, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return certificate{}, errors.New("unable to decode base64 certificate")
	}
	private, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return certificate{}, errors.New("unable to decode base64 private key")
	}
	c := certificate{string(cert), string(private)}
	if _, err := parseCertificate(c.Cert); err != nil {
		return certificate{}, err
	}
	if _, err := parseKey(c.Key); err != nil {
		return certificate{}, err
	}
	return c, nil
}

func authority(name string, days int, key keySource) (certificate, error) {
	return issue(name, nil, nil, days, key, func(t *x509.Certificate, own crypto.PrivateKey) (*x509.Certificate, crypto.PrivateKey, error) {
		t.KeyUsage |= x509.KeyUsageCertSign
		t.IsCA = true
		return t, own, nil
	})
}

func selfSigned(name string, ips, dns []any, days int, key keySource) (certificate, error) {
	return issue(name, ips, dns, days, key, func(t *x509.Certificate, own crypto.PrivateKey) (*x509.Certificate, crypto.PrivateKey, error) {
		return t, own, nil
	})
}

func signed(name string, ips, dns []any, days int, ca certificate, key keySource) (certificate, error) {
	return issue(name, ips, dns, days, key, func(*x509.Certificate, crypto.PrivateKey) (*x509.Certificate, crypto.PrivateKey, error) {
		signer, err := parseCertificate(ca.Cert)
		if err != nil {
			return nil, nil, err
		}
		key, err := parseKey(ca.Key)
		return signer, key, err
	})
}

// issue makes a certificate. signer returns who signs it: another one, or the certificate itself.
func issue(name string, ips, dns []any, days int, source keySource, signer func(template *x509.Certificate, own crypto.PrivateKey) (*x509.Certificate, crypto.PrivateKey, error)) (certificate, error) {
	template, err := newTemplate(name, ips, dns, days)
	if err != nil {
		return certificate{}, err
	}
	key, err := source()
	if err != nil {
		return certificate{}, err
	}
	parent, signing, err := signer(template, key)
	if err != nil {
		return certificate{}, err
	}
	var public crypto.PublicKey
	if k, ok := key.(*dsa.PrivateKey); ok {
		public = &k.PublicKey
	} else {
		public = key.(crypto.Signer).Public()
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signing)
	if err != nil {
		return certificate{}, fmt.Errorf("making the certificate: %w", err)
	}
	return certificate{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), encodedKey(key)}, nil
}

func newTemplate(name string, ips, dns []any, days int) (*x509.Certificate, error) {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128)) // it never fails
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now, NotAfter: now.Add(time.Duration(days) * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	for _, v := range ips {
		text, _ := v.(string)
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, fmt.Errorf("%v is not an IP address", v)
		}
		t.IPAddresses = append(t.IPAddresses, ip)
	}
	for _, v := range dns {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%v is not a DNS name: it is %s, where string is needed", v, kindOf(v))
		}
		t.DNSNames = append(t.DNSNames, text)
	}
	return t, nil
}
