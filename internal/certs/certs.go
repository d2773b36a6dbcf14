// Package certs reads certificates from the files in which users have them, and writes the stores that programs trust.
// A format is recognised by its bytes, not by the file's name.
//
//	found, err := certs.Read("/certs/ca", certs.DefaultPassword) // a file or a folder
//	...
//	entries := certs.Distinct(found.Entries)
//	store, err := certs.PKCS12(nil, entries, certs.DefaultPassword)
//
// Every writer is deterministic: the same content and password give the same bytes, so a file that is compared with
// them need not be written again. What is random elsewhere, such as the salts of PKCS#12, is derived from the content.
package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/words"
)

// DefaultPassword is that of nearly every Java trust store: certificates are no secret, and the format wants one.
const DefaultPassword = "changeit"

// limit is the length in bytes of the largest file that is read. All roots of Mozilla are 200 kB.
const limit = 16 << 20

// Entry is a certificate in a store.
type Entry struct {
	Alias  string // from the file's name, or the one that it has in a Java key store; see [Distinct]
	Cert   *x509.Certificate
	Source string // where it was found, for messages
}

// Found is what was read.
type Found struct {
	Entries []Entry
	Ignored []string // what is no certificate, or is one that cannot be parsed, and why: parts of messages
}

// Read returns the certificates of a file, or of all files below a folder, in the order of their names. In a folder,
// files that hold no certificate are ignored, as are links to files beside them, and names that begin with a dot, such
// as the ..data of a mounted ConfigMap. The password opens Java key stores and PKCS#12 files; those without one open
// with any.
func Read(path, password string) (Found, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return Found{}, err
	}
	if !stat.IsDir() {
		data, err := readfile.Upto(path, limit)
		if err != nil {
			return Found{}, err
		}
		return Parse(data, path, password)
	}
	f := folder{password: password, seen: map[string]bool{}}
	if err := f.read(path); err != nil {
		return Found{}, err
	}
	return f.Found, nil
}

// folder is one that is being read.
type folder struct {
	Found
	password string
	seen     map[string]bool // directories, by their paths without links
}

