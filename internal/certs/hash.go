package certs

import (
	"bytes"
	"crypto/sha1"
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"strings"
)

// File is one of an OpenSSL directory of certificates: a certificate, or a symbolic link to one.
type File struct {
	Name    string
	Content []byte // nil for a link
	Target  string // of a link
}

// Directory returns the files of a directory in which OpenSSL finds certificates by the hashes of their subjects
// (X509_LOOKUP_hash_dir): a file for each, named after its alias, and the links that openssl rehash makes to them.
func Directory(entries []Entry) (files []File) {
	next := map[uint32]int{}
	for _, e := range entries {
		name := e.Alias + ".pem"
		hash := subjectHash(e.Cert.RawSubject)
		files = append(files,
			File{Name: name, Content: PEM([]Entry{e})},
			File{Name: fmt.Sprintf("%08x.%d", hash, next[hash]), Target: name})
		next[hash]++
	}
	return files
}

// subjectHash returns the hash of a name by which OpenSSL since 1.0.0 finds a certificate (X509_NAME_hash): of its
// canonical form, which has no outer SEQUENCE, and in which texts are UTF-8 in lower case, without superfluous spaces.
func subjectHash(name []byte) uint32 {
	type attribute struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	type partSET []attribute
	var parts []partSET
	asn1.Unmarshal(name, &parts) // which [x509.ParseCertificate] has parsed
	var canonical bytes.Buffer
	for _, part := range parts {
		for i := range part {
			part[i].Value = canonicalText(part[i].Value)
		}
		der, _ := asn1.Marshal(part)
		canonical.Write(der)
	}
	sum := sha1.Sum(canonical.Bytes())
	return binary.LittleEndian.Uint32(sum[:])
}

// canonicalText returns a value of a name in canonical form. What is not a text stays. [x509.ParseCertificate] lets no
// other kinds of text pass.
func canonicalText(v asn1.RawValue) asn1.RawValue {
	text := string(v.Bytes)
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String:
	case asn1.TagT61String: // taken for Latin-1
		text = wide(v.Bytes, 1)
	case asn1.TagBMPString:
		text = wide(v.Bytes, 2)
	default:
		return v
	}
	lower := strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
	text = strings.Join(strings.FieldsFunc(lower, func(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }), " ")
	return asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(text)}
}

// wide decodes characters of one or two bytes each.
func wide(b []byte, size int) string {
	var runes []rune
	for ; len(b) >= size; b = b[size:] {
		r := rune(b[0])
		if size == 2 {
			r = r<<8 | rune(b[1])
		}
		runes = append(runes, r)
	}
	return string(runes)
}