func (f *folder) read(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || f.seen[real] {
		return err
	}
	f.seen[real] = true
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if target, err := os.Readlink(path); err == nil && !strings.ContainsRune(target, '/') && !strings.HasPrefix(target, ".") {
			continue // another name of a file beside it, such as OpenSSL's by hash
		}
		stat, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // a link that leads nowhere, or removed meanwhile
		case err == nil && stat.IsDir():
			err = f.read(path)
		case err == nil && (!stat.Mode().IsRegular() || stat.Size() > limit):
			f.Ignored = append(f.Ignored, failure.Printable(path)+" is not a regular file, or too large")
		case err == nil:
			err = f.file(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) file(path string) error {
	data, err := readfile.Upto(path, limit)
	if err != nil {
		return err
	}
	found, err := Parse(data, path, f.password)
	var none *NoneError
	if errors.As(err, &none) {
		if !none.Key {
			f.Ignored = append(f.Ignored, err.Error())
		}
		return nil
	}
	f.Entries = append(f.Entries, found.Entries...)
	f.Ignored = append(f.Ignored, found.Ignored...)
	return err
}

// NoneError is the error of a file without a certificate.
type NoneError struct {
	Source string
	Key    bool // it holds a private key
	Reason string
}

func (e *NoneError) Error() string {
	text := failure.Printable(e.Source) + ": no certificate in it"
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Parse returns the certificates in data, which has at least one: PEM, DER, a Java key store or PKCS#12. Source is its
// file, after which they are named.
func Parse(data []byte, source, password string) (Found, error) {
	var found Found
	var err error
	switch {
	case bytes.HasPrefix(data, []byte("\xfe\xed\xfe\xed")):
		found.Entries, err = readJKS(data, password)
	case bytes.HasPrefix(data, []byte("\xce\xce\xce\xce")):
		err = convertible("JCEKS", "keytool -importkeystore -deststoretype PKCS12 converts it")
	case len(data) > 0 && data[0] == 0x30:
		found.Entries, err = parseDER(data, password)
	case bytes.Contains(data, []byte("-----BEGIN ")):
		return parsePEM(data, source)
	default:
		return Found{}, &NoneError{Source: source, Reason: "neither PEM nor DER, no Java key store and no PKCS#12"}
	}
	var none *NoneError
	if errors.As(err, &none) {
		none.Source = source
		return Found{}, err
	}
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", failure.Printable(source), err)
	}
	for i := range found.Entries {
		e := &found.Entries[i]
		e.Source = source
		if e.Alias == "" {
			e.Alias = aliasOf(source)
		}
	}
	return found, nil
}

// ErrPassword is the error of a store that another password protects, or that was damaged: its hash covers both.
var ErrPassword = errors.New("the password is wrong, or the store is damaged")

// convertible returns the error of a format that another program converts to one that is read.
func convertible(format, hint string) error {
	return failure.WithHint(errors.New(format+" is not supported"), hint)
}

// parseDER parses what begins as DER: certificates, one after another, or PKCS#12, whose first element is its version.
func parseDER(data []byte, password string) ([]Entry, error) {
	var outer asn1.RawValue
	if _, err := asn1.Unmarshal(data, &outer); err != nil {
		if len(data) > 1 && data[1] == 0x80 { // BER's indefinite length
			return nil, convertible("PKCS#12 or PKCS#7 in BER", "openssl pkcs12 -in FILE -out FILE.pem converts PKCS#12 to PEM")
		}
		return nil, &NoneError{Reason: err.Error()}
	}
	switch {
	case len(outer.Bytes) > 0 && outer.Bytes[0] == asn1.TagInteger:
		return readPKCS12(data, password)
	case len(outer.Bytes) > 0 && outer.Bytes[0] == asn1.TagOID:
		return nil, convertible("PKCS#7", "openssl pkcs7 -inform DER -in FILE -print_certs -out FILE.pem converts it")
	}
	list, err := x509.ParseCertificates(data)
	if err != nil {
		return nil, &NoneError{Reason: err.Error()}
	}
	return entriesOf(list), nil
}

func entriesOf(list []*x509.Certificate) (entries []Entry) {
	for _, cert := range list {
		entries = append(entries, Entry{Cert: cert})
	}
	return entries
}

// parsePEM parses all certificates of a PEM file. One that cannot be parsed, such as an old root whose serial number is
// negative, is ignored if there are others.
func parsePEM(data []byte, source string) (found Found, err error) {
	key := false
	n := 0
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("----------BEGIN "), []byte("-----\n-----BEGIN ")) // appended to a file without a line break at its end
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE", "X509 CERTIFICATE":
		case "TRUSTED CERTIFICATE": // OpenSSL's, with settings behind the certificate
			var first asn1.RawValue
			if _, err := asn1.Unmarshal(block.Bytes, &first); err == nil {
				block.Bytes = first.FullBytes
			}
		default:
			key = key || strings.HasSuffix(block.Type, "PRIVATE KEY")
			continue
		}
		n++
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			found.Ignored = append(found.Ignored, fmt.Sprintf("%s: certificate %d: %v", failure.Printable(source), n, err))
			continue
		}
		found.Entries = append(found.Entries, Entry{Alias: aliasOf(source), Cert: cert, Source: source})
	}
	if all := bytes.Count(data, []byte("-----BEGIN CERTIFICATE-----")); all > n {
		found.Ignored = append(found.Ignored, fmt.Sprintf("%s: %d of %s cannot be decoded: is a part missing?", failure.Printable(source), all-n, words.Plural(all, "certificate")))
	}
	switch {
	case len(found.Entries) > 0:
		return found, nil
	case len(found.Ignored) > 0:
		return Found{}, errors.New(found.Ignored[0])
	}
	return Found{}, &NoneError{Source: source, Key: key}
}

// extensions are those that an alias does without.
var extensions = []string{".pem", ".crt", ".cer", ".cert", ".der", ".jks", ".p12", ".pfx"}

// aliasOf returns the alias that keytool's users give to a certificate from a file: its name without the extension.
func aliasOf(source string) string {
	base := filepath.Base(source)
	if ext := filepath.Ext(base); slices.Contains(extensions, strings.ToLower(ext)) {
		return strings.TrimSuffix(base, ext)
	}
	return base
}

// longestAlias is the length of the longest alias, in bytes: it is part of a file's name in [Directory].
const longestAlias = 128

// cleanAlias returns an alias that all formats can hold, in lower case, as keytool has them all. In place of what would
// control a terminal or lead out of a directory is a hyphen.
func cleanAlias(alias string) string {
	alias = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r > 0xffff || r == unicode.ReplacementChar || r == '/' {
			return '-'
		}
		return unicode.ToLower(r)
	}, alias)
	for len(alias) > longestAlias {
		_, size := utf8.DecodeLastRuneInString(alias)
		alias = alias[:len(alias)-size]
	}
	if alias = strings.TrimLeft(strings.TrimSpace(alias), "."); alias == "" {
		return "certificate"
	}
	return alias
}

// Distinct returns each certificate once, at its first occurrence, with aliases that differ: the second of one alias
// gets -2.
func Distinct(entries []Entry) []Entry {
	var distinct []Entry
	seen, aliases := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if seen[string(e.Cert.Raw)] {
			continue
		}
		seen[string(e.Cert.Raw)] = true
		base := cleanAlias(e.Alias)
		e.Alias = base
		for n := 2; aliases[e.Alias]; n++ {
			e.Alias = base + "-" + strconv.Itoa(n)
		}
		aliases[e.Alias] = true
		distinct = append(distinct, e)
	}
	return slices.Clip(distinct)
}

// PEM returns the certificates as PEM.
func PEM(entries []Entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: e.Cert.Raw})
	}
	return b.Bytes()
}
